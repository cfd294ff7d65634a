"""Sentences of another shape than a model learned from are refused, and not labelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mrflearn import (
    CRF,
    PCFG,
    FactorialCRF,
    HMMTagger,
    JointTagger,
    LanguageModel,
    SkipChainCRF,
)
from mrflearn.io.trees import Tree
from support.toy_language import toy_sentences

WORDS, TAGS = toy_sentences(20, seed=3)
LAYERS = [[own, own] for own in TAGS]
Ask = Callable[[Any], Any]


def skip_chain() -> Ask:
    model = SkipChainCRF(max_iterations=1, features="words", rule="same-word", n_jobs=1)
    model.fit(WORDS, TAGS, words=WORDS)
    return lambda X: model.predict(X, words=X)


def grammar() -> Ask:
    noun, verb = Tree("N", word="dogs"), Tree("V", word="bark")
    return PCFG().fit([Tree("S", (noun, verb))]).parse


ASKED: dict[str, Callable[[], Ask]] = {
    "crf": lambda: CRF(max_iterations=1, features="words", n_jobs=1).fit(WORDS, TAGS).predict,
    "factorial": lambda: (
        FactorialCRF(max_iterations=1, features="words", n_jobs=1).fit(WORDS, LAYERS).predict
    ),
    "skip chain": skip_chain,
    "hmm": lambda: HMMTagger().fit(WORDS, TAGS).predict,
    "tagger": lambda: JointTagger(max_iterations=1).fit(WORDS, TAGS).predict,
    "language model": lambda: LanguageModel(dims=2, max_iterations=1).fit(WORDS).log_likelihood,
    "grammar": grammar,
}


@pytest.mark.parametrize("name", ASKED)
def test_only_lists_of_words_are_sentences(name: str) -> None:
    ask = ASKED[name]()
    ask([["the", "word"]])
    for wrong in (
        ["the word"],
        ["the", "word"],
        [["the"], "word"],
        [[{"word": "the"}, {"word": "word"}]],
        [[1, 2]],
    ):
        with pytest.raises((ValueError, TypeError), match=r"word|item"):
            ask(wrong)


def test_features_as_dicts_are_no_text() -> None:
    items = [[{"word": word} for word in own] for own in WORDS]
    layered = FactorialCRF(max_iterations=1, n_jobs=1).fit(items, LAYERS)
    for model in (CRF(max_iterations=1, n_jobs=1).fit(items, TAGS), layered):
        for wrong in (["the word"], ["the", "word"], [["the", "word"]]):
            with pytest.raises(ValueError, match="item"):
                model.predict(wrong)
