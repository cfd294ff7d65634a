"""The E step of the composite model against listing all derivations, levels and topics."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from mrflearn.models.composite_lm import CompositeModel, TokenBatch
from mrflearn.objectives.expected_counts import (
    Expected,
    ExpectedCounts,
    sentence_log_likelihoods,
)
from support.composites import batch_of, listed_counts, random_model

LEVELS = ["vAh", "A", ""]
DOCUMENTS = [[[1, 2], [3]], [[2, 1, 2]]]
SHARES = torch.tensor([[0.3, 0.7], [0.8, 0.2]], dtype=torch.float64)
COUNTS = ("weights", "tags", "rules", "start", "documents")


def assert_same_counts(found: Expected, listed: Expected) -> None:
    assert found.log_likelihood == pytest.approx(listed.log_likelihood, abs=1e-10)
    for name in COUNTS:
        assert_close(getattr(found, name), getattr(listed, name), rtol=0, atol=1e-10)
    for ours, theirs in zip(found.tables, listed.tables, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_counts_equal_those_of_all_derivations(seed: int) -> None:
    model = random_model(DOCUMENTS, LEVELS, seed=seed)
    batch = batch_of(model, DOCUMENTS)
    assert_same_counts(ExpectedCounts(model, SHARES)(batch), listed_counts(model, SHARES, batch))


def test_sentences_without_a_chart_draw_preterminals_by_their_shares() -> None:
    model = random_model(DOCUMENTS, ["Ah", "h"])
    batch = batch_of(model, DOCUMENTS, derived=False)
    found = ExpectedCounts(model, SHARES)(batch)
    assert_same_counts(found, listed_counts(model, SHARES, batch))
    assert not found.rules.any()


@pytest.mark.parametrize("levels", [["vh", "h", ""], ["uv", "v", ""], ["h"]])
def test_without_a_grammar_the_end_is_a_word(levels: list[str]) -> None:
    model = random_model(DOCUMENTS, levels, grammar=None)
    batch = batch_of(model, DOCUMENTS)
    assert batch.lengths.tolist() == [2, 3, 4]  # with ends
    assert_same_counts(ExpectedCounts(model, SHARES)(batch), listed_counts(model, SHARES, batch))


@pytest.mark.parametrize("grammar", [None, (2, 2)])
def test_sentences_add_up_to_the_text(grammar: tuple[int, int] | None) -> None:
    model = random_model(DOCUMENTS, ["h", ""], grammar=grammar)
    batch = batch_of(model, DOCUMENTS)
    each = sentence_log_likelihoods(model, batch, SHARES)
    assert len(each) == 3
    total = ExpectedCounts(model, SHARES)(batch).log_likelihood
    assert float(each.sum()) == pytest.approx(total, abs=1e-10)


def test_sums_of_batches_are_counts_of_the_text() -> None:
    model = random_model(DOCUMENTS, LEVELS)
    batch = batch_of(model, DOCUMENTS)
    task = ExpectedCounts(model, SHARES)
    assert_same_counts(task(batch) + task(batch), _twice(task(batch)))


def _twice(found: Expected) -> Expected:
    return Expected(
        2 * found.log_likelihood,
        0,
        tuple(2 * table for table in found.tables),
        *(2 * getattr(found, name) for name in COUNTS),
    )


def test_what_the_grammar_cannot_produce_is_counted_and_teaches_nothing() -> None:
    model = random_model(DOCUMENTS, ["A"])
    tensors = model.tensors()
    tensors["rules"] = torch.full_like(model.rules, -torch.inf)
    cut: CompositeModel = CompositeModel.of(model.shape, tensors)
    batch: TokenBatch = batch_of(cut, DOCUMENTS)
    found = ExpectedCounts(cut, SHARES)(batch)
    assert found.impossible == 2  # one word needs no rule
    assert found.tags.sum() == pytest.approx(1)
