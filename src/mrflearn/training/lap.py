"""Estimators of untied fields by local problems: LAP, consensus, piecewise, pseudo-moments.

LAP (linear and parallel learning) takes a clique's parameters from its neighbourhood alone
[Mizrahi 2014, Algorithm 1].  In consensus [Liu and Ihler 2012] each variable given its neighbours
is fitted by itself, so a coupling is learned once by each of its variables, and local estimates are
averaged, each with the inverse of its variance as weight (their "linear consensus" with diagonal
weights).  For both, problems are taken a block at a time: counted, solved, forgotten.  Memory is
that of one block, the samples and the answers; blocks are independent, so they may run anywhere.

Piecewise training [Sutton and McCallum 2009, section 3] fits a free table of each clique to its own
counts, as if there were no other; the field is the product of all pieces.  Quick, and wrong by what
the pieces count twice.  Pseudo-moment matching [eq. 13 there; Wainwright, Jaakkola and Willsky
2003] takes off what they count twice, in closed form,

    theta_a(y_a) = log p(y_a) - sum over s in a of log p(y_s)        theta_s(y_s) = log p(y_s)

with p the empirical marginals: uniform messages are then a fixed point of belief propagation whose
beliefs are those marginals, so this is the greatest Bethe likelihood, without a single message.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.observations import CliqueCounts, Samples
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, factor_degrees
from mrflearn.graph.gauges import reference_gauge
from mrflearn.graph.neighbourhood import LocalShape, Neighbourhoods, lone_cliques, neighbourhoods
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.io.files import PathLike
from mrflearn.models.tabular import ParameterLayout, TabularModel
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood, LocalTables
from mrflearn.training.checkpoint import Checkpoint, checkpoint_of
from mrflearn.training.newton import LocalNewton, LocalSolution, cholesky_with_ridge
from mrflearn.training.outcome import Ending, Outcome

Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

BLOCK = 1 << 17  # entries of the largest table that a block of problems works on
MOST_PROBLEMS = 4096
PADDING = 1 << 15  # joint states, over all problems, that cost what one more shape does
MOST_CELLS = 1 << 22  # joint states of one neighbourhood

# Local problems in blocks of one shape: cut once, counted and solved anywhere.


def problem_blocks(
    problems: Sequence[Neighbourhoods], *, own: bool = False, missing: bool = False
) -> list[Neighbourhoods]:
    """All local problems of an estimator, in blocks that bound memory and often fit the cache.

    `factors` are those whose parameters are learned from a problem: all that touch it, or, with
    `own`, the first alone.
    """
    blocks = []
    for group in padded(problems) if own else problems:
        shape, cells = group.shape, prod(size + missing for size in group.shape.sizes)
        if cells > MOST_CELLS:
            clique = group.scope[0, : shape.own].tolist()
            raise GraphError(
                f"the neighbourhood of clique {clique} has {len(shape.sizes)} variables and "
                f"{cells:.3g} joint states; at most {MOST_CELLS:,} can be handled. Use "
                "pseudolikelihood (the estimator 'pl') on such a graph."
            )
        size = max(1, min(MOST_PROBLEMS, BLOCK // max(cells, shape.work)))
        parts = zip(group.scope.split(size), group.factors.split(size), strict=True)
        # In memory of their own: with a view, the whole would travel to other processes.
        blocks += [Neighbourhoods(shape, scope.clone(), kept.clone()) for scope, kept in parts]
    return blocks


class _Member(NamedTuple):
    """Problems of one shape: the order of own variables, what is left without those given, these.

    A variable that is given goes by its role: its number of states and the terms it is in.
    """

    core: Any
    roles: list[Any]
    turn: tuple[int, ...]
    group: Neighbourhoods

    @classmethod
    def of(cls, group: Neighbourhoods) -> _Member:
        """Own variables of two states have one parameter, whatever their order: the least one."""
        shape, own = group.shape, tuple(range(group.shape.own))
        first = shape.summed
        sets = [*((0, own) for own in shape.touching), *((1, own) for own in shape.inside or ())]
        if any(len(places) > 1 and sorted(places)[-2] >= first for _, places in sets):
            return cls(shape, [], own, group)  # terms of two that are given: left as it is
        turns = permutations(own) if set(shape.sizes[: shape.own]) == {2} else (own,)
        return min(
            (cls._turned(group, sets, turn) for turn in turns),
            key=lambda own: (own.core, sorted(own.roles)),
        )

    @classmethod
    def _turned(cls, group: Neighbourhoods, sets: list[Any], turn: tuple[int, ...]) -> _Member:
        shape, first, sizes = group.shape, group.shape.summed, group.shape.sizes
        to = [*turn, *range(len(turn), first)]
        core: list[Any] = []
        parts: list[list[Any]] = [[] for _ in sizes[first:]]
        for kind, places in sets:
            kept = tuple(sorted([to[place] for place in places if place < first]))
            (core if len(kept) == len(places) else parts[max(places) - first]).append((kind, kept))
        core = [*core[:1], *sorted(core[1:])]
        roles = [(sizes[first + k], tuple(sorted(part))) for k, part in enumerate(parts)]
        key = (shape.own, sizes[:first], shape.inside is None, tuple(core))
        return cls(key, roles, turn, group)


def padded(problems: Sequence[Neighbourhoods]) -> list[Neighbourhoods]:
    """The same problems in fewer shapes, where that costs less than so many shapes do.

    A neighbour that some problems lack has the number -1 there and is always in its state 0: no
    moment of its terms is above zero, so they stay at zero.  `factors` are the own cliques alone.
    """
    found: list[Neighbourhoods] = []
    open_: dict[Any, tuple[Counter[Any], list[_Member], int]] = {}
    for group in sorted(problems, key=lambda group: group.shape.cells):
        member = _Member.of(group)
        roles, members, cells = open_.get(member.core, (Counter(), [], 0))
        wider, own = roles | Counter(member.roles), group.shape.cells * len(group)
        count = len(group) + sum(len(other.group) for other in members)
        if members and _with_roles(member.core, wider).cells * count > cells + own + PADDING:
            found.append(_joined(roles, members))
            wider, members, cells = Counter(member.roles), [], 0
        open_[member.core] = wider, [*members, member], cells + own
    return found + [_joined(roles, members) for roles, members, _ in open_.values()]


def _with_roles(core: Any, roles: Counter[Any]) -> LocalShape:
    """The shape that has this core and these given variables."""
    if isinstance(core, LocalShape):
        return core
    own, sizes, dense, terms = core
    given, sets = sorted(roles.elements()), list(terms)
    for place, (_, part) in enumerate(given, start=len(sizes)):
        sets += [(kind, (*kept, place)) for kind, kept in part]
    touching, inside = (tuple([s for kind, s in sets if kind == wanted]) for wanted in (0, 1))
    sizes += tuple([size for size, _ in given])
    return LocalShape(sizes, own, touching, *(() if dense else (inside, len(given))))


def _joined(roles: Counter[Any], members: list[_Member]) -> Neighbourhoods:
    """All members in one shape."""
    scopes = []
    for _, own, turn, group in members:
        columns = group.scope.shape[1]
        first = columns - len(own)
        order = [*(turn.index(place) for place in range(len(turn))), *range(len(turn), first)]
        left = sorted(zip(own, range(first, columns), strict=True), reverse=True)
        order += [
            left.pop()[1] if left and left[-1][0] == role else columns
            for role in sorted(roles.elements())
        ]
        absent = torch.full_like(group.scope[:, :1], -1)
        scopes.append(torch.cat([group.scope, absent], dim=1)[:, order])
    factors = torch.cat([member.group.factors[:, :1] for member in members])
    return Neighbourhoods(_with_roles(members[0].core, roles), torch.cat(scopes), factors)


@dataclass(frozen=True, eq=False)
class SolveBlock:
    """The task of one worker: count a block (unless that is done), solve it, keep what is learned.

    With `weigh`, local estimates come with their precision.
    """

    newton: LocalNewton
    samples: Samples | None = None
    missing: bool = False
    weigh: bool = False

    @cached_property
    def _tables(self) -> dict[LocalShape, LocalTables]:
        return {}

    @torch.inference_mode()  # a fifth of the time of many short operations
    def __call__(
        self, block: Neighbourhoods, counts: Float[Tensor, "x q"] | None = None
    ) -> LocalSolution:
        shape = block.shape
        if counts is None:
            assert self.samples is not None  # noqa: S101 - one of the two is given
            counts = self.samples.count(block.scope, shape.sizes)
        tables = self._tables.setdefault(shape, LocalTables(shape, counts.device))
        if self.missing:
            found = self.newton.with_missing(tables, counts)
        else:
            likelihood = AuxiliaryLikelihood.of(tables, counts)
            found = self.newton(likelihood)
            if self.weigh:
                found = with_precision(likelihood, found, self.newton.l2)
        end = shape.spans[block.factors.shape[1] - 1].stop
        kept = None if found.precision is None else found.precision[:end].contiguous()
        return replace(found, terms=found.terms[:end].contiguous(), precision=kept)


def with_precision(
    likelihood: AuxiliaryLikelihood, found: LocalSolution, l2: float
) -> LocalSolution:
    """The solution with the inverse variance of each parameter; about 0 for what no sample says.

    The ridge of Newton's method stands for that: its variance is then 1 / ridge, some 1e13 times
    that of a parameter that is known.
    """
    hessian = likelihood.hessian(likelihood.at(found.terms))
    hessian.diagonal(dim1=1, dim2=2).add_(2 * l2)
    factor, failed = cholesky_with_ridge(hessian, likelihood.total)
    variance = torch.cholesky_inverse(factor).diagonal(dim1=1, dim2=2).T
    known = ~failed & variance.isfinite() & (variance > 0)
    precision = torch.where(known, 1 / variance, 0.0)
    stuck = found.stuck | failed
    return replace(found, precision=precision, stuck=stuck, converged=found.converged & ~stuck)


def lap_refuses(graph: FactorGraph, *, missing: bool) -> str | None:
    """Why the neighbourhoods of a graph are too large for LAP; None where they are not."""
    try:
        problem_blocks(neighbourhoods(graph, "dense"), missing=missing)
    except GraphError as error:
        return str(error).partition(". ")[0]
    return None


def check_untied(graph: FactorGraph) -> None:
    """Raises `GraphError` where cliques share tables."""
    tied = next((group.name for group in graph.groups if has_ties(group)), None)
    if tied is not None:
        raise GraphError(
            f"group '{tied}' shares tables between cliques, each of which would be learned by "
            "itself. Build the graph with tied=False, or use the estimator 'lap', 'pl' or 'ml'."
        )


def has_ties(group: FactorGroup) -> bool:
    """Whether cliques of a group share tables."""
    return len(group) > 0 and len(group.table.unique()) < len(group)


# LAP and consensus: the field from the solutions of its local problems.


def fit_locally(
    graph: FactorGraph,
    blocks: Sequence[Neighbourhoods],
    task: Callable[[Neighbourhoods], LocalSolution],
    mapper: Mapper = map,
    checkpoint: PathLike | Checkpoint | None = None,
    resume: bool = False,
) -> Outcome[TabularModel]:
    """The field whose every parameter is as its local problems say; the value is their sum.

    A parameter that several cliques share is the mean of what is found for each, weighted by
    precision where tasks `weigh`; both means are consistent.

    Blocks that are solved go into the checkpoint, and are not solved again on resuming.
    """
    started = time.perf_counter()
    layout = ParameterLayout.of(graph)
    identity = {"model": "LAP", "blocks": len(blocks), "parameters": layout.size}
    file = checkpoint_of(checkpoint) if checkpoint or resume else None
    solved = _read(file, identity) if file is not None and resume else []
    saved, at = len(solved), time.monotonic()
    for found in mapper(task, blocks[len(solved) :]):
        solved.append(found)
        last = len(solved) == len(blocks)
        if file is not None and (last or file.due(len(solved) - saved, time.monotonic() - at)):
            _write(file, identity, solved)
            saved, at = len(solved), time.monotonic()
    places = (layout.terms(block.shape, block.factors) for block in blocks)
    model = layout.model(graph, weighted_mean(layout, zip(places, solved, strict=True)))
    return _outcome(model, solved, time.perf_counter() - started)


def weighted_mean(
    layout: ParameterLayout, estimates: Iterable[tuple[Int[Tensor, "p q"], LocalSolution]]
) -> Float[Tensor, " p"]:
    """The mean of all local estimates of each parameter, weighted by their precision if known."""
    total = torch.zeros(layout.size, dtype=torch.float64, device=layout.start.device)
    weight = torch.zeros_like(total)
    for places, found in estimates:
        terms = found.terms.to(total)
        share = torch.ones_like(terms) if found.precision is None else found.precision.to(total)
        total.index_add_(0, places.view(-1), (share * terms).reshape(-1))
        weight.index_add_(0, places.view(-1), share.reshape(-1))
    # Where no estimate has any weight, the parameter stays at zero.
    return torch.where(weight > 0, total / weight, 0.0)


SAVED = ("terms", "value", "iterations", "converged", "stuck")  # of a block, in a checkpoint
WEIGHED = "precision"  # besides, where tasks weigh


def _read(checkpoint: Checkpoint, identity: dict[str, Any]) -> list[LocalSolution]:
    """What was found so far, block by block."""
    tensors, solved = checkpoint.read(identity), []
    for k in range(int(tensors["solved"])):
        terms, value, iterations, *flags = (tensors[f"{k}.{name}"] for name in SAVED)
        known = LocalSolution(terms, value, int(iterations), *(f.bool() for f in flags))
        solved.append(replace(known, precision=tensors.get(f"{k}.{WEIGHED}")))
    return solved


def _write(
    checkpoint: Checkpoint, identity: dict[str, Any], solved: Sequence[LocalSolution]
) -> None:
    tensors = {"solved": torch.tensor(len(solved), dtype=torch.float64)}
    for k, found in enumerate(solved):
        for name in SAVED:
            held = torch.as_tensor(getattr(found, name))
            tensors[f"{k}.{name}"] = held if held.is_floating_point() else held.double()
        if found.precision is not None:
            tensors[f"{k}.{WEIGHED}"] = found.precision
    checkpoint.write(identity, tensors)


def _outcome(
    model: TabularModel, solved: Sequence[LocalSolution], seconds: float
) -> Outcome[TabularModel]:
    """How a training by local problems ended, all of them taken together."""
    problems = sum(len(found.value) for found in solved)
    stuck = sum(int(found.stuck.sum()) for found in solved)
    unfinished = sum(int((~found.converged).sum()) for found in solved) - stuck
    iterations = max((found.iterations for found in solved), default=0)
    value = sum(float(found.value.sum()) for found in solved)
    ending: Ending = "stuck" if stuck else "limit" if unfinished else "gradient"
    ends = ((unfinished, "ended at the limit of iterations"), (stuck, "found no better point"))
    parts = [f"{count:,} of {problems:,} local problems {end}" for count, end in ends if count]
    reason = "; ".join(parts) or f"all {problems:,} local problems were solved"
    return Outcome(model, value, iterations, iterations, ending, reason, (), seconds)


# Piecewise training and pseudo-moment matching: the field from the counts of its cliques.


def pieces(graph: FactorGraph, counts: CliqueCounts, newton: LocalNewton) -> Outcome[TabularModel]:
    """The product of all cliques' own fields, from the counts of the cliques."""
    check_untied(graph)
    started = time.perf_counter()
    scores, solved = [], []
    for group, seen in zip(lone_cliques(graph), counts.counts, strict=True):
        tables = LocalTables(group.shape, seen.device)
        flat = seen.reshape(len(group), -1).T.contiguous()
        found = newton(AuxiliaryLikelihood.of(tables, flat))
        scores.append(DenseTable(tables.scores(found.terms).T.reshape(seen.shape)))
        solved.append(found)
    field = reference_gauge(Potentials(graph, tuple(scores)))
    model = TabularModel.from_potentials(field)
    return _outcome(model, solved, time.perf_counter() - started)


def pseudo_moments(graph: FactorGraph, counts: CliqueCounts) -> Outcome[TabularModel]:
    """The field of matched pseudo-moments; its value is minus the Bethe log-likelihood."""
    check_untied(graph)
    started = time.perf_counter()
    field = matched_potentials(graph, counts)
    pairs = zip(field.tables, counts.counts, strict=True)
    value = -sum(float((table.dense() * seen).sum()) for table, seen in pairs)
    model = TabularModel.from_potentials(reference_gauge(field))
    reason, seconds = "the moments were matched in closed form.", time.perf_counter() - started
    return Outcome(model, value, 0, 0, "value", reason, (), seconds)


def matched_potentials(graph: FactorGraph, counts: CliqueCounts) -> Potentials:
    """The tables of eq. 13; all factors of a variable without its own share its term."""
    alone = [group for group in graph.groups if group.arity == 1]
    single, degrees = (
        torch.from_numpy(factor_degrees(own)).to(graph.device)
        for own in (replace(graph, groups=tuple(alone)), graph)
    )
    holders = torch.where(single > 0, single, degrees)
    tables = []
    for group, seen in zip(graph.groups, counts.counts, strict=True):
        table = _log_share(seen)
        for axis in range(group.arity):
            members = group.scope[:, axis]
            others = [1 + k for k in range(group.arity) if k != axis]
            own = _log_share(seen.sum(dim=others, keepdim=True) if others else seen)
            holds = single[members] == 0 if others else torch.ones_like(members)
            share = holds / holders[members] - 1
            table = table + share.reshape(-1, *[1] * group.arity) * own
        tables.append(DenseTable(table))
    return Potentials(graph, tuple(tables))


def _log_share(seen: Float[Tensor, " f *shape"]) -> Float[Tensor, " f *shape"]:
    total = seen.flatten(1).sum(dim=1).reshape(-1, *[1] * (seen.ndim - 1))
    return (seen / total).log()
