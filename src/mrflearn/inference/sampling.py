"""Gibbs sampling, exact draws where elimination allows them, and diagnostics.

Variables that share no factor get one colour and are treated together.  Chains come last in every
tensor, so that gathers copy long contiguous rows.  Letters: n: chains; k: variables of one colour
(or factors around them); r: rows of a table, one for each setting of the other variables.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.stats import t as student_t
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.beliefs import Sampler, seeded
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.messages import real_links, wiring
from mrflearn.inference.spins import SpinSweeps
from mrflearn.kernels.compiled import Compiled, gibbs_loop

# Whether chains agree, and how many independent draws theirs are worth.


LEAST_DRAWS = 4  # of each chain


def split_r_hat(traces: Float[Tensor, "d n *x"]) -> Float[Tensor, "*x"]:
    """Potential scale reduction of d draws of n chains, each cut in two halves.

    [Gelman et al., Bayesian Data Analysis, eq. 11.4].  1 where nothing ever varies, infinite where
    chains differ and none of them moves.
    """
    half = len(traces) // 2
    if len(traces) < LEAST_DRAWS:
        raise InferenceError(
            f"R-hat needs at least {LEAST_DRAWS} draws of a chain, not {len(traces)}."
        )
    halves = torch.cat([traces[:half], traces[len(traces) - half :]], dim=1)
    within = halves.var(dim=0).mean(dim=0)
    between = halves.mean(dim=0).var(dim=0)
    ratio = torch.where(between > 0, between / within, 0.0)
    return ((half - 1) / half + ratio).sqrt().clamp(min=1.0)


def effective_draws(traces: Float[Tensor, "d n *x"]) -> Float[Tensor, "*x"]:
    """How many independent draws d draws of n chains are worth for estimating a mean.

    Autocorrelations are summed in pairs for as long as the pairs are positive, and not allowed to
    rise again [Geyer 1992, section 3.3]; n d where nothing ever varies.
    """
    draws, chains = traces.shape[:2]
    if draws < LEAST_DRAWS:
        raise InferenceError(
            f"effective draws need at least {LEAST_DRAWS} draws of a chain, not {draws}."
        )
    centred = traces - traces.mean(dim=0, keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * draws, dim=0)
    covariance = torch.fft.irfft(spectrum.abs().square(), n=2 * draws, dim=0)[:draws].mean(1)
    covariance = covariance / draws
    within = covariance[0] * draws / (draws - 1)
    between = traces.mean(dim=0).var(dim=0) if chains > 1 else torch.zeros_like(within)
    spread = covariance[0] + between
    correlation = 1 - (within - covariance) / spread
    pairs = correlation[: draws // 2 * 2].unflatten(0, (-1, 2)).sum(dim=1)
    positive = (pairs > 0).cumprod(dim=0)
    pairs = torch.where(positive > 0, pairs.cummin(dim=0).values, 0.0)
    worth = chains * draws / (2 * pairs.sum(dim=0) - 1).clamp(min=1 / draws)
    return torch.where(spread > 0, worth.clamp(max=float(chains * draws)), chains * draws)


# Scores of one variable's states given all others, for many variables and many chains at once.


States = Int[Tensor, "v n"]  # of all variables, in n chains
UPDATE_SECONDS = 8e-8  # about what tensor operations take to draw one variable of one chain


@dataclass(frozen=True, eq=False)
class Facet:
    """Factors of one group seen from one axis, whose variables there have one colour."""

    rows: Float[Tensor, "s r"]  # their tables, the axis first, all else in one row
    first: Int[Tensor, "k 1"]  # where the rows of each factor's table begin
    others: tuple[tuple[Int[Tensor, " k"], int, int], ...]  # variables, their states, and strides
    position: Int[Tensor, " k"]  # of the factor's variable in the colour
    axis: int

    def read(self, states: States) -> Float[Tensor, "s k n"]:
        """The scores of every state on this axis, the other variables being as they are."""
        row = self.first.expand(-1, states.shape[1])
        for variables, _, stride in self.others:
            row = row + stride * states[variables]
        values = self.rows.index_select(1, row.reshape(-1))
        return values.view(-1, *row.shape)

    def expect(self, single: Float[Tensor, "v s"]) -> Float[Tensor, "s k"]:
        """The mean scores where the other variables are independent; 0 times -inf is 0."""
        weight = single.new_ones(len(self.position), 1)
        for variables, states, _ in self.others:
            weight = (weight.unsqueeze(2) * single[variables, None, :states]).flatten(1)
        values = self.rows[:, self.first + torch.arange(weight.shape[1], device=weight.device)]
        return torch.where(weight == 0, 0.0, values * weight).sum(2)


@dataclass(frozen=True, eq=False)
class Colour:
    """Variables that share no factor, their unary scores, and the factors around them."""

    variables: Int[Tensor, " k"]
    bias: Float[Tensor, "s k 1"]  # -inf beyond a variable's own states
    facets: tuple[Facet, ...]

    def scores(
        self, states: States, share: float | Float[Tensor, " n"] = 1.0
    ) -> Float[Tensor, "s k n"]:
        """`share` times the scores of every state given all others."""
        total = self.bias.new_zeros(*self.bias.shape[:2], states.shape[1])
        for facet in self.facets:
            total[: len(facet.rows)].index_add_(1, facet.position, facet.read(states))
        return total.add_(self.bias).mul_(share)

    def expect(self, single: Float[Tensor, "v s"]) -> Float[Tensor, "s k"]:
        """The mean scores of every state where all variables are independent."""
        total = self.bias.squeeze(2).clone()
        for facet in self.facets:
            total[: len(facet.rows)].index_add_(1, facet.position, facet.expect(single))
        return total

    @cached_property
    def arrays(self) -> tuple[Tensor, ...]:
        """All tables end to end and, for every (variable, factor), where it reads: `gibbs_loop`."""
        width = 4 + 2 * max((len(facet.others) for facet in self.facets), default=0)
        entries, tables, start = [self.variables.new_zeros(0, width)], [self.bias.new_zeros(0)], 0
        for facet in self.facets:
            own = self.variables.new_zeros(len(facet.position), width)
            own[:, 0], own[:, 1] = facet.position, start + facet.first[:, 0]
            own[:, 2], own[:, 3] = facet.rows.shape[1], len(facet.rows)
            for i, (others, _, stride) in enumerate(facet.others):
                own[:, 4 + 2 * i], own[:, 5 + 2 * i] = others, stride
            entries.append(own)
            tables.append(facet.rows.reshape(-1))
            start += facet.rows.numel()
        every = torch.cat(entries)
        every = every[every[:, 0].argsort(stable=True)]
        number = torch.arange(len(self.variables) + 1)
        begin = torch.searchsorted(every[:, 0].contiguous(), number)
        bias, rest = self.bias.squeeze(2), every[:, 1:].contiguous()
        return self.variables, bias, torch.cat(tables), begin, rest


@dataclass(frozen=True, eq=False)
class Conditionals:
    """A field, arranged by colours."""

    potentials: Potentials
    bias: Float[Tensor, "v s"]
    colours: tuple[Colour, ...]
    compiled: Compiled = field(default_factory=lambda: Compiled(gibbs_loop))

    @classmethod
    def of(cls, potentials: Potentials) -> Conditionals:
        """The field's tables, arranged by the colours of its variables."""
        bias, number = potentials.unary_scores().detach(), potentials.graph.planned(colouring)
        colours = []
        for colour in number.unique():
            variables = (number == colour).nonzero().squeeze(1)
            own = bias[variables].T.unsqueeze(2).contiguous()
            colours.append(Colour(variables, own, _facets(potentials, variables)))
        return cls(potentials, bias, tuple(colours))

    @property
    def graph(self) -> FactorGraph:
        return self.potentials.graph

    def score(self, states: States) -> Float[Tensor, "c n"]:
        """The unnormalised log-probability of every chain's states by component, in float64."""
        size = self.graph.components, states.shape[1]
        total = self.bias.new_zeros(size, dtype=torch.float64)
        for group, table in zip(self.graph.groups, self.potentials.tables, strict=True):
            place = group.table.unsqueeze(1)
            for variables, count in zip(group.scope.T, table.shape[1:], strict=True):
                place = place * count + states.index_select(0, variables)
            scores = table.dense().detach().take(place).double()
            total.index_add_(0, self.graph.component_of(group), scores)
        return total

    @cached_property
    def spins(self) -> SpinSweeps | None:
        """The same for fields of two states and pairs, which are much faster."""
        return SpinSweeps.of(self.potentials, self.graph.planned(colouring))

    def sweep(
        self,
        states: States,
        generator: torch.Generator,
        share: float | Float[Tensor, " n"] = 1.0,
        times: int = 1,
    ) -> None:
        """Every variable of every chain drawn again, in place, colour by colour, so many times.

        Scores count with their `share`, which may be another one for each chain.
        """
        if self.spins is not None:
            self.spins.sweep(states, generator, share, times)
            return
        for _ in range(times):
            self._sweep(states, generator, share)

    def _sweep(
        self, states: States, generator: torch.Generator, share: float | Float[Tensor, " n"]
    ) -> None:
        one = not isinstance(share, Tensor) and not states.is_cuda
        fast = self.compiled.after(UPDATE_SECONDS * states.numel()) if one else None
        factors = self.bias.new_tensor([share if one else 1.0, _below_one(self.bias)])
        for colour in self.colours:
            if fast is None:
                scores = colour.scores(states, share)
                states[colour.variables] = draw(scores, states[colour.variables], generator)
            else:
                shape = len(colour.variables), states.shape[1]
                uniform = torch.rand(shape, generator=generator, dtype=self.bias.dtype)
                inputs = (*colour.arrays, factors, uniform)
                fast(states.numpy(), *(own.numpy() for own in inputs))

    @property
    def log_states(self) -> Float[Tensor, " c"]:
        """The log of the number of assignments that unary factors allow, by component."""
        allowed = (self.bias > -torch.inf).sum(dim=1).double().log()
        return allowed.new_zeros(self.graph.components).index_add_(0, self.graph.component, allowed)

    def select(self, states: States, source: Int[Tensor, "c n"]) -> States:
        """The states of other chains in place of some, component by component."""
        return states.gather(1, source[self.graph.component])

    def start(self, chains: int, generator: torch.Generator, share: float = 1.0) -> States:
        """States drawn from `share` times the unary scores alone; 0 where these allow none."""
        bias = (self.bias * share).masked_fill(self.bias == -torch.inf, -torch.inf)
        scores = bias.T.unsqueeze(2).expand(-1, -1, chains)
        zeros = torch.zeros(scores.shape[1:], dtype=torch.int64, device=scores.device)
        return draw(scores, zeros, generator)


def _facets(potentials: Potentials, variables: Int[Tensor, " k"]) -> tuple[Facet, ...]:
    graph, facets = potentials.graph, []
    position = torch.full((graph.variables,), -1, device=graph.device)
    position[variables] = torch.arange(len(variables), device=graph.device)
    for index in graph.planned(wiring).senders:
        group, table = graph.groups[index], potentials.tables[index].dense().detach()
        for axis in range(group.arity):
            own = (position[group.scope[:, axis]] >= 0).nonzero().squeeze(1)
            if not len(own):
                continue
            # Only the tables that are read here: all of them, at every colour, would be many.
            used, number = group.table[own].unique(return_inverse=True)
            rows = table[used].movedim(axis + 1, 0)
            sizes = list(rows.shape[2:])
            strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
            scope = group.scope[own]
            rest = [scope[:, other] for other in range(group.arity) if other != axis]
            others = tuple(zip(rest, sizes, strides, strict=True))
            first, place = number.unsqueeze(1) * math.prod(sizes), position[scope[:, axis]]
            values = rows.reshape(len(rows), -1).contiguous()
            facets.append(Facet(values, first, others, place, axis))
    return tuple(facets)


def colouring(graph: FactorGraph) -> Int[Tensor, " v"]:
    """A colour for every variable, so that none shares a factor with another of its colour.

    Greedy, in breadth-first order: two colours for any graph without odd cycles.  Variables of one
    state never change and may share colours with anyone.
    """
    variables, factors, count = real_links(graph)
    ones = np.ones(len(variables), dtype=np.int64)
    links = coo_array((ones, (variables, factors)), (graph.variables, count)).tocsr()
    near = (links @ links.T).tocsr()
    starts, neighbours = near.indptr.tolist(), near.indices.tolist()
    colour = [-1] * graph.variables
    for root in range(graph.variables):
        queue = deque([root] if colour[root] < 0 else [])
        while queue:
            v = queue.popleft()
            if colour[v] >= 0:
                continue
            around = neighbours[starts[v] : starts[v + 1]]
            taken = {colour[u] for u in around}
            colour[v] = next(c for c in itertools.count() if c not in taken)
            queue.extend(u for u in around if colour[u] < 0)
    return torch.tensor(colour, dtype=torch.int64, device=graph.device)


def draw(
    scores: Float[Tensor, "s k n"], current: Int[Tensor, "k n"], generator: torch.Generator
) -> Int[Tensor, "k n"]:
    """States in proportion to exp(scores); the current ones where every score is -inf."""
    peak = scores.amax(0)
    dead = peak == -torch.inf
    weight = (scores - peak.masked_fill(dead, 0.0)).exp_().cumsum(0)
    uniform = torch.rand(peak.shape, generator=generator, dtype=peak.dtype, device=peak.device)
    # Rounding must not lift the threshold to the whole sum, nor may it meet an empty state at 0.
    threshold = uniform * weight[-1] * _below_one(peak)
    return torch.where(dead, current, (weight <= threshold).sum(0))


def _below_one(values: Tensor) -> float:
    return 1 - 4 * torch.finfo(values.dtype).eps


# Where chains begin: states that no factor forbids.


SEARCH_SWEEPS = 60  # of one search
SEARCHES = 5
SEARCH_CHAINS = 16
PROOF_MEMORY = 2**28  # bytes that a proof of impossibility may take
PENALTIES = (1.0, 12.0)  # of a forbidden entry, in nats, at the beginning and the end of a search


def feasible_states(field: Conditionals, chains: int, generator: torch.Generator) -> States:
    """States of positive probability, one column a chain.

    Chains start from the unary factors alone.  Where a larger factor forbids what came out, they
    look for a possible state by annealing the number of forbidden entries; a chain that finds none
    begins, in the component concerned, where a luckier one does.
    """
    states, possible = _search(field, chains, generator)
    if not bool(possible.all()):
        lost = int((~possible).nonzero()[0])
        raise InferenceError(
            f"component {lost}: no state of positive probability was found by {chains} chains in "
            f"{SEARCHES * SEARCH_SWEEPS} sweeps each. There may be none, or few: an exact method "
            "(JunctionTree) decides; more chains search better."
        )
    return states


def with_feasible_states(field: Conditionals, assignment: Int[Tensor, " v"]) -> Int[Tensor, " v"]:
    """The assignment, with states that a search found in components where it is impossible."""
    lost = field.potentials.score(assignment) == -torch.inf
    if not bool(lost.any()):
        return assignment
    generator = torch.Generator(device=assignment.device).manual_seed(0)
    states, possible = _search(field, SEARCH_CHAINS, generator)
    return torch.where((lost & possible)[field.graph.component], states[:, 0], assignment)


def infeasible_components(
    potentials: Potentials, assignment: Int[Tensor, " v"]
) -> Bool[Tensor, " c"]:
    """Which components surely have no state of positive probability.

    One assignment of positive probability, such as the one given may be, shows that there is one;
    that there is none takes exact inference.  Where that would take too much memory nothing is
    known, and the component is not called impossible.
    """
    lost = potentials.score(assignment) == -torch.inf
    if not bool(lost.any()):
        return lost
    exact = JunctionTree(memory_limit=PROOF_MEMORY)
    if exact.refuses(potentials.graph) is not None:
        return torch.zeros_like(lost)
    return exact.best(potentials).score == -torch.inf


def _search(
    field: Conditionals, chains: int, generator: torch.Generator
) -> tuple[States, Bool[Tensor, " c"]]:
    """States, one column a chain, and the components in which they are possible."""
    states = field.start(chains, generator)
    possible = field.score(states) > -torch.inf
    if bool(possible.all()):
        return states, possible.all(dim=1)
    conflicts = Conditionals.of(_conflicts(field.potentials))
    low, high = PENALTIES
    for _ in range(SEARCHES):
        for step in range(SEARCH_SWEEPS):
            share = low * (high / low) ** (step / (SEARCH_SWEEPS - 1))
            conflicts.sweep(states, generator, share)
        possible = field.score(states) > -torch.inf
        if bool(possible.any(dim=1).all()):
            break
    # Chains that are impossible in a component take it from one that is possible there.
    chain = torch.arange(states.shape[1], device=states.device)
    feasible_chain = possible.to(torch.int64).argmax(dim=1, keepdim=True)
    states = field.select(states, torch.where(possible, chain, feasible_chain))
    return states, possible.any(dim=1)


def _conflicts(potentials: Potentials) -> Potentials:
    """The field that scores 0, less 1 for every forbidden entry of a larger factor."""
    tables = []
    for group, table in zip(potentials.graph.groups, potentials.tables, strict=True):
        values = table.dense().detach()
        forbidden = values == -torch.inf
        penalty = -torch.inf if group.arity == 1 else -1.0
        tables.append(DenseTable(torch.zeros_like(values).masked_fill(forbidden, penalty)))
    return Potentials(potentials.graph, tuple(tables))


# Gibbs sampling: all variables of one colour, in all chains, drawn at once.


@dataclass(frozen=True, eq=False)
class GibbsRun:
    """The draws kept from every chain, and what they are worth.  Letters: d: draws; n: chains."""

    graph: FactorGraph
    states: Int[Tensor, "d n v"]
    scores: Float[Tensor, "d n c"]  # unnormalised log-probabilities
    exchanges: Float[Tensor, " l"] | None = None  # of tempered chains: the share of each accepted

    def marginals(self) -> Float[Tensor, "v s"]:
        """How often each variable was in each state."""
        return torch.stack([seen.mean(dim=(0, 1)) for seen in self._seen()], dim=1)

    def standard_errors(self) -> Float[Tensor, "v s"]:
        """How far marginals are from the truth, one standard deviation of it.

        The larger of two estimates: from the number of effective draws, and from how much the means
        of chains differ, which is right however long the chains remember.
        """
        found = []
        for seen in self._seen():
            chains = seen.shape[1]
            spread = seen.flatten(0, 1).var(0, correction=0)
            own = spread / effective_draws(seen)
            if chains > 1:
                own = torch.maximum(own, seen.mean(0).var(0) / chains)
            found.append(own.clamp(min=0.0).sqrt())
        return torch.stack(found, dim=1)

    def intervals(self, level: float = 0.95) -> tuple[Float[Tensor, "v s"], Float[Tensor, "v s"]]:
        """Where marginals are with probability `level`, from below and from above.

        By Student's t, as many degrees of freedom as there are chains, less one (of a single chain
        its tenths take their place).  They hold where chains agree (`r_hat` near 1): a mode that no
        chain found is in no interval.
        """
        if not 0 < level < 1:
            raise InferenceError(f"level={level} must be between 0 and 1.")
        chains = self.states.shape[1]
        freedom = chains - 1 if chains > 1 else 9
        reach = float(student_t.ppf((1 + level) / 2, freedom)) * self.standard_errors()
        return (self.marginals() - reach).clamp(0, 1), (self.marginals() + reach).clamp(0, 1)

    def r_hat(self) -> Float[Tensor, " v"]:
        """Split R-hat of every variable, of the worst of its states; near 1 where chains agree."""
        return torch.stack([split_r_hat(seen) for seen in self._seen()]).amax(dim=0)

    def effective_draws(self) -> Float[Tensor, " c"]:
        """How many independent draws the run is worth, judged by the score of each component."""
        return effective_draws(self.scores)

    def _seen(self) -> Iterator[Float[Tensor, "d n v"]]:
        """For each state, which variables of which draws are in it: 1, else 0."""
        for state in range(self.graph.most_states):
            yield (self.states == state).to(self.scores.dtype)


@final
@dataclass(frozen=True)
class Gibbs(Sampler):
    """Parallel chains; the first `burn_in` sweeps are discarded, then every `thin`-th is kept.

    `sweeps` counts those after the burn-in, in each chain.  Chains start from states of positive
    probability, but where -inf entries cut the space in pieces a chain stays in the piece where it
    started: R-hat is then far above 1.
    """

    sweeps: int = 1000
    burn_in: int = 500
    chains: int = 64
    thin: int = 10

    def __post_init__(self) -> None:
        if min(self.sweeps, self.chains, self.thin) < 1 or self.burn_in < 0:
            raise InferenceError("sweeps, chains and thin must be at least 1, burn_in at least 0.")
        if self.sweeps < self.thin:
            raise InferenceError(f"sweeps={self.sweeps} must be at least thin={self.thin}.")

    @one_thread()
    @torch.no_grad()
    def run(
        self, potentials: Potentials, generator: torch.Generator | None = None, *, seed: int = 0
    ) -> GibbsRun:
        """All kept draws of all chains, with diagnostics, by the generator or else by the seed."""
        potentials.check_numbers()
        generator = seeded(generator, seed, potentials.graph.device)
        field = Conditionals.of(potentials)
        states = feasible_states(field, self.chains, generator)
        field.sweep(states, generator, times=self.burn_in)
        kept, scores = [], []
        for _ in range(self.sweeps // self.thin):
            field.sweep(states, generator, times=self.thin)
            kept.append(states.T.clone())
            scores.append(field.score(states).T)
        return GibbsRun(potentials.graph, torch.stack(kept), torch.stack(scores))

    def run_for(self, potentials: Potentials, count: int, generator: torch.Generator) -> GibbsRun:
        """A run of `count` draws or a few more, as many from each chain."""
        chains = max(1, min(self.chains, count))
        sweeps = self.thin * max(1, -(-count // chains))
        return replace(self, chains=chains, sweeps=sweeps).run(potentials, generator)

    def _sample(self, potentials: Potentials, count: int, generator: torch.Generator) -> Tensor:
        """`count` draws, as many from each chain; as many sweeps as that needs."""
        return self.run_for(potentials, count, generator).states.flatten(0, 1)[:count]


# Samples of a field: exact where its width allows, else by Gibbs, and what those are worth.


@dataclass(frozen=True, eq=False)
class Draw:
    """Samples, and how they were made."""

    samples: Int[Tensor, "n v"]
    method: str


@dataclass(frozen=True)
class Drawing:
    """Exact samples by `exact` where it accepts the graph, else approximate ones by `gibbs`."""

    exact: JunctionTree = field(default_factory=JunctionTree)
    gibbs: Gibbs = field(default_factory=Gibbs)

    def __call__(self, potentials: Potentials, count: int, *, seed: int = 0) -> Draw:
        """`count` samples that depend on nothing but the field and the seed."""
        generator = seeded(None, seed, potentials.graph.device)
        if self.exact.refuses(potentials.graph) is None:
            return Draw(self.exact.sample(potentials, count, generator), "exact (junction tree)")
        run = self.gibbs.run_for(potentials, count, generator)
        method = f"Gibbs sampling, {self.gibbs.burn_in} sweeps of burn-in{_worth(run)}"
        reason = "the field is too wide to sample exactly"
        return Draw(run.states.flatten(0, 1)[:count], f"{method}: {reason}")


def _worth(run: GibbsRun) -> str:
    """What the draws are worth, judged by their scores, where chains are long enough to tell."""
    if len(run.scores) < LEAST_DRAWS:
        return ""
    agreement, worth = split_r_hat(run.scores).max(), effective_draws(run.scores).min()
    return f", R-hat {float(agreement):.3f}, worth {float(worth):,.0f} independent draws"
