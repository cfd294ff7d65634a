"""What pages say of models of text: words and their neighbours, n-grams, rules, topics, samples."""

from __future__ import annotations

from typing import Any

from mrflearn.plots.composite import em_curve
from mrflearn.plots.language_model import bound_curve, vector_map
from mrflearn.plots.page import Page

TOP = 15
WORDS_ON_MAP = 120
WORDS_WITH_NEIGHBOURS = 8


def add_language_model(page: Page, model: Any) -> None:
    """The curve of the bound, and of a model with word vectors their map and neighbours."""
    if len(model.outcome_.history) > 1:
        page.heading("Training")
        page.picture(
            bound_curve(model.outcome_.history),
            "The proven lower bound on the log-likelihood per position; the model that is best on "
            "the validation text is kept.",
        )
    if model.form != "explicit":  # free tables have no vectors
        add_words(page, model)


def add_words(page: Page, model: Any) -> None:
    """A map of the frequent words, and their neighbours."""
    words = model.frequent_words(len(model.vocabulary_))
    page.heading("Words")
    shown = words[:WORDS_ON_MAP]
    index = {word: i for i, word in enumerate(model.vocabulary_.words)}
    if len(shown) > 2:
        page.picture(
            vector_map(shown, model.vectors_[[index[word] for word in shown]]),
            f"The {len(shown)} most frequent words at the two leading principal components of "
            "their vectors: words that stand in similar places lie near each other.",
        )
    page.text("Nearest words by the cosine of the vectors:")
    asked = [word for word in words if word.isalpha() and len(word) > 3][:WORDS_WITH_NEIGHBOURS]
    page.table(
        ("word", "nearest"),
        [(word, ", ".join(other for other, _ in model.neighbors(word, 8))) for word in asked],
    )


def add_ngrams(page: Page, model: Any) -> None:
    """Counts and discounts of each order."""
    page.heading("N-grams")
    rows = [
        (order, count, *map(float, discounts))
        for order, (count, discounts) in enumerate(
            zip(model.ngrams_, model.discounts_, strict=False), start=1
        )
    ]
    page.table(("order", "n-grams", "discount of 1", "of 2", "of 3 and more"), rows)
    page.text("Likeliest words at the beginning of a sentence:")
    page.table(("word", "probability"), model.next_word((), 10))


def add_grammar(page: Page, model: Any) -> None:
    """The most probable rules at the root."""
    page.heading("Rules")
    page.table(("rule at the root", "probability"), model.first_rules(TOP))


def add_composite(page: Page, model: Any) -> None:
    """The curve of EM, topics and a few sampled sentences."""
    if len(model.fit_.history) > 1:
        page.heading("Training")
        page.picture(
            em_curve(model.fit_.history),
            "The log-likelihood of the training text, and of a treebank's rules under their prior, "
            "step by step of expectation-maximisation: it never falls within a round; between "
            "rounds, weights of back-off levels are set anew.",
        )
    if model.topics > 1:
        page.heading("Topics")
        page.text("The words that tell each topic best from the others:")
        rows = [
            (number + 1, ", ".join(word for word, _ in words))
            for number, words in enumerate(model.topic_words(10))
        ]
        page.table(("topic", "words"), rows)
    page.heading("A sample")
    document = model.sample(1, sentences=5, random_state=0, longest=40)[0]
    page.lines("\n".join(" ".join(sentence) for sentence in document))
