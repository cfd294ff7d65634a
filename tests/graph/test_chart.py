"""Sentences laid out for charts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.graph.chart import chart_batches, chart_elements
from mrflearn.kernels.rules import RuleShape

FULL = RuleShape.full(3, 2)
LISTED = RuleShape(3, 2, *(torch.tensor([symbol]) for symbol in (0, 1, 4)))


@pytest.mark.parametrize("shape", [FULL, LISTED], ids=["full", "listed"])
@given(
    lengths=st.lists(st.integers(0, 6)),
    elements=st.integers(1, 5000),
    padded=st.integers(0, 5000),
)
def test_every_word_is_in_one_batch_and_no_batch_too_large(shape, lengths, elements, padded):
    batches = chart_batches(torch.tensor(lengths, dtype=torch.int64), elements, padded, shape)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    seen = []
    for batch in batches:
        sizes = batch.lengths.tolist()
        held = len(sizes) * chart_elements(max(sizes), shape)
        assert len(sizes) == 1 or held <= elements
        assert len(set(sizes)) == 1 or (held <= padded and min(sizes) > 1)
        for sentence, tokens in zip(batch.sentences.tolist(), batch.tokens.tolist(), strict=True):
            own = list(range(starts[sentence], starts[sentence] + lengths[sentence]))
            assert tokens == own + [-1] * (max(sizes) - len(own))
            seen.append(sentence)
    assert sorted(seen) == [i for i, length in enumerate(lengths) if length]


def test_longer_sentences_and_larger_grammars_take_more():
    assert (
        chart_elements(20, FULL)
        < chart_elements(40, FULL)
        < chart_elements(40, RuleShape.full(6, 2))
    )
    assert chart_elements(20, LISTED) < chart_elements(40, LISTED)
