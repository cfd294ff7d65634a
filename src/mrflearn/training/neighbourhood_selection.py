"""Structure learning by L1-regularised regression of each variable on all others.

[Ravikumar, Wainwright and Lafferty 2010] for two states; for more, the penalty is on the norm of a
pair's whole table (group lasso).  The regularisation strength of each variable is chosen by the
extended Bayesian information criterion [Barber and Drton 2015, eq. 3.3], as in eLasso
[van Borkulo et al. 2014].

Where values are missing, candidates are found first, with every gap filled by a value drawn from
its column, and the criterion that prefers more neighbours (BIC, either of two variables); then each
variable is regressed on its candidates alone, from the rows in which all of these were observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.features.observations import Samples
from mrflearn.kernels.coded_rows import CodedRows

ROWS = 8192  # handled at once; bounds memory, changes no result


class Neighbours(NamedTuple):
    """Edges, first variable first, and the weight of the rows behind each variable's choice."""

    edges: Int[Tensor, "e 2"]
    weights: Float[Tensor, " v"]


class Regressions(NamedTuple):
    """All variables' regressions side by side: column (j, a) belongs to variable j."""

    fields: Float[Tensor, "v s"]
    couplings: Float[Tensor, "v s v s"]  # [k, b, j, a]: what k in state b adds to state a of j


@final
@dataclass(frozen=True)
class NeighbourhoodSelection:
    """`path` regularisation strengths, from the least that leaves no edge down to `ratio` of it.

    `gamma` is that of EBIC.  By `combine="and"` an edge is selected where both of its variables
    select it, by "or" where at least one does.  `seed` acts on missing values only.
    """

    gamma: float = 0.25
    path: int = 25
    ratio: float = 0.01
    combine: Literal["and", "or"] = "and"
    max_iterations: int = 500
    tolerance: float = 1e-5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.combine not in ("and", "or"):
            raise SettingsError(f"combine must be 'and' or 'or'; got {self.combine!r}.")
        if self.gamma < 0:
            raise SettingsError(f"gamma must be >= 0; got {self.gamma}.")
        if self.path < 2:
            raise SettingsError(f"the L1 path must have >= 2 strengths; got {self.path}.")
        if not 0 < self.ratio < 1:
            raise SettingsError(f"ratio must be between 0 and 1; got {self.ratio}.")

    def __call__(
        self, rows: Int[Tensor, "n v"], weights: Float[Tensor, " n"], sizes: Int[Tensor, " v"]
    ) -> Neighbours:
        """The edges, from rows of states; -1 is a missing value."""
        total = weights.sum().expand(len(sizes))
        if bool((rows < 0).any()):
            chosen, total = self._from_incomplete(rows, weights, sizes)
        else:
            chosen = self._neighbours(rows, weights, sizes, len(sizes))
        agreed = chosen & chosen.t() if self.combine == "and" else chosen | chosen.t()
        return Neighbours(agreed.triu(1).nonzero(), total)

    def _from_incomplete(
        self, rows: Int[Tensor, "n v"], weights: Float[Tensor, " n"], sizes: Int[Tensor, " v"]
    ) -> tuple[Bool[Tensor, "v v"], Float[Tensor, " v"]]:
        """Who has chosen whom, and from rows of which weight."""
        liberal = replace(self, gamma=0.0)
        filled = Samples.distinct(_filled(rows, weights, self.seed), weights)
        found = liberal._neighbours(filled.states, filled.weights, sizes, len(sizes))
        candidates = found | found.t()
        chosen, used = torch.zeros_like(candidates), weights.new_zeros(len(sizes))
        for variable in range(len(sizes)):
            others = candidates[:, variable].nonzero().squeeze(1)
            members = torch.cat([others.new_tensor([variable]), others])
            seen = rows[:, members]
            complete = (seen >= 0).all(dim=1)
            used[variable] = weights[complete].sum()
            if len(others) and float(used[variable]) > 0:
                some = Samples.distinct(seen[complete], weights[complete])
                own = self._neighbours(some.states, some.weights, sizes[members], len(sizes))
                chosen[others, variable] = own[1:, 0]
        return chosen, used

    def _neighbours(
        self,
        rows: Int[Tensor, "n v"],
        weights: Float[Tensor, " n"],
        sizes: Int[Tensor, " v"],
        possible: int,
    ) -> Bool[Tensor, "v v"]:
        """[k, j]: whether variable j has chosen k, at the strength that EBIC prefers for j.

        `possible`: how many variables there are, of which these may be some.
        """
        problem = Lasso.of(rows, weights, int(sizes.max()))
        variables = len(sizes)
        point = problem.without_couplings()
        most = float(problem.pair_norms(problem.slopes(point).couplings).max())
        best = torch.full((variables,), torch.inf, dtype=torch.float64, device=point.fields.device)
        chosen = torch.zeros(variables, variables, dtype=torch.bool, device=best.device)
        free = (sizes - 1).double()
        cost = torch.outer(free, free) * math.log(problem.total)  # of the numbers that a pair has
        cost += 2 * self.gamma * math.log(max(2, possible - 1))
        for step in range(self.path):
            strength = most * self.ratio ** (step / (self.path - 1))
            point = problem.solve(point, strength, self.max_iterations, self.tolerance)
            active = problem.pair_norms(point.couplings) > 0
            criterion = 2 * problem.total * problem.losses(point) + (active * cost).sum(dim=0)
            better = criterion < best
            best = torch.where(better, criterion, best)
            chosen[:, better] = active[:, better]
        return chosen


@final
@dataclass(frozen=True, eq=False)
class Lasso:
    """Group-lasso regressions of every variable on all others, solved together.

    One-hot columns are centred by their frequencies, so that fields and couplings do not pull
    against each other and one step length is good for all.
    """

    parts: tuple[tuple[CodedRows, Float[Tensor, " n"]], ...]
    frequencies: Float[Tensor, "v s"]
    total: float
    step: float

    @classmethod
    def of(cls, rows: Int[Tensor, "n v"], weights: Float[Tensor, " n"], states: int) -> Lasso:
        total = float(weights.sum())
        share = (weights / total).double()
        parts = tuple(
            (CodedRows.of(r, states), w)
            for r, w in zip(rows.split(ROWS), share.split(ROWS), strict=True)
        )
        ones = sum(coded.transposed_times(w.unsqueeze(1)) for coded, w in parts)
        frequencies = torch.as_tensor(ones).view(rows.shape[1], states)
        steepest = _largest_eigenvalue(parts, frequencies)
        # The curvature of a log-sum-exp is at most one half.
        return cls(parts, frequencies, total, 2 / max(1.0, 1.05 * steepest))

    def without_couplings(self) -> Regressions:
        """The best point where no variable has neighbours."""
        variables, states = self.frequencies.shape
        couplings = self.frequencies.new_zeros(variables, states, variables, states)
        return Regressions((self.frequencies + 1e-9).log(), couplings)

    def losses(self, point: Regressions) -> Float[Tensor, " v"]:
        """The mean of -log p(variable | others) for each variable."""
        return self._evaluate(point)[0]

    def slopes(self, point: Regressions) -> Regressions:
        """The gradients of these means."""
        return self._evaluate(point)[1]

    def pair_norms(self, couplings: Float[Tensor, "v s v s"]) -> Float[Tensor, "v v"]:
        """The norm of each pair's table, zero for a variable with itself."""
        return couplings.square().sum(dim=(1, 3)).sqrt().fill_diagonal_(0)

    def solve(
        self, start: Regressions, strength: float, most: int, tolerance: float
    ) -> Regressions:
        """The minimum of loss + strength * norms, by accelerated proximal steps.

        [Beck and Teboulle 2009]
        Momentum starts again where it leads uphill [O'Donoghue and Candes 2015].
        """
        here, ahead, momentum = start, start, 1.0
        for _ in range(most):
            slope = self.slopes(ahead)
            new = Regressions(
                ahead.fields - self.step * slope.fields,
                self._shrunk(ahead.couplings - self.step * slope.couplings, self.step * strength),
            )
            move = new.couplings - here.couplings
            uphill = float(((ahead.couplings - new.couplings) * move).sum()) > 0
            grown = 1.0 if uphill else (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            push = 0.0 if uphill else (momentum - 1) / grown
            ahead = Regressions(
                new.fields + push * (new.fields - here.fields), new.couplings + push * move
            )
            change = float(move.norm()) + float((new.fields - here.fields).norm())
            here, momentum = new, grown
            if change <= tolerance * max(1.0, float(here.couplings.norm())):
                break
        return here

    def _shrunk(self, couplings: Float[Tensor, "v s v s"], threshold: float) -> Tensor:
        """Each pair's table with its norm less by the threshold, or zero."""
        norms = self.pair_norms(couplings)
        share = (1 - threshold / norms.clamp_min(1e-300)).clamp_min(0) * (norms > 0)
        return couplings * share[:, None, :, None]

    def _evaluate(self, point: Regressions) -> tuple[Tensor, Regressions]:
        variables, states = self.frequencies.shape
        matrix = point.couplings.reshape(variables * states, -1)
        centre = self.frequencies.reshape(1, -1) @ matrix
        fields = (point.fields.reshape(1, -1) - centre).view(variables, states)
        losses = fields.new_zeros(variables)
        slope, couplings = torch.zeros_like(fields), torch.zeros_like(matrix)
        for coded, weights in self.parts:
            scores = coded.times(matrix).view(-1, variables, states) + fields
            seen = coded.one_hot(scores.dtype).view_as(scores)
            logs = scores.log_softmax(dim=-1)
            losses -= ((logs * seen).sum(dim=-1) * weights.unsqueeze(1)).sum(dim=0)
            wrong = (logs.exp() - seen) * weights.view(-1, 1, 1)
            slope += wrong.sum(dim=0)
            couplings += coded.transposed_times(wrong.view(len(wrong), -1))
        couplings -= self.frequencies.reshape(-1, 1) * slope.reshape(1, -1)
        return losses, Regressions(slope, couplings.view_as(point.couplings))


def _filled(
    rows: Int[Tensor, "n v"], weights: Float[Tensor, " n"], seed: int
) -> Int[Tensor, "n v"]:
    """Every missing value drawn from those observed in its column."""
    generator = torch.Generator(device=rows.device).manual_seed(seed)
    filled = rows.clone()
    for column in filled.unbind(dim=1):
        gap = column < 0
        if bool(gap.any()):
            steps = weights.masked_fill(gap, 0.0).cumsum(0)
            heights = torch.rand(int(gap.sum()), generator=generator, device=rows.device)
            drawn = torch.searchsorted(steps, heights.to(steps) * steps[-1], right=True)
            column[gap] = column[drawn.clamp_max(len(steps) - 1)]
    return filled


def _largest_eigenvalue(
    parts: tuple[tuple[CodedRows, Tensor], ...], frequencies: Float[Tensor, "v s"]
) -> float:
    """Of the covariance of the one-hot columns, by power steps (from below, hence the margin)."""
    generator = torch.Generator().manual_seed(0)  # of a start that the result does not depend on
    vector = torch.rand(frequencies.numel(), 1, generator=generator, dtype=torch.float64)
    vector = vector.to(frequencies.device)
    mean = frequencies.reshape(-1, 1)
    value = 1.0
    for _ in range(50):
        vector = vector / vector.norm().clamp_min(1e-300)
        image = torch.zeros_like(vector)
        for coded, weights in parts:
            seen = coded.times(vector) - mean.t() @ vector
            image += coded.transposed_times(weights.unsqueeze(1) * seen)
            image -= mean * (weights.unsqueeze(1) * seen).sum()
        value, vector = float(image.norm()), image
    return value
