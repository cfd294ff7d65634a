"""`SemiMarkovCRF` against the enumeration of all segmentations."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from mrflearn.errors import DataError, SettingsError
from mrflearn.nn import ChainCRF, SemiMarkovCRF

POSITIONS, LABELS, LONGEST = 5, 2, 3
MASK = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 0, 0, 0, 0]]).bool()


def every(length):
    """All ways to cut so many positions into labelled segments."""
    if not length:
        yield ()
    for size in range(1, min(LONGEST, length) + 1):
        for before in every(length - size):
            for label in range(LABELS):
                yield (*before, (length - size, length, label))


def score(crf, emissions, segments, starting, ending):
    total = crf.start_transitions[segments[0][2]] + crf.end_transitions[segments[-1][2]]
    for k, (start, stop, label) in enumerate(segments):
        total = total + emissions[start:stop, label].sum() + crf.durations[stop - start - 1, label]
        total = total + starting[start, label] + ending[stop - 1, label]
        if k:
            total = total + crf.transitions[segments[k - 1][2], label]
    return total.detach()


@pytest.fixture
def case():
    torch.manual_seed(0)
    crf = SemiMarkovCRF(LABELS, LONGEST, batch_first=True).double()
    with torch.no_grad():
        for own in crf.parameters():
            own.copy_(torch.randn_like(own))
    return crf, *torch.randn(3, len(MASK), POSITIONS, LABELS).double().unbind()


def test_sums_marginals_and_best(case):
    crf, emissions, *boundaries = case
    given = emissions, MASK, tuple(boundaries)
    log_z, best, marginals = crf.log_partition(*given), crf.decode(*given), crf.marginals(*given)
    gold = []
    for i, inside in enumerate(MASK):
        parts = (own[i, inside] for own in (emissions, *boundaries))
        own, starting, ending = parts
        found = list(every(len(own)))
        scores = torch.stack([score(crf, own, cut, starting, ending) for cut in found])
        assert_close(log_z[i], scores.logsumexp(0))
        assert best[i] == list(found[int(scores.argmax())])
        wanted = torch.zeros(len(own), LABELS).double()
        for chance, cut in zip(scores.softmax(0), found, strict=True):
            for start, stop, label in cut:
                wanted[start:stop, label] += chance
        assert_close(marginals[i, inside], wanted)
        gold.append((scores[0] - scores.logsumexp(0), found[0]))
    assert bool((marginals[~MASK] == 0).all())
    log_likelihood = crf(emissions, [cut for _, cut in gold], MASK, "none", tuple(boundaries))
    assert_close(log_likelihood, torch.stack([value for value, _ in gold]))


def test_gradients(case):
    crf, *given = case
    names = [name for name, _ in crf.named_parameters()]
    segments = [[(0, 2, 1), (2, 5, 0)], [(0, 3, 1)], [(0, 1, 0)]]
    leaves = [own.detach().clone().requires_grad_() for own in (*given, *crf.parameters())]

    def loss(emissions, starting, ending, *parameters):
        arguments = emissions, segments, MASK, "none", (starting, ending)
        own = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(crf, own, arguments)

    assert torch.autograd.gradcheck(loss, leaves)


def test_segments_of_one_position_are_a_chain():
    torch.manual_seed(1)
    chain, crf = ChainCRF(3), SemiMarkovCRF(3, 1)
    crf.load_state_dict(chain.state_dict() | {"durations": torch.zeros(1, 3)})
    emissions = torch.randn(7, 2, 3)
    assert_close(crf.log_partition(emissions), chain.log_partition(emissions))
    found = [[label for _, _, label in cut] for cut in crf.decode(emissions)]
    assert found == chain.decode(emissions)
    assert_close(crf.marginals(emissions), chain.marginals(emissions))


def test_what_no_length_allows_has_no_mass():
    crf, emissions = SemiMarkovCRF(2, 3, batch_first=True), torch.randn(2, 4, 2).requires_grad_()
    with torch.no_grad():
        crf.durations.fill_(-torch.inf)
        crf.durations[2] = 0.0  # segments of exactly three positions
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    value = crf.log_partition(emissions, mask)
    assert value.isfinite().tolist() == [True, False]
    gradients = torch.autograd.grad(value[0], [emissions, *crf.parameters()])
    assert all(bool(own.isfinite().all()) for own in gradients)
    both = torch.autograd.grad(crf.log_partition(emissions, mask).sum(), emissions)[0]
    assert bool(both.isfinite().all())


def test_memory_is_positions_times_labels():
    """What autograd keeps does not grow with the longest segment."""

    def kept(longest):
        sizes = []
        crf, emissions = SemiMarkovCRF(3, longest), torch.randn(60, 1, 3).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(
            lambda own: sizes.append(own.numel()) or own, lambda own: own
        ):
            crf.log_partition(emissions)
        return sum(sizes)

    assert kept(50) - kept(10) <= 10 * 3 * 40


def test_bad_input_is_named():
    crf, emissions = SemiMarkovCRF(2, 3, batch_first=True), torch.randn(1, 4, 2)
    with pytest.raises(SettingsError, match="max_length=0"):
        SemiMarkovCRF(2, 0)
    with pytest.raises(DataError, match="num_labels=2"):
        crf.decode(emissions[..., :1])
    with pytest.raises(DataError, match="mask"):
        crf.decode(emissions, torch.ones(4, 1))
    with pytest.raises(DataError, match="boundaries"):
        crf.decode(emissions, None, (emissions, emissions[:, 1:]))
    for segments in ([(0, 4, 0)], [(0, 2, 0), (3, 4, 0)], [(0, 3, 0)], [(0, 2, 5), (2, 4, 0)]):
        with pytest.raises(DataError, match="sequence 0"):
            crf.loss(emissions, [segments])
    with pytest.raises(DataError, match="2 sequences"):
        crf.loss(emissions, [[(0, 2, 0), (2, 4, 0)]] * 2)
