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
from mrflearn.inference.beliefs import BeliefMethod, Beliefs, Decoding, Kind
from mrflearn.inference.decoding import follow_messages, iterated_conditional_modes
from mrflearn.inference.messages import (
    Field,
    Reduction,
    Shapes,
    is_forest,
    is_soft,
    joint,
    log_sweep,
    soft_sweep,
    split,
)
from mrflearn.inference.sampling import Conditionals, infeasible_components, with_feasible_states

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
    graph, total = potentials.graph, field.totals(rest.messages)
    inboxes = zip(field.tables, field.inboxes(rest.messages), strict=True)
    scores = dict(zip(field.wiring.senders, (joint(*own) for own in inboxes), strict=True))
    value, impossible = _value(field, total, scores)
    if kind != "exact" and field.floor is not None and not bool(impossible.all()):
        # Messages may converge on cycles that no assignment satisfies.
        impossible |= infeasible_components(potentials, total.argmax(1))
    variables = torch.softmax(total, 1)
    variables[impossible[graph.component]] = 0.0
    factors = []
    for index, group in enumerate(graph.groups):
        if index in scores:
            flat = torch.softmax(scores[index].flatten(0, -2), 0)
            belief = flat.reshape(scores[index].shape).movedim(-1, 0)
            belief[impossible[graph.component_of(group)]] = 0.0
        elif len(group):  # a unary factor, whose belief is its variable's
            belief = variables[group.scope[:, 0], : potentials.tables[index].shape[1]]
        else:
            belief = variables.new_zeros(0, *potentials.tables[index].shape[1:])
        factors.append(belief)
    value = value.masked_fill(impossible, -torch.inf)
    ending = rest.sweeps, rest.residual, rest.converged
    return Beliefs(value, variables, tuple(factors), kind, *ending, warm=rest.messages)


def _value(
    field: Field, total: Float[Tensor, "v s"], scores: dict[int, Float[Tensor, "*shape f"]]
) -> tuple[Float[Tensor, " c"], Bool[Tensor, " c"]]:
    """The log-partition by component, where every sum is finite, and which have one that is not.

    These have a variable or a factor left without any possible state.
    """
    graph, log_z = field.graph, torch.logsumexp(total, 1)
    around, value = torch.ones_like(log_z), log_z.new_zeros(graph.components)
    impossible = torch.zeros_like(value, dtype=torch.bool)
    impossible[graph.component[log_z == -torch.inf]] = True
    rho = torch.ones_like(field.wiring.place, dtype=log_z.dtype)
    rhos = split(rho if field.appearance is None else field.appearance, field.wiring.shapes)
    for (index, score), blocks in zip(scores.items(), rhos, strict=True):
        group, rho = graph.groups[index], blocks[0][0]
        owner, log_zf = graph.component_of(group), torch.logsumexp(score.flatten(0, -2), 0)
        impossible[owner[log_zf == -torch.inf]] = True
        value.index_add_(0, owner, rho * log_zf)
        for variables in group.scope.T:
            around.index_add_(0, variables, -rho)
    # Where 1 - sum of rho is 0, log Z_v must not turn up as 0 times -inf.
    own = torch.where(around == 0, 0.0, around * log_z)
    return value.index_add(0, graph.component, own), impossible


# Loopy belief propagation: sum-product marginals and max-product decoding on any factor graph.


@final
@dataclass(frozen=True)
class BeliefPropagation(BeliefMethod):
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

    def _beliefs(self, potentials: Potentials, warm: Float[Tensor, " m"] | None) -> Beliefs:
        """Sum-product from uniform messages, or from those of earlier beliefs on the same graph."""
        field, rest = self._pass(potentials, warm, torch.logsumexp)
        kind: Kind = "exact" if _surely_exact(potentials.graph, rest) else "approximation"
        return beliefs_at(potentials, field, rest, kind)

    def best(self, potentials: Potentials) -> Decoding:
        """Max-product, decoded along a spanning forest, then iterated conditional modes (ICM)."""
        field, rest = self._pass(potentials, None, torch.amax)
        exact = _surely_exact(potentials.graph, rest)
        assignment = follow_messages(field, rest.messages)
        if not exact:
            conditionals = Conditionals.of(potentials)
            better = iterated_conditional_modes(conditionals, assignment)
            assignment = with_feasible_states(conditionals, better)
            if assignment is not better:
                assignment = iterated_conditional_modes(conditionals, assignment)
        score = potentials.score(assignment).detach()
        kind: Literal["exact", "approximation"] = "exact" if exact else "approximation"
        return Decoding(assignment, score, kind, rest.sweeps, rest.residual, rest.converged)

    @torch.no_grad()
    def _pass(
        self, potentials: Potentials, messages: Float[Tensor, " m"] | None, reduce: Reduction
    ) -> tuple[Field, FixedPoint]:
        potentials.check_numbers()
        field = Field.of(potentials)
        return field, self.fixed_point(field, messages, reduce)

    @one_thread()
    def fixed_point(
        self, field: Field, start: Float[Tensor, " m"] | None, reduce: Reduction
    ) -> FixedPoint:
        """The messages when the largest update is within the tolerance, or sweeps have run out.

        The residual is the largest change of a log-message in the last round, before damping.  A
        tolerance of 0 asks for every sweep.
        """
        soft = reduce is torch.logsumexp and is_soft(field)
        sweep = soft_sweep(field) if soft else log_sweep(field, reduce)
        messages = sweep.encode(field.start(start))
        near, hard = max(self.tolerance, field.rounding()), not soft and field.floor is not None
        residual, sweeps = (torch.inf if len(messages) else 0.0), 0
        while len(messages) and sweeps < self.max_sweeps:
            new = sweep.update(messages)
            step = new - messages
            if hard:  # from -inf to -inf is no step, and what is ruled out stays so
                step.nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
            lowest, highest = step.aminmax()
            residual = max(-float(lowest), float(highest))
            if self.damping:
                new = messages.add(step, alpha=1.0 - self.damping)
            if self.schedule == "residual":
                urgent = _residual_mask(sweep.shapes, step.abs_(), residual)
                new = torch.where(urgent, new, messages)
            messages, sweeps = new, sweeps + 1
            if self.tolerance and residual <= near:
                break
        return FixedPoint(sweep.decode(messages), sweeps, residual, residual <= near)


def _surely_exact(graph: FactorGraph, rest: FixedPoint) -> bool:
    return rest.converged and rest.residual <= EXACT_RESIDUAL and graph.planned(is_forest)


def _residual_mask(
    shapes: Shapes, moved: Float[Tensor, " q"], largest: float
) -> Bool[Tensor, " q"]:
    """Which entries belong to messages that moved nearly as far as the one that moved most."""
    urgent = []
    for block in (block for axes in split(moved, shapes) for block in axes if len(block)):
        message = block.amax(0, keepdim=True) >= RESIDUAL_SHARE * largest
        urgent.append(message.expand_as(block).reshape(-1))
    return torch.cat(urgent)
