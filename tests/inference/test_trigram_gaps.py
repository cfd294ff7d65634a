"""Fillings of several gaps and continuations against all that there are."""

from __future__ import annotations

import itertools

import pytest
import torch

from mrflearn.inference.trigram_gaps import best_continuations, best_fillings
from mrflearn.inference.trigrams import next_log_probabilities, perron_vector
from support.trigrams import EDGE, line_score, random_trigrams, score_table

LINES = [
    [None],
    [1, None],
    [None, None],
    [2, None, None, 3],
    [None, None, None],
    [None, 1, 4, None],
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("seed", [0, 1])
def test_fillings_have_their_exact_probability(line, seed):
    model, _ = random_trigrams(seed)
    table, gaps = score_table(model), [k for k, word in enumerate(line) if word is None]
    totals = {}
    for words in itertools.product(range(1, model.states), repeat=len(gaps)):
        full = list(line)
        for gap, word in zip(gaps, words, strict=True):
            full[gap] = word
        totals[words] = line_score(table, full)
    everything = torch.tensor(list(totals.values()), dtype=torch.float64).logsumexp(0)
    best = sorted(totals, key=totals.__getitem__, reverse=True)[:4]
    found = best_fillings(model.potentials(), line, 4, beam=1000)
    assert [tuple(own.words) for own in found] == best
    for own, words in zip(found, best, strict=True):
        assert own.log_probability == pytest.approx(totals[words] - float(everything))


def test_continuations_are_the_best_of_all():
    model, _ = random_trigrams(3)
    scores, right = model.potentials(), perron_vector(model.potentials())
    totals: dict[tuple[int, ...], float] = {}

    def walk(line: tuple[int, ...], total: float) -> None:
        if len(line) == 3 or line[-1:] == (EDGE,):
            totals[line] = total
            return
        window = torch.tensor([[EDGE, 2, *line][-2:]])
        chances = next_log_probabilities(scores, right, window)[0]
        for word in range(model.states):
            walk((*line, word), total + float(chances[word]))

    walk((), 0.0)
    best = sorted(totals, key=totals.__getitem__, reverse=True)[:5]
    found = best_continuations(scores, right, [2], 3, 5, beam=1000)
    assert [tuple(own.words) for own in found] == best
    for own, words in zip(found, best, strict=True):
        assert own.log_probability == pytest.approx(totals[words])
