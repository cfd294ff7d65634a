"""What an inference hands back, and the three things one can ask of it.

Every inference computes its answer without building an autograd graph; `with_gradient` then gives
log Z the only gradient it can have: d log Z / d table = expected counts = the factor beliefs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.kernels.gradients import once

Kind = Literal["exact", "upper bound", "lower bound", "approximation"]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """log Z and marginals, what they are worth, and how the computation ended.

    Marginals are probabilities; `variables` is zero beyond a variable's own states.  Where a
    component has no possible assignment its log-partition is -inf and all its beliefs are zero.
    `warm` is where an iteration ended (the messages): the next one on this graph may start there.
    """

    log_partition: Float[Tensor, " c"]
    variables: Float[Tensor, "v s"]
    factors: tuple[Float[Tensor, " f *shape"], ...]  # one stack a factor group
    kind: Kind
    sweeps: int = 0
    residual: Tensor | float = 0.0
    converged: bool = True
    warm: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Decoding:
    """The best assignment found, its score per component, and whether it is proven optimal.

    Where a component has no possible assignment its score is -inf.
    """

    assignment: Int[Tensor, " v"]
    score: Float[Tensor, " c"]
    kind: Literal["exact", "approximation"]
    sweeps: int = 0
    residual: float = 0.0
    converged: bool = True


@runtime_checkable
class Inference(Protocol):
    """Turns potentials into beliefs; knows no model and no data."""

    @property
    def warm_starts(self) -> bool:
        """Whether answers are where an iteration ends that may start from earlier beliefs."""

    def refuses(self, graph: FactorGraph) -> str | None:
        """Why this graph cannot be handled (and what to try instead), or None."""

    def __call__(self, potentials: Potentials, warm: Tensor | None = None) -> Beliefs:
        """log Z and marginals; the log-partition carries gradients to the tables.

        `warm` is what earlier beliefs on the same graph carried; methods that have no use for it
        take no notice.
        """


@runtime_checkable
class Maximiser(Protocol):
    """Finds assignments of high score."""

    def refuses(self, graph: FactorGraph) -> str | None: ...

    def best(self, potentials: Potentials) -> Decoding: ...


class Method:
    """The common part of all methods: they take every graph, unless they say otherwise."""

    def refuses(self, graph: FactorGraph) -> str | None:  # noqa: ARG002
        """Why this graph cannot be handled (and what to try instead), or None."""
        return None


class BeliefMethod(Method, ABC):
    """An `Inference`: `_beliefs` without autograd, and then the gradient of log Z."""

    warm_starts: ClassVar[bool] = False

    def __call__(self, potentials: Potentials, warm: Tensor | None = None) -> Beliefs:
        """log Z, variable marginals and factor beliefs; `warm` is what earlier ones carried."""
        insist(self, potentials.graph)
        with torch.no_grad():
            found = self._beliefs(potentials, warm)
        return with_gradient(potentials, found)

    @abstractmethod
    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:
        """The beliefs of a graph that is not refused."""


class Sampler(Method, ABC):
    """Draws assignments in proportion to their probability."""

    def sample(
        self,
        potentials: Potentials,
        count: int,
        generator: torch.Generator | None = None,
        *,
        seed: int = 0,
    ) -> Int[Tensor, "n v"]:
        """`count` assignments, drawn by the generator or, where none is given, by the seed."""
        insist(self, potentials.graph)
        with torch.no_grad():
            return self._sample(potentials, count, seeded(generator, seed, potentials.graph.device))

    @abstractmethod
    def _sample(self, potentials: Potentials, count: int, generator: torch.Generator) -> Tensor:
        """Assignments (n, v) of a graph that is not refused."""


def zero_beliefs(potentials: Potentials) -> Beliefs:
    """Exact beliefs to be filled in: all zero."""
    graph = potentials.graph
    value = torch.zeros(graph.components, dtype=potentials.dtype, device=graph.device)
    factors = tuple(
        value.new_zeros(len(group), *table.shape[1:])
        for group, table in zip(graph.groups, potentials.tables, strict=True)
    )
    variables = value.new_zeros(graph.variables, graph.most_states)
    return Beliefs(value, variables, factors, kind="exact")


def insist(method: Inference | Maximiser | Method, graph: FactorGraph) -> None:
    """Raises `InferenceError` with the method's own reason where it refuses the graph."""
    reason = method.refuses(graph)
    if reason is not None:
        raise InferenceError(reason)


def seeded(generator: torch.Generator | None, seed: int, device: torch.device) -> torch.Generator:
    """The generator or, where there is none, a new one that starts from the seed."""
    if generator is None:
        return torch.Generator(device=device).manual_seed(seed)
    if not isinstance(generator, torch.Generator):
        raise InferenceError(
            f"generator={generator!r} is no torch.Generator. Try seed={generator!r}."
        )
    return generator


def insist_possible(
    log_partition: Float[Tensor, " n"], component: Int[Tensor, " n"] | None = None
) -> None:
    """Raises `InferenceError` where nothing can be drawn, by the numbers of the components."""
    lost = (log_partition == -torch.inf).nonzero()[:, 0]
    if len(lost):
        number = int(lost[0] if component is None else component[lost[0]])
        raise InferenceError(
            f"component {number} has no possible assignment to draw. Are many scores -inf?"
        )


def with_gradient(potentials: Potentials, beliefs: Beliefs) -> Beliefs:
    """The same beliefs, with a log-partition that is differentiable in the potentials' tables."""
    tables = [table.dense() for table in potentials.tables]
    if not any(table.requires_grad for table in tables):
        return beliefs
    value = _LogPartition.apply(potentials.graph, beliefs, *tables)  # type: ignore[no-untyped-call]
    return replace(beliefs, log_partition=value)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: FactorGraph, beliefs: Beliefs, *tables: Tensor) -> Tensor:
        ctx.graph, ctx.factors = graph, beliefs.factors
        ctx.shapes = [table.shape for table in tables]
        return beliefs.log_partition.detach().clone()

    @staticmethod
    @once
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        upstream = outputs[0]
        gradients: list[Tensor | None] = [None, None]
        for group, belief, shape in zip(ctx.graph.groups, ctx.factors, ctx.shapes, strict=True):
            weight = upstream[ctx.graph.component_of(group)]
            share = belief * weight.reshape(-1, *[1] * group.arity)
            gradients.append(belief.new_zeros(shape).index_add(0, group.table, share))
        return tuple(gradients)
