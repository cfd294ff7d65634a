"""Which estimator suits a CRF, and why: what `estimator="auto"` does.

The rules follow measured trade-offs (docs/start/crf-estimators.md): exact likelihood is best where
graphs have no loops, and quick unless every transition has a large table of its own; pieces come
close to it, and are best on loops; their pseudolikelihood costs the states of one label at a time.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from mrflearn.features.support import Support
from mrflearn.inference.wiring import is_forest
from mrflearn.models.field_batch import FieldBatch
from mrflearn.objectives.field_objectives import Criterion, Pieces

Wanted = Criterion | Literal["auto"]
MANY_CELLS = 50_000_000  # of all tables: exact likelihood then takes over half a second at a time


class Choice(NamedTuple):
    """An estimator, and one sentence on why it was chosen."""

    estimator: Criterion
    reason: str


def choose_for_chains(
    support: Support, tokens: int, *, algorithm: str = "lbfgs", device: str = "cpu"
) -> Choice:
    """The estimator for so many tokens of chains."""
    if support.triples is not None:
        return Choice("ml", "chains of order 2 have no other")
    if algorithm == "ap" or device != "cpu":
        return Choice("ml", f"{'the perceptron' if algorithm == 'ap' else 'a GPU'} has no other")
    labels = len(support.labels)
    if not len(support.edges):
        return Choice("ml", "exact likelihood is quick where all transitions share one table")
    if tokens * labels**2 < MANY_CELLS:
        return Choice("ml", f"with {labels} labels exact likelihood is quick enough")
    return Choice(
        "pwpl",
        f"{tokens:,} transitions have tables of {labels} x {labels} labels of their own, and it "
        "needs a row and a column of each",
    )


def choose_for_graphs(batch: FieldBatch, pieces: Pieces | None = None) -> Choice:
    """The estimator for labelled graphs, and for pieces where they are named."""
    if pieces not in (None, "factors"):
        return Choice("pw", "pieces are named")
    cells = cells_of_tables(batch)
    if cells >= MANY_CELLS:
        return Choice(
            "pwpl", f"the factors have {cells:,} joint states, and it needs few of them at a time"
        )
    if is_forest(batch.graph):
        return Choice("ml", "the graphs have no loops, so that exact likelihood is quick")
    return Choice("pw", "the graphs have loops, where pieces did best")


def estimator_of(model: Any, choice: Choice | None) -> Criterion:
    """The estimator that was chosen, or else the one that the model's user asked for."""
    estimator: Criterion = model.estimator if choice is None else choice.estimator
    return estimator


def keep_choice(model: Any, choice: Choice | None) -> None:
    """Sets `choice_` where there was a choice, and removes that of an earlier fit where not."""
    if choice is None:
        vars(model).pop("choice_", None)
    else:
        model.choice_ = choice


def cells_of_tables(batch: FieldBatch) -> int:
    """How many joint states the factors of several variables have, all together."""
    graph = batch.graph
    groups = [group for group in graph.groups if group.arity > 1]
    return sum(int(graph.states[group.scope].prod(dim=1).sum()) for group in groups)
