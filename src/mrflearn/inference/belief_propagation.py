"""Loopy belief propagation: fixed points of messages and the Bethe free energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Beliefs, Decoding, Kind, with_gradient
from mrflearn.inference.decoding import follow_messages, iterated_conditional_modes
from mrflearn.inference.messages import (
    Blocks,
    Field,
    LogSweep,
    Reduction,
    SoftSweep,
    Wiring,
    is_forest,
    joint,
)
from mrflearn.inference.sampling import infeasible_components, with_feasible_states

Schedule = Literal["flooding", "residual"]

# A residual round applies the updates that are at least this share of the largest one.  Of the
# shares tried (0.01 to 0.9) it converges most often on hard grids, at little more cost than 0.1.
RESIDUAL_SHARE = 0.3

# On a forest an answer is called exact when messages moved by at most this in the last sweep.
EXACT_RESIDUAL = 1e-8


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Messages when passing stopped, and how it ended."""

    messages: Float[Tensor, " m"]
    sweeps: int
    residual: float
    converged: bool


# What messages stand for: the Bethe (or tree-reweighted) log-partition, and marginals.


def beliefs_at(potentials: Potentials, field: Field, rest: FixedPoint, kind: Kind) -> Beliefs:
    """The beliefs at the messages where passing stopped.

    With Z_v and Z_f the sums of unnormalised beliefs, log Z = sum_f rho_f log Z_f +
    sum_v (1 - sum of rho around v) log Z_v; rho = 1 gives the Bethe value [Yedidia, Freeman and
    Weiss 2005].  Its gradient in the messages is zero at a fixed point, so the error of the value
    is of second order in the residual.
    """
    graph, wiring = potentials.graph, field.wiring
    total = wiring.padded(field.totals(rest.messages), -torch.inf)
    scores = {
        index: joint(table, inboxes)
        for index, table, inboxes in zip(
            wiring.senders, field.tables, field.inboxes(rest.messages), strict=True
        )
    }
    sums = {index: torch.logsumexp(score.flatten(0, -2), 0) for index, score in scores.items()}
    log_z = torch.logsumexp(total, 1)
    impossible = _impossible(graph, log_z, sums)
    if kind != "exact" and field.floor is not None and not bool(impossible.all()):
        # Messages may converge on cycles that no assignment satisfies.
        impossible |= infeasible_components(potentials, total.argmax(1))
    log_partition = _value(field, log_z, sums).masked_fill(impossible, -torch.inf)
    variables = torch.softmax(total, 1)
    variables[impossible[graph.component]] = 0.0
    factors = []
    for index, group in enumerate(graph.groups):
        if index in scores:
            flat = torch.softmax(scores[index].flatten(0, -2), 0)
            belief = flat.reshape(scores[index].shape).movedim(-1, 0)
            belief[impossible[graph.component_of(group)]] = 0.0
        else:  # a unary factor, whose belief is its variable's; or a group without factors
            shape = potentials.tables[index].shape[1:]
            belief = variables.new_zeros(len(group), *shape)
            if len(group):
                belief = variables[group.scope[:, 0], : shape[0]]
        factors.append(belief)
    return Beliefs(
        log_partition,
        variables,
        tuple(factors),
        kind,
        sweeps=rest.sweeps,
        residual=rest.residual,
        converged=rest.converged,
        warm=rest.messages,
    )


def _impossible(
    graph: FactorGraph, log_z: Float[Tensor, " v"], sums: dict[int, Float[Tensor, " f"]]
) -> Bool[Tensor, " c"]:
    """Which components have a variable or a factor left without any possible state."""
    impossible = torch.zeros(graph.components, dtype=torch.bool, device=graph.device)
    impossible[graph.component[log_z == -torch.inf]] = True
    for index, log_zf in sums.items():
        impossible[graph.component_of(graph.groups[index])[log_zf == -torch.inf]] = True
    return impossible


def _value(
    field: Field, log_z: Float[Tensor, " v"], sums: dict[int, Float[Tensor, " f"]]
) -> Float[Tensor, " c"]:
    """The log-partition by component, where every sum is finite."""
    graph = field.wiring.graph
    around = torch.ones_like(log_z)
    total = log_z.new_zeros(graph.components)
    ones = torch.ones_like(field.wiring.place, dtype=log_z.dtype)
    rhos = field.wiring.blocks.split(ones if field.appearance is None else field.appearance)
    for (index, log_zf), blocks in zip(sums.items(), rhos, strict=True):
        group, rho = graph.groups[index], blocks[0][0]
        total.index_add_(0, graph.component_of(group), rho * log_zf)
        for axis in range(group.arity):
            around.index_add_(0, group.scope[:, axis], -rho)
    # Where 1 - sum of rho is 0, log Z_v must not turn up as 0 times -inf.
    return total.index_add(0, graph.component, torch.where(around == 0, 0.0, around * log_z))


# Loopy belief propagation: sum-product marginals and max-product decoding on any factor graph.


@final
@dataclass(frozen=True)
class BeliefPropagation:
    """Passes log-messages until they change by less than `tolerance`, or for `max_sweeps`.

    `damping` is the share of the old log-message that an update keeps.  With the schedule
    "flooding" every sweep updates every message; with "residual" only those whose change is at
    least 0.3 of the largest change, which converges on some fields where flooding runs in circles.
    Exact on forests; elsewhere the log-partition is Bethe's approximation, on neither side of the
    truth, and beliefs of a run that did not converge mean little.  Gradients of the log-partition
    are the beliefs at the fixed point.
    """

    max_sweeps: int = 1000
    tolerance: float = 1e-9
    damping: float = 0.0
    schedule: Schedule = "flooding"
    warm_starts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.max_sweeps < 1 or not 0.0 <= self.damping < 1.0 or self.tolerance < 0.0:
            raise InferenceError(
                f"max_sweeps={self.max_sweeps}, damping={self.damping}, tolerance={self.tolerance}:"
                " sweeps must be at least 1, damping from 0 to below 1, the tolerance not negative."
            )
        if self.schedule not in get_args(Schedule):
            raise InferenceError(
                f"schedule '{self.schedule}' is neither 'flooding' nor 'residual'."
            )

    def refuses(self, graph: FactorGraph) -> str | None:  # noqa: ARG002 - takes all
        return None

    def __call__(self, potentials: Potentials, warm: Float[Tensor, " m"] | None = None) -> Beliefs:
        """Sum-product from uniform messages, or from those of earlier beliefs on the same graph."""
        field, rest = self._pass(potentials, warm, torch.logsumexp)
        kind: Kind = "exact" if _surely_exact(potentials.graph, rest) else "approximation"
        return with_gradient(potentials, beliefs_at(potentials, field, rest, kind))

    def best(self, potentials: Potentials) -> Decoding:
        """Max-product, decoded along a spanning forest, then climbing one variable at a time."""
        field, rest = self._pass(potentials, None, torch.amax)
        exact = _surely_exact(potentials.graph, rest)
        assignment = follow_messages(field, rest.messages)
        if not exact:
            assignment = with_feasible_states(
                potentials, iterated_conditional_modes(potentials, assignment)
            )
            assignment = iterated_conditional_modes(potentials, assignment)
        return Decoding(
            assignment,
            potentials.score(assignment).detach(),
            "exact" if exact else "approximation",
            sweeps=rest.sweeps,
            residual=rest.residual,
            converged=rest.converged,
        )

    @torch.no_grad()
    def _pass(
        self, potentials: Potentials, messages: Float[Tensor, " m"] | None, reduce: Reduction
    ) -> tuple[Field, FixedPoint]:
        potentials.check_numbers()
        wiring = Wiring.of(potentials.graph)
        field = Field(wiring, wiring.bias(potentials), wiring.tables(potentials))
        return field, self.fixed_point(field, messages, reduce)

    @one_thread()
    def fixed_point(
        self, field: Field, start: Float[Tensor, " m"] | None, reduce: Reduction
    ) -> FixedPoint:
        """The messages when the largest update is within the tolerance, or sweeps have run out.

        The residual is the largest change of a log-message in the last round, before damping.  A
        tolerance of 0 asks for every sweep.
        """
        soft = reduce is torch.logsumexp and SoftSweep.suits(field)
        sweep = SoftSweep.of(field) if soft else LogSweep(field, reduce)
        messages = sweep.encode(field.start(start))
        near, keep = max(self.tolerance, field.rounding()), self.damping
        residual, sweeps = (torch.inf if len(messages) else 0.0), 0
        while len(messages) and sweeps < self.max_sweeps:
            new = sweep(messages)
            # From -inf to -inf is no move; -inf in the old or the new message is -inf in the mean.
            moved = (new - messages).abs_().nan_to_num_(nan=0.0, posinf=torch.inf)
            residual = float(moved.max())
            new = new if keep == 0.0 else (new * (1.0 - keep)).add_(messages, alpha=keep)
            if self.schedule == "residual":
                new = torch.where(_residual_mask(sweep.blocks, moved, residual), new, messages)
            messages, sweeps = new, sweeps + 1
            if self.tolerance and residual <= near:
                break
        return FixedPoint(sweep.decode(messages), sweeps, residual, residual <= near)


def _surely_exact(graph: FactorGraph, rest: FixedPoint) -> bool:
    return rest.converged and rest.residual <= EXACT_RESIDUAL and graph.planned(is_forest)


def _residual_mask(
    blocks: Blocks, moved: Float[Tensor, " q"], largest: float
) -> Bool[Tensor, " q"]:
    """Which entries belong to messages that moved nearly as far as the one that moved most."""
    urgent = []
    for block in (block for axes in blocks.split(moved) for block in axes if len(block)):
        message = block.amax(0, keepdim=True) >= RESIDUAL_SHARE * largest
        urgent.append(message.expand_as(block).reshape(-1))
    return torch.cat(urgent)
