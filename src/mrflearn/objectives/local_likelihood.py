"""Minus the sum of log p(free | given) over local problems: value and gradient, on all cores.

    value = sum over problems of log sum exp(scores) - score of the labels
    gradient = expected minus observed counts of every weight

Both differences are taken problem by problem, before anything is added up: most problems are all
but certain, and sums of scores, taken apart, would lose in float32 what is left to gain.

Letters in shapes: p: all weights of a model; n: problems of a block; l: cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.execution.threads import Threads
from mrflearn.models.loglinear import DENSE, SHARES, LogLinearField
from mrflearn.models.parameters import Layout
from mrflearn.models.slices import Incidence
from mrflearn.objectives.local_blocks import Block, Laid
from mrflearn.objectives.local_pools import Key

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False)
class LocalLikelihood:
    """The sum over all blocks as a function of the flat vector of weights."""

    model: LogLinearField  # templates and type count; its weights do not
    laid: Laid
    threads: Threads

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.model.parameters())

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, "p"]) -> tuple[Tensor, Tensor]:
        """Nats, summed over the weights of the problems; and the gradient."""
        model = self.model.with_parameters(self.layout.unflatten(vector))
        tables = {
            key: plan.weights.table(model.weights[key.group])
            for key, plan in self.laid.plans.items()
        }
        tables |= self._pools(model, tables)
        found = self.threads.map(
            lambda blocks: self._solve(model, tables, blocks), self._dealt(self.laid.blocks)
        )
        value = torch.zeros((), dtype=torch.float64)
        gradient = torch.zeros_like(self.laid.observed)
        for more, slopes in found:
            value = value + more
            gradient = gradient + slopes.gradient(self.laid, self.layout)
        for slope in self._back(model, tables, [slopes for _, slopes in found]):
            gradient = gradient + slope
        return value, gradient.to(vector.dtype)

    def _dealt(self, work: list[T]) -> list[list[T]]:
        """A share of the work for every core."""
        count = max(1, self.threads.count)
        return [own for start in range(count) if (own := work[start::count])]

    def _pools(self, model: LogLinearField, tables: dict[Key, Tensor]) -> dict[Key, Tensor]:
        """The scores of the rows that several problems read."""
        work = [(key, *own) for key, pool in self.laid.pools.items() for own in pool.blocks]
        held = {
            key.pooled(): torch.empty(len(pool.codes), pool.cells, dtype=model.dtype)
            for key, pool in self.laid.pools.items()
        }

        @torch.no_grad()
        def fill(task: tuple[Key, slice, Incidence]) -> None:
            key, rows, placed = task
            held[key.pooled()][rows] = placed.scores(
                model.weights[key.group], tables[key], model.dense[key.group]
            )

        self.threads.map(fill, work)
        return held

    @torch.no_grad()
    def _solve(
        self, model: LogLinearField, tables: dict[Key, Tensor], blocks: list[Block]
    ) -> tuple[Tensor, Slopes]:
        value = torch.zeros((), dtype=torch.float64)
        slopes = Slopes.zeros(model, tables)
        for block in blocks:
            scores = block_scores(model, tables, block)
            value += losses(scores, block)
            slopes.add(block, scores)
        return value, slopes

    def _back(
        self, model: LogLinearField, tables: dict[Key, Tensor], found: list[Slopes]
    ) -> list[Float[Tensor, "p"]]:
        """The gradients of what pools are made of."""
        if not self.laid.pools:
            return []
        total = {}
        for key in self.laid.pools:
            total[key], *others = (slopes.tables[key.pooled()] for slopes in found)
            for more in others:
                total[key] += more
        work = [(key, *own) for key, pool in self.laid.pools.items() for own in pool.blocks]

        @torch.no_grad()
        def carry(tasks: list[tuple[Key, slice, Incidence]]) -> Tensor:
            own = Slopes.zeros(model, {key: tables[key] for key in self.laid.plans})
            for key, rows, placed in tasks:
                at = (own.weights[key.group], own.tables[key], own.dense[key.group])
                placed.add_gradient(total[key][rows], *at)
            return own.gradient(self.laid, self.layout)

        return self.threads.map(carry, self._dealt(work))


@dataclass(frozen=True, eq=False)
class Slopes:
    """Gradients under way: of single weights and dense ones, and of the rows of each plan."""

    weights: tuple[Tensor, ...]
    dense: tuple[Tensor, ...]
    tables: dict[Key, Tensor]

    @classmethod
    def zeros(cls, model: LogLinearField, tables: dict[Key, Tensor]) -> Slopes:
        return cls(
            tuple(torch.zeros_like(own) for own in model.weights),
            tuple(torch.zeros_like(own) for own in model.dense),
            {key: torch.zeros_like(table) for key, table in tables.items()},
        )

    def add(self, block: Block, slopes: Float[Tensor, "n l"]) -> None:
        """Carries the slopes of a block's scores back to what they are made of."""
        shaped = slopes.view(-1, *block.shape)
        for source in block.sources:
            summed = [1 + axis for axis, size in enumerate(source.view) if size == 1]
            own = shaped.sum(dim=summed) if _partial(block, source.view) else shaped
            flat = own.reshape(len(slopes), -1)
            group = source.key[0]
            source.incidence.add_gradient(
                flat, self.weights[group], self.tables[source.key], self.dense[group]
            )

    def gradient(self, laid: Laid, layout: Layout) -> Float[Tensor, "p"]:
        """The gradients of all weights as one flat vector."""
        for key, own in laid.plans.items():
            plan, table = own.weights, self.tables[key]
            self.weights[key.group].index_add_(
                0, plan.wide, table.view(-1).index_select(0, plan.place)
            )
        named: dict[str, Tensor] = {}
        order = [name for name in layout.names if not name.endswith(DENSE) and name != SHARES]
        for name, weights, dense in zip(order, self.weights, self.dense, strict=True):
            named |= {name: weights, name + DENSE: dense}
        return torch.cat([named[name].flatten() for name in layout.names if name != SHARES])


def block_scores(
    model: LogLinearField, tables: dict[Key, Tensor], block: Block
) -> Float[Tensor, "n l"]:
    """The scores of every cell of a block's problems, in memory of their own."""
    total: Tensor | None = None
    for source in block.sources:
        group = source.key[0]
        own = source.incidence.scores(
            model.weights[group], tables[source.key], model.dense[group]
        ).view(-1, *source.view)
        if total is not None:
            total += own
        elif _partial(block, source.view):
            total = own.expand(-1, *block.shape).contiguous()
        else:
            total = own
    if total is None:  # variables without any factor: every state is as likely
        total = torch.zeros(block.count, *block.shape, dtype=model.dtype)
    return total.flatten(1)


def losses(scores: Float[Tensor, "n l"], block: Block) -> Float[Tensor, ""]:
    """The summed -log p of the known labels; the scores become the slopes, in place."""
    gold = block.gold
    scores -= scores.amax(dim=1, keepdim=True)
    reached = scores[gold.problem, gold.cell].double()
    total = scores.exp_().sum(dim=1)
    value = gold.times.double() @ (total.double().log()[gold.problem] - reached)
    if block.weight is not None:
        total = total / block.weight
    scores /= total[:, None]
    scores[gold.problem, gold.cell] -= gold.times
    return value


def _partial(block: Block, view: tuple[int, ...]) -> bool:
    return view != block.shape
