"""Most probable assignments with a certificate, where the width is beyond exact elimination.

Mini-buckets [Dechter and Rish 2003] with their max-marginals matched [Ihler et al. 2012] bound the
score of every assignment from above: elimination of variables, in which a table that would be too
large is split.  The same tables guide a depth-first branch and bound [Kask and Dechter 2001], whose
first descents find possible assignments; in between, the best one is improved by solving
neighbourhoods of it exactly.  The bound and the best assignment are the certificate.  Where nothing
had to be split, the first descent is the best assignment, and proved to be.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.elimination import EliminationStructure
from mrflearn.graph.elimination_orders import TooWide, greedy_order
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Decoding, Method
from mrflearn.inference.junction_tree import GIB, JunctionTree
from mrflearn.inference.sampling import Conditionals, with_feasible_states

Array = NDArray[np.float64]
Scope = tuple[int, ...]
Factor = tuple[Scope, Array]

EXACT_GAP = 1e-9  # beside the score: the rounding at which a bound counts as met
FIRST_BUCKETS = 2**12  # entries of the first, quick mini-buckets
GROWTH = 4  # of mini-buckets from one round to the next
NEIGHBOURHOOD = 60  # variables solved exactly around one, to begin with
NEIGHBOURHOOD_ENTRIES = 2**16
NEIGHBOURHOODS = 200  # of one round
FIRST_NODES = 20_000  # of the search in the first round
CHECKED = 256  # nodes from one look at the clock to the next


# The bound: buckets of functions, split where they are too large.


class Bucket(NamedTuple):
    """What the search asks of one variable: its mini-buckets' tables, and the messages from them.

    A function is (variables, strides, table): the table is flat, and its own variable's states are
    neighbours in it; messages have no own variable any more.
    """

    variable: int
    tables: tuple[tuple[Scope, Scope, Array], ...]
    messages: tuple[tuple[Scope, Scope, Array], ...]


@dataclass(frozen=True, eq=False)
class MiniBuckets:
    """Buckets in the order of the search (the last eliminated first), and the upper bound."""

    buckets: tuple[Bucket, ...]
    upper: float
    split: bool  # whether any bucket was: if not, the bound is the maximum

    @property
    def entries(self) -> int:
        """Entries of all tables and messages."""
        own = (table for bucket in self.buckets for *_, table in (*bucket.tables, *bucket.messages))
        return sum(map(len, own))


def mini_buckets(
    factors: list[Factor], states: Mapping[int, int], most: int, seed: int = 0
) -> MiniBuckets:
    """Eliminates all variables; no table has more than `most` entries, unless a factor does."""
    numbers = {v: i for i, v in enumerate(states)}
    structure = EliminationStructure(
        tuple(states.values()), tuple(tuple(numbers[v] for v in scope) for scope, _ in factors)
    )
    weights = [math.log2(n) for n in structure.states]
    found = greedy_order(structure.neighbours(), weights, fill=True, seed=seed, hopeless=math.inf)
    assert not isinstance(found, TooWide)  # noqa: S101 - without a limit none is
    variables = list(states)
    order = [variables[i] for i in found]
    place = {v: k for k, v in enumerate(order)}
    waiting: list[list[Factor]] = [[] for _ in order]
    upper, split = 0.0, False
    for scope, table in factors:
        _file((scope, table), place, waiting)
    buckets = []
    for k, variable in enumerate(order):
        parts = _parts(waiting[k], states, place, most) or [
            ((variable,), np.zeros(states[variable]))
        ]
        waiting[k] = []
        if len(parts) > 1:
            split = True
            _match(parts)
        messages = []
        for scope, table in parts:
            message = table.max(axis=-1)
            messages.append((scope[:-1], message))
            if message.ndim:
                waiting[place[scope[-2]]].append((scope[:-1], message))
            else:
                upper += float(message)
        tables = tuple(_flat(scope, table, 1) for scope, table in parts)
        buckets.append(Bucket(variable, tables, tuple(_flat(*own, 0) for own in messages)))
    return MiniBuckets(tuple(reversed(buckets)), upper, split)


def _file(factor: Factor, place: Mapping[int, int], waiting: list[list[Factor]]) -> None:
    """Puts a factor into the bucket of its first eliminated variable, which is its last axis."""
    scope, table = factor
    axes = sorted(range(len(scope)), key=lambda i: -place[scope[i]])
    ordered = tuple(scope[i] for i in axes)
    waiting[place[ordered[-1]]].append((ordered, table.transpose(axes)))


def _parts(
    functions: list[Factor], states: Mapping[int, int], place: Mapping[int, int], most: int
) -> list[Factor]:
    """The sums of the functions of a bucket, in as few tables as their size allows."""
    groups: list[tuple[set[int], list[Factor]]] = []
    for own in sorted(functions, key=lambda pair: -pair[1].size):
        for union, members in groups:
            joined = union.union(own[0])
            if len(joined) == len(union) or math.prod(states[v] for v in joined) <= most:
                union.update(own[0])
                members.append(own)
                break
        else:
            groups.append((set(own[0]), [own]))
    parts = []
    for union, members in groups:
        scope = tuple(sorted(union, key=lambda v: -place[v]))
        total = np.zeros([states[v] for v in scope])
        for inner, table in members:
            total += table.reshape([states[v] if v in inner else 1 for v in scope])
        parts.append((scope, total))
    return parts


def _match(parts: list[Factor]) -> None:
    """Shifts scores between the tables of a bucket until all agree on the best of every state.

    The sum stays, and the sum of the maxima becomes no larger.
    """
    bests = [table.reshape(-1, table.shape[-1]).max(axis=0) for _, table in parts]
    mean = sum(bests) / len(bests)
    for (_, table), best in zip(parts, bests, strict=True):
        table += np.where(mean == -np.inf, -np.inf, mean - np.where(mean == -np.inf, 0.0, best))


def _flat(scope: Scope, table: Array, own: int) -> tuple[Scope, Scope, Array]:
    """A function of the search: variables but the own one, their strides, the flat table."""
    strides = [1] * len(scope)
    for i in range(len(scope) - 1, 0, -1):
        strides[i - 1] = strides[i] * table.shape[i]
    kept = len(scope) - own
    return scope[:kept], tuple(strides[:kept]), np.ascontiguousarray(table).reshape(-1)


# The search: states of one variable after the other, those of the highest bound first.


@dataclass(eq=False)
class Incumbents:
    """The n best assignments found so far; those that come later must beat the last of them."""

    n: int
    found: list[tuple[float, tuple[int, ...]]]

    @property
    def least(self) -> float:
        """The score to beat."""
        return self.found[0][0] if len(self.found) == self.n else -math.inf

    @property
    def best(self) -> tuple[float, tuple[int, ...]] | None:
        return max(self.found, default=None)

    def add(self, score: float, assignment: tuple[int, ...]) -> bool:
        """Whether the assignment is among the best, and new."""
        if score <= self.least or any(assignment == own for _, own in self.found):
            return False
        (heapq.heappushpop if len(self.found) == self.n else heapq.heappush)(
            self.found, (score, assignment)
        )
        return True


class DepthFirst:
    """A branch and bound that can be interrupted; it is over when `open` is False."""

    def __init__(self, buckets: MiniBuckets, incumbents: Incumbents) -> None:
        self.open = buckets.upper > -math.inf
        self._buckets, self._incumbents = buckets.buckets, incumbents
        self._sorted = sorted(bucket.variable for bucket in self._buckets)
        self._assignment = [0] * (1 + max(self._sorted, default=-1))
        self._stack = [(buckets.upper, -1, 0)]  # (bound, depth of a variable, its state)

    def run(self, nodes: int, deadline: float) -> None:
        """Goes on for so many nodes, or until the deadline; better assignments are added."""
        own, stack, incumbents = self._buckets, self._stack, self._incumbents
        assignment, depth = self._assignment, len(own)
        for tried in range(nodes):
            while stack and stack[-1][0] <= incumbents.least + _slack(incumbents.least):
                stack.pop()
            if not stack:
                self.open = False
            if not stack or (tried % CHECKED == CHECKED - 1 and time.monotonic() > deadline):
                return
            bound, level, state = stack.pop()
            if level >= 0:
                assignment[own[level].variable] = state
            if level + 1 == depth:
                incumbents.add(bound, tuple(assignment[v] for v in self._sorted))
                continue
            bounds = _expand(own[level + 1], assignment, bound)
            for state in np.argsort(bounds, kind="stable").tolist():  # the best is tried first
                if bounds[state] > -math.inf:
                    stack.append((float(bounds[state]), level + 1, state))

    @property
    def upper(self) -> float:
        """An upper bound on all that has not been tried."""
        return max((bound for bound, _, _ in self._stack), default=-math.inf)


def _slack(score: float) -> float:
    return EXACT_GAP * max(1.0, abs(score)) if score > -math.inf else 0.0


def _expand(bucket: Bucket, assignment: list[int], bound: float) -> Array:
    """The bound for each state of a variable, where those before it are assigned."""
    for scope, strides, table in bucket.messages:
        place = 0
        for v, stride in zip(scope, strides, strict=True):
            place += stride * assignment[v]
        bound -= float(table[place])
    total: Array | float = bound
    for scope, strides, table in bucket.tables:
        place = 0
        for v, stride in zip(scope, strides, strict=True):
            place += stride * assignment[v]
        states = strides[-1] if strides else len(table)
        total = total + table[place : place + states]
    return np.asarray(total)


# Large neighbourhoods: some variables solved exactly, all others as they are.


class LargeNeighbourhoods:
    """The factors of a problem, and who is near whom."""

    def __init__(self, factors: list[Factor], states: Mapping[int, int], seed: int) -> None:
        self.factors, self.states, self.random = factors, states, Random(seed)
        self.free = [v for v, n in states.items() if n > 1]
        self.around: dict[int, list[int]] = {v: [] for v in states}
        for i, (scope, _) in enumerate(factors):
            for v in scope:
                self.around[v].append(i)
        self.size = NEIGHBOURHOOD

    def improve(self, incumbents: Incumbents, variables: list[int], deadline: float) -> None:
        """Solves neighbourhoods of the best assignment, as many as pay and time allows."""
        failed = 0
        while failed < NEIGHBOURHOODS and self.free and time.monotonic() < deadline:
            found = incumbents.best
            if found is None:
                return
            score, states = found
            assignment = dict(zip(variables, states, strict=True))
            inside = self._ball()
            part = {v: self.states[v] for v in inside}
            buckets = mini_buckets(self._given(inside, assignment), part, NEIGHBOURHOOD_ENTRIES)
            local = Incumbents(1, [])
            DepthFirst(buckets, local).run(4 * len(inside), deadline)
            failed += 1
            if local.best is None:
                continue
            assignment |= dict(zip(sorted(inside), local.best[1], strict=True))
            changed = tuple(assignment[v] for v in variables)
            better = self.score(assignment)
            if better > score + _slack(score) and incumbents.add(better, changed):
                failed = 0

    def score(self, assignment: Mapping[int, int]) -> float:
        """The sum of all factors at an assignment."""
        return sum(
            float(table[tuple(assignment[v] for v in scope)]) for scope, table in self.factors
        )

    def _ball(self) -> set[int]:
        """Variables around a random one."""
        start = self.random.choice(self.free)
        inside, queue = {start}, deque([start])
        while queue and len(inside) < self.size:
            near = [u for i in self.around[queue.popleft()] for u in self.factors[i][0]]
            self.random.shuffle(near)
            for u in near:
                if u not in inside and self.states[u] > 1 and len(inside) < self.size:
                    inside.add(u)
                    queue.append(u)
        return inside

    def _given(self, inside: set[int], assignment: Mapping[int, int]) -> list[Factor]:
        """The factors around some variables, all others in their states."""
        touched = sorted({i for v in inside for i in self.around[v]})
        factors = []
        for scope, table in (self.factors[i] for i in touched):
            place = tuple(slice(None) if v in inside else assignment[v] for v in scope)
            factors.append((tuple(v for v in scope if v in inside), table[place]))
        return factors


# The maximiser: exact by width, else search with a certificate.


@final
@dataclass(frozen=True)
class BranchAndBound(Method):
    """The most probable assignment of any field, proved to be, or with a bound on what it lacks.

    Where `exact` accepts the graph it answers; otherwise a search does, until its best assignment
    meets the upper bound or time is up.  Its answers say by `upper` and `gap` how far the best
    assignment can be from the optimum.

    Parameters
    ----------
    exact
        Elimination within its limit on memory.
    seconds
        How long the search may take.
    memory_limit
        Bytes that the tables of the search may take.
    seed
        Of its random choices.

    Examples
    --------
    >>> from mrflearn.graph import grid, random_ising
    >>> from mrflearn.inference import BranchAndBound
    >>> field = random_ising(grid(4, 4), scale=1.0, seed=0)
    >>> best = BranchAndBound().best(field)
    >>> best.certificate
    'optimal'
    >>> scores = [score for _, score in BranchAndBound().n_best(field, 3)]
    >>> scores == sorted(scores, reverse=True)
    True

    """

    exact: JunctionTree = field(default_factory=JunctionTree)
    seconds: float = 20.0
    memory_limit: int = GIB
    seed: int = 0

    def chosen(self, graph: FactorGraph) -> tuple[JunctionTree | BranchAndBound, str | None]:
        """The method that answers for this graph, and why it is not elimination (None: it is).

        Parameters
        ----------
        graph
            The graph.

        Returns
        -------
        tuple
            Of the method and the reason.

        """
        reason = self.exact.refuses(graph)
        return (self.exact, None) if reason is None else (self, reason)

    def best(self, potentials: Potentials) -> Decoding:
        """The best assignment found, and an upper bound on the score of any.

        Parameters
        ----------
        potentials
            The field.

        Returns
        -------
        Decoding
            Of kind `"exact"` where it is proved to be the best.

        """
        deadline = time.monotonic() + self.seconds
        potentials.check_numbers()
        graph = potentials.graph
        if self.exact.refuses(graph) is None:
            return self.exact.best(potentials)
        assignment = torch.zeros(graph.variables, dtype=torch.int64)
        upper = torch.full((graph.components,), 0.0, dtype=torch.float64)
        problems = _components(potentials)
        for turn, (component, factors, states) in enumerate(problems):
            share = (deadline - time.monotonic()) / (len(problems) - turn)
            found, bound = self._solved(factors, states, 1, share)
            upper[component] = bound
            if found:
                assignment[list(states)] = torch.tensor(found[0][1])
        assignment = assignment.to(graph.device)
        lost = potentials.score(assignment) == -torch.inf
        if bool((lost & (upper.to(lost.device) > -torch.inf)).any()):
            assignment = with_feasible_states(Conditionals.of(potentials), assignment)
        score = potentials.score(assignment).detach()
        upper = torch.maximum(upper.to(score), score)
        gap = torch.where(upper == -torch.inf, 0.0, upper - score)
        size = score.abs().where(score > -torch.inf, 0.0).clamp(min=1.0)
        proved = bool((gap <= EXACT_GAP * size).all())
        return Decoding(assignment, score, "exact" if proved else "approximation", upper=upper)

    def n_best(self, potentials: Potentials, n: int) -> list[tuple[Tensor, float]]:
        """At most `n` assignments of a field of one component, with their scores, best first.

        Buckets are made once, and one search finds all.  They are the n best where no bucket had to
        be split or the search ended in time; otherwise there may be better ones.

        Parameters
        ----------
        potentials
            The field.
        n
            How many.

        Returns
        -------
        list of (Tensor, float)
            Assignments and scores.

        """
        potentials.check_numbers()
        if n < 1 or potentials.graph.components != 1:
            raise InferenceError(
                f"{n} best of {potentials.graph.components} examples: ask for 1 or more, of one."
            )
        ((_, factors, states),) = _components(potentials)
        found, _ = self._solved(factors, states, n, self.seconds)
        device = potentials.graph.device
        return [(torch.tensor(own, device=device), score) for score, own in found]

    @one_thread()
    def _solved(
        self, factors: list[Factor], states: dict[int, int], n: int, seconds: float
    ) -> tuple[list[tuple[float, tuple[int, ...]]], float]:
        """The n best assignments found, best first, and an upper bound on the best of all."""
        start = time.monotonic()
        deadline = start + seconds
        incumbents, variables = Incumbents(n, []), sorted(states)
        near = LargeNeighbourhoods(factors, states, self.seed)
        most, nodes, upper = FIRST_BUCKETS, FIRST_NODES, math.inf
        while True:
            begun = time.monotonic()
            buckets = mini_buckets(factors, states, most, self.seed)
            took = time.monotonic() - begun
            upper = min(upper, buckets.upper)
            search = DepthFirst(buckets, incumbents)
            full = GROWTH * buckets.entries * 16 > self.memory_limit  # as large again while made
            last = full or time.monotonic() + 2 * GROWTH * took > deadline
            while search.open and time.monotonic() < deadline:
                search.run(nodes, deadline)
                if search.open and buckets.split:
                    near.improve(incumbents, variables, deadline)
                if not last:
                    break
            if not search.open:
                found = sorted(incumbents.found, reverse=True)
                return found, found[0][0] if found else -math.inf
            if last:
                least = incumbents.best[0] if incumbents.best else -math.inf
                upper = max(least, min(upper, search.upper))
                return sorted(incumbents.found, reverse=True), upper
            most *= GROWTH


def _components(potentials: Potentials) -> list[tuple[int, list[Factor], dict[int, int]]]:
    """The factors and the state counts of every component that has variables."""
    graph = potentials.graph
    owner, counts = graph.component.tolist(), graph.states.tolist()
    factors: dict[int, list[Factor]] = {c: [] for c in sorted(set(owner))}
    states: dict[int, dict[int, int]] = {c: {} for c in factors}
    for v, (c, count) in enumerate(zip(owner, counts, strict=True)):
        states[c][v] = count
    for i, group in enumerate(graph.groups):
        scores = potentials.factor_scores(i).detach().double().cpu().numpy()
        for scope, table in zip(group.scope.tolist(), scores, strict=True):
            factors[owner[scope[0]]].append((tuple(scope), table))
    return [(c, factors[c], states[c]) for c in factors]
