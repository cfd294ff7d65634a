"""Linear and parallel learning (LAP), consensus of local estimates, and piecewise fields.

Cliques are taken a block at a time: counted, solved, forgotten.  Memory is that of one block, the
samples and the answers; blocks are independent, so they may run anywhere.

Each variable given its neighbours is fitted by itself, so a coupling is learned once by each of its
variables.  The answers are averaged, each weighed by the inverse of its variance (their "linear
consensus" with diagonal weights): as parallel as LAP, and the competitor its paper names.

[Sutton and McCallum 2009, section 3]  A piece is one clique with a free table, fitted by maximum
likelihood to its own counts; the field is the product of all pieces.  Quick, and wrong by what the
pieces count twice; a baseline, and a start for others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import DataError, GraphError
from mrflearn.features.observations import CliqueCounts, Columns, neighbourhood_counts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import reference_gauge
from mrflearn.graph.local_shape import LocalShape
from mrflearn.graph.neighbourhood import Neighbourhoods, log2_joint_states, too_crowded
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.kernels.reference_terms import scores_of_terms
from mrflearn.models.tabular import ParameterLayout, TabularModel
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood
from mrflearn.training.checkpoint import (
    Checkpoint,
    check_same,
    read_checkpoint,
    write_checkpoint,
)
from mrflearn.training.newton import (
    LocalNewton,
    LocalProximal,
    LocalSolution,
    cholesky_with_ridge,
    solve_with_missing,
)
from mrflearn.training.outcome import Ending, Outcome

# LAP: a clique's parameters from its neighbourhood alone [Mizrahi 2014, Algorithm 1].


SOLUTION = ("terms", "value", "iterations", "converged", "stuck")
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

BLOCK = 1 << 17  # entries of the largest table that a block of problems works on
MOST_PROBLEMS = 4096
MOST_CELLS = 1 << 22  # joint states of one neighbourhood
UNBOUNDED = 20.0  # nats; no data can support such a parameter, so it was on its way to infinity


@dataclass(frozen=True)
class LocalSolver:
    """How the problems of one block are solved."""

    l2: float = 0.0
    l1: float = 0.0
    tolerance: float = 1e-7
    max_iterations: int = 100

    def __call__(
        self, hood: Neighbourhoods, counts: Float[Tensor, "x q"], missing: bool
    ) -> LocalSolution:
        """The solution of every problem, from the counts of its neighbourhood."""
        shape = hood.shape
        newton = LocalNewton(self.l2, self.tolerance, self.max_iterations)
        if missing:
            return solve_with_missing(shape, counts, newton)
        problems = AuxiliaryLikelihood.of(shape, counts, hood.absent)
        if self.l1 and any(len(places) > 1 for places in shape.touching):
            return LocalProximal(self.l1, self.l2, self.tolerance, self.max_iterations)(problems)
        return newton(problems)


@dataclass(frozen=True, eq=False)
class ProblemBlock:
    """Some neighbourhoods of one shape, with their counts where these are known already."""

    problems: Neighbourhoods
    counts: Float[Tensor, "x q"] | None = None


@dataclass(frozen=True, eq=False)
class SolveBlock:
    """The task of one worker: count (unless done before), solve, keep the clique's own."""

    solver: LocalSolver
    columns: Columns | None = None
    missing: bool = False

    @torch.inference_mode()  # a fifth of the time of many short operations
    def __call__(self, block: ProblemBlock) -> LocalSolution:
        shape, counts = block.problems.shape, block.counts
        missing = self.missing
        if counts is None:
            assert self.columns is not None  # noqa: S101 - one of the two is given
            counts = neighbourhood_counts(block.problems.scope, shape.sizes, self.columns)
            missing = self.columns.missing
        found = self.solver(block.problems, counts, missing)
        own, value = found.terms[shape.spans[0]], found.value
        if block.problems.surplus is not None:
            value = value - block.problems.surplus * counts.sum(dim=0)
        if not (self.solver.l2 or self.solver.l1):
            insist_on_support(block.problems, own, counts)
        return replace(found, terms=own.contiguous(), value=value)


def lap(
    graph: FactorGraph,
    blocks: Iterable[ProblemBlock],
    task: Callable[[ProblemBlock], LocalSolution],
    mapper: Mapper = map,
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
) -> Outcome[TabularModel]:
    """The field whose every clique is as its own local problem says; the value is their sum.

    Blocks that are solved go into the checkpoint, and are not solved again on resuming.
    """
    insist_on_untied(graph)
    started = time.perf_counter()
    layout = ParameterLayout.of(graph)
    flat = torch.zeros(layout.size, dtype=torch.float64, device=graph.device)
    held = list(blocks)
    solved = _Solved(checkpoint, {"model": "LAP", "blocks": len(held), "parameters": layout.size})
    ended = solved.read() if resume else []
    for found in mapper(task, held[len(ended) :]):
        ended.append(found)
        solved.save_if_due(ended)
    solved.save(ended)
    for block, found in zip(held, ended, strict=True):
        own = block.problems.factors[:, 0]
        flat[layout.places(own, len(found.terms))] = found.terms.to(flat)
    return outcome_of(layout.model(graph, flat), ended, time.perf_counter() - started)


class _Solved:
    """The checkpoint of a training by local problems: what was found so far, block by block."""

    def __init__(self, checkpoint: Checkpoint | None, identity: dict[str, Any]) -> None:
        self.checkpoint, self.identity = checkpoint, identity
        self.saved, self.at = 0, time.monotonic()
        if checkpoint is not None:
            checkpoint.check_writable()

    def read(self) -> list[LocalSolution]:
        assert self.checkpoint is not None  # noqa: S101 - the caller made sure
        identity, tensors = read_checkpoint(self.checkpoint.path)
        check_same(self.checkpoint.path, identity, self.identity)
        count = int(tensors["solved"])
        own = [{n: tensors[f"{k}.{n}"] for n in SOLUTION} for k in range(count)]
        self.saved = count
        return [
            LocalSolution(
                held["terms"],
                held["value"],
                int(held["iterations"]),
                held["converged"].bool(),
                held["stuck"].bool(),
            )
            for held in own
        ]

    def save_if_due(self, ended: Sequence[LocalSolution]) -> None:
        if self.checkpoint is None:
            return
        if self.checkpoint.due(len(ended) - self.saved, time.monotonic() - self.at):
            self.save(ended)

    def save(self, ended: Sequence[LocalSolution]) -> None:
        if self.checkpoint is None:
            return
        tensors = {"solved": torch.tensor(len(ended), dtype=torch.float64)}
        for k, found in enumerate(ended):
            for name in SOLUTION:
                held = torch.as_tensor(getattr(found, name))
                tensors[f"{k}.{name}"] = held if held.is_floating_point() else held.double()
        write_checkpoint(self.checkpoint.path, self.identity, tensors)
        self.saved, self.at = len(ended), time.monotonic()


def outcome_of(
    model: TabularModel, ended: Sequence[LocalSolution], seconds: float
) -> Outcome[TabularModel]:
    """How a training by local problems ended, all of them taken together."""
    cliques = sum(len(found.value) for found in ended)
    stuck = sum(int(found.stuck.sum()) for found in ended)
    unfinished = sum(int((~found.converged).sum()) for found in ended) - stuck
    iterations = max((found.iterations for found in ended), default=0)
    ending: Ending = "stuck" if stuck else "limit" if unfinished else "gradient"
    reason = f"all {cliques:,} local problems were solved"
    if stuck or unfinished:
        ends = ((unfinished, "ended at the limit of iterations"), (stuck, "found no better point"))
        parts = [f"{count:,} of {cliques:,} local problems {end}" for count, end in ends if count]
        reason = "; ".join(parts)
    return Outcome(
        model=model,
        value=sum(float(found.value.sum()) for found in ended),
        iterations=iterations,
        evaluations=iterations,
        ending=ending,
        reason=reason,
        history=(),
        seconds=seconds,
    )


def blocks_of(
    problems: Sequence[Neighbourhoods],
    counts: Sequence[Float[Tensor, "x q"]] | None = None,
    *,
    missing: bool = False,
) -> Iterator[ProblemBlock]:
    """The problems in portions that bound memory, and fit the processor's cache if they can."""
    for index, hood in enumerate(problems):
        together = _together(hood, missing)
        if len(hood) <= together:
            yield ProblemBlock(hood, None if counts is None else counts[index])
            continue
        for start in range(0, len(hood), together):
            stop = start + together
            known = None if counts is None else counts[index][:, start:stop]
            yield ProblemBlock(hood.part(start, stop), known)


def lap_refuses(graph: FactorGraph, *, missing: bool) -> str | None:
    """Why the neighbourhoods of a graph are too large for LAP; None where they are not."""
    crowded = too_crowded(graph)
    if crowded:
        return crowded
    largest = 2 ** min(log2_joint_states(graph, extra=int(missing)), 1000.0)
    if largest <= MOST_CELLS:
        return None
    return f"a neighbourhood has {largest:.3g} joint states; at most {MOST_CELLS:,} can be handled"


def insist_on_untied(graph: FactorGraph) -> None:
    """Raises `GraphError` where cliques share tables."""
    for group in graph.groups:
        if len(group) and len(group.table.unique()) < len(group):
            raise GraphError(
                f"group '{group.name}' shares tables between cliques; LAP learns each clique by "
                "itself. Build the graph with tied=False, or use the estimator 'pl' or 'ml'."
            )


def _together(hood: Neighbourhoods, missing: bool) -> int:
    shape = hood.shape
    sizes = [size + missing for size in shape.sizes]
    if prod(sizes) > MOST_CELLS:
        clique = hood.scope[0, : shape.own].tolist()
        raise GraphError(
            f"the neighbourhood of clique {clique} has {len(sizes)} variables and "
            f"{prod(sizes):.3g} joint states; at most {MOST_CELLS:,} can be handled. "
            "Use pseudolikelihood (the estimator 'pl') on such a graph."
        )
    return max(1, min(MOST_PROBLEMS, BLOCK // max(prod(sizes), shape.work)))


def insist_on_support(
    problems: Neighbourhoods, own: Float[Tensor, "p q"], counts: Float[Tensor, "x q"]
) -> None:
    """Raises `DataError` for the first clique whose parameters ran away to infinity."""
    wrong = (~own.isfinite() | (own.abs() > UNBOUNDED)).any(dim=0)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        clique = problems.scope[row, : problems.shape.own].tolist()
        raise DataError(
            f"too few samples for clique {clique}: {float(counts[:, row].sum()):g} samples never "
            "show some joint state around it, so its best parameter would be infinite. "
            "Give a penalty (l2=0.1), more samples, or fewer cliques."
        )


# Consensus: every variable learns alone, then neighbours agree [Liu and Ihler 2012].


@dataclass(frozen=True, eq=False)
class Opinion:
    """What some variables have learned, and how sure each is of each parameter."""

    found: LocalSolution
    weight: Float[Tensor, "p q"]


@dataclass(frozen=True, eq=False)
class FormOpinion:
    """The task of one worker: each variable of a block given its neighbours."""

    newton: LocalNewton
    columns: Columns

    @torch.inference_mode()
    def __call__(self, block: ProblemBlock) -> Opinion:
        problems, shape = block.problems, block.problems.shape
        counts = neighbourhood_counts(problems.scope, shape.sizes, self.columns)
        likelihood = AuxiliaryLikelihood.of(shape, counts)
        found = self.newton(likelihood)
        if not self.newton.l2:
            insist_on_support(problems, found.terms, counts)
        return Opinion(found, self._weight(likelihood, found))

    def _weight(
        self, likelihood: AuxiliaryLikelihood, found: LocalSolution
    ) -> Float[Tensor, "p q"]:
        """The inverse variance of each parameter; about 0 where the samples say nothing of it.

        The ridge of Newton's method stands for what no sample says: its variance is then that of
        1 / ridge, some 1e13 times that of a parameter that is known.
        """
        hessian = likelihood.hessian(likelihood.at(found.terms))
        hessian.diagonal(dim1=1, dim2=2).add_(2 * self.newton.l2)
        factor, failed = cholesky_with_ridge(hessian, likelihood.total)
        variance = torch.cholesky_inverse(factor).diagonal(dim1=1, dim2=2).T
        known = ~failed & variance.isfinite() & (variance > 0)
        return torch.where(known, 1 / variance, 0.0)


def consensus(
    graph: FactorGraph, blocks: Iterable[ProblemBlock], task: FormOpinion, mapper: Mapper = map
) -> Outcome[TabularModel]:
    """The field on which all variables agree, from blocks of `blankets`."""
    insist_on_untied(graph)
    started = time.perf_counter()
    layout = ParameterLayout.of(graph)
    total = torch.zeros(layout.size, dtype=torch.float64, device=graph.device)
    weight = torch.zeros_like(total)
    held, ended = list(blocks), []
    for block, opinion in zip(held, mapper(task, held), strict=True):
        places = layout.terms(block.problems).view(-1)
        total.index_add_(0, places, (opinion.weight * opinion.found.terms).to(total).reshape(-1))
        weight.index_add_(0, places, opinion.weight.to(total).reshape(-1))
        ended.append(opinion.found)
    # Where nobody has an opinion with any weight, the parameter stays at zero.
    model = layout.model(graph, torch.where(weight > 0, total / weight, 0.0))
    return outcome_of(model, ended, time.perf_counter() - started)


# Piecewise training of an untied field: each clique by itself, as if there were no other.


def pieces(graph: FactorGraph, counts: CliqueCounts, newton: LocalNewton) -> Outcome[TabularModel]:
    """The product of all cliques' own fields, from the counts of the cliques."""
    insist_on_untied(graph)
    started = time.perf_counter()
    tables, ended = [], []
    for group, seen in zip(graph.groups, counts.counts, strict=True):
        sizes = tuple(seen.shape[1:])
        flat = seen.reshape(len(group), -1).T.contiguous()
        shape = _saturated(sizes)
        found = newton(AuxiliaryLikelihood.of(shape, flat))
        if not newton.l2:
            hood = Neighbourhoods(shape, group.scope, group.table.unsqueeze(1))
            insist_on_support(hood, found.terms, flat)
        tables.append(DenseTable(_scores(shape, found).T.reshape(len(group), *sizes)))
        ended.append(found)
    model = TabularModel.from_potentials(reference_gauge(Potentials(graph, tuple(tables))))
    return outcome_of(model, ended, time.perf_counter() - started)


def _saturated(sizes: tuple[int, ...]) -> LocalShape:
    """One clique with all of its subsets: a free table."""
    whole = range(len(sizes))
    subsets = tuple(s for k in range(len(sizes), 0, -1) for s in combinations(whole, k))
    return LocalShape(sizes, len(sizes), subsets)


def _scores(shape: LocalShape, found: LocalSolution) -> Float[Tensor, "x q"]:
    terms = found.terms.new_zeros(shape.cells, found.terms.shape[1])
    terms[torch.from_numpy(shape.index).to(terms.device)] = found.terms
    return scores_of_terms(terms, shape.sizes)
