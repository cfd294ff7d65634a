"""What the verbs `score`, `sample` and `inspect` say of a composite language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import say, say_json, say_table

if TYPE_CHECKING:
    from mrflearn.estimators.composite import CompositeLanguageModel


def score_documents(model: CompositeLanguageModel, file: Path, as_json: bool) -> None:
    """Tells the perplexity of documents, and what it is counted over."""
    found = model.text_score(file)
    policy = f"{model.unknown_policy_}; one end per sentence is counted"
    if as_json:
        say_json({**found.figures(), "vocabulary": len(model.vocabulary_), "policy": policy})
        return
    say(
        f"perplexity {found.perplexity:.2f} over {found.tokens:,} tokens "
        f"({found.words:,} words, {found.sentences:,} sentence ends; {found.unknown:,} unknown)"
    )
    say(f"vocabulary of {len(model.vocabulary_):,}; {policy}")
    say("topic proportions are inferred from the sentences before, in the same document")


def sample_documents(
    model: CompositeLanguageModel, count: int, seed: int, output: Path | None
) -> None:
    """Tells new documents, or writes them."""
    from mrflearn.io.corpus import write_documents

    write_documents("-" if output is None else output, model.sample(count, random_state=seed))


def inspect_composite(model: CompositeLanguageModel, top: int, as_json: bool) -> None:
    """Tells the parts of a model, the weights of its levels, and its topics."""
    shape = model.fit_.model.shape
    learned = [str(level) or "words alone" for level in shape.levels]
    levels = [*learned, "n-gram", "n-gram, blind to A", "uniform"]
    weights = model.fit_.model.weights.double().mean(dim=(0, 1)).tolist()
    topics = model.topic_words(top) if model.topics > 1 else []
    own: dict[str, Any] = {
        "class": type(model).__name__,
        "order": model.order,
        "phrases": 0 if shape.grammar is None else shape.grammar.phrases,
        "preterminals": 0 if shape.grammar is None else shape.grammar.preterminals,
        "topics": model.topics,
        "vocabulary": len(model.vocabulary_),
    }
    if as_json:
        say_json({**own, "levels": dict(zip(levels, weights, strict=True)), "topic_words": topics})
        return
    grammar = f"{own['phrases']} phrases and {own['preterminals']} preterminals"
    say(
        f"{own['class']} of order {model.order}: {own['vocabulary']:,} words, "
        f"{grammar if own['phrases'] else 'no grammar'}, {model.topics} topics"
    )
    told = zip(levels, weights, strict=True)
    say_table(["level", "mean weight"], [[name, f"{weight:.3f}"] for name, weight in told])
    if topics:
        say()
        rows = [
            [str(h), f"{share:.3f}  {' '.join(word for word, _ in words)}"]
            for h, (share, words) in enumerate(zip(model.fit_.prior.tolist(), topics, strict=True))
        ]
        for number, text in rows:
            say(f"topic {number}  {text}")
