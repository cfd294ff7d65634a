"""Trainings as the paper and its appendix B describe them, beside those that replace them.

The log-bilinear model of eq. 1 has vectors U of context words and W of predicted ones; here it is
trained with them and with one vector a word, by the appendix's SGD (minibatches of 64, rate .1,
halved when the validation score falls) and by Adagrad, each until validation text no longer gains.
The bound of stars is maximised by Algorithm 2 (duals found anew for every step of the parameters,
by the sub-gradients of Algorithm 1 or by L-BFGS) and by moving duals and parameters together.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from alternating_bound import AlternatingBound, Inner
from lifted import CONTEXT
from log_bilinear import LogBilinearLanguageModel
from results import Row
from rows import Rows
from texts import Split

from mrflearn.estimators.lifted_training import LiftedSettings, starting_point
from mrflearn.features.moments import moments_of
from mrflearn.inference.lifted import Stars
from mrflearn.io.corpus import Vocabulary, count_corpus
from mrflearn.objectives.base import Objective
from mrflearn.objectives.lifted import LiftedLikelihood, WordFrequencies, word_scaling
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise

PART = "appendix B"
FEW = {"smoke": 50, "full": 500}  # words, on a processor
DIMS = {"smoke": (4,), "full": (30, 300)}
STEPS = {"smoke": 5, "full": 60}  # of the parameters, in the search by Algorithm 2
SEARCHES = {
    "joint": "moved together (ours)",
    "subgradient": "Algorithm 2, sub-gradients",
    "lbfgs": "Algorithm 2, L-BFGS within",
}
EPOCHS = {"smoke": 1, "full": 60}  # at most
# Optimiser, rate and minibatch: ours, and the appendix's, which takes several times as long.
ROADS: tuple[tuple[Any, float, int], ...] = (("adagrad", 0.05, 256), ("sgd", 0.1, 64))


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    """Few words on a processor; the whole vocabulary, and 300 dimensions, on a GPU."""
    few = FEW[scale] if device == "cpu" else None
    for dims in DIMS[scale] if device != "cpu" else DIMS[scale][:1]:
        for optimiser, rate, batch in ROADS:
            for tied in (False, True):
                settings = {"dims": dims, "tied": tied, "optimiser": optimiser, "rate": rate}
                settings |= {"batch_size": batch, "epochs": EPOCHS[scale], "device": device}
                point = {"part": PART, "text": text.name, "form": "LBL", "vocabulary": few}
                rows.measure(point | settings, lambda s=settings: _log_bilinear(text, few, s))
    if device == "cpu":
        for search in SEARCHES:
            point = {"part": PART, "text": text.name, "form": "stars", "vocabulary": few}
            point |= {"search": search, "dims": DIMS[scale][0], "steps": STEPS[scale]}
            rows.measure(point, lambda p=point: _stars(text, p))


def report(rows: Rows) -> list[str]:
    """Lines of two tables: log-bilinear models, and searches for the bound."""
    found = rows.of(PART)
    models = [own for own in found if own["point"]["form"] == "LBL"]
    lines = []
    if models:
        lines += table(
            "LBL, words | D | vectors a word | trained by | epochs | seconds | valid | test",
            map(_model_cells, models),
        )
    searches = [own for own in found if own["point"]["form"] == "stars"]
    if searches:
        header = "stars, words | duals and parameters | steps | rounds of messages"
        header += " | processor seconds | bound of the training text"
        lines += ["", *table(header, map(_search_cells, searches))]
    return lines


def table(header: str, lines: Iterable[tuple[Any, ...]]) -> list[str]:
    """A table in Markdown."""
    rule = "|---" * len(header.split("|")) + "|"
    return [f"| {header} |", rule, *("| " + " | ".join(map(str, own)) + " |" for own in lines)]


def _model_cells(row: Row) -> tuple[Any, ...]:
    point, own = row["point"], row["figures"]
    road = f"{point['optimiser']}, rate {point['rate']}, {point['batch_size']} a step"
    start = own["vocabulary"], point["dims"], 1 if point["tied"] else 2, road, own["epochs"]
    return (*start, f"{own['seconds']:.0f}", f"{own['valid']:.4f}", f"{own['test']:.4f}")


def _search_cells(row: Row) -> tuple[Any, ...]:
    own, name = row["figures"], SEARCHES[row["point"]["search"]]
    effort = own["steps"], own["passes"], f"{own['seconds']:.1f}"
    return own["vocabulary"], name, *effort, f"{own['train']:.4f}"


def _log_bilinear(text: Split, words: int | None, settings: dict[str, Any]) -> dict[str, Any]:
    model = LogBilinearLanguageModel(context=CONTEXT, vocabulary_size=words, **settings)
    model.fit(text.train, validation=text.valid)
    outcome, size = model.outcome_, len(model.vocabulary_)
    values = {
        name: model.text_score(part).log_likelihood / sum(len(own) + CONTEXT for own in part)
        for name, part in (("valid", text.valid), ("test", text.test))
    }
    ended = {"epochs": outcome.iterations, "seconds": outcome.seconds, "ended": outcome.reason}
    return {"vocabulary": size, **values, **ended}


def _stars(text: Split, point: dict[str, Any]) -> dict[str, Any]:
    """The bound of the training text after so many steps of the parameters, and what they took."""
    vocabulary = Vocabulary.from_counts(count_corpus(text.train), size=point["vocabulary"])
    moments = moments_of(text.train, CONTEXT, vocabulary).rounded_up()
    settings = LiftedSettings(bound="stars", dims=point["dims"])
    weights = (1 / (CONTEXT + 1),) * CONTEXT
    model = starting_point(moments, settings, weights)
    frequencies, search = (
        WordFrequencies.of(moments, model.unary),
        LBFGS(point["steps"], delta=None),
    )
    joint = point["search"] == "joint"
    objective: Objective[Any]
    if joint:
        objective = LiftedLikelihood(model, None, frequencies, Stars())
        search = replace(search, max_iterations=20 * point["steps"], tolerance=1e-7)
    else:
        inner: Inner = point["search"]
        objective = AlternatingBound(replace(model, duals=None), frequencies, inner=inner)
    scaling = word_scaling(objective.model, moments, Stars().weights)
    began = time.process_time()
    outcome = minimise(objective, search, scaling=scaling)
    seconds = time.process_time() - began
    passes = objective.passes if isinstance(objective, AlternatingBound) else outcome.evaluations
    return {"vocabulary": len(vocabulary), "steps": outcome.iterations, "passes": passes,
            "seconds": seconds, "train": -outcome.value, "ended": outcome.reason}  # fmt: skip
