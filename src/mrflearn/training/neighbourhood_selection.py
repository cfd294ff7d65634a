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
from mrflearn.objectives.conditionals import NodeRegressions, Point
from mrflearn.training.newton import shrinkage

Selected = Bool[Tensor, "v v"]  # the neighbours (rows) that each variable selects
RATIO = 0.01  # of the least regularisation strength that is tried to the largest
CELLS = 1 << 20  # rows x regressions handled at once; bounds memory, changes no result
FURTHER = 4  # strengths below those that all rows prefer, at which resamples are looked at
DTYPE = torch.float32  # enough to tell which tables are zero; a path is half as long a wait
SLACK = 2e-6  # in shares of a value, by which rounding may make it look larger
NEVER = 1e9  # the penalty of an edge that is forbidden, in strengths
MOST_STEPS = 200
INNER = 10  # steps in the metric of the rows, for one look at the rows
STILL = 1e-3  # of a parameter, in nats
MOST_CURVATURE = 1 << 24  # numbers, of all variables at all strengths


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
    penalties: Float[Tensor, "v v"] | None = None,
) -> Neighbours:
    """The edges between variables of these numbers of states; a state of -1 is a missing value.

    The `path` of regularisation strengths goes from the least that leaves no edge down to `RATIO`
    of it; `gamma` is that of EBIC.  By `combine="and"` an edge is selected where both of its
    variables select it, by "or" where at least one does.  `seed` acts on missing values only.
    `penalties` are those of all pairs in units of the strength (1): 0 for edges that are there
    whatever the samples say, `NEVER` for such that are not.
    """
    check_selection(combine, gamma, path)
    shares = path_shares(path)
    rows, weights = samples.states, samples.row_weights
    total = weights.sum().expand(len(sizes))
    if bool((rows < 0).any()):
        filled = Samples.distinct(filled_rows(rows, weights, seed), weights)
        found = _neighbours(filled, sizes, shares, 0.0, penalties)
        chosen, total = _from_incomplete(
            samples, sizes, shares, gamma, found | found.t(), penalties
        )
    else:
        chosen = _neighbours(samples, sizes, shares, gamma, penalties)
    return Neighbours(combined(chosen, combine).triu(1).nonzero(), total)


def check_selection(combine: str, gamma: float, path: int) -> None:
    """Raises `SettingsError` where a setting has no meaning."""
    if combine not in ("and", "or"):
        raise SettingsError(f"combine must be 'and' or 'or'; got {combine!r}.")
    if gamma < 0:
        raise SettingsError(f"gamma must be >= 0; got {gamma}.")
    if path < 2:
        raise SettingsError(f"the L1 path must have >= 2 strengths; got {path}.")


def path_shares(path: int) -> list[float]:
    """The strengths of a path in units of the first."""
    return [RATIO ** (step / (path - 1)) for step in range(path)]


def combined(chosen: Bool[Tensor, "*b v v"], combine: str) -> Bool[Tensor, "*b v v"]:
    """The edges that both of their variables select, or one of them."""
    other = chosen.transpose(-1, -2)
    return chosen & other if combine == "and" else chosen | other


def _from_incomplete(
    samples: Samples,
    sizes: Int[Tensor, " v"],
    shares: list[float],
    gamma: float,
    among: Selected,
    penalties: Float[Tensor, "v v"] | None,
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
            known = None if penalties is None else penalties[members][:, members]
            target = members.new_zeros(1)
            path = LassoPath.of(some, sizes[members], target, shares, gamma, len(sizes), known)
            own = path.selected(some.row_weights.unsqueeze(0))[0, :, 0]
            chosen[members[path.rows.predictors[own]], variable] = True
    return chosen, used


def _neighbours(
    samples: Samples,
    sizes: Int[Tensor, " v"],
    shares: list[float],
    gamma: float,
    penalties: Float[Tensor, "v v"] | None = None,
) -> Selected:
    """[k, j]: whether variable j selects k, at the strength that EBIC prefers for j."""
    paths = LassoPaths.of(samples, sizes, shares, gamma, penalties)
    return paths.selected(samples.row_weights.unsqueeze(0))[0]


class Warm(NamedTuple):
    """The solution at each strength under one weighting, and the curvature there."""

    point: Point
    metric: Metric | None


@final
@dataclass(frozen=True, eq=False)
class LassoPaths:
    """Group-lasso regressions of every variable on all others, at a path of strengths together.

    Variables of the same number of states are regressed together.
    """

    paths: tuple[LassoPath, ...]
    targets: tuple[Int[Tensor, " t"], ...]

    @classmethod
    def of(
        cls,
        samples: Samples,
        sizes: Int[Tensor, " v"],
        shares: list[float],
        gamma: float,
        penalties: Float[Tensor, "v v"] | None = None,
    ) -> LassoPaths:
        """The paths of the samples: from the least strength without any edge downwards."""
        count, whole = len(sizes), (samples, sizes)
        targets = tuple((sizes == size).nonzero().squeeze(1) for size in sizes.unique().tolist())
        paths = [LassoPath.of(*whole, own, shares, gamma, count, penalties) for own in targets]
        longest = max(paths, key=lambda own: float(own.strengths[0])).strengths
        return cls(tuple(replace(own, strengths=longest) for own in paths), targets)

    def warmed(self, weights: Float[Tensor, " n"]) -> LassoPaths:
        """The same for weightings like this one."""
        return replace(self, paths=tuple(own.warmed(weights) for own in self.paths))

    def selected(self, weights: Float[Tensor, "b n"]) -> Bool[Tensor, "b v v"]:
        """[k, j]: whether variable j selects k, under each weighting of the rows."""
        count = sum(map(len, self.targets))
        chosen = torch.zeros(len(weights), count, count, dtype=torch.bool, device=weights.device)
        for path, own in zip(self.paths, self.targets, strict=True):
            chosen[:, path.rows.predictors[:, None], own] = path.selected(weights)
        return chosen


@final
@dataclass(frozen=True, eq=False)
class LassoPath:
    """Group-lasso regressions of some variables on all others, at a path of strengths together.

    The curvature of a variable's loss is at most half the second moments of the coded rows
    [Boehning 1992], and mostly a smaller share of them.  A step of each regression minimises the
    model with that share, which grows where the loss did not fall; the model is minimised by
    accelerated proximal steps [Beck and Teboulle 2009] that never look at the rows.
    """

    rows: NodeRegressions
    strengths: Float[Tensor, " l"]
    cost: Float[Tensor, "v t"]  # of a pair's parameters, in EBIC: times log n, and the constant
    constant: float
    penalties: Float[Tensor, "v t"]  # of each pair, in strengths: 1, or by what is known before
    warm: Warm | None = None  # where searches under other weightings begin

    @classmethod
    def of(
        cls,
        samples: Samples,
        sizes: Int[Tensor, " v"],
        targets: Int[Tensor, " t"],
        shares: list[float],
        gamma: float,
        possible: int,
        penalties: Float[Tensor, "v v"] | None = None,
    ) -> LassoPath:
        """The path of the targets: from the least strength without any edge downwards.

        `possible`: how many variables there are, of which these may be some.  The axes of
        variables are in the order of `rows.predictors`.
        """
        sizes = sizes.clamp_min(2)  # a variable of one state never shows its second one
        rows = NodeRegressions.of_targets(samples.states, sizes, targets, "contrasts", DTYPE)
        order, free = rows.predictors, (sizes - 1).to(DTYPE)
        weights = (samples.row_weights / samples.total).to(DTYPE).unsqueeze(0)
        cost = torch.outer(free[order], free[targets])
        known = torch.ones_like(cost)
        known = known if penalties is None else penalties[order][:, targets].to(known)
        path = cls(rows, weights.new_zeros(0), cost, 0.0, known)
        found = rows.at(path._without_couplings(weights), weights)
        most = path._norms(found.gradient).squeeze(1)[known == 1].amax()
        strengths = most * torch.tensor(shares, dtype=most.dtype, device=most.device)
        constant = 2 * gamma * math.log(max(2, possible - 1))
        return cls(rows, strengths, cost, constant, known)

    def warmed(self, weights: Float[Tensor, " n"]) -> LassoPath:
        """The same for weightings like this one, at whose regressions the searches begin.

        Strengths far below all that EBIC prefers here are left out.
        """
        weights = weights.to(DTYPE)
        many = (weights / weights.sum()).expand(len(self.strengths), -1)
        point, losses = self._solve(many, self.strengths, None)
        active = (self._norms(point) > 0).transpose(0, 1)
        found = self._criterion(losses.unsqueeze(0), active.unsqueeze(0), weights.sum().view(1, 1))
        end = int(found.argmin(dim=1).max()) + 1 + FURTHER
        point, many, metric = point[:, :end], many[:end], None
        if end * len(self.rows.sizes) * self.rows.columns.shape[1] ** 2 <= MOST_CURVATURE:
            metric = Metric.at(self.rows, self.rows.at(point, many).expected, many)
        return replace(self, strengths=self.strengths[:end], warm=Warm(point, metric))

    def _criterion(
        self, losses: Float[Tensor, "b l t"], active: Bool[Tensor, "b l v t"], total: Tensor
    ) -> Float[Tensor, "b l t"]:
        """EBIC of each target at each strength."""
        cost = self.cost * total.log().view(-1, 1, 1, 1) + self.constant
        return 2 * total.unsqueeze(2) * losses + (active * cost).sum(dim=2)

    def selected(self, weights: Float[Tensor, "b n"]) -> Bool[Tensor, "b v t"]:
        """[k, j]: whether target j selects predictor k, under each weighting of the rows."""
        weights = weights.to(DTYPE)
        cells = len(self.rows.states) * self.rows.own.shape[1] * len(self.strengths)
        parts = weights.split(max(1, CELLS // max(1, cells)))
        return torch.cat([self._selected(part) for part in parts])

    def _selected(self, weights: Float[Tensor, "b n"]) -> Bool[Tensor, "b v t"]:
        total = weights.sum(dim=1, keepdim=True)
        count, size = len(weights), len(self.rows.sizes)
        variables = len(self.rows.predictors)
        share = weights / total
        losses, active, last = [], [], None
        # A few strengths at a time where the rows are many, each few from where the last ones end.
        cells = len(self.rows.states) * self.rows.own.shape[1] * count
        for some in torch.arange(len(self.strengths)).split(max(1, CELLS // max(1, cells))):
            many = share.repeat_interleave(len(some), dim=0)
            begin, metric = self.warm or (None, None)
            if begin is not None:
                begin = begin[:, some].repeat(1, count, 1)
            elif last is not None:
                begin = last.repeat_interleave(len(some), dim=1)
            metric = None if metric is None else metric.part(some.repeat(count))
            point, own = self._solve(many, self.strengths[some].repeat(count), begin, metric)
            last = point[:, len(some) - 1 :: len(some)]
            losses.append(own.view(count, -1, size))
            kept = (self._norms(point) > 0).permute(1, 0, 2)
            active.append(kept.view(count, -1, variables, size))
        loss, chosen = torch.cat(losses, dim=1), torch.cat(active, dim=1)
        best = self._criterion(loss, chosen, total).argmin(dim=1)
        index = best.view(count, 1, 1, size).expand(-1, 1, variables, -1)
        return chosen.gather(1, index).squeeze(1)

    def _norms(self, point: Point) -> Float[Tensor, "v b t"]:
        """The norm of each pair's table under each weighting."""
        tables = self.rows.tables(point[1:])
        return torch.cat([own.square().sum(dim=(1, 4)).sqrt() for own in tables])

    def _penalised(self, point: Point) -> Float[Tensor, "b t"]:
        """The penalties of each target's tables, in strengths."""
        return (self._norms(point) * self.penalties.unsqueeze(1)).sum(dim=0)

    def _without_couplings(self, weights: Float[Tensor, "b n"]) -> Point:
        """The best points where no variable has neighbours."""
        codes, states = self.rows.codes, self.rows.codes.shape[1]
        seen = torch.nn.functional.one_hot(self.rows.states, states).to(weights)
        shares = torch.einsum("bn,nvs->bvs", weights, seen)
        logs = (shares + 1e-6).log()
        # The codes of a variable are orthonormal, and orthogonal to a constant.
        fields = torch.einsum("bvs,vsr->bvr", logs, codes).flatten(1)
        point = fields.new_zeros(1 + len(self.rows.own), *fields.shape)
        point[0] = fields
        return point

    def _solve(
        self,
        weights: Float[Tensor, "b n"],
        strengths: Float[Tensor, " b"],
        begin: Point | None = None,
        metric: Metric | None = None,
    ) -> tuple[Point, Float[Tensor, "b t"]]:
        """The minima of loss + strength * norms, and the losses there."""
        rows, (count, _, numbers) = self.rows, self.rows.codes.shape
        here = self._without_couplings(weights) if begin is None else begin
        found, bound = rows.at(here, weights), metric is None
        metric = metric or Metric.of(rows, weights)
        share = here.new_full((len(weights), count), metric.first)
        if bound and rows.binary:  # at first the mean curvature, at most one half
            spread = found.expected * (1 - found.expected)
            share = 2 * torch.einsum("nbvs,bn->bv", spread, weights).clamp(0.01, 0.25)
        point, losses = here.clone(), found.losses.clone()
        left = torch.arange(len(weights), device=weights.device)
        value = found.losses + strengths.unsqueeze(1) * self._penalised(here)
        for _ in range(MOST_STEPS):
            trial = metric.minimum(rows, here, found.gradient, share, strengths, self.penalties)
            after = rows.at(trial, weights)
            reached = after.losses + strengths.unsqueeze(1) * self._penalised(trial)
            worse = ~(reached <= value + SLACK * value.abs())
            move = (trial - here).abs().amax(dim=0).view(len(left), count, numbers).amax(dim=2)
            wide = worse.repeat_interleave(numbers, dim=1)
            here = torch.where(wide, here, trial)
            # A share that is too small makes steps swing to and fro within rounding.
            lower = value - reached > SLACK * value.abs()
            share = share * torch.where(worse, 2.0, torch.where(lower, 0.9, 1.25))
            share = share.clamp(metric.least, metric.most)
            value = torch.where(worse, value, reached)
            lost = torch.where(worse, found.losses, after.losses)
            gradient = torch.where(wide, found.gradient, after.gradient)
            found = type(found)(lost, gradient, after.expected)
            going = ((move > STILL) & ~(worse & (share >= metric.most) & (move < 10 * STILL))).any(
                dim=1
            )
            if not bool(going.all()):
                done = ~going
                point[:, left[done]], losses[left[done]] = here[:, done], lost[done]
                left, here, weights = left[going], here[:, going], weights[going]
                strengths, value, share = strengths[going], value[going], share[going]
                found = type(found)(lost[going], gradient[:, going], after.expected[:, going])
                metric = metric.part(going)
            if not len(left):
                break
        point[:, left], losses[left] = here, found.losses
        return point, losses


@dataclass(frozen=True, eq=False)
class Metric:
    """Curvature of the losses of each target in all others, and steps short enough in it.

    It is that of the coded rows (weighted second moments about their means, the fields eliminated)
    times a `share` of each target.  One for all targets (w = 1) is twice an upper bound of the
    curvature; one for each (w = t), the curvature at a given point.
    """

    moments: Float[Tensor, "b w c c"]
    means: Float[Tensor, "b w c"]
    total: Float[Tensor, "b w"]  # the curvature in a field
    step: Float[Tensor, "b w c"]  # one for all columns of a variable
    first: float  # the share to begin with, and its bounds
    least: float
    most: float

    @classmethod
    def of(cls, rows: NodeRegressions, weights: Float[Tensor, "b n"]) -> Metric:
        """That of any point, under each weighting."""
        distinct, inverse = weights.unique(dim=0, return_inverse=True)
        found = cls._of(rows, distinct.unsqueeze(1), 0.5, 0.01, 0.55)
        return found.part(inverse)

    @classmethod
    def at(
        cls, rows: NodeRegressions, expected: Float[Tensor, "n b t s"], weights: Tensor
    ) -> Metric:
        """That of points at which the states are `expected`."""
        if rows.binary:
            spread = expected * (1 - expected) * (rows.codes[:, 1] - rows.codes[:, 0]).square()
            spread = spread.squeeze(3)
        else:  # the mean over the numbers of a variable
            second = torch.einsum("nbvs,vsr->nbv", expected, rows.codes.square())
            first = torch.einsum("nbvs,vsr->nbvr", expected, rows.codes).square().sum(dim=3)
            spread = (second - first) / (rows.sizes - 1)
        curved = (spread * weights.T.unsqueeze(2)).permute(1, 2, 0)
        return cls._of(rows, curved, 1.0, 0.5, 64.0)

    @classmethod
    def _of(cls, rows: NodeRegressions, weights: Float[Tensor, "b w n"], *shares: float) -> Metric:
        columns = rows.columns
        total = weights.sum(dim=2).clamp_min(1e-9)
        means = weights @ columns / total.unsqueeze(2)
        moments = torch.stack([(columns.T * own) @ columns for own in weights.flatten(0, 1)])
        moments = moments.view(*total.shape, *moments.shape[1:])
        moments -= total[..., None, None] * means.unsqueeze(3) * means.unsqueeze(2)
        sizes, end = [], 0
        for count, width in rows.widths:
            begin, end = end, end + count * width
            block = moments[..., begin:end, begin:end].view(*total.shape, *[count, width] * 2)
            block = block.diagonal(dim1=2, dim2=4).permute(0, 1, 4, 2, 3)
            most = torch.linalg.eigvalsh(block)[..., -1].clamp_min(1e-9)
            sizes.append(most.repeat_interleave(width, dim=2))
        size = torch.cat(sizes, dim=2)
        scaled = moments / (size.unsqueeze(3) * size.unsqueeze(2)).sqrt()
        most = torch.linalg.eigvalsh(scaled)[..., -1:].clamp_min(1.0)
        return cls(moments, means, total, 1 / (1.001 * most * size), *shares)

    def part(self, some: Tensor) -> Metric:
        """Of some weightings."""
        return replace(
            self,
            moments=self.moments[some],
            means=self.means[some],
            total=self.total[some],
            step=self.step[some],
        )

    def minimum(
        self,
        rows: NodeRegressions,
        here: Point,
        gradient: Point,
        share: Float[Tensor, "b t"],
        strengths: Float[Tensor, " b"],
        penalties: Float[Tensor, "v t"],
    ) -> Point:
        """Where gradient + share * curvature, with the penalty, is (nearly) least."""
        each, count = self.moments.shape[1], share.shape[1]
        numbers, size, own = here.shape[2] // count, len(rows.own), rows.own
        wide = share.repeat_interleave(numbers, dim=1)

        def spread(part: Float[Tensor, "b w c"]) -> Tensor:  # to columns x outcomes
            part = part if each == 1 else part.repeat_interleave(numbers, dim=1)
            return part.transpose(1, 2)

        def outcomes(point: Tensor) -> Float[Tensor, "bw c o"]:  # side by side, or by variable
            if each == 1:
                return point
            parts = point.view(len(point), size, count, numbers)
            return parts.permute(0, 2, 1, 3).reshape(-1, size, numbers)

        begin = here[1:].permute(1, 0, 2)
        means, step = spread(self.means), spread(self.step)
        # Fields move so that the mean scores stay; what is left is about centred columns.
        linear = (
            gradient[1:].permute(1, 0, 2) - means * gradient[0].unsqueeze(1)
        ) / wide.unsqueeze(1)
        linear = linear.masked_fill(own, 0.0)
        blocks = step[:, rows.first_columns, :: numbers if each > 1 else 1] / share.unsqueeze(1)
        threshold = (blocks * strengths.view(-1, 1, 1) * penalties).transpose(0, 1)
        limits = threshold.unsqueeze(1).unsqueeze(4).split([many for many, _ in rows.widths])
        moments = self.moments.flatten(0, 1)
        old = ahead = begin
        momentum = 1.0
        for _ in range(INNER):
            image = torch.bmm(moments, outcomes(ahead - begin))
            if each > 1:
                image = image.view(-1, count, size, numbers).permute(0, 2, 1, 3).reshape_as(begin)
            new = (ahead - step * (linear + image)).masked_fill(own, 0.0)
            for table, limit in zip(rows.tables(new.transpose(0, 1)), limits, strict=True):
                if table.shape[1] * numbers == 1:
                    norm = table.abs()
                else:
                    norm = table.square().sum(dim=(1, 4), keepdim=True).sqrt()
                table *= shrinkage(norm, limit)
            grown = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + (momentum - 1) / grown * (new - old)
            old, momentum = new, grown
        total = spread(self.total.unsqueeze(2)).squeeze(1)
        fields = here[0] - gradient[0] / (wide * total) - (means * (old - begin)).sum(dim=1)
        return torch.cat([fields.unsqueeze(0), old.permute(1, 0, 2)])


def filled_rows(
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
