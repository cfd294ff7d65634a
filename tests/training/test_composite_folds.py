"""Folds: nothing is lost, and the model of the others is the one they would teach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mrflearn.estimators.composite_training import (
    FOLDS,
    deleted_model,
    fold_numbers,
    fold_scores,
    folds_of,
)
from mrflearn.io.corpus import Vocabulary
from mrflearn.models.composite_lm import maximise_tables
from mrflearn.models.ngram import NgramLevel
from mrflearn.objectives.expected_counts import RulePrior, counts_of_others, expect
from support.composites import batch_of, held, random_model, text_of

VOCABULARY = Vocabulary(("<S>", "<unk>", "a", "b", "c"))
SHARES = torch.tensor([[0.4, 0.6], [0.7, 0.3]], dtype=torch.float64)


@pytest.mark.parametrize("count", [1, 3, 9, 10, 25])
def test_folds_are_of_documents_or_else_of_sentences(count: int) -> None:
    text = text_of([[[2, 3]] * 3 for _ in range(count)])
    number = fold_numbers(text, count)
    assert set(number.tolist()) == set(range(min(FOLDS, 3 * count)))
    if count >= 10:
        assert (number == text.document % FOLDS).all()


@pytest.mark.parametrize("order", [1, 3])
def test_every_token_is_judged_by_the_other_folds(order: int) -> None:
    text = text_of([[[2, 3, 4], [3]], [[4, 4]], [[2, 3]], [[3, 2, 2]]])
    number = np.array([0, 1, 2, 0, 1])
    folds = folds_of(text, number, order, VOCABULARY)
    tags = np.array([[0.0, 0.0], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    found = fold_scores(text, folds, torch.from_numpy(tags))
    assert len(found.given) == len(text.stream) - 1
    if order == 1:
        assert not found.given.any()
        return
    others = text_of([[[3], [4, 4], [3, 2, 2]]])  # without the fold of the first sentence
    level = NgramLevel.learn(others.stream, order, VOCABULARY)
    assert found.given[:4, :-1] == pytest.approx(level.tagged(text.stream[:5], tags), abs=1e-12)
    # The last sentence's "b" is the first word of its fold's second sentence: places are put right.
    rest = text_of([[[2, 3, 4], [4, 4], [2, 3]]])
    last = NgramLevel.learn(rest.stream, order, VOCABULARY).tagged(text.stream[-5:], tags)
    assert found.given[-4:, :-1] == pytest.approx(last, abs=1e-12)


def test_a_fold_judges_itself_where_there_is_no_other() -> None:
    text = text_of([[[2, 3, 4]]])
    folds = folds_of(text, fold_numbers(text, 1), 2, VOCABULARY)
    assert len(folds) == 1
    assert (fold_scores(text, folds, torch.ones(5, 1)).given[:-1] > 0).all()


def test_the_model_of_the_others_is_what_they_teach() -> None:
    documents = [[[1, 2, 2], [3]], [[4, 1], [2, 2, 1]]]
    model = random_model(documents, ["vA", "Ah", ""])
    counts = [
        expect(model, SHARES, held(model, [batch_of(model, [document])])) for document in documents
    ]
    rest = deleted_model(model, counts_of_others(counts, 1), RulePrior.around(model, 0.5))
    expected = maximise_tables(model.shape, counts[0].tables, model.tables)
    for mine, wanted in zip(rest.tables, expected, strict=True):
        assert_close(mine, wanted, rtol=0, atol=1e-9)
    wiring = model.shape.grammar
    assert wiring is not None
    times = (counts[0].rules + 0.5 * model.rules.exp()).reshape(wiring.phrases, -1)
    wanted = (times / times.sum(dim=1, keepdim=True)).reshape(-1)
    assert_close(rest.rules.exp(), wanted, rtol=0, atol=1e-9)
    nothing = counts_of_others(counts[:1], 0)
    alone = deleted_model(model, nothing, RulePrior.around(model, 0.0))  # words as before
    assert_close(alone.tables[0], model.tables[0])
    assert (alone.rules > -torch.inf).all()


def test_small_counts_of_the_others_do_not_drown_in_those_of_a_fold() -> None:
    documents = [[[1, 2, 2], [3]], [[4, 1], [2, 2, 1]]]
    model = random_model(documents, ["vA", "Ah", ""])
    small = expect(model, SHARES, held(model, [batch_of(model, documents)]))
    single = {n: x.float() for n, x in vars(small).items() if isinstance(x, torch.Tensor)}
    small = replace(small, tables=tuple(x.float() for x in small.tables), **single)
    large = replace(small, rules=1e9 * small.rules)
    rest = counts_of_others([large, small], 0)
    assert_close(rest.rules, small.rules, rtol=0, atol=0)
