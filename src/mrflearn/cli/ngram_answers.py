"""What the verbs `score`, `sample` and `inspect` say of an n-gram model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mrflearn.cli.answers import say, say_json, say_table

if TYPE_CHECKING:
    from mrflearn.estimators.ngram import NgramLanguageModel


def score_text(model: NgramLanguageModel, file: Path, as_json: bool) -> None:
    """Tells the perplexity of a text, and what it is counted over."""
    found = model.text_score(file)
    policy = f"{model.unknown_policy_}; one end per sentence is counted"
    if as_json:
        say_json({**found.figures(), "vocabulary": len(model.vocabulary_), "policy": policy})
        return
    say(
        f"perplexity {found.perplexity:.2f} over {found.tokens:,} tokens "
        f"({found.words:,} words, {found.sentences:,} sentence ends)"
    )
    if found.unknown:
        say(f"without {found.unknown:,} times <unk>: {found.perplexity_without_unknown:.2f}")
    say(f"vocabulary of {len(model.vocabulary_):,}; {policy}")


def sample_text(model: NgramLanguageModel, count: int, seed: int, output: Path | None) -> None:
    """Tells new sentences, or writes them."""
    from mrflearn.io.corpus import write_sentences

    write_sentences("-" if output is None else output, model.sample(count, random_state=seed))


def inspect_text(model: NgramLanguageModel, top: int, as_json: bool) -> None:
    """Tells the size of each order and the most probable first words."""
    firsts = model.next_word(n=top)
    if as_json:
        name, size = type(model).__name__, len(model.vocabulary_)
        own = {"class": name, "order": model.order, "vocabulary": size}
        say_json({**own, "ngrams": model.ngrams_, "first_words": firsts})
        return
    say(f"{type(model).__name__} of order {model.order}: {len(model.vocabulary_):,} words")
    say_table(["order", "n-grams"], [[str(n), f"{c:,}"] for n, c in enumerate(model.ngrams_, 1)])
    say()
    say_table(["first word", "probability"], [[word, f"{p:.4f}"] for word, p in firsts])
