"""EM of the composite model: it never falls, and with parts off it is the part that is left."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.estimators.composite_training import FoldTrial, text_step, weight_step
from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import inside_outside
from mrflearn.models.composite_lm import (
    CompositeModel,
    NgramScores,
    TokenBatch,
    batches,
    common_weights,
)
from mrflearn.models.topics import PLSA, document_counts
from mrflearn.objectives.expected_counts import RulePrior
from mrflearn.training.em import EM, StepFunction
from support.composites import STATES, batch_of, held, random_model, text_of

SHARES = torch.tensor([[0.4, 0.6], [0.7, 0.3]], dtype=torch.float64)
WORDS = st.lists(st.integers(1, STATES - 1), min_size=1, max_size=4)
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=2), min_size=2, max_size=2)
LEVELS = st.sampled_from([["uvAh", "vAh", "Ah", "A"], ["vh", "h"], ["Ah", "A", "h", ""]])


def steps_of(model: CompositeModel, train: list[TokenBatch], uses: float) -> StepFunction:
    prior = RulePrior.around(model, uses)
    return partial(text_step, shape=model.shape, train=held(model, train), prior=prior)


def start_of(model: CompositeModel) -> dict[str, torch.Tensor]:
    return {**model.tensors(), "documents": SHARES}


@given(
    documents=TEXTS,
    levels=LEVELS,
    seed=st.integers(0, 99),
    grammar=st.booleans(),
    tied=st.booleans(),
)
def test_the_likelihood_never_falls(
    documents: list[list[list[int]]], levels: list[str], seed: int, grammar: bool, tied: bool
) -> None:
    model = random_model(documents, levels, seed=seed, grammar=(2, 2) if grammar else None)
    train = [batch_of(model, documents)]
    step = steps_of(model, train, 3.0 if tied else 0.0)
    outcome = EM(6, 0.0).fit(step, start_of(model))  # EM raises where it falls
    values = [row.value for row in outcome.history]
    assert values[-1] <= values[0]
    other = random_model(documents, levels, seed=seed + 1, grammar=(2, 2) if grammar else None)
    trials = [FoldTrial(each, SHARES, held(each, train)) for each in (model, other)]
    weigh = weight_step(trials, model.weights, 2.0, tied=tied, seen=[])
    begun = common_weights(model.weights, 1.0) if tied else model.weights
    found = EM(6, 0.0).fit(weigh, {"weights": begun})
    assert_close(found.model["weights"].sum(dim=2), torch.ones_like(model.weights[:, :, 0]))


def test_topics_alone_are_plsa() -> None:
    documents = [[[1, 2, 2], [3]], [[4, 1], [2, 2]]]
    model = random_model(documents, ["h"], grammar=None)
    only = torch.zeros_like(model.weights)
    only[:, :, 0] = 1
    model = CompositeModel.of(model.shape, {**model.tensors(), "weights": only})
    step = steps_of(model, [batch_of(model, documents)], 0.0)
    words = [np.array([1, 2, 2, 0, 3, 0]), np.array([4, 1, 0, 2, 2, 0])]  # ends are words
    alone = PLSA(model.tables[0][:-2, 0].numpy(), SHARES.numpy())
    parameters = start_of(model)
    for _ in range(3):
        value, parameters = step(parameters)
        expected, alone = alone.step(document_counts(words, STATES))
        assert -value == pytest.approx(expected, abs=1e-9)
        assert parameters["table.h"][:-2, 0].numpy() == pytest.approx(alone.words, abs=1e-9)
        assert parameters["documents"].numpy() == pytest.approx(alone.documents, abs=1e-9)


def test_a_grammar_alone_is_a_pcfg() -> None:
    documents = [[[1, 2, 2], [3]], [[4, 1], [2, 2, 1, 3]]]
    model = random_model(documents, ["A"], topics=1)
    only = torch.zeros_like(model.weights)
    only[:, :, 0] = 1
    model = CompositeModel.of(model.shape, {**model.tensors(), "weights": only})
    shares = torch.ones(2, 1, dtype=torch.float64)
    step = steps_of(model, [batch_of(model, documents)], 0.0)
    value, new = step({**model.tensors(), "documents": shares})
    wiring = model.shape.grammar
    assert wiring is not None
    flat = [words for sentences in documents for words in sentences]
    ids = torch.tensor([word for words in flat for word in words])
    emission = model.tables[0][:-2, :, 0]
    lengths = torch.tensor([len(words) for words in flat])
    logs = emission[ids].log()
    found = inside_outside(ChartPotentials(wiring, logs, lengths, model.rules, model.start))
    assert -value == pytest.approx(float(found.log_partition.sum()), abs=1e-9)
    words = torch.zeros(STATES, 2, dtype=torch.float64).index_add_(0, ids, found.words)
    assert_close(new["table.A"][:-2, :, 0], words / words.sum(dim=0), rtol=0, atol=1e-9)
    cube = found.rules.reshape(2, -1)
    rules = (cube / cube.sum(dim=1, keepdim=True)).reshape(-1)
    assert_close(new["rules"].exp(), rules, rtol=0, atol=1e-9)


def test_shards_add_up_to_the_whole() -> None:
    documents = [[[1, 2, 2], [3], [1, 4]], [[4, 1], [2, 2]]]
    model = random_model(documents, ["vA", "Ah", "h"])
    text = text_of(documents)
    size = len(text.stream) - 1
    given = np.repeat([[0.1] * model.shape.tags + [0.2]], size, axis=0)
    values = NgramScores(given, np.zeros(size, np.int64))
    single = []
    for number in range(len(text)):
        chosen = np.array([number])
        places = text.places(chosen, ends=True)
        own = NgramScores(*(column[places] for column in values))
        single += batches(text.part(chosen), own, model.shape)
    whole = batches(text, values, model.shape)
    found = [steps_of(model, train, 1.0)(start_of(model)) for train in (whole, single)]
    (one, left), (many, right) = found
    assert one == pytest.approx(many, abs=1e-10)
    for name, value in left.items():
        assert_close(value, right[name], rtol=0, atol=1e-10)
