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
@given(lengths=st.lists(st.integers(0, 6)), elements=st.integers(1, 5000))
def test_every_word_is_in_one_batch_and_no_batch_too_large(shape, lengths, elements):
    batches = chart_batches(torch.tensor(lengths, dtype=torch.int64), elements, shape)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    seen = []
    for batch in batches:
        held = len(batch.sentences) * chart_elements(batch.length, shape)
        assert len(batch.sentences) == 1 or held <= elements
        for sentence, tokens in zip(batch.sentences.tolist(), batch.tokens.tolist(), strict=True):
            assert tokens == list(range(starts[sentence], starts[sentence] + lengths[sentence]))
            seen.append(sentence)
    assert sorted(seen) == [i for i, length in enumerate(lengths) if length]


def test_longer_sentences_and_larger_grammars_take_more():
    assert (
        chart_elements(20, FULL)
        < chart_elements(40, FULL)
        < chart_elements(40, RuleShape.full(6, 2))
    )
    assert chart_elements(20, LISTED) < chart_elements(40, LISTED)
