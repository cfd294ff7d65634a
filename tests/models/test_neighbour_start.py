"""Starting points of neighbour models."""

from __future__ import annotations

import numpy as np
import torch

from mrflearn.io.corpus import Vocabulary
from mrflearn.models.lifted import log_frequencies, spectral_start
from support.moments import count_sentences

LINES = [["a", "b"], ["a", "b", "c"], ["c", "b"]]
WORDS = Vocabulary(("<S>", "<unk>", "a", "b", "c"))
LIKE = torch.zeros(1, dtype=torch.float64)


def test_words_never_seen_have_finite_scores():
    moments = count_sentences(LINES, WORDS, 1)
    scores = log_frequencies(moments, LIKE)
    seen = np.log(moments.unary[2:] / moments.positions)
    np.testing.assert_allclose(scores[2:].numpy(), seen)
    assert scores[1] == scores[2:].min() - np.log(2)


def test_the_start_follows_the_log_ratios_and_not_the_size_of_the_text():
    moments = count_sentences(LINES * 200, WORDS, 1)
    weights = torch.ones(1, dtype=torch.float64)
    model = spectral_start(moments, 5, weights, 0, LIKE)
    table = model.potentials().tables()[0]
    pair = moments.pairs[0]
    frequency = moments.unary / moments.positions
    ratio = np.log(pair.count / moments.positions / frequency[pair.left] / frequency[pair.right])
    # Full rank, hardly damped: the scores are the log-ratios where a pair was seen.
    np.testing.assert_allclose(table[pair.left, pair.right].numpy(), ratio, rtol=2e-3, atol=1e-3)
    again = spectral_start(moments + moments, 5, weights, 0, LIKE).potentials().tables()
    torch.testing.assert_close(again[0], table)
    wide = spectral_start(moments, 9, weights, 0, LIKE)
    assert wide.pairs["left"].shape == (5, 9)
    torch.testing.assert_close(wide.potentials().tables()[0], table)
