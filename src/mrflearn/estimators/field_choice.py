"""Which estimator suits a field, and why: what `estimator="auto"` does.

The rules follow measured trade-offs (docs/start/field-estimators.md): exact likelihood errs least
and is quick on narrow graphs; pseudolikelihood comes within a few percent of it on any graph; so
does LAP, at a cost linear in the cliques, and it learns from rows with values missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import too_crowded
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.training.lap import lap_refuses

if TYPE_CHECKING:
    from mrflearn.estimators.field_training import FieldCriterion

QUICK = JunctionTree(memory_limit=64 * 2**20)  # exact inference in about a second
MANY_CLIQUES = 20_000  # from here on training every parameter at once takes minutes


class Choice(NamedTuple):
    """An estimator, and one sentence on why it was chosen."""

    estimator: FieldCriterion
    reason: str


def choose_estimator(
    graph: FactorGraph, *, missing: bool = False, counts_alone: bool = False
) -> Choice:
    """The estimator for a graph, and samples with or without missing values.

    With `counts_alone` the samples themselves are not at hand, which pseudolikelihood needs.
    """
    if missing:
        refusal = None if counts_alone else lap_refuses(graph, missing=True)
        if refusal:
            return Choice(
                "pl", f"some values are missing, and lap is not for this graph: {refusal}"
            )
        return Choice("lap", "some values are missing, and lap learns from such rows")
    if QUICK.refuses(graph) is None:
        return Choice("ml", "the graph is narrow enough for exact likelihood")
    if counts_alone:
        return Choice("lap", "the graph is too wide to be exact; lap needs counts alone")
    cliques = sum(map(len, graph.groups))
    if cliques >= MANY_CLIQUES and not too_crowded(graph):
        return Choice(
            "lap",
            f"the graph is too wide to be exact, and lap is linear in its {cliques:,} cliques",
        )
    return Choice("pl", "the graph is too wide to be exact; pseudolikelihood comes close to it")
