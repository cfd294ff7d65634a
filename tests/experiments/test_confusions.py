"""Words that are confused, and who tells them apart."""

from __future__ import annotations

import pytest

from mrflearn import LanguageModel, NgramLanguageModel
from support.experiments import experiment_module

experiment_module("lifted_lm", "cloze")  # which it imports by that name
confusions = experiment_module("lifted_lm", "confusions")
TEXT = [line.split() for line in ("the cat sat", "the car ran", "a cart ran", "an ox sat") * 10]


def test_one_letter_more_less_or_other():
    near = confusions.confusions(["cat", "car", "cart", "care", "ox", "at", "dog", "co-t"])
    assert near == {
        "cat": ("car", "cart"),
        "car": ("care", "cart", "cat"),
        "cart": ("car", "care", "cat"),
        "care": ("car", "cart"),
    }


@pytest.mark.parametrize("kind", ["field", "sentence", "left"])
def test_models_know_the_text_they_read(kind):
    model = LanguageModel(2, triples=True, max_iterations=100).fit(TEXT)
    words, ngrams = model.vocabulary_, NgramLanguageModel(3).fit(TEXT)
    asked = confusions.questions(TEXT, words, count=20)
    assert {own.gap.answer for own in asked} <= {"cat", "sat", "car", "ran", "cart"}
    assert all(own.gap.answer in own.choices for own in asked)
    choosers = {
        "field": confusions.both_sides(model.model_.potentials(), words),
        "sentence": confusions.by_ngrams(ngrams, sentence=True),
        "left": confusions.by_ngrams(ngrams, sentence=False),
    }
    assert confusions.accuracy(choosers[kind], asked) > (0.9 if kind != "left" else 0.5)
