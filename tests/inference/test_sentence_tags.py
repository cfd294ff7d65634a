"""Tags of sentences against the enumeration of whole rings, separators and all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mrflearn.features.tagged_sentences import UNKNOWN, TaggedSentences, count_joint
from mrflearn.inference import sentence_tags
from mrflearn.inference.sentence_tags import SentenceTags, expected_moments
from support.tag_rings import random_scores, ring_score, with_separators

SHAPES = [(1, 1), (1, 3), (2, 1), (2, 3)]
LENGTHS = [4, 1, 2]
WORDS = [1, 2, 2, 3, 3, 1, 2]


def scores_of(shape, seed=0):
    return with_separators(random_scores(*shape, seed, shape=(4, 3)))


def enumerated(scores, words, known=None):
    """All tag sequences of one sentence on a ring of its own, and their probabilities."""
    edge = [0] * len(scores.transitions)
    paths = torch.cartesian_prod(*[torch.arange(1, scores.tags)] * len(words))
    paths = paths.reshape(-1, len(words))
    for place, tag in enumerate(known or []):
        if tag != UNKNOWN:
            paths = paths[paths[:, place] == tag]
    tags = torch.cat([torch.tensor(edge).expand(len(paths), -1), paths], dim=1)
    ring = torch.tensor(edge + list(words)).expand(len(paths), -1)
    return paths, ring_score(scores, tags, ring).softmax(0)


def chains_of(scores) -> SentenceTags:
    return SentenceTags.of(scores, torch.tensor(WORDS), torch.tensor(LENGTHS))


def by_sentence(values):
    return values.split(LENGTHS)


@pytest.mark.parametrize("shape", SHAPES)
def test_best_tags_and_probabilities(shape):
    scores = scores_of(shape)
    chains = chains_of(scores)
    parts = zip(
        by_sentence(torch.tensor(WORDS)),
        by_sentence(chains.best()),
        by_sentence(chains.probabilities()),
        strict=True,
    )
    for words, best, table in parts:
        paths, chances = enumerated(scores, words.tolist())
        assert torch.equal(best + 1, paths[chances.argmax()])
        for tag in (1, 2):
            truth = (chances.unsqueeze(1) * (paths == tag)).sum(0)
            torch.testing.assert_close(table[:, tag - 1].double(), truth)


@pytest.mark.parametrize("shape", SHAPES)
def test_n_best(shape):
    scores = scores_of(shape, seed=3)
    chains = chains_of(scores)
    found, values = chains.n_best(3)
    chances = (values - chains.log_partition().unsqueeze(1)).exp()
    parts = zip(by_sentence(torch.tensor(WORDS)), by_sentence(found), chances, strict=True)
    for words, paths, own in parts:
        truth, probability = enumerated(scores, words.tolist())
        order = probability.argsort(descending=True)[:3]
        torch.testing.assert_close(own[: len(order)], probability[order])
        assert torch.equal(paths[:, : len(order)].t() + 1, truth[order])


@pytest.mark.parametrize("shape", SHAPES)
def test_no_sentences_and_empty_ones(shape):
    none = torch.zeros(0, dtype=torch.int64)
    for lengths in (none, torch.tensor([0, 0])):
        chains = SentenceTags.of(scores_of(shape), none, lengths)
        assert chains.best().tolist() == []
        assert chains.probabilities().shape == (0, 2)
    mixed = SentenceTags.of(scores_of(shape), torch.tensor([2, 3]), torch.tensor([0, 2, 0]))
    alone = SentenceTags.of(scores_of(shape), torch.tensor([2, 3]), torch.tensor([2]))
    assert torch.equal(mixed.best(), alone.best())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tags", [[UNKNOWN] * 7, [UNKNOWN, 2, UNKNOWN, 1, UNKNOWN, 2, 1]])
def test_expected_moments_are_means_over_all_tags(shape, tags, monkeypatch):
    scores = scores_of(shape, seed=5)
    places = tuple(scores.words)
    monkeypatch.setattr(sentence_tags, "LARGEST_BATCH", 12)  # several batches
    text = TaggedSentences(np.array(WORDS), np.array(tags), np.array(LENGTHS))
    found = expected_moments(scores, text)
    total = None
    first = 0
    for length in LENGTHS:
        words, known = WORDS[first : first + length], tags[first : first + length]
        first += length
        paths, chances = enumerated(scores, words, known)
        for path, chance in zip(paths.numpy(), chances.tolist(), strict=True):
            one = TaggedSentences(np.array(words), path, np.array([length]))
            counts = count_joint(one, (4, 3), shape[0], places) * chance
            total = counts if total is None else total + counts
    np.testing.assert_allclose(found.transitions, total.transitions, atol=1e-9)
    for place in places:
        np.testing.assert_allclose(
            found.words[place].toarray(), total.words[place].toarray(), atol=1e-9
        )


@pytest.mark.parametrize("distances", [1, 2])
def test_a_tag_that_may_not_begin_a_sentence(distances):
    scores = scores_of((distances, 1))
    barred = scores.transitions.clone()
    barred[0, 0, 1] = -torch.inf  # right after a separator, and nowhere else
    table = chains_of(scores._replace(transitions=barred)).probabilities()
    for own, words in zip(by_sentence(table), by_sentence(torch.tensor(WORDS)), strict=True):
        paths, chances = enumerated(scores, words.tolist())
        chances = torch.where(paths[:, 0] == 1, 0.0, chances)
        truth = ((paths == 1) * chances.unsqueeze(1)).sum(0) / chances.sum()
        torch.testing.assert_close(own[:, 0].double(), truth.double(), rtol=1e-5, atol=1e-6)
