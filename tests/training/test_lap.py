"""LAP: the paper's propositions on fields small enough to enumerate."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mrflearn.errors import GraphError
from mrflearn.features.observations import CliqueCounts, Samples
from mrflearn.graph.builders import chain, chimera, complete, cube, grid
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import random_ising, reference_gauge, zero_sum_gauge
from mrflearn.graph.neighbourhood import Auxiliary, Neighbourhoods, blankets, neighbourhoods
from mrflearn.graph.potentials import Potentials
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood, LocalTables
from mrflearn.training import lap as room
from mrflearn.training.lap import (
    SolveBlock,
    fit_locally,
    pieces,
    problem_blocks,
    pseudo_moments,
)
from mrflearn.training.newton import LocalNewton, LocalSolution
from support.brute_force import all_assignments, all_probabilities
from support.fields import random_field

TRIPLES = ((0, 1, 2), (1, 3, 2), (0, 1), (0, 2), (1, 2), (1, 3), (3, 2), (0,), (1,), (2,), (3,))
FIELDS = {
    "grid": random_ising(grid(3, 3), seed=1),
    "chain": random_ising(chain(6), seed=2),
    "complete": random_ising(complete(5), seed=3),
    "chimera": random_ising(chimera(1, 2, 2), seed=4),
    "cube": random_ising(cube(2, 2, 2), seed=5),
    "potts": reference_gauge(
        random_field(
            6, states=(3, 2, 3, 2), scopes=((0,), (1,), (2,), (3,), (0, 1), (1, 2), (2, 3))
        )
    ),
    "triples": reference_gauge(random_field(7, states=(2, 3, 2, 2), scopes=TRIPLES)),
}


def everything(field: Potentials) -> Samples:
    """All states, each weighted with its true probability: infinitely many samples."""
    return Samples.of(all_assignments(field), all_probabilities(field))


def learned(
    graph: FactorGraph, columns: Samples, auxiliary: Auxiliary = "exact", **options: float
) -> Potentials:
    plan = problem_blocks(neighbourhoods(graph, auxiliary), own=True, missing=columns.missing)
    newton = LocalNewton(**options)  # type: ignore[arg-type]
    task = SolveBlock(newton, columns, columns.missing)
    return fit_locally(graph, plan, task).model.potentials()


def distance(field: Potentials, truth: Potentials) -> float:
    pairs = zip(field.tables, reference_gauge(truth).tables, strict=True)
    return max(float((a.dense() - b.dense()).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("auxiliary", ["exact", "dense"])
@pytest.mark.parametrize("name", FIELDS)
def test_a_distribution_that_factorises_is_recovered(name: str, auxiliary: Auxiliary) -> None:
    # [Mizrahi 2014, Theorem 8]  Then LAP is maximum likelihood, and that is the field itself.
    field = FIELDS[name]
    assert distance(learned(field.graph, everything(field), auxiliary), field) < 1e-6


def test_the_pairwise_auxiliary_is_close_but_not_equal_on_a_loopy_grid() -> None:
    field = FIELDS["grid"]
    found = distance(learned(field.graph, everything(field), "pairwise"), field)
    assert 1e-6 < found < 0.01
    tree = FIELDS["chain"]
    assert distance(learned(tree.graph, everything(tree), "pairwise"), tree) < 1e-6


def test_lap_equals_maximum_likelihood_on_samples_that_factorise() -> None:
    # The empirical distribution of independent halves: counts that are products, but no truth.
    left = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    counts = torch.tensor([3.0, 1.0, 2.0, 5.0], dtype=torch.float64)
    rows = torch.cat([left.repeat_interleave(4, dim=0), left.repeat(4, 1)], dim=1)
    weights = (counts.unsqueeze(1) * counts).view(-1)
    graph = chain(4)
    found = learned(graph, Samples.of(rows, weights))
    odds = (counts[3] * counts[0] / counts[1] / counts[2]).log()
    table = found.tables[1].dense()[:, 1, 1]
    assert_close(table, torch.stack([odds, torch.zeros_like(odds), odds]), atol=1e-6, rtol=0)


def test_potentials_that_are_not_normalised_give_wrong_answers() -> None:
    # [Mizrahi 2014, Proposition 3]  An edge's table that also holds what its ends do alone
    # describes its neighbourhood as well, but the product of all edges counts each end repeatedly.
    field = FIELDS["grid"]
    columns, states, truth = everything(field), all_assignments(field), all_probabilities(field)
    score = torch.zeros(len(states), dtype=torch.float64)
    for hood in neighbourhoods(field.graph, "dense"):
        if hood.shape.own == 1:
            continue
        counts = columns.count(hood.scope, hood.shape.sizes)
        terms = LocalNewton()(AuxiliaryLikelihood.of(LocalTables(hood.shape), counts)).terms
        for place in ((0, 1), (0,), (1,)):
            value = terms[hood.shape.spans[hood.shape.touching.index(place)]][0]
            score += (states[:, hood.scope[:, place]].prod(dim=2) * value).sum(dim=1)
    wrong = score.softmax(dim=0)
    right = all_probabilities(learned(field.graph, columns))
    assert float((right - truth).abs().sum()) < 1e-6
    assert float((wrong - truth).abs().sum()) > 0.2


def test_the_spin_gauge_of_a_marginal_reads_the_same() -> None:
    # The terms that touch a clique are all in its neighbourhood, so any gauge that projects each
    # variable by itself identifies them; fitting in 0/1 and converting loses nothing.
    field = FIELDS["grid"]
    hood = next(h for h in neighbourhoods(field.graph, "dense") if h.shape.own == 2)
    inside = hood.scope[0]
    states, p = all_assignments(field), all_probabilities(field)
    code = (states[:, inside] * 2 ** torch.arange(len(inside)).flip(0)).sum(dim=1)
    log_p = torch.zeros(2 ** len(inside), dtype=torch.float64).index_add(0, code, p).log()
    table = log_p.reshape(4, -1).mean(dim=1)
    spin = (table[3] + table[0] - table[1] - table[2]) / 4
    edges = field.graph.groups[1].scope.tolist()
    known = zero_sum_gauge(field).tables[1].dense()[edges.index(inside[:2].tolist()), 1, 1]
    assert_close(spin, known)


def test_errors_fall_like_one_over_the_root_of_the_samples() -> None:
    field = FIELDS["grid"]
    p = all_probabilities(field)
    errors = []
    for samples in (2_000, 50_000, 1_250_000):
        runs = []
        for seed in range(4):
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.multinomial(p, samples, replacement=True, generator=generator)
            counts = torch.bincount(drawn, minlength=len(p)).double()
            found = learned(field.graph, Samples.of(all_assignments(field), counts))
            pairs = zip(found.tables, reference_gauge(field).tables, strict=True)
            runs.append(sum(float((a.dense() - b.dense()).square().sum()) for a, b in pairs))
        errors.append(sum(runs) ** 0.5)
    for before, after in pairwise(errors):
        assert 3 < before / after < 8  # 5 is what the root says


def test_blocks_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    field = FIELDS["grid"]
    columns = everything(field)
    whole = learned(field.graph, columns)
    monkeypatch.setattr(room, "BLOCK", 1)
    in_ones = learned(field.graph, columns)
    assert columns.weights is not None
    parts = [Samples(columns.states[k::3], columns.weights[k::3]) for k in range(3)]
    blocks, task = problem_blocks(neighbourhoods(field.graph), own=True), SolveBlock(LocalNewton())

    def solve(block: Neighbourhoods) -> LocalSolution:
        counts = [part.count(block.scope, block.shape.sizes) for part in parts]
        return task(block, torch.stack(counts).sum(dim=0))

    streamed = fit_locally(field.graph, blocks, solve).model.potentials()
    for other in (in_ones, streamed):
        for a, b in zip(whole.tables, other.tables, strict=True):
            assert_close(a.dense(), b.dense(), rtol=1e-9, atol=1e-9)


def test_a_block_travels_without_the_whole_it_was_cut_from() -> None:
    blocks = problem_blocks(neighbourhoods(grid(60, 60), "dense"))
    assert len(blocks) > 10
    for block in blocks:  # bytes: for every clique its variables and factors
        assert len(pickle.dumps(block)) < 6_000 + 400 * len(block.scope)


def test_missing_values_cost_little_and_bias_nothing() -> None:
    # Every value hidden with probability 0.2: with the probabilities as weights, no noise is left.
    field = random_ising(chain(3), seed=4)
    states, p = all_assignments(field), all_probabilities(field)
    rows, weights = [], []
    for hidden in torch.cartesian_prod(*[torch.tensor([0, 1])] * 3):
        rows.append(torch.where(hidden.bool(), -1, states))
        weights.append(p * (0.2**hidden * 0.8 ** (1 - hidden)).prod())
    columns = Samples.of(torch.cat(rows), torch.cat(weights))
    assert columns.missing
    assert distance(learned(field.graph, columns), field) < 1e-4


def test_consensus_recovers_the_field_too() -> None:
    for name in ("grid", "potts", "triples"):
        field = FIELDS[name]
        task = SolveBlock(LocalNewton(), everything(field), weigh=True)
        found = fit_locally(field.graph, problem_blocks(blankets(field.graph)), task)
        assert distance(found.model.potentials(), field) < 1e-6


@pytest.mark.parametrize("weigh", [False, True])
@pytest.mark.parametrize("states", [2, 3])
def test_shared_tables_are_recovered_too(states: int, weigh: bool) -> None:
    graph = grid(3, 3, states, tied=True)
    generator = torch.Generator().manual_seed(states)
    zeros = TabularModel.zeros(graph).values
    values = [torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in zeros]
    field = TabularModel(graph, tuple(values))
    rows = everything(field.potentials())
    plan = problem_blocks(neighbourhoods(graph), own=True)
    found = fit_locally(graph, plan, SolveBlock(LocalNewton(), rows, weigh=weigh)).model
    for own, true in zip(found.values, values, strict=True):
        assert own.shape == true.shape
        assert_close(own, true, atol=1e-5, rtol=1e-5)


def test_shared_tables_are_means_weighted_by_precision() -> None:
    rows = torch.randint(2, (400, 4), generator=torch.Generator().manual_seed(5))
    rows[:, 1:] = torch.where(rows[:, 1:] == rows[:, :3], rows[:, 1:], 0)
    samples, graph = Samples.of(rows), chain(4, tied=True)
    alone = SolveBlock(LocalNewton(l2=0.1), samples, weigh=True)
    plan = problem_blocks(neighbourhoods(chain(4)), own=True)
    total, weight = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for block in plan:
        found = alone(block)
        assert found.precision is not None
        kind = block.shape.own - 1  # of one variable, or of two
        total[kind] += float((found.precision * found.terms).sum())
        weight[kind] += float(found.precision.sum())
    model = fit_locally(graph, problem_blocks(neighbourhoods(graph), own=True), alone).model
    assert_close(torch.cat([own.flatten() for own in model.values]), total / weight)


def test_pieces_are_the_logarithms_of_their_counts() -> None:
    field = FIELDS["triples"]
    states, p = all_assignments(field), all_probabilities(field)
    tables = []
    for group in field.graph.groups:
        shape = field.graph.shape(group)
        table = torch.zeros(len(group), *shape, dtype=torch.float64)
        for i, scope in enumerate(group.scope):
            table[i].index_put_(tuple(states[:, scope].T), p, accumulate=True)
        tables.append(table)
    counts = CliqueCounts(tuple(tables), torch.ones(1, dtype=torch.float64))
    found = pieces(field.graph, counts, LocalNewton()).model.potentials()
    product = sum(
        table[i][tuple(states[:, scope].T)].log()
        for group, table in zip(field.graph.groups, tables, strict=True)
        for i, scope in enumerate(group.scope)
    )
    assert isinstance(product, Tensor)
    assert_close(all_probabilities(found), product.softmax(dim=0), atol=1e-7, rtol=1e-6)


def test_what_lap_cannot_do_it_refuses() -> None:
    rows = torch.tensor([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 1]])
    nothing = TabularModel.zeros(grid(2, 2)).potentials()
    assert 0 < distance(learned(grid(2, 2), Samples.of(rows), l2=0.5), nothing) < 5
    with pytest.raises(GraphError, match=r"neighbourhood of clique \[0\] has 30 variables"):
        learned(complete(30), Samples.of(torch.zeros(2, 30, dtype=torch.int64)))


def test_closed_forms_of_single_cliques_share_no_tables() -> None:
    counts = CliqueCounts((torch.ones(4, 2), torch.ones(4, 2, 2)), torch.ones(1))
    for closed in (lambda: pieces(grid(2, 2, tied=True), counts, LocalNewton()),
                   lambda: pseudo_moments(grid(2, 2, tied=True), counts)):  # fmt: skip
        with pytest.raises(GraphError, match="shares tables"):
            closed()


@pytest.mark.parametrize(("l1", "missing"), [(0.0, False), (1.0, False), (0.0, True)])
def test_no_more_iterations_are_made_than_allowed(l1: float, missing: bool) -> None:
    rows = all_assignments(FIELDS["grid"])[:300].clone()
    rows[::7, 0] = -1 if missing else 1
    columns = Samples.of(rows)
    newton = LocalNewton(l2=0.01, l1=l1, max_iterations=2)
    plan = problem_blocks(neighbourhoods(FIELDS["grid"].graph), own=True, missing=missing)
    task = SolveBlock(newton, columns, missing)
    outcome = fit_locally(FIELDS["grid"].graph, plan, task)
    assert outcome.iterations == 2
    assert outcome.ending == "limit"


def test_an_estimate_without_any_information_has_no_weight() -> None:
    graph = chain(3)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(2, (200, 3), generator=generator)
    rows[:, 1] = 1  # a neighbour that never changes: coupling and field cannot be told apart
    varied = torch.arange(200).unsqueeze(1) % 2 == 0
    plan = problem_blocks(blankets(graph))
    block = next(block for block in plan if 1 not in block.scope[:, 0])
    found, known = (
        SolveBlock(LocalNewton(), Samples.of(own), weigh=True)(block).precision
        for own in (rows, torch.where(torch.tensor([0, 1, 0]) * varied > 0, 0, rows))
    )
    assert found is not None
    assert known is not None
    assert bool(found.isfinite().all())
    assert bool((found >= 0).all())
    assert float(found.max()) < 1e-6 * float(known.min())


def test_problems_that_fail_are_counted_in_the_outcome() -> None:
    graph = chain(3)
    rows = torch.randint(2, (200, 3), generator=torch.Generator().manual_seed(0))
    samples, task = Samples.of(rows), SolveBlock(LocalNewton(l2=0.1), weigh=True)
    blocks = problem_blocks(blankets(graph))

    def solve(block: Neighbourhoods) -> LocalSolution:
        counts = samples.count(block.scope, block.shape.sizes)
        if block is blocks[-1]:  # of one problem: neither its value nor its Hessian is a number
            counts[0, 0] = torch.nan
        return task(block, counts)

    outcome = fit_locally(graph, blocks, solve)
    assert outcome.failed
    assert "1 of 3 local problems" in outcome.reason
    assert all(bool(values.isfinite().all()) for values in outcome.model.values)
