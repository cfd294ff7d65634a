"""Exact rings and sentences against enumeration; Lemma 1 of Jernite, Rush, Sontag 2015."""

from __future__ import annotations

import itertools

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.inference import transfer
from mrflearn.models.lifted import NeighbourModel
from support.rings import all_rings, random_model, ring_log_partition, ring_scores, with_triples


@pytest.mark.parametrize(("offsets", "states", "positions"), [(1, 4, 6), (2, 3, 7), (3, 2, 11)])
def test_rings_are_exact(offsets, states, positions):
    model = random_model(offsets, states, seed=offsets)
    found = transfer.ring_log_partition(model.potentials(), positions)
    assert float(found) == pytest.approx(ring_log_partition(model, positions), rel=1e-12)


def test_gradients_of_rings_are_marginals():
    model = random_model(2, 3, seed=7)
    unary, tables = (
        model.unary.clone().requires_grad_(),
        model.potentials().tables().clone().requires_grad_(),
    )
    potentials = NeighbourModel(unary, {"table": tables}).potentials()
    transfer.ring_log_partition(potentials, 6).backward()
    rings = all_rings(3, 6)
    chance = ring_scores(model, rings).softmax(0)
    expected = torch.stack([(chance * (rings == x).sum(1)).sum() for x in range(3)])
    torch.testing.assert_close(unary.grad, expected)
    both = (rings == 1) & (rings.roll(-2, 1) == 2)
    torch.testing.assert_close(tables.grad[1, 1, 2], (chance * both.sum(1)).sum())


def test_triples_need_a_context_of_two():
    model = with_triples(random_model(1, 3, seed=3), seed=3)
    with pytest.raises(InferenceError, match="context of 2"):
        transfer.ring_log_partition(model.potentials(), 6)


def test_triples_are_exact():
    model = with_triples(random_model(2, 3, seed=3), seed=3)
    found = transfer.ring_log_partition(model.potentials(), 6)
    assert float(found) == pytest.approx(ring_log_partition(model, 6), rel=1e-12)


def test_words_in_gaps_of_rings_with_triples_are_conditionals():
    model = with_triples(random_model(2, 3, seed=4), seed=4)
    rest = torch.tensor([0, 2, 1, 1, 0])
    rings = torch.cat([rest.expand(3, -1), torch.arange(3).unsqueeze(1)], 1)
    expected = ring_scores(model, rings).log_softmax(0)
    before, after = rest[[-1, -2]], rest[[0, 1]]
    found = model.potentials().conditional(before[None], after[None])[0].log_softmax(0)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("offsets", "triples"), [(1, False), (2, False), (2, True), (3, True)])
def test_sentences_are_exact(offsets, triples):
    model = random_model(offsets, 3, seed=offsets)
    model = with_triples(model, seed=offsets) if triples else model
    potentials = model.potentials()
    found = transfer.sentence_log_partitions(potentials, 1, 4)
    for length, value in enumerate(found):
        sentences = itertools.product([0, 2], repeat=length)
        scores = [
            transfer.sentence_score(potentials, 1, torch.tensor(s, dtype=torch.int64))
            for s in sentences
        ]
        assert float(value) == pytest.approx(float(torch.stack(scores).logsumexp(0)), rel=1e-12)


@pytest.mark.parametrize(("offsets", "triples"), [(1, False), (2, False), (2, True)])
def test_lemma_1(offsets, triples):
    """The product of sentence models is the ring, given where its separators are."""
    model, separator, lengths = random_model(offsets, 3, seed=offsets), 2, (2, 3)
    model = with_triples(model, seed=offsets) if triples else model
    potentials = model.potentials()
    pad = [separator] * offsets
    corpora = list(itertools.product([0, 1], repeat=sum(lengths)))
    rings = torch.tensor([[*pad, *c[: lengths[0]], *pad, *c[lengths[0] :]] for c in corpora])
    given_separators = ring_scores(model, rings).log_softmax(0)
    totals = transfer.sentence_log_partitions(potentials, separator, max(lengths))
    for corpus, expected in zip(corpora, given_separators, strict=True):
        parts = torch.tensor(corpus[: lengths[0]]), torch.tensor(corpus[lengths[0] :])
        product = sum(
            transfer.sentence_score(potentials, separator, part) - totals[len(part)]
            for part in parts
        )
        assert float(product) == pytest.approx(float(expected), abs=1e-10)


def test_large_vocabularies_are_refused():
    model = random_model(2, 300, seed=0)
    with pytest.raises(InferenceError, match="90000 windows"):
        transfer.window_moves(model.potentials())
    with pytest.raises(InferenceError, match="too short"):
        transfer.ring_log_partition(model.potentials(), 2)
