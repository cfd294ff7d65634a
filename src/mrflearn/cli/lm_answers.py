"""What the verbs `score`, `sample` and `inspect` say of a Markov random field language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import remark, say, say_json, say_table
from mrflearn.cli.options import LikelihoodMethod
from mrflearn.cli.vector_answers import WORDS_ON_MAP, draw_map

if TYPE_CHECKING:
    from mrflearn.estimators.language_model import LanguageModel

MEANINGS = {
    "bound": "a proven lower bound, the text as one ring",
    "ring": "exact, the text as one ring",
    "exact": "exact, each sentence given its length",
    "ais": "an estimate, the text as one ring",
    "pl": "each word given its neighbours on both sides; no likelihood",
}


def score_neighbours(
    model: LanguageModel, file: Path, method: LikelihoodMethod | None, as_json: bool
) -> None:
    """Tells the log-likelihood of a text, and what it is counted per."""
    method = LikelihoodMethod.bound if method is None else method
    found = model.log_likelihood(file, method.value)
    if as_json:
        per = {"per_position": found.per_position, "per_word": found.per_word}
        own = {"per_sentence": found.per_sentence, "meaning": MEANINGS[method]}
        say_json({**found.figures(), **per, **own})
        return
    more = ""
    if found.effective_chains is not None:
        error = found.standard_error / (found.positions or found.tokens)
        more = f" (+- {error:.4f}, {found.effective_chains:.0f} effective chains)"
    say(f"{found.per_position:.4f} nats per position{more}: {MEANINGS[method]}")
    say(f"{found.per_word:.4f} per word, {found.per_sentence:.4f} per sentence")
    if method not in (LikelihoodMethod.exact, LikelihoodMethod.pl):  # which predict no ends
        most = "at most " if method is LikelihoodMethod.bound else ""
        say(f"perplexity {most}{found.perplexity:.2f} over {found.tokens:,} tokens")
    say(
        f"{found.words:,} words in {found.sentences:,} sentences; positions count the "
        f"{model.context} separators of each sentence too"
    )


def sample_neighbours(model: LanguageModel, count: int, seed: int, output: Path | None) -> None:
    """Tells new sentences, or writes them."""
    from mrflearn.io.corpus import write_sentences

    remark("lengths as in the training text; words exactly for small vocabularies, else by Gibbs")
    write_sentences("-" if output is None else output, model.sample(count, random_state=seed))


def inspect_neighbours(model: LanguageModel, top: int, plot: Path | None, as_json: bool) -> None:
    """Tells the size and the bounds of the model, and its most frequent words."""
    if plot is not None:
        draw_map(model, model.frequent_words(max(top, WORDS_ON_MAP)), plot)
    figures: dict[str, Any] = {
        "class": type(model).__name__,
        "vocabulary": len(model.vocabulary_),
        "context": model.context,
        "dims": model.dims,
        "form": model.form,
        "bound": model.bound,
        "train_bound_per_position": model.bound_,
        "validation_bound_per_position": model.validation_bound_,
        "most_frequent": model.frequent_words(top),
    }
    if as_json:
        say_json(figures)
        return
    words = figures.pop("most_frequent")
    known = {name: value for name, value in figures.items() if value is not None}
    told = {n: f"{v:.4f}" if isinstance(v, float) else str(v) for n, v in known.items()}
    say_table(["", "value"], [[name.replace("_", " "), value] for name, value in told.items()])
    say(f"most frequent: {' '.join(words)}")
