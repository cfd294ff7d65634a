"""Annealed importance sampling: log Z with an error bar, of fields and of rings.

Chains go from infinite temperature, where all states are equally probable, to the field itself:
at inverse temperature b the density is exp(b score) [Neal 2001].  They run in independent groups.
Within a group chains of small weight are replaced by copies of heavy ones (an SMC sampler [Del
Moral, Doucet, Jasra 2006]); every group's estimate of Z is unbiased, and how far the groups'
estimates are apart measures the error.

A pilot run chooses the temperatures: the steps have equal variance of the log-weights, as many as
the spread of the pilot's groups calls for.  A fresh run on these fixed temperatures is the answer.

Positions K + 1 apart do not touch, so that a sweep is K + 1 draws of many words at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit
from torch import Tensor

from mrflearn.errors import AccuracyWarning, InferenceError, warn_user
from mrflearn.execution.resources import one_thread
from mrflearn.graph.lifted import WordPotentials
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Sampler, seeded
from mrflearn.inference.sampling import Conditionals, draw

# Annealed importance sampling: log Z with an error bar that covers, and weighted samples.


PILOT_STEP = 0.3  # standard deviation of a pilot step's log-weights
PILOT_STEPS = 1000  # at most; what is left then is one step
SPREAD = 0.3  # of the groups' log Z, in nats, that the final run aims at
REFINEMENTS = (2, 8)  # final steps for one of the pilot: at least, at most
MOST_TEMPERATURES = 2000
COLLAPSED = 2.0  # effective groups below which the estimate is not to be trusted


@dataclass(frozen=True, eq=False)
class AnnealedEstimate:
    """An estimate of log Z by component, its standard error, and the weighted chains behind it.

    Attributes
    ----------
    log_partition
        The log of the mean of the groups' estimates of Z, each of which is unbiased.
    standard_error
        Two of them are a 98 % interval, on the safe side of the usual 95 %: the spread of the
        groups by Student's t, and the gap between the log of their mean and the mean of their
        logs, by which few groups of uneven weight may be too low.  Infinite where all chains died
        out.
    effective_chains, effective_groups
        How many chains (groups) of equal weight the estimate is worth: 1 / sum of squared shares.
    reliable
        False where so few groups carry the weight that states of much larger weight may have been
        missed, or where groups died out in impossible states.
    temperatures
        How many steps the final run took.
    log_weights, states
        The chains: samples in proportion to exp(log_weights).

    """

    log_partition: Float[Tensor, " c"]
    standard_error: Float[Tensor, " c"]
    effective_chains: Float[Tensor, " c"]
    effective_groups: Float[Tensor, " c"]
    reliable: Bool[Tensor, " c"]
    temperatures: int
    log_weights: Float[Tensor, "c n"]
    states: Int[Tensor, "n v"]
    kind: Literal["approximation"] = "approximation"

    def warn(self) -> None:
        """An `AccuracyWarning` where the estimate is not reliable."""
        if bool(self.reliable.all()):
            return
        worst = int(torch.where(self.reliable, torch.inf, self.effective_groups).argmin())
        effective, chains = float(self.effective_chains[worst]), self.log_weights.shape[1]
        where = f" of component {worst}" if len(self.reliable) > 1 else ""
        warn_user(
            f"annealed importance sampling: log Z{where} rests on {effective:.1f} effective chains "
            f"of {chains}. It is uncertain by {float(self.standard_error[worst]):.3g} and may be "
            "too low. More chains or temperatures may help, or an exact method where one applies.",
            AccuracyWarning,
        )


@final
@dataclass(frozen=True)
class AnnealedImportance(Sampler):
    """Annealed importance sampling in independent groups of chains.

    Parameters
    ----------
    chains
        In all groups together; rounded up to a multiple of `groups`.
    groups
        Independent ones; their spread is the error bar.
    temperatures
        How many steps to take; None lets a pilot run choose from the field's own variance.

    """

    chains: int = 256
    groups: int = 16
    temperatures: int | None = None

    def __post_init__(self) -> None:
        steps = 1 if self.temperatures is None else self.temperatures
        if self.groups < 2 or self.chains < self.groups or steps < 1:
            raise InferenceError(
                f"chains={self.chains}, groups={self.groups}, temperatures={self.temperatures}: an "
                "error bar needs at least 2 groups of at least 1 chain, and the path 1 step."
            )

    @one_thread()
    def estimate(
        self, potentials: Potentials, generator: torch.Generator | None = None, *, seed: int = 0
    ) -> AnnealedEstimate:
        """log Z with its standard error; -inf, of infinite error, where every chain dies out.

        Chains are drawn by the generator or, where none is given, by the seed.  An
        `AccuracyWarning` is given where the weights collapse.
        """
        found = self._estimate(potentials, seeded(generator, seed, potentials.graph.device))
        found.warn()
        return found

    def _estimate(self, potentials: Potentials, generator: torch.Generator) -> AnnealedEstimate:
        potentials.check_numbers()
        found = self.anneal(Conditionals.of(potentials), generator)
        return replace(found, states=found.states.T.contiguous())

    @torch.no_grad()
    def anneal(self, field: Conditionals | _Ring, generator: torch.Generator) -> AnnealedEstimate:
        """The same for anything that can be annealed, without a warning."""
        each = -(-self.chains // self.groups)
        pilot = _Run(field, self.groups, each, generator)
        schedule = pilot.equal_steps()
        count = self.temperatures
        if count is None:
            # The variance of a group's log Z is inversely proportional to the number of steps.
            wanted = float(_spread(pilot.group_values()).max()) / SPREAD
            low, high = REFINEMENTS
            count = round((len(schedule) - 1) * min(max(wanted**2, low), high))
            count = max(1, min(count, MOST_TEMPERATURES))
        final = _Run(field, self.groups, each, generator)
        places = np.linspace(0, len(schedule) - 1, count + 1)
        final.follow(np.interp(places, np.arange(len(schedule)), schedule).tolist()[1:])
        return _summary(final, count)

    @one_thread()
    def _sample(self, potentials: Potentials, count: int, generator: torch.Generator) -> Tensor:
        """`count` draws from the ends of at least so many chains, in proportion to weight."""
        chains = max(self.chains, count)
        found = replace(self, chains=chains)._estimate(potentials, generator)
        lost = found.log_partition == -torch.inf
        if bool(lost.any()):
            raise InferenceError(
                f"component {int(lost.nonzero()[0])}: all {chains} chains ended in impossible "
                "states. Try more chains; there may be no possible state, which JunctionTree() "
                "decides where the width allows."
            )
        found.warn()
        weights = torch.softmax(found.log_weights, dim=1)
        source = torch.multinomial(weights, count, replacement=True, generator=generator)
        return found.states.T.gather(1, source[potentials.graph.component]).T


class _Run:
    """Groups of weighted chains on their way down.  Letters: g: groups; m: chains of one."""

    def __init__(
        self, field: Conditionals | _Ring, groups: int, each: int, generator: torch.Generator
    ) -> None:
        self.field, self.generator = field, generator
        self.states = field.start(groups * each, generator, 0.0)
        start = field.log_states.double()
        # Of every chain: its weight since its group was last resampled, and log Z until then.
        self.log_weights = start.new_zeros(len(start), groups, each)
        self.resampled = start.unsqueeze(1).expand(-1, groups)
        self.inverse = 0.0

    def follow(self, schedule: Sequence[float]) -> None:
        """Steps to these inverse temperatures."""
        for inverse in schedule:
            self._step(inverse, self._scores())

    def equal_steps(self) -> list[float]:
        """Steps of equal variance down to temperature 1, and the inverse temperatures they met."""
        schedule = [0.0]
        while self.inverse < 1:
            scores = self._scores()
            step = PILOT_STEP / max(self._deviation(scores), 1e-12)
            last = len(schedule) == PILOT_STEPS or self.inverse + step >= 1
            self._step(1.0 if last else self.inverse + step, scores)
            schedule.append(self.inverse)
        return schedule

    def group_values(self) -> Float[Tensor, "c g"]:
        """Every group's estimate of log Z."""
        return self.resampled + _log_mean(self.log_weights)

    def _scores(self) -> Float[Tensor, "c g m"]:
        return self.field.score(self.states).double().view(self.log_weights.shape)

    def _deviation(self, scores: Float[Tensor, "c g m"]) -> float:
        """The standard deviation of the scores of weighted, possible chains: the largest."""
        alive = (scores > -torch.inf) & (self.log_weights > -torch.inf)
        weights = self.log_weights.masked_fill(~alive, -torch.inf).flatten(1).softmax(1)
        weights, values = weights.nan_to_num(), scores.masked_fill(~alive, 0.0).flatten(1)
        centre = (weights * values).sum(1, keepdim=True)
        return math.sqrt(float((weights * (values - centre).square()).sum(1).max()))

    def _step(self, inverse: float, scores: Float[Tensor, "c g m"]) -> None:
        # [Neal 2001, eq. 7]: the ratio of two neighbouring densities, at the state before.
        self.log_weights = self.log_weights + (inverse - self.inverse) * scores
        self.inverse = inverse
        shares = self.log_weights.softmax(2)
        each = shares.shape[2]
        uneven = shares.square().sum(2) * each > 2  # false, too, where a whole group died (NaN)
        if inverse < 1 and bool(uneven.any()):
            self._resample(uneven, shares.nan_to_num())
        self.field.sweep(self.states, self.generator, inverse)

    def _resample(self, groups: Bool[Tensor, "c g"], shares: Float[Tensor, "c g m"]) -> None:
        """Systematic resampling within these groups."""
        each, place = shares.shape[2], torch.arange(shares.shape[2], device=shares.device)
        offset = torch.empty_like(shares[..., :1]).uniform_(generator=self.generator)
        edges = shares.cumsum(2)
        # Relative to the sum as rounded, and below it, so that no empty share is met.
        marks = (place + offset) / each * edges[..., -1:] * (1 - 1e-14)
        chosen = torch.where(
            groups.unsqueeze(2), torch.searchsorted(edges, marks, right=True), place
        )
        first = torch.arange(groups.shape[1], device=shares.device).unsqueeze(1) * each
        self.states = self.field.select(self.states, (first + chosen).flatten(1))
        self.resampled = torch.where(groups, self.group_values(), self.resampled)
        self.log_weights = self.log_weights.masked_fill(groups.unsqueeze(2), 0.0)


def _log_mean(values: Tensor) -> Tensor:
    """The log of the mean of exp(values) over the last dimension."""
    return values.logsumexp(-1) - math.log(values.shape[-1])


def _spread(values: Float[Tensor, "c g"]) -> Float[Tensor, " c"]:
    """The standard deviation over the groups that live; 0 where fewer than two do."""
    alive = values > -torch.inf
    count = alive.sum(1)
    values = values.masked_fill(~alive, 0.0)
    apart = (values - (values.sum(1) / count).unsqueeze(1)).masked_fill(~alive, 0.0)
    return (apart.square().sum(1) / (count - 1).clamp(min=1)).nan_to_num().sqrt()


def _summary(run: _Run, temperatures: int) -> AnnealedEstimate:
    """The estimate from the groups, and the error bar from their spread."""
    values = run.group_values()
    groups = values.shape[1]
    log_partition, alive = _log_mean(values), values > -torch.inf
    living = alive.sum(1).double()
    spread, effective = _spread(values), 1 / values.softmax(1).square().sum(1)
    mean = values.masked_fill(~alive, 0.0).sum(1) / living
    gap = log_partition - (living / groups).log() - mean
    # Student's t for as many groups; groups that died out add the variance of their share.
    student = float(stdtrit(groups - 1, 0.99)) / 2
    variance = student**2 * spread.square() / living + (groups / living - 1) / groups
    dead = living == 0
    log_weights = (run.resampled.unsqueeze(2) + run.log_weights).flatten(1)
    chains = 1 / log_weights.softmax(1).square().sum(1)
    return AnnealedEstimate(
        log_partition,
        torch.where(dead, torch.inf, (variance + gap.square()).sqrt()),
        torch.where(dead, 0.0, chains),
        torch.where(dead, 0.0, effective),
        (living == groups) & (effective >= min(COLLAPSED, groups / 2)),
        temperatures,
        log_weights,
        run.states,
    )


# log Z of a ring by annealed importance sampling: for vocabularies too large to be exact.


ELEMENTS = 1 << 25  # of the conditional probabilities held at once; bounds memory only


def annealed_ring(
    scores: WordPotentials,
    generator: torch.Generator,
    *,
    positions: int = 48,
    method: AnnealedImportance | None = None,
) -> AnnealedEstimate:
    """log Z / N and its error from a ring of at least so many positions, N = `states.shape[1]`.

    A ring of a few dozen positions stands for any longer one: words that far apart know nothing of
    each other.  An `AccuracyWarning` is given where the weights collapse.
    """
    period = scores.offsets + 1
    positions = max(2 * period, -(-positions // period) * period)
    method = AnnealedImportance() if method is None else method
    found = method.anneal(_Ring(scores, positions), generator)
    found.warn()
    return replace(
        found,
        log_partition=found.log_partition / positions,
        standard_error=found.standard_error / positions,
    )


@dataclass(frozen=True)
class _Ring:
    """A ring of words, to be annealed; one row of `states` per chain."""

    scores: WordPotentials
    positions: int

    @property
    def log_states(self) -> Float[Tensor, " 1"]:
        allowed = (self.scores.unary > -torch.inf).sum(0, keepdim=True)
        return self.positions * allowed.double().log()

    def start(self, chains: int, generator: torch.Generator, share: float) -> Int[Tensor, "n p"]:
        unary = self.scores.unary
        weight = (unary * share).masked_fill(unary == -torch.inf, -torch.inf).softmax(0)
        size = chains * self.positions
        words = torch.multinomial(weight, size, replacement=True, generator=generator)
        return words.view(chains, self.positions)

    def score(self, states: Int[Tensor, "n p"]) -> Float[Tensor, "1 n"]:
        around = torch.cat([states[:, -self.scores.offsets :], states], dim=1)
        return self.scores.position_scores(around).double().sum(1).unsqueeze(0)

    def sweep(self, states: Int[Tensor, "n p"], generator: torch.Generator, share: float) -> None:
        positions = states.shape[1]
        period = self.scores.offsets + 1
        distance = torch.arange(1, period, device=states.device)
        rows = max(1, ELEMENTS // (self.scores.states * math.ceil(positions / period)))
        for first in range(period):
            here = torch.arange(first, positions, period, device=states.device)
            for part in states.split(rows):
                before = part[:, (here.unsqueeze(1) - distance) % positions].flatten(0, 1)
                after = part[:, (here.unsqueeze(1) + distance) % positions].flatten(0, 1)
                scores = self.scores.conditional(before, after).double().T.mul(share)
                drawn = draw(scores.unsqueeze(1), part[:, here].view(1, -1), generator)
                part[:, here] = drawn.view(len(part), -1)

    def select(self, states: Int[Tensor, "n p"], source: Int[Tensor, "1 n"]) -> Int[Tensor, "n p"]:
        return states[source[0]]
