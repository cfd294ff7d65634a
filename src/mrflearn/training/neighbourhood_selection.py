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
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.features.observations import Samples
from mrflearn.kernels.potts_pseudolikelihood import CodedRows, potts_pseudolikelihood
from mrflearn.training.newton import shrinkage

Point = Float[Tensor, "1+c c"]  # fields, and couplings below them
Selected = Bool[Tensor, "v v"]  # the neighbours (rows) that each variable selects
RATIO = 0.01  # of the least regularisation strength that is tried to the largest
ROWS = 8192  # handled at once; bounds memory, changes no result


class Neighbours(NamedTuple):
    """Edges, first variable first, and the weight of the rows behind each variable's choice."""

    edges: Int[Tensor, "e 2"]
    weights: Float[Tensor, " v"]


def select_edges(
    samples: Samples,
    sizes: Int[Tensor, " v"],
    *,
    gamma: float = 0.25,
    path: int = 25,
    combine: Literal["and", "or"] = "and",
    seed: int = 0,
) -> Neighbours:
    """The edges between variables of these numbers of states; a state of -1 is a missing value.

    The `path` of regularisation strengths goes from the least that leaves no edge down to `RATIO`
    of it; `gamma` is that of EBIC.  By `combine="and"` an edge is selected where both of its
    variables select it, by "or" where at least one does.  `seed` acts on missing values only.
    """
    if combine not in ("and", "or"):
        raise SettingsError(f"combine must be 'and' or 'or'; got {combine!r}.")
    if gamma < 0:
        raise SettingsError(f"gamma must be >= 0; got {gamma}.")
    if path < 2:
        raise SettingsError(f"the L1 path must have >= 2 strengths; got {path}.")
    shares = [RATIO ** (step / (path - 1)) for step in range(path)]
    rows, weights = samples.states, samples.row_weights
    total = weights.sum().expand(len(sizes))
    if bool((rows < 0).any()):
        filled = Samples.distinct(_filled(rows, weights, seed), weights)
        found = _neighbours(filled, sizes, shares, 0.0, len(sizes))
        chosen, total = _from_incomplete(samples, sizes, shares, gamma, found | found.t())
    else:
        chosen = _neighbours(samples, sizes, shares, gamma, len(sizes))
    agreed = chosen & chosen.t() if combine == "and" else chosen | chosen.t()
    return Neighbours(agreed.triu(1).nonzero(), total)


def _from_incomplete(
    samples: Samples, sizes: Int[Tensor, " v"], shares: list[float], gamma: float, among: Selected
) -> tuple[Selected, Float[Tensor, " v"]]:
    """Which of its candidates each variable selects, and from rows of which weight."""
    rows, weights = samples.states, samples.row_weights
    chosen, used = torch.zeros_like(among), weights.new_zeros(len(sizes))
    for variable in range(len(sizes)):
        others = among[:, variable].nonzero().squeeze(1)
        members = torch.cat([others.new_tensor([variable]), others])
        seen = rows[:, members]
        complete = (seen >= 0).all(dim=1)
        used[variable] = weights[complete].sum()
        if len(others) and float(used[variable]) > 0:
            some = Samples.distinct(seen[complete], weights[complete])
            own = _neighbours(some, sizes[members], shares, gamma, len(sizes))
            chosen[others, variable] = own[1:, 0]
    return chosen, used


def _neighbours(
    samples: Samples, sizes: Int[Tensor, " v"], shares: list[float], gamma: float, possible: int
) -> Selected:
    """[k, j]: whether variable j selects k, at the strength that EBIC prefers for j.

    `possible`: how many variables there are, of which these may be some.
    """
    problem = Lasso.of(samples, int(sizes.max()))
    variables = len(sizes)
    point = problem.without_couplings()
    most = float(problem.pair_norms(problem.losses(point)[1]).max())
    best = torch.full((variables,), torch.inf, dtype=torch.float64, device=point.device)
    chosen = torch.zeros(variables, variables, dtype=torch.bool, device=best.device)
    free = (sizes - 1).double()
    cost = torch.outer(free, free) * math.log(problem.total)  # of the numbers that a pair has
    cost += 2 * gamma * math.log(max(2, possible - 1))
    for share in shares:
        point = problem.solve(point, most * share)
        active = problem.pair_norms(point) > 0
        criterion = 2 * problem.total * problem.losses(point)[0] + (active * cost).sum(dim=0)
        better = criterion < best
        best = torch.where(better, criterion, best)
        chosen[:, better] = active[:, better]
    return chosen


@final
@dataclass(frozen=True, eq=False)
class Lasso:
    """Group-lasso regressions of every variable on all others, solved together.

    A point is a matrix of c = v s columns, one for each state of each variable: its first row holds
    the fields, row 1 + (k, b) what variable k in state b adds to the scores.  One-hot columns are
    centred by their frequencies, so that fields and couplings do not pull against each other and
    one step length is good for all.
    """

    parts: tuple[tuple[CodedRows, Float[Tensor, " n"]], ...]
    frequencies: Float[Tensor, " c"]
    states: int
    total: float
    step: float

    @classmethod
    def of(cls, samples: Samples, states: int) -> Lasso:
        total = samples.total
        parts = tuple(
            (CodedRows.of(part.states, states), (part.row_weights / total).double())
            for part in samples.chunks(ROWS)
        )
        ones = sum(coded.transposed_times(w.unsqueeze(1)) for coded, w in parts)
        frequencies = torch.as_tensor(ones).view(-1)
        steepest = _largest_eigenvalue(parts, frequencies.unsqueeze(1))
        # The curvature of a log-sum-exp is at most one half.
        return cls(parts, frequencies, states, total, 2 / max(1.0, 1.05 * steepest))

    def without_couplings(self) -> Point:
        """The best point where no variable has neighbours."""
        couplings = self.frequencies.new_zeros(len(self.frequencies), len(self.frequencies))
        return torch.cat([(self.frequencies + 1e-9).log().unsqueeze(0), couplings])

    def pair_norms(self, point: Point) -> Float[Tensor, "v v"]:
        """The norm of each pair's table, zero for a variable with itself."""
        return self._tables(point).square().sum(dim=(1, 3)).sqrt().fill_diagonal_(0)

    def _tables(self, point: Point) -> Float[Tensor, "v s v s"]:
        """A view of the couplings by variables and states."""
        variables = point.shape[1] // self.states
        return point[1:].view(variables, self.states, variables, self.states)

    def losses(self, point: Point) -> tuple[Tensor, Point]:
        """The mean of -log p(variable | others) of each variable, and their sum's gradient."""
        fields = (point[0] - self.frequencies @ point[1:]).view(-1, self.states)
        couplings = self._tables(point)
        losses, by_fields, found = potts_pseudolikelihood(fields, couplings, *self.parts[0])
        for part in self.parts[1:]:
            more = potts_pseudolikelihood(fields, couplings, *part)
            losses, by_fields, found = losses + more[0], by_fields + more[1], found + more[2]
        found = found.view_as(point[1:]).addr_(self.frequencies, by_fields.view(-1), alpha=-1)
        return losses, torch.cat([by_fields.view(1, -1), found])

    def solve(
        self, start: Point, strength: float, most: int = 500, tolerance: float = 1e-5
    ) -> Point:
        """The minimum of loss + strength * norms, by accelerated proximal steps.

        [Beck and Teboulle 2009]
        Momentum starts again where it leads uphill [O'Donoghue and Candes 2015].
        """
        here, ahead, momentum = start, start, 1.0
        for _ in range(most):
            new = ahead - self.step * self.losses(ahead)[1]
            kept = shrinkage(self.pair_norms(new), self.step * strength)
            self._tables(new).mul_(kept[:, None, :, None])
            move = new - here
            uphill = float(((ahead - new) * move)[1:].sum()) > 0
            grown = 1.0 if uphill else (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            push = 0.0 if uphill else (momentum - 1) / grown
            ahead = new + push * move
            here, momentum = new, grown
            change = float(move[0].norm()) + float(move[1:].norm())
            if change <= tolerance * max(1.0, float(here[1:].norm())):
                break
        return here


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
    parts: tuple[tuple[CodedRows, Tensor], ...], mean: Float[Tensor, "c 1"]
) -> float:
    """Of the covariance of the one-hot columns, by power steps (from below, hence the margin)."""
    generator = torch.Generator().manual_seed(0)  # of a start that the result does not depend on
    vector = torch.rand(mean.shape, generator=generator, dtype=torch.float64).to(mean.device)
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
