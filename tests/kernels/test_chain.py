"""Every padded kernel against the list of all assignments."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from torch.testing import assert_close

from mrflearn.kernels import chain_sums
from support import padded_chains as chain
from support.chains import ChainBatch, chain_batches, every_path, listed_marginals, random_chains

reference = SimpleNamespace(
    marginals=chain_sums.reference_marginals, log_partition=chain_sums.reference_log_partition
)
SUMS = pytest.mark.parametrize("kernel", [chain, reference], ids=["fast", "reference"])


@SUMS
@given(chains=chain_batches())
@settings(max_examples=50)
def test_marginals_equal_enumeration(kernel, chains):
    found = kernel.marginals(chains.unary, chains.transition, chains.lengths)
    for ours, listed in zip(found, listed_marginals(chains), strict=True):
        assert_close(ours, listed, rtol=1e-9, atol=1e-9)


@SUMS
@given(chains=chain_batches())
@settings(max_examples=50)
def test_log_partition_equals_enumeration(kernel, chains):
    value = kernel.log_partition(chains.unary, chains.transition, chains.lengths)
    assert_close(value, listed_marginals(chains)[0], rtol=1e-10, atol=1e-10)


@given(chains=chain_batches())
@settings(max_examples=50)
def test_gradient_of_log_partition_is_the_marginals(chains):
    unary, transition = chains.unary.requires_grad_(), chains.transition.requires_grad_()
    weight = torch.arange(1.0, len(chains.lengths) + 1, dtype=torch.float64)
    value = chain.log_partition(unary, transition, chains.lengths)
    possible = value.detach() > -torch.inf
    (weight * value)[possible].sum().backward()
    with torch.no_grad():
        _, single, pair = listed_marginals(chains)
    weight = torch.where(possible, weight, 0.0)
    assert_close(unary.grad, single * weight[:, None, None], rtol=1e-9, atol=1e-9)
    expected = pair * weight[:, None, None, None]
    expected = expected.sum(dim=(0, 1)) if transition.ndim == 2 else expected
    assert_close(transition.grad, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shared", [True, False])
def test_gradient_by_finite_differences(shared):
    chains = random_chains(5, [3, 1, 4, 0], 3, shared=shared)
    inputs = (chains.unary.requires_grad_(), chains.transition.requires_grad_())
    assert torch.autograd.gradcheck(lambda u, t: chain.log_partition(u, t, chains.lengths), inputs)


@given(chains=chain_batches())
@settings(max_examples=50)
def test_n_best_equals_sorted_enumeration(chains):
    count = 7
    paths, scores = chain.n_best(chains.unary, chains.transition, chains.lengths, count)
    for i in range(len(chains.lengths)):
        every, listed = every_path(chains, i)
        best = listed.sort(descending=True).values[:count]
        missing = scores.new_full((count - len(best),), -torch.inf)
        assert_close(scores[i], torch.cat([best, missing]), rtol=1e-12, atol=1e-9)
        possible = scores[i] > -torch.inf
        ours = paths[i, possible, : int(chains.lengths[i])]
        assert len(set(map(tuple, ours.tolist()))) == len(ours)
        row = (every[:, None] == ours).all(dim=2).int().argmax(dim=0)
        assert_close(listed[row], scores[i, possible], rtol=1e-12, atol=1e-9)
        assert not paths[i, :, int(chains.lengths[i]) :].any()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count", [2, 5, 30])
def test_many_best_of_longer_chains(seed, count):
    chains = random_chains(seed, [6, 5], 4, shared=seed % 2 == 0, scale=0.5)
    _, scores = chain.n_best(chains.unary, chains.transition, chains.lengths, count)
    for i in range(2):
        listed = every_path(chains, i)[1].sort(descending=True).values
        assert_close(scores[i], listed[:count])


@given(chains=chain_batches())
@settings(max_examples=50)
def test_viterbi_is_the_best(chains):
    path, score = chain.viterbi(chains.unary, chains.transition, chains.lengths)
    for i, length in enumerate(chains.lengths.tolist()):
        every, listed = every_path(chains, i)
        assert_close(score[i], listed.max(), rtol=1e-12, atol=1e-9)
        if score[i] > -torch.inf:
            row = int((every == path[i, :length]).all(dim=1).int().argmax())
            assert_close(listed[row], score[i], rtol=1e-12, atol=1e-9)


@given(chains=chain_batches())
@settings(max_examples=50)
def test_entropy_equals_enumeration(chains):
    found = chain.entropy(chains.unary, chains.transition, chains.lengths)
    for i in range(len(chains.lengths)):
        _, listed = every_path(chains, i)
        if listed.max() == -torch.inf:
            assert found[i] == -torch.inf
        else:
            chance = listed.softmax(dim=0)
            expected = -torch.special.xlogy(chance, chance).sum()
            assert_close(found[i], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shared", [True, False])
def test_samples_follow_the_distribution(shared):
    chains = random_chains(2, [3, 0, 1, 2], 3, shared=shared, forbidden=0.15)
    generator = torch.Generator().manual_seed(1)
    count = 40_000
    drawn = chain.sample(chains.unary, chains.transition, chains.lengths, count, generator)
    assert drawn.shape == (count, 4, 3)
    for i, length in enumerate(chains.lengths.tolist()):
        every, listed = every_path(chains, i)
        hits = (drawn[:, None, i, :length] == every).all(dim=2).double().mean(dim=0)
        chance = listed.softmax(dim=0)
        assert (hits[chance == 0] == 0).all()
        deviation = (hits - chance) / (chance * (1 - chance) / count).sqrt().clamp(min=1e-9)
        assert deviation[(chance > 0) & (chance < 1)].abs().max().item() < 5 if length else True


@pytest.mark.parametrize("scale", [1.0, 30.0, 500.0])
def test_float32_agrees_with_float64(scale):
    chains = random_chains(4, [40, 7, 1, 25, 0], 6, scale=scale, dtype=torch.float32)
    exact = ChainBatch(chains.unary.double(), chains.transition.double(), chains.lengths)
    value, single, pair = chain.marginals(chains.unary, chains.transition, chains.lengths)
    wanted = chain_sums.reference_marginals(exact.unary, exact.transition, exact.lengths)
    assert_close(value.double(), wanted[0], rtol=2e-6, atol=1e-5)
    assert_close(single.double(), wanted[1], rtol=0, atol=2e-5)
    assert_close(pair.double(), wanted[2], rtol=0, atol=2e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_fast_chain_agrees_with_slow_chain_on_long_sequences(shared):
    chains = random_chains(0, [150, 3, 90, 1, 149], 9, shared=shared, forbidden=0.1, scale=3.0)
    arguments = (chains.unary, chains.transition, chains.lengths)
    for ours, theirs in zip(
        chain.marginals(*arguments), chain_sums.reference_marginals(*arguments), strict=True
    ):
        assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("scale", [1.0, 500.0])
def test_a_gpu_gives_the_same_answers(shared, scale):
    chains = random_chains(1, [9, 0, 4, 1], 5, shared=shared, scale=scale, forbidden=0.1)
    here = (chains.unary, chains.transition, chains.lengths)
    there = tuple(part.cuda() for part in here)
    for question in (chain.marginals, chain.viterbi):
        for ours, theirs in zip(question(*there), question(*here), strict=True):
            assert_close(ours.cpu(), theirs)
    assert_close(chain.entropy(*there).cpu(), chain.entropy(*here))
    assert_close(chain.n_best(*there, 4)[1].cpu(), chain.n_best(*here, 4)[1])
    drawn = chain.sample(*there, 3, torch.Generator("cuda").manual_seed(0))
    assert drawn.shape == (3, 4, 9)
