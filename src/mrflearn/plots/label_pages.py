"""What pages say of models that label: transitions, and the heaviest weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrflearn.plots.couplings import draw_heat_map
from mrflearn.plots.page import Page
from mrflearn.plots.training_page import add_training

TOP = 15
MOST_LABELS = 60  # of a picture of transitions


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


def add_graphs(page: Page, model: Any) -> None:
    """The curve and the heaviest weights of a CRF on graphs."""
    add_training(page, model.outcome_.history)
    page.heading("Heaviest weights")
    rows = [
        (own.attribute, own.factors, " ".join(own.labels), own.weight)
        for own in model.top_features(n=TOP)
    ]
    page.table(("attribute", "factors", "labels", "weight"), rows)


def add_joint_tagger(page: Page, model: Any) -> None:
    """The curve of the bound."""
    add_training(page, model.outcome_.history, "minus the bound, nats a position")


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
