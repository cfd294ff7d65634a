"""The regressions of every variable on all others, for many weightings of the same rows at once.

Structure learning, resampling and standard errors ask the same rows again and again, under other
weights; here all weightings stand side by side, and a product with the rows serves all of them.

Letters in shapes: n rows; v variables; t of them, or all, that are regressed (targets); r = s - 1
numbers that code s states; c columns; o = t r outcomes; b weightings (or strengths, or directions).
A point is a (1 + c, b, o) tensor: its first row holds the fields, row 1 + (k, d) what number d of
variable k adds to each number of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Coding = Literal["reference", "contrasts"]
Point = Float[Tensor, "1+c b o"]


def state_codes(sizes: Int[Tensor, " v"], coding: Coding) -> Float[Tensor, "v s r"]:
    """The numbers that stand for each state of each variable; zeros beyond its own states.

    `"reference"`: one indicator for each state above 0, as in the reference gauge.  `"contrasts"`:
    orthonormal ones whose sum over states is zero, so that the norm of a block of parameters is
    that of its table in the zero-sum gauge.
    """
    most = int(sizes.max())
    codes = torch.zeros(len(sizes), most, most - 1, dtype=torch.float64, device=sizes.device)
    for size in sizes.unique().tolist():
        own = torch.eye(size, dtype=torch.float64, device=sizes.device)[:, 1:]
        if coding == "contrasts":  # Helmert's
            steps = torch.arange(1, size, dtype=torch.float64, device=sizes.device)
            below = torch.ones(size, size - 1, dtype=torch.float64, device=sizes.device).triu()
            own = (own * steps - below * (1 - own)) / (steps * (steps + 1)).sqrt()
        codes[sizes == size, :size, : size - 1] = own
    return codes


@dataclass(frozen=True, eq=False)
class RegressionLosses:
    """What a point gives: losses of each target, their gradient, and the states it expects."""

    losses: Float[Tensor, "b t"]
    gradient: Point
    expected: Float[Tensor, "n b t s"]


@dataclass(frozen=True, eq=False)
class NodeRegressions:
    """Rows with coded states, of which some variables, or every one, are regressed on all others.

    States, sizes and codes are those of the targets; `predictors` are the variables in the order of
    their columns, `widths` how many columns so many of them have in turn.
    """

    states: Int[Tensor, "n t"]
    sizes: Int[Tensor, " t"]
    codes: Float[Tensor, "t s r"]
    columns: Float[Tensor, "n c"]
    own: Bool[Tensor, "c o"]  # parameters of a variable with itself, which there are none of
    predictors: Int[Tensor, " v"]
    widths: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls,
        states: Int[Tensor, "n v"],
        sizes: Int[Tensor, " v"],
        coding: Coding,
        dtype: torch.dtype = torch.float64,
    ) -> NodeRegressions:
        """The regressions of all variables, each with as many columns as the widest needs."""
        codes = state_codes(sizes, coding).to(dtype)
        places = torch.arange(len(sizes), device=states.device)
        columns = codes[places, states.long()].flatten(1)
        variable = places.repeat_interleave(codes.shape[2])
        own, widths = variable[:, None] == variable, ((len(sizes), codes.shape[2]),)
        return cls(states.long(), sizes, codes, columns, own, places, widths)

    @classmethod
    def of_targets(
        cls,
        states: Int[Tensor, "n v"],
        sizes: Int[Tensor, " v"],
        targets: Int[Tensor, " t"],
        coding: Coding,
        dtype: torch.dtype = torch.float64,
    ) -> NodeRegressions:
        """The regressions of some variables; every variable has the columns that it needs."""
        rows = states.long()
        columns, predictors, widths = [], [], []
        for size in sizes.unique().tolist():
            some = (sizes == size).nonzero().squeeze(1)
            code = state_codes(sizes[some[:1]], coding)[0].to(dtype)
            columns.append(code[rows[:, some]].flatten(1))
            predictors.append(some)
            widths.append((len(some), size - 1))
        order = torch.cat(predictors)
        numbers = (sizes - 1)[order]
        codes = state_codes(sizes[targets], coding).to(dtype)
        own = order.repeat_interleave(numbers)[:, None] == targets.repeat_interleave(codes.shape[2])
        seen, found = rows[:, targets], torch.cat(columns, dim=1)
        return cls(seen, sizes[targets], codes, found, own, order, tuple(widths))

    @property
    def binary(self) -> bool:
        """Whether every target has two states."""
        return self.codes.shape[2] == 1

    def scores(self, point: Point) -> Float[Tensor, "n b o"]:
        """What all others say of each number of each target."""
        wide = self.columns @ point[1:].flatten(1)
        return wide.view(len(self.columns), *point.shape[1:]) + point[0]

    def at(self, point: Point, weights: Float[Tensor, "b n"]) -> RegressionLosses:
        """Mean losses -log p(variable | others) under each weighting, and their gradient."""
        rows, (count, states, numbers) = self.states, self.codes.shape
        scores, weight = self.scores(point), weights.T.unsqueeze(2)
        if self.binary:
            gap = self.codes[:, 1, 0] - self.codes[:, 0, 0]
            # Of what was seen: the odds of the other state.
            signed = rows.unsqueeze(1).to(scores.dtype) * -2.0 + 1.0
            other = (scores * (signed * gap)).sigmoid()
            losses = (1 - other).clamp_min(1e-30).log().neg()
            push = other * (signed * gap * weight)
            expected = torch.where(rows.unsqueeze(1) > 0, 1 - other, other)
            expected = expected.unsqueeze(3)
        else:
            wide = scores.view(*scores.shape[:2], count, numbers)
            odds = torch.einsum("nbvr,vsr->nbvs", wide, self.codes)
            beyond = torch.arange(states, device=rows.device) >= self.sizes.unsqueeze(1)
            odds = odds.masked_fill(beyond, -torch.inf)
            logs = odds.log_softmax(dim=3)
            index = rows[:, None, :, None].expand(*logs.shape[:3], 1)
            losses = -logs.gather(3, index).squeeze(3)
            expected = logs.exp()
            wrong = expected.scatter_add(3, index, -torch.ones_like(expected[..., :1]))
            push = torch.einsum("nbvs,vsr->nbvr", wrong, self.codes).flatten(2) * weight
        losses = torch.einsum("nbv,bn->bv", losses, weights)
        return RegressionLosses(losses, self._gathered(push), expected)

    def curved(
        self, expected: Float[Tensor, "n b t s"], along: Point, weights: Float[Tensor, "b n"]
    ) -> Point:
        """The Hessian of the sum of the losses times a direction."""
        moved, weight = self.scores(along), weights.T.unsqueeze(2)
        if self.binary:
            gap = self.codes[:, 1, 0] - self.codes[:, 0, 0]
            spread = (expected * (1 - expected)).squeeze(3) * gap**2
            return self._gathered(moved * spread * weight)
        wide = moved.view(*moved.shape[:2], *self.codes.shape[::2])
        odds = torch.einsum("nbvr,vsr->nbvs", wide, self.codes)
        change = expected * (odds - (expected * odds).sum(dim=3, keepdim=True))
        push = torch.einsum("nbvs,vsr->nbvr", change, self.codes).flatten(2)
        return self._gathered(push * weight)

    def _gathered(self, push: Float[Tensor, "n b o"]) -> Point:
        """What each row pushes, summed by the column of the others."""
        wide = (self.columns.T @ push.flatten(1)).view(-1, *push.shape[1:])
        wide = wide.masked_fill(self.own.unsqueeze(1), 0.0)
        return torch.cat([push.sum(dim=0, keepdim=True), wide])

    @property
    def first_columns(self) -> Int[Tensor, " v"]:
        """The first column of each predictor."""
        widths = [width for count, width in self.widths for _ in range(count)]
        return torch.tensor([0, *widths[:-1]], device=self.columns.device).cumsum(0)

    def tables(self, couplings: Float[Tensor, "c b o"]) -> list[Float[Tensor, "v_ w b t r"]]:
        """Views by predictors and their numbers, targets and theirs: one for each width."""
        many, targets = couplings.shape[1], self.codes.shape[::2]
        parts = couplings.split([count * width for count, width in self.widths])
        pairs = zip(parts, self.widths, strict=True)
        return [own.view(*widths, many, *targets) for own, widths in pairs]
