"""Best labels and probabilities on any graphs, exact wherever the width allows.

Letters in shapes: v: variables; c: examples; s: states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.evidence import restrict
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.best_lists import best_list
from mrflearn.inference.chain import Chain
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.tree_reweighted import TreeReweighted
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.field_likelihood import spans_of

Method = Literal["auto", "exact", "bp", "trw"]
Answering = Chain | JunctionTree | BeliefPropagation | TreeReweighted
EXACT = JunctionTree(memory_limit=2**30)
APPROXIMATE = BeliefPropagation(max_sweeps=500, tolerance=1e-5, damping=0.3)


@dataclass(frozen=True, eq=False)
class Labelling:
    """The best states found, their scores, and for each example how they were found.

    `kind` is "exact" (surely the best) or "approximation" (max-product, then climbing).
    """

    assignment: Int64[Tensor, "v"]
    score: Float[Tensor, "c"]
    kind: tuple[str, ...]
    converged: Bool[Tensor, "c"]


@dataclass(frozen=True, eq=False)
class FieldMarginals:
    """Probabilities of the states of every variable, log Z, and for each example their kind."""

    variables: Float[Tensor, "v s"]
    log_partition: Float[Tensor, "c"]
    kind: tuple[str, ...]
    converged: Bool[Tensor, "c"]


def best_states(model: LogLinearField, batch: FieldBatch, method: Method = "auto") -> Labelling:
    """The best labels among the allowed ones."""
    if method == "trw":
        raise InferenceError("inference='trw' bounds probabilities; for best labels take 'bp'.")
    graph = batch.graph
    assignment = torch.zeros(graph.variables, dtype=torch.int64)
    score = torch.zeros(graph.components, dtype=torch.float64)
    converged = torch.ones(graph.components, dtype=torch.bool)
    kinds: list[str] = [""] * graph.components
    for examples, variables, potentials, answering in _asked(model, batch, method):
        assert not isinstance(answering, TreeReweighted)  # noqa: S101 - refused above
        found = answering.best(potentials)
        assignment[variables] = found.assignment
        score[examples] = found.score.double()
        converged[examples] = found.converged
        for example in examples.tolist():
            kinds[example] = found.kind
    if bool((score == -torch.inf).any()):
        example = int((score == -torch.inf).int().argmax())
        raise InferenceError(
            f"example {example} has no labelling that is allowed. Do forced labels contradict "
            "each other?"
        )
    return Labelling(assignment, score, tuple(kinds), converged)


def marginals(model: LogLinearField, batch: FieldBatch, method: Method = "auto") -> FieldMarginals:
    """The probabilities of all labels, given that only allowed ones occur."""
    graph = batch.graph
    variables = torch.zeros(graph.variables, graph.most_states, dtype=torch.float64)
    value = torch.zeros(graph.components, dtype=torch.float64)
    converged = torch.ones(graph.components, dtype=torch.bool)
    kinds: list[str] = [""] * graph.components
    for examples, members, potentials, answering in _asked(model, batch, method):
        found = answering(potentials)
        variables[members, : found.variables.shape[1]] = found.variables.double()
        value[examples] = found.log_partition.double()
        converged[examples] = found.converged
        for example in examples.tolist():
            kinds[example] = found.kind
    return FieldMarginals(variables, value, tuple(kinds), converged)


Question = tuple[Tensor, Tensor, Potentials, Answering]  # examples, variables, field, method


@torch.no_grad()
def _asked(model: LogLinearField, batch: FieldBatch, method: Method) -> Iterator[Question]:
    """The examples in parts that fit in memory, each with the method that answers for it."""
    if method not in get_args(Method):
        raise InferenceError(f"inference '{method}' is not one of {', '.join(get_args(Method))}.")
    model.check(batch)
    # Graphs of one form are solved as one: those of one size come together.
    sizes = torch.bincount(batch.graph.component, minlength=batch.graph.components)
    order = sizes.argsort(stable=True)
    for first, end in spans_of(batch, 1, order):
        yield from _part(model, batch, order[first:end].sort().values, method)


def _part(
    model: LogLinearField, batch: FieldBatch, examples: Int64[Tensor, "b"], method: Method
) -> Iterator[Question]:
    own = batch.examples(examples).compact()
    answering = _chosen(own, method)
    if isinstance(answering, BeliefPropagation) and method == "auto" and len(examples) > 1:
        # One wide graph shall not make the others' answers approximate.
        for half in examples.tensor_split(2):
            yield from _part(model, batch, half, method)
        return
    potentials = model.potentials(own)
    allowed = own.allowed_states()
    if not bool((allowed == own.graph.legal()).all()):
        potentials = restrict(potentials, allowed)
    inside = torch.zeros(batch.graph.components, dtype=torch.bool)
    inside[examples] = True
    yield examples, inside[batch.graph.component].nonzero().squeeze(1), potentials, answering


def _chosen(batch: FieldBatch, method: Method) -> Answering:
    graph = batch.graph
    if method == "bp":
        return APPROXIMATE
    if method == "trw":
        return TreeReweighted(tolerance=1e-5)
    if Chain().refuses(graph) is None:
        return Chain()
    reason = EXACT.refuses(graph)
    if reason is None:
        return EXACT
    if method == "exact":
        raise InferenceError(reason)
    return APPROXIMATE


@torch.no_grad()
def best_lists(
    model: LogLinearField, batch: FieldBatch, allowed: Bool[Tensor, "v s"] | None, count: int
) -> Iterator[list[tuple[Int64[Tensor, "v"], float]]]:
    """The `count` best (states, score) of each example, exactly."""
    model.check(batch)
    for example in range(batch.graph.components):
        own = batch.part(example, example + 1).compact()
        inside = batch.graph.component == example
        mask = None if allowed is None else allowed[inside]
        yield best_list(model.potentials(own), count, EXACT, mask)


def log_probabilities(
    model: LogLinearField, batch: FieldBatch, method: Method = "auto"
) -> list[float]:
    """log p of the allowed labels of each example: that of its labels where they are known."""
    free = marginals(model, batch.unlabelled(), method).log_partition
    bound = marginals(model, batch, method).log_partition
    return [float(value) for value in bound - free]
