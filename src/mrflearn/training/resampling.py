"""Pseudolikelihood of pairwise fields under many weightings of the same rows, all fitted together.

A bootstrap, a subset of the cases or a permutation of groups is a weighting of the rows.  All are
fitted side by side by Newton's method, whose systems are solved by conjugate gradients with one
preconditioner: the curvature at the field of all rows.  No Hessian of a weighting is ever formed,
and one product with the rows serves all weightings.

The parameters are those of `TabularModel` in the reference gauge: fields of each variable, and a
table of (s - 1)^2 numbers for each edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.objectives.conditionals import Coding, NodeRegressions, Point

Vectors = Float[Tensor, "b p"]
CELLS = 1 << 21  # rows x columns x weightings handled at once; bounds memory, changes no result
MOST_STEPS = 50
MOST_PRODUCTS = 60  # of conjugate gradients
STILL = 1e-8  # half the square of the Newton decrement, in shares of a nat per unit of weight
LONGEST = 3.0  # nats; longer steps come from directions the data say nothing about
HALVINGS = 12


@final
@dataclass(frozen=True, eq=False)
class ResampledField:
    """A pairwise field over some edges, as a function of how its rows are weighted.

    `free` are the parameters that there are: numbers beyond a variable's own states are none.
    """

    rows: NodeRegressions
    edges: Int[Tensor, "e 2"]
    free: Bool[Tensor, " p"]
    l2: float = 0.0

    @classmethod
    def of(
        cls,
        states: Int[Tensor, "n v"],
        sizes: Int[Tensor, " v"],
        edges: Int[Tensor, "e 2"],
        l2: float = 0.0,
        coding: Coding = "reference",
    ) -> ResampledField:
        """The field of complete rows."""
        rows = NodeRegressions.of(states, sizes, coding)
        numbers = rows.codes.shape[2]
        real = torch.arange(numbers, device=states.device) < (sizes - 1).unsqueeze(1)
        first, second = edges.T
        pairs = real[first].unsqueeze(2) & real[second].unsqueeze(1)
        return cls(rows, edges, torch.cat([real.flatten(), pairs.flatten()]), l2)

    def point(self, vectors: Vectors) -> Point:
        """The parameters as those of the regressions."""
        count, _, numbers = self.rows.codes.shape
        columns, (first, second) = count * numbers, self.edges.T
        point = vectors.new_zeros(1 + columns, len(vectors), columns)
        point[0] = vectors[:, :columns]
        (tables,) = self.rows.tables(point[1:])
        pairs = vectors[:, columns:].view(-1, len(self.edges), numbers, numbers)
        tables[first, :, :, second, :] = pairs.permute(1, 2, 0, 3)
        tables[second, :, :, first, :] = pairs.permute(1, 3, 0, 2)
        return point

    def vectors(self, gradient: Point) -> Vectors:
        """The gradient by the parameters, each of which the regressions of two variables have."""
        columns, (first, second) = gradient.shape[2], self.edges.T
        (tables,) = self.rows.tables(gradient[1:])
        one = tables[first, :, :, second, :].permute(2, 0, 1, 3)
        other = tables[second, :, :, first, :].permute(2, 0, 3, 1)
        pairs = (one + other).flatten(1)
        return torch.cat([gradient[0].view(-1, columns), pairs], dim=1) * self.free

    def value(
        self, vectors: Vectors, weights: Float[Tensor, "b n"]
    ) -> tuple[Tensor, Vectors, Tensor]:
        """Penalised values, their gradients, and expected states."""
        found = self.rows.at(self.point(vectors), weights)
        value = found.losses.sum(dim=1) + self.l2 * vectors.square().sum(dim=1)
        gradient = self.vectors(found.gradient) + 2 * self.l2 * vectors
        return value, gradient, found.expected

    def curved(self, expected: Tensor, along: Vectors, weights: Float[Tensor, "b n"]) -> Vectors:
        """The Hessian times a direction."""
        found = self.rows.curved(expected, self.point(along), weights)
        return self.vectors(found) + 2 * self.l2 * along

    def curvature(
        self, vector: Float[Tensor, " p"], weights: Float[Tensor, " n"]
    ) -> Float[Tensor, "p p"]:
        """The Hessian at one point, a unit for what is no parameter."""
        expected = self.value(vector.unsqueeze(0), weights.unsqueeze(0))[2]
        unit = torch.eye(len(vector), dtype=vector.dtype, device=vector.device)
        columns = self.rows.columns.shape[1] * self.rows.codes.shape[1]
        width = max(1, CELLS // (len(weights) * columns))
        parts = [self.curved(expected, own, weights.unsqueeze(0)) for own in unit.split(width)]
        hessian = torch.cat(parts)
        hessian = (hessian + hessian.T) / 2
        return torch.where(self.free[:, None] & self.free, hessian, 0.0) + torch.diag(~self.free)

    def row_scores(self, vector: Float[Tensor, " p"]) -> Float[Tensor, "n p"]:
        """The gradient of each row alone, of weight 1, without the penalty."""
        rows = self.rows
        once = torch.ones(1, len(rows.states), dtype=vector.dtype, device=vector.device)
        expected = self.value(vector.unsqueeze(0), once)[2].squeeze(1)
        if rows.binary:
            gap = rows.codes[:, 1, 0] - rows.codes[:, 0, 0]
            push = (expected.squeeze(2) - rows.states) * gap
        else:
            seen = torch.nn.functional.one_hot(rows.states, rows.codes.shape[1])
            push = torch.einsum("nvs,vsr->nvr", expected - seen, rows.codes).flatten(1)
        numbers, (first, second) = rows.codes.shape[2], self.edges.T
        pushes = push.view(len(push), -1, numbers)
        columns = rows.columns.view(len(push), -1, numbers)
        one = torch.einsum("nea,neb->neab", columns[:, first], pushes[:, second])
        other = torch.einsum("nea,neb->neab", pushes[:, first], columns[:, second])
        return torch.cat([push, (one + other).flatten(1)], dim=1) * self.free

    def fit(
        self,
        weights: Float[Tensor, "b n"],
        start: Float[Tensor, " p"] | None = None,
        among: Bool[Tensor, "b e"] | None = None,
    ) -> tuple[Vectors, Bool[Tensor, " b"]]:
        """The parameters under each weighting, and which of the searches converged.

        `start` are the parameters of all rows.  `among`: the edges that each field has.
        """
        width = max(1, CELLS // self.rows.columns.numel())
        begin = self.free.new_zeros(len(self.free), dtype=torch.float64) if start is None else start
        hessian = self.curvature(begin, weights.mean(dim=0))
        ridge = 1e-6 * hessian.diagonal().mean()
        inverse = torch.linalg.inv(hessian + ridge * torch.eye(len(hessian), dtype=hessian.dtype))
        found = []
        for part in torch.arange(len(weights)).split(width):
            some = self.free.expand(len(part), -1)
            if among is not None:
                numbers = self.rows.codes.shape[2]
                pairs = among[part].repeat_interleave(numbers**2, dim=1)
                fields = pairs.new_ones(len(part), self.rows.columns.shape[1])
                some = some & torch.cat([fields, pairs], dim=1)
            found.append(self._newton(weights[part], begin * some, some, inverse))
        return torch.cat([own for own, _ in found]), torch.cat([done for _, done in found])

    def _newton(
        self, weights: Tensor, here: Vectors, some: Tensor, inverse: Float[Tensor, "p p"]
    ) -> tuple[Vectors, Bool[Tensor, " b"]]:
        total = weights.sum(dim=1)
        fitted, converged = here.clone(), torch.zeros(len(here), dtype=torch.bool)
        left = torch.arange(len(here))
        value, gradient, expected = self.value(here, weights)
        for _ in range(MOST_STEPS):
            gradient = gradient * some
            step = self._conjugate(expected, -gradient, weights, some, inverse)
            derivative = (gradient * step).sum(dim=1)
            done = -derivative / 2 <= STILL * total
            step = step * (LONGEST / step.abs().amax(dim=1).clamp_min(LONGEST)).unsqueeze(1)
            here, (value, gradient, expected) = self._along(here, step, value, derivative, weights)
            fitted[left], converged[left] = here, done
            going = ~done
            if not bool(going.any()):
                break
            left, here, weights, some = left[going], here[going], weights[going], some[going]
            total, value, gradient = total[going], value[going], gradient[going]
            expected = expected[:, going]
        return fitted, converged

    def _along(
        self, here: Vectors, step: Vectors, value: Tensor, derivative: Tensor, weights: Tensor
    ) -> tuple[Vectors, tuple[Tensor, Vectors, Tensor]]:
        """Steps that make every value less: halved until they do."""
        length = torch.ones_like(value)
        slack = 1e-12 * value.abs()
        for _ in range(HALVINGS):
            moved = here + length.unsqueeze(1) * step
            after = self.value(moved, weights)
            worse = ~(after[0] <= value + 1e-4 * length * derivative + slack)
            if not bool(worse.any()):
                break
            length = torch.where(worse, length / 2, length)
        return moved, after

    def _conjugate(
        self, expected: Tensor, target: Vectors, weights: Tensor, some: Tensor, inverse: Tensor
    ) -> Vectors:
        """The solution of Hessian x = target for each weighting [Hestenes and Stiefel 1952]."""
        found = torch.zeros_like(target)
        rest = target
        scaled = (rest @ inverse) * some
        along, product = scaled, (rest * scaled).sum(dim=1)
        begin = product.clone()
        for _ in range(MOST_PRODUCTS):
            image = self.curved(expected, along, weights) * some
            curvature = (along * image).sum(dim=1)
            length = torch.where(curvature > 0, product / curvature.clamp_min(1e-300), 0.0)
            found = found + length.unsqueeze(1) * along
            rest = rest - length.unsqueeze(1) * image
            scaled = (rest @ inverse) * some
            new = (rest * scaled).sum(dim=1)
            if bool((new <= 1e-4 * begin).all()):
                break
            along = scaled + (new / product.clamp_min(1e-300)).unsqueeze(1) * along
            product = new
        return found
