"""What the verbs `score`, `sample` and `inspect` say of a grammar read off a treebank."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from mrflearn.cli.answers import remark, say, say_json, say_table
from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.estimators.pcfg import PCFG


def score_sentences(model: PCFG, file: Path, as_json: bool) -> None:
    """Tells the perplexity of a text; sentences without a parse are left out, and reported."""
    from mrflearn.estimators.text_score import TextScore
    from mrflearn.io.corpus import read_sentences

    sentences = [words for words in read_sentences(file) if len(words)]
    values = model.score_samples(sentences)
    possible = [math.isfinite(value) for value in values]
    if not any(possible):
        raise DataError(
            "the grammar can produce none of the sentences. Is there one sentence a line, in words "
            "like the treebank's?",
            path=file,
        )
    parsed = [words for words, can in zip(sentences, possible, strict=True) if can]
    found = TextScore.of_sentences(values[possible], parsed, model.vocabulary_)
    missing = len(sentences) - len(parsed)
    policy = "words outside the vocabulary are scored as <unk>; one end per sentence is counted"
    if missing:
        remark(f"{missing} sentences cannot be produced by the grammar and are left out")
    if as_json:
        own = {"vocabulary": len(model.vocabulary_), "policy": policy}
        say_json({**found.figures(), "without_parse": missing, **own})
        return
    say(
        f"perplexity {found.perplexity:.2f} over {found.tokens:,} tokens "
        f"({found.words:,} words, {found.sentences:,} sentence ends; {found.unknown:,} unknown)"
    )
    say(f"vocabulary of {len(model.vocabulary_):,}; {policy}")


def sample_trees(model: PCFG, count: int, seed: int, output: Path | None) -> None:
    """Tells new trees, or writes them."""
    from mrflearn.io.ptb import write_trees

    write_trees("-" if output is None else output, model.sample(count, random_state=seed))


def inspect_pcfg(model: PCFG, top: int, as_json: bool) -> None:
    """Tells the size of a grammar and the most probable rules at the root."""
    shape, rows = model.model_.shape, model.first_rules(top)
    sizes = {"phrases": shape.phrases, "preterminals": shape.preterminals, "rules": len(shape)}
    if as_json:
        own = {"class": type(model).__name__, **sizes, "vocabulary": len(model.vocabulary_)}
        say_json({**own, "first_rules": rows})
        return
    told = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    say(f"{type(model).__name__}: {told}, {len(model.vocabulary_):,} words")
    say_table(["rule at the root", "probability"], [[rule, f"{p:.4f}"] for rule, p in rows])
