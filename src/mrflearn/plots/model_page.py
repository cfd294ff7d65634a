"""What a page says of a fitted model: how training went, and what was learned, with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mrflearn.plots.composite import em_curve
from mrflearn.plots.couplings import draw_graph, draw_heat_map
from mrflearn.plots.curves import draw_curves
from mrflearn.plots.language_model import bound_curve, vector_map
from mrflearn.plots.page import Cell, Page
from mrflearn.training.outcome import Row

WORDS_ON_MAP = 120
WORDS_WITH_NEIGHBOURS = 8
TOP = 15
MOST_LABELS = 60  # of a picture of transitions
MOST_VARIABLES = 400  # of a heat map


def model_page(model: Any, title: str, facts: Mapping[str, Any]) -> Page:
    """The page of a fitted estimator; `facts` are shown as a table."""
    page = Page(title)
    kind = type(model).__name__
    page.text(f"A {kind}. What training reported:")
    page.table(("", ""), [row for name, value in facts.items() for row in _fact(name, value)])
    match kind:
        case "CRF":
            add_chain(page, model)
        case "FactorialCRF" | "SkipChainCRF" | "GraphCRF":
            add_training(page, model.outcome_.history)
        case "HMMTagger":
            add_hidden_markov(page, model)
        case "JointTagger":
            add_training(page, model.outcome_.history, "minus the bound, nats a position")
        case "LanguageModel":
            add_language_model(page, model)
        case "WordVectors":
            add_words(page, model)
        case "CompositeLanguageModel":
            add_composite(page, model)
        case "MarkovField" | "PottsField":
            add_field(page, model)
        case "NgramLanguageModel":
            add_ngrams(page, model)
    return page


def _fact(name: str, value: Any) -> list[tuple[Cell, ...]]:
    """One row, or none for what is no plain value and for where the model stands."""
    if name == "model" or value is None or not isinstance(value, (str, int, float)):
        return []
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return [(name.replace("_", " "), value)]


def add_training(page: Page, history: Sequence[Row], upward: str = "objective, nats") -> None:
    """The curve of training, where there were steps enough for one."""
    if len(history) < 2:
        return
    curves = {"training": ([row.evaluations for row in history], [row.value for row in history])}
    page.heading("Training")
    caption = "What training made small, after each pass over the data."
    page.picture(draw_curves(curves, across="evaluations", upward=upward), caption)


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
    words = [word for word in model.vocabulary_.words if not word.startswith("<")]
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


def add_chain(page: Page, model: Any) -> None:
    """The curve, transitions and the heaviest weights of a chain CRF."""
    add_training(page, model.outcome_.history)
    labels = model.classes_
    pairs = dict(model.transition_features_)
    if all(len(names) == 2 for names in pairs) and 1 < len(labels) <= MOST_LABELS:
        matrix = np.array([[pairs.get((a, b), 0.0) for b in labels] for a in labels])
        page.heading("Transitions")
        page.picture(
            draw_heat_map(matrix, labels, "weight"),
            "Weights of moving from the label of a row to that of a column: red is likely, blue "
            "unlikely, white was never seen.",
        )
    page.heading("Heaviest weights")
    page.table(("attribute", "label", "weight"), model.top_features(n=TOP))


def add_hidden_markov(page: Page, model: Any) -> None:
    """The steps between tags of a hidden Markov model."""
    steps = model.top_steps(MOST_LABELS**2)
    labels = [*model.classes_, "<S>"]
    if 1 < len(labels) <= MOST_LABELS:
        place = {name: i for i, name in enumerate(labels)}
        matrix = np.zeros((len(labels), len(labels)))
        for before, after, _, share in steps:
            matrix[place[before], place[after]] = share
        page.heading("Steps between tags")
        page.picture(
            draw_heat_map(matrix, labels, "probability"),
            "How often the tag of a column follows that of a row; <S> is the edge of a sentence.",
        )
    page.table(("tag", "next tag", "times", "probability"), steps[:TOP])


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
    document = model.sample(1, sentences=5, seed=0, longest=40)[0]
    page.lines("\n".join(" ".join(sentence) for sentence in document))


def add_field(page: Page, model: Any) -> None:
    """The curve and the couplings of a field."""
    add_training(page, model.outcome_.history, "objective per sample, up to a constant")
    names = [str(n) for n in getattr(model, "feature_names_in_", range(model.n_features_in_))]
    edges, strength = model.edges_, model.strengths_
    signed = model.couplings_.ndim == 1
    what = "coupling" if signed else "norm of the couplings"
    if not len(edges):
        return
    order = np.argsort(-np.abs(strength), kind="stable")[:TOP]
    page.heading("Couplings")
    if len(names) <= MOST_VARIABLES:
        page.picture(
            draw_heat_map(model.strength_matrix_, names, what),
            "How strongly each pair of variables is coupled.",
        )
        page.picture(
            draw_graph(edges[order], strength[order], names, what, signed=signed),
            f"The {len(order)} strongest couplings as a graph.",
        )
    rows = [(names[edges[k][0]], names[edges[k][1]], float(strength[k])) for k in order]
    page.table(("", "", what), rows)


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
