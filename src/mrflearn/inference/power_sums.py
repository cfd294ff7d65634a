"""Weighted sums over a tree of mini-buckets, up and down: the bound, its beliefs, its gradient.

A mini-bucket with weight w sends (sum_x f^(1/w))^w over its own variable's copy.  Where the weights
of a variable's copies are positive and add up to one, Hoelder's inequality makes the product of all
roots an upper bound on Z; where one weight is positive and the others negative, a lower bound
[Liu and Ihler 2011].  All is done on logarithms.

Letters in shapes: n: mini-buckets of one batch, always the first axis; k: copies; c: components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.potentials import Potentials
from mrflearn.inference.clique_batches import CliqueBatch, Messages, Schedule
from mrflearn.kernels.table_algebra import ScaledTable, along_first


@dataclass(frozen=True, eq=False)
class Descent:
    """What the way back from the roots finds: beliefs, and each copy's conditional entropy.

    `factors` are beliefs of all factors, group by group; the gradient of the bound in a factor's
    table is its belief, and in a copy's weight its `entropy`.
    """

    variables: Float[Tensor, "k s"]
    factors: tuple[Float[Tensor, " f *shape"], ...]
    entropy: Float[Tensor, " k"]


@dataclass(frozen=True, eq=False)
class PowerSums:
    """The scores of a field of copies on a schedule."""

    schedule: Schedule
    potentials: Potentials
    packs: tuple[Float[Tensor, " n *sizes"], ...]

    @classmethod
    def of(cls, schedule: Schedule, potentials: Potentials) -> PowerSums:
        """The packs of all factors' scores."""
        packs = tuple(own.scores(potentials) for own in schedule.packs)
        return cls(schedule, potentials, packs)

    def ascend(self, weights: Float[Tensor, " k"]) -> tuple[Float[Tensor, " c"], Messages]:
        """The bound on log Z by component, and the messages of all batches to their parents."""
        graph, messages = self.potentials.graph, Messages()
        value = torch.zeros(graph.components, dtype=weights.dtype, device=weights.device)
        for batch in self.schedule.batches:
            table = self._table(batch, messages)
            weight = along_first(weights[batch.variables[0]], table)
            sent = torch.logsumexp(table.div_(weight), 1).mul_(weight.squeeze(1))
            top = sent.amax(tuple(range(1, sent.ndim))) if sent.ndim > 1 else sent
            value.index_add_(0, batch.component, top)
            scale = along_first(top.clamp(min=torch.finfo(top.dtype).min), sent)
            messages.append(ScaledTable(sent - scale, True, 0.0, top))
        return value, messages

    def descend(self, weights: Float[Tensor, " k"], messages: Messages) -> Descent:
        """Beliefs of all mini-buckets, from the roots down; the messages are used up."""
        graph, schedule = self.potentials.graph, self.schedule
        variables = weights.new_zeros(graph.variables, graph.most_states)
        factors = tuple(
            weights.new_zeros(len(group), *table.shape[1:])
            for group, table in zip(graph.groups, self.potentials.tables, strict=True)
        )
        entropy = torch.zeros_like(weights)
        beliefs = [torch.empty_like(pack) for pack in self.packs]
        down: Messages = [None] * schedule.downs
        for b in reversed(range(len(schedule.batches))):
            batch, messages[b] = schedule.batches[b], None
            table = self._table(batch, messages)
            weight = along_first(weights[batch.variables[0]], table)
            # Without any possible state there is no belief at all.
            given = torch.log_softmax(table.div_(weight), 1).nan_to_num_(nan=-torch.inf)
            belief = given.exp()
            if batch.above is not None:
                belief *= batch.above.gather(down).values.unsqueeze(1)
            surprise = torch.where(belief > 0, belief * given, 0.0)
            entropy[batch.variables[0]] = -surprise.flatten(1).sum(1)
            for form, start, axes in batch.packs:
                beliefs[form].narrow(0, start, len(batch)).copy_(_onto(belief, axes))
            for child, (axes, _) in enumerate(batch.children):
                own = _onto(belief, axes)
                down[batch.down + child] = ScaledTable(own, False, 0.0, own)
            for stack in batch.release:
                down[stack] = None
        for own_packs, belief in zip(schedule.packs, beliefs, strict=True):
            own_packs.deliver(belief, variables, factors)
        return Descent(variables, factors, entropy)

    def _table(self, batch: CliqueBatch, messages: Messages) -> Float[Tensor, " n *sizes"]:
        """The products of all that meets in the mini-buckets of a batch."""
        parts = [
            (self.packs[form].narrow(0, start, len(batch)), axes)
            for form, start, axes in batch.packs
        ]
        parts += [(where.gather(messages).values, axes) for axes, where in batch.children]
        parts.sort(key=lambda part: part[0].numel())
        arity = len(batch.sizes)
        views = [
            values[(slice(None), *(slice(None) if i in axes else None for i in range(arity)))]
            for values, axes in parts
        ]
        table = reduce(torch.add, views) if len(views) > 1 else views[0].clone()
        return table.expand(len(batch), *batch.sizes).contiguous()


def _onto(belief: Float[Tensor, " n *sizes"], axes: Sequence[int]) -> Tensor:
    """The marginals over some axes."""
    others = tuple(i for i in range(1, belief.ndim) if i - 1 not in axes)
    return belief.sum(others) if others else belief
