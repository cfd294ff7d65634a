"""The log-bilinear baseline: its gradient, its schedule of rates, and what it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn import NgramLanguageModel
from mrflearn.errors import SettingsError, TrainingError
from mrflearn.objectives.base import Layout
from support.experiments import experiment_module
from support.functions import minimise

TEXT = [line.split() for line in ("a b c d", "c d a b", "b c d")] * 20


LBL = experiment_module("lifted_lm", "log_bilinear")
HalvingSGD, LogBilinearLanguageModel = LBL.HalvingSGD, LBL.LogBilinearLanguageModel
LogBilinearModel, Predictions = LBL.LogBilinearModel, LBL.Predictions


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("optimiser", ["adagrad", "sgd"])
def test_it_learns_the_order_of_words(optimiser: str, tied: bool) -> None:
    rate = {"adagrad": 0.3, "sgd": 1.0}[optimiser]
    model = LogBilinearLanguageModel(
        context=2,
        dims=6,
        tied=tied,
        optimiser=optimiser,
        rate=rate,
        batch_size=16,
        epochs=25,
        patience=10,
    )
    model.fit(TEXT, validation=TEXT)
    unigram = NgramLanguageModel(order=1).fit(TEXT).perplexity(TEXT)
    # Given two words before, no model of this text has a perplexity below 1.601.
    assert 1.6 < model.perplexity(TEXT) < 1.7 < unigram
    assert model.next_word(["a", "b"], n=1)[0][0] in ("c", "</s>")
    assert dict(model.next_word(["c", "d"], n=99)).keys() == {*"abcd", "<unk>", "</s>"}


def test_scores_equal_next_words() -> None:
    model = LogBilinearLanguageModel(context=3, dims=4, epochs=2).fit(TEXT)
    scores = model.token_scores([["a", "d"], ["zebra"]])
    expected = []
    for words in (["a", "d", "</s>"], ["<unk>", "</s>"]):
        for i, word in enumerate(words):
            expected.append(np.log(dict(model.next_word(words[:i], n=99))[word]))
    np.testing.assert_allclose(scores.log_probability, expected, rtol=1e-5)
    assert scores.ends.tolist() == [False, False, True, False, True]
    assert scores.unknown.tolist() == [False, False, False, True, False]


def test_mistakes_are_named() -> None:
    with pytest.raises(SettingsError, match="give validation"):
        LogBilinearLanguageModel(optimiser="sgd").fit(TEXT)
    with pytest.raises(SettingsError, match="'adam' is not one of"):
        LogBilinearLanguageModel(optimiser="adam").fit(TEXT)


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=7), min_size=1), st.integers(1, 4))
def test_left_contexts_stop_at_the_sentence(sentences: list[list[int]], context: int) -> None:
    stream = np.array([0, *(symbol for sentence in sentences for symbol in (*sentence, 0))])
    expected = []
    for sentence in sentences:
        padded = [0] * context + sentence
        for i in range(len(sentence) + 1):
            expected.append(padded[i : i + context][::-1])
    assert LBL.left_contexts(stream, context, separator=0).tolist() == expected


def case(tied: bool = True) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    bias = torch.randn(5, generator=generator, dtype=torch.float64)
    model = LogBilinearModel.start(bias, context=2, dims=3, generator=generator, tied=tied)
    contexts = torch.randint(5, (7, 2), generator=generator)
    contexts[0] = 1  # one word at both distances: its gradients add up
    return model, Predictions(contexts, torch.randint(5, (7,), generator=generator))


@pytest.mark.parametrize("tied", [True, False])
def test_value_and_gradient(tied: bool) -> None:
    model, batch = case(tied)
    layout = Layout.of(model.parameters())
    vector = layout.flatten(model.parameters())
    function = LBL.PredictionLoss(model, [batch])
    function.buffer.fill_(7.0)
    found = function(vector)
    value, gradient = found.value, found.gradient.clone()
    torch.testing.assert_close(value, -model.log_probabilities(*batch).sum())
    leaf = vector.clone().requires_grad_()
    by_hand = -LogBilinearModel(**layout.unflatten(leaf)).log_probabilities(*batch).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(by_hand, leaf)[0])
    for index in range(0, len(vector), 5):
        step = torch.zeros_like(vector)
        step[index] = 1e-6
        slope = (function(vector + step).value - function(vector - step).value) / 2e-6
        torch.testing.assert_close(gradient[index], slope, rtol=1e-6, atol=1e-8)


def test_probabilities_sum_to_one() -> None:
    model, batch = case()
    every = torch.arange(5).repeat(7)
    contexts = batch.contexts.repeat_interleave(5, 0)
    sums = model.log_probabilities(contexts, every).exp().view(7, 5).sum(1)
    torch.testing.assert_close(sums, torch.ones(7, dtype=torch.float64))


def square(vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (vector**2).sum(), 2 * vector


def test_the_rate_halves_only_when_the_score_falls() -> None:
    scores = iter([1.0, 2.0, 1.5, 3.0, 2.0, 1.0, 0.0])
    optimiser = HalvingSGD(lambda _: next(scores), rate=0.1, least=0.03)
    outcome = minimise(square, torch.ones(2, dtype=torch.float64), optimiser)
    assert [row.step for row in outcome.history] == [0.1, 0.1, 0.1, 0.05, 0.05]
    assert outcome.ending == "value"
    assert outcome.model.tolist() == pytest.approx([0.8**3 * 0.9**2] * 2)


def test_a_resumed_training_goes_on_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)

    def score(vector: torch.Tensor) -> float:
        return float(torch.cos(40 * vector).sum())

    whole = minimise(square, start, HalvingSGD(score, rate=0.1, epochs=9))
    path = tmp_path / "checkpoint"
    minimise(square, start, HalvingSGD(score, rate=0.1, epochs=4), checkpoint=path)
    rest = minimise(
        square, start, HalvingSGD(score, rate=0.1, epochs=9), checkpoint=path, resume=True
    )
    assert torch.equal(whole.model, rest.model)
    assert [row.step for row in rest.history] == [row.step for row in whole.history]


def test_a_rate_that_goes_nowhere_is_refused() -> None:
    with pytest.raises(TrainingError, match="HalvingSGD"):
        HalvingSGD(lambda _: 0.0, rate=0.0)
