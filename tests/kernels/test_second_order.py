"""Chains of the second order against the enumeration of all assignments."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.kernels import chain_search, second_order
from mrflearn.kernels.chain_sums import Steps
from support.work import CountedElements

LENGTHS = torch.tensor([3, 0, 1, 5, 2])
STATES = 3


def tables(seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (int(LENGTHS.sum()), STATES), (STATES, STATES), (STATES, STATES)
    return [2 * torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def enumerated(unary, near, far) -> list[tuple[float, tuple[int, ...]]]:
    """(score, assignment) of one sequence, best first."""
    found = []
    for path in itertools.product(range(STATES), repeat=len(unary)):
        score = sum(float(unary[i, y]) for i, y in enumerate(path))
        score += sum(float(near[a, b]) for a, b in itertools.pairwise(path))
        score += sum(float(far[a, c]) for a, c in zip(path, path[2:], strict=False))
        found.append((score, path))
    return sorted(found, reverse=True)


def by_sequence(unary, near, far):
    return [enumerated(own, near, far) for own in unary.split(LENGTHS.tolist())]


def test_log_partition_and_its_gradients():
    steps, (unary, near, far) = Steps.of(LENGTHS), tables()
    found = second_order.log_partition(steps.pack(unary), near, far, steps)
    truth = [
        torch.tensor([s for s, _ in own]).double().logsumexp(0)
        for own in by_sequence(unary, near, far)
    ]
    torch.testing.assert_close(found, torch.stack(truth), rtol=1e-6, atol=1e-6)
    leaves = [part.clone().requires_grad_() for part in (steps.pack(unary), near, far)]
    assert torch.autograd.gradcheck(
        lambda *own: second_order.log_partition(*own, steps), leaves, atol=1e-6
    )


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("block", [10, 2**20])
def test_best_assignments(count, block, monkeypatch):
    monkeypatch.setattr(chain_search, "LARGEST_BLOCK", block)
    steps, (unary, near, far) = Steps.of(LENGTHS), tables(seed=1)
    paths, scores = second_order.n_best(steps.pack(unary), near, far, steps, count)
    by_token = steps.unpack(paths, len(unary)).split(LENGTHS.tolist())
    for own, values, truth in zip(by_token, scores, by_sequence(unary, near, far), strict=True):
        for rank, (score, path) in enumerate(truth[:count]):
            assert float(values[rank]) == pytest.approx(score)
            assert tuple(own[:, rank].tolist()) == path
        assert bool((values[len(truth) :] == -torch.inf).all())


def test_viterbi_is_the_first_of_the_best():
    steps, (unary, near, far) = Steps.of(LENGTHS), tables(seed=2)
    rows = steps.pack(unary)
    path, score = second_order.viterbi(rows, near, far, steps)
    paths, scores = second_order.n_best(rows, near, far, steps, 3)
    assert torch.equal(path, paths[:, 0])
    torch.testing.assert_close(score, scores[:, 0])


def test_no_sequences_at_all():
    steps = Steps.of(torch.zeros(2, dtype=torch.int64))
    none, table = torch.zeros(0, STATES), torch.zeros(STATES, STATES)
    assert second_order.log_partition(none, table, table, steps).tolist() == [0, 0]
    assert second_order.viterbi(none, table, table, steps)[1].tolist() == [0, 0]


@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1.0, 30.0, 400.0]),
    forbidden=st.sampled_from([0.0, 0.3, 0.7]),
    dtype=st.sampled_from([torch.float64, torch.float32]),
)
def test_any_range_and_any_impossible_scores(seed, scale, forbidden, dtype):
    generator = torch.Generator().manual_seed(seed)
    steps, own = Steps.of(LENGTHS), []
    for table in tables(seed):
        hidden = torch.rand(table.shape, generator=generator) < forbidden
        own.append((scale * table).masked_fill(hidden, -torch.inf).to(dtype))
    unary, near, far = own
    leaves = [part.clone().requires_grad_() for part in (steps.pack(unary), near, far)]
    found = second_order.log_partition(*leaves, steps)
    truth = torch.stack(
        [
            torch.tensor([s for s, _ in rows], dtype=torch.float64).logsumexp(0)
            for rows in by_sequence(unary.double(), near.double(), far.double())
        ]
    )
    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(found.double(), truth, rtol=tolerance, atol=tolerance)
    possible = found.detach() > -torch.inf
    slopes = torch.autograd.grad(found[possible].sum(), leaves)
    assert all(bool(slope.isfinite().all()) for slope in slopes)
    # Every token of a possible sequence has states of probability 1 in all.
    rows = slopes[0].sum(dim=1)
    torch.testing.assert_close(rows, possible[steps.sequence].to(dtype), rtol=1e-4, atol=1e-4)


def test_the_twin_in_log_space():
    unary, near, far = tables(seed=3)
    for own in unary.split(LENGTHS.tolist()):
        slow = second_order.log_partition_reference(own, near, far)
        steps = Steps.of(torch.tensor([len(own)]))
        fast = second_order.log_partition(own, near, far, steps)
        torch.testing.assert_close(slow, fast[0])
    assert torch.autograd.gradcheck(
        second_order.log_partition_reference,
        [part.clone().requires_grad_() for part in (unary[:4], near, far)],
    )


def test_work_grows_with_the_sequences_that_are_done_again():
    def work(sequences):
        steps = Steps.of(torch.full((sequences,), 2))
        impossible = torch.full((2 * sequences, STATES), -torch.inf)
        table = torch.zeros(STATES, STATES)
        with CountedElements() as counted:
            second_order.log_partition(impossible, table, table, steps)
        return counted.count

    assert work(600) < 2.2 * work(300)


def test_log_partition_less_the_score_of_a_path():
    steps, (unary, near, far) = Steps.of(LENGTHS), tables(seed=4)
    rows = steps.pack(unary)
    path = torch.randint(STATES, (len(steps),), generator=torch.Generator().manual_seed(0))
    tags = steps.unpack(path, len(unary)).split(LENGTHS.tolist())
    sequences = by_sequence(unary, near, far)
    scores = [
        next(score for score, states in own if states == tuple(gold.tolist()))
        for own, gold in zip(sequences, tags, strict=True)
    ]
    log_z = second_order.log_partition(rows, near, far, steps)
    wanted = log_z - torch.tensor(scores, dtype=torch.float64)
    torch.testing.assert_close(second_order.log_partition(rows, near, far, steps, path), wanted)
    leaves = [part.clone().requires_grad_() for part in (rows, near, far)]
    assert torch.autograd.gradcheck(
        lambda *own: second_order.log_partition(*own, steps, path), leaves
    )


@pytest.mark.parametrize(("scale", "forbidden"), [(1.0, 0.0), (1.0, 0.3), (400.0, 0.3)])
def test_entropy(scale, forbidden):
    generator = torch.Generator().manual_seed(5)
    unary, near, far = (
        (scale * own).masked_fill(
            torch.rand(own.shape, generator=generator) < forbidden, -torch.inf
        )
        for own in tables(seed=5)
    )
    steps = Steps.of(LENGTHS)
    found = second_order.entropy(steps.pack(unary), near, far, steps)
    for value, own in zip(found, by_sequence(unary, near, far), strict=True):
        scores = torch.tensor([score for score, _ in own], dtype=torch.float64)
        if bool((scores == -torch.inf).all()):
            assert float(value) == -torch.inf
            continue
        chance = scores.softmax(0)
        wanted = -torch.where(chance > 0, chance * chance.clamp_min(1e-300).log(), 0.0).sum()
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-6)


def test_samples_have_the_right_frequencies():
    steps, (unary, near, far) = Steps.of(LENGTHS), tables(seed=6)
    draws = 5000
    generator = torch.Generator().manual_seed(0)
    found = second_order.sample(steps.pack(unary), near, far, steps, draws, generator)
    tokens = steps.unpack(found.t(), len(unary)).split(LENGTHS.tolist())
    for drawn, own in zip(tokens, by_sequence(unary, near, far), strict=True):
        chance = torch.tensor([score for score, _ in own]).double().softmax(0)
        for share, (_, states) in zip(chance, own, strict=True):
            seen = (drawn == torch.tensor(states).long()[:, None]).all(dim=0).double().mean()
            error = (share * (1 - share) / draws).sqrt()
            assert abs(float(seen - share)) <= 5 * float(error) + 2 / draws
