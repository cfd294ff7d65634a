"""Every objective that is trained has the values and gradients that were frozen.

Whatever is rebuilt underneath, these stay: what estimators minimise on small data, penalties
included, at three vectors in both number types.  Run as a program, this file
freezes them anew, which is right only where an objective was meant to change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mrflearn import (
    CRF,
    FactorialCRF,
    GraphCRF,
    JointTagger,
    LanguageModel,
    MarkovField,
    PottsField,
    SkipChainCRF,
    edge,
)
from mrflearn.training import loop
from support.toy_language import toy_sentences

FROZEN = Path(__file__).parent / "frozen.safetensors"
SIZES = (0.1, 0.5, 1.5)  # how far the three vectors lie from zero
SCALED = 0.03  # the same for language models, which divide rare words' scores by their scales
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}  # relative to the largest entry

WORDS, TAGS = toy_sentences(8, seed=3)
ITEMS = [[[f"e={word[-2:]}", f"n={len(word) // 4}"] for word in words] for words in WORDS]
WITH_EDGES = [[[*item, edge(item[0])] for item in items] for items in ITEMS]
UNCERTAIN = [[None if k % 3 == 1 else tag for k, tag in enumerate(tags)] for tags in TAGS]
LAYERS = [[tags, [word[0] for word in words]] for tags, words in zip(TAGS, WORDS, strict=True)]
ROWS = np.arange(40 * 6).reshape(40, 6) ** 2 % 7 % 2
FAMILY = np.arange(30 * 5).reshape(30, 5) ** 3 % 11 % 4


def crf(X: Any = ITEMS, y: Any = TAGS, **settings: Any) -> Callable[[str], Any]:
    settings = {"c2": 0.3, "n_jobs": 1, **settings}
    return lambda dtype: CRF(dtype=dtype, **settings).fit(X, y)


def factorial(estimator: str, **settings: Any) -> Callable[[str], Any]:
    settings = {"c2": 0.3, "n_jobs": 1, **settings}
    return lambda dtype: FactorialCRF(estimator=estimator, dtype=dtype, **settings).fit(
        ITEMS, LAYERS
    )


def graphs(estimator: str) -> Callable[[str], Any]:
    X = [nx.cycle_graph(max(3, len(items))) for items in ITEMS]
    for graph, items in zip(X, ITEMS, strict=True):
        for node in graph:
            graph.nodes[node]["features"] = items[node % len(items)]
    y = [
        {node: tags[node % len(tags)] for node in graph}
        for graph, tags in zip(X, TAGS, strict=True)
    ]
    return lambda dtype: GraphCRF(estimator=estimator, dtype=dtype, c2=0.3, n_jobs=1).fit(X, y)


def skip_chain(estimator: str) -> Callable[[str], Any]:
    model = {"estimator": estimator, "rule": "same-word", "c2": 0.3, "n_jobs": 1}
    return lambda dtype: SkipChainCRF(dtype=dtype, **model).fit(ITEMS, TAGS, words=WORDS)


def language_model(**settings: Any) -> Callable[[str], Any]:
    settings = {"dims": 2, "context": 2, "l2": 1e-3, **settings}
    return lambda dtype: LanguageModel(dtype=dtype, **settings).fit(WORDS)


def tagger(**settings: Any) -> Callable[[str], Any]:
    return lambda _: JointTagger(l2=0.1, **settings).fit(WORDS[:3], TAGS[:3])


def field(estimator: str, **settings: Any) -> Callable[[str], Any]:
    return lambda _: MarkovField("grid:2x3", estimator=estimator, l2=0.1, **settings).fit(ROWS)


def family(dtype: str) -> Any:
    return PottsField(dtype=dtype, l2_fields=0.01, l2_couplings=0.01).fit(FAMILY)


LOCAL = ("pl", "edge-pl", "pw", "pwpl")
BOTH: dict[str, Callable[[str], Any]] = {
    "crf.ml": crf(),
    "crf.ml.order2": crf(order=2),
    "crf.ml.edges": crf(WITH_EDGES),
    "crf.ml.uncertain": crf(y=UNCERTAIN),
    "crf.ml.class_weight": crf(class_weight={"noun": 2.0}),
    **{f"crf.{name}": crf(estimator=name) for name in (*LOCAL, "bp", "pw-reweighted")},
    **{f"factorial.{name}": factorial(name) for name in (*LOCAL, "ml", "bp", "pw-reweighted")},
    "skip_chain.bp": skip_chain("bp"),
    "skip_chain.pw": skip_chain("pw"),
    "graph.pwpl": graphs("pwpl"),
    "graph.bp": graphs("bp"),
    **{f"lm.{name}": language_model(bound=name) for name in ("stars", "chains", "windows")},
    "lm.bilinear": language_model(form="bilinear"),
    "lm.explicit": language_model(form="explicit", vocabulary_size=8),
    "lm.triples": language_model(triples=True, vocabulary_size=8),
    "lm.triples.explicit": language_model(
        bound="windows", triples=True, form="explicit", vocabulary_size=8
    ),
    "lm.pl": language_model(estimator="pl"),
    "lm.ml": language_model(estimator="ml"),
    "potts": family,
    **{f"tagger.{name}": tagger(bound=name) for name in ("exact", "chains", "stars")},
    "tagger.context2": tagger(context=2, bound="chains", words=3),
}
DOUBLE = {
    **{f"field.{name}": field(name) for name in ("pl", "ml", "bp")},
    "field.pl.l1": field("pl", l1=0.2),
}
CASES = [
    *((name, dtype) for name in BOTH for dtype in TOLERANCE),
    *((name, "float64") for name in DOUBLE),
]


class CaughtError(BaseException):
    """Carries what would have been trained out of `fit`."""

    def __init__(self, plan: Any) -> None:
        super().__init__()
        self.plan = plan


def plan_of(name: str, dtype: str) -> Any:
    """What an estimator would minimise."""

    def caught(training: Any) -> None:
        raise CaughtError(training.plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop._Training, "begin", caught)
        try:
            {**BOTH, **DOUBLE}[name](dtype)
        except CaughtError as found:
            return found.plan
    raise AssertionError(f"{name} trained nothing")


def evaluations(name: str, dtype: str) -> dict[str, torch.Tensor]:
    """Values and gradients at the three vectors, with the noise of the values."""
    plan = plan_of(name, dtype)
    kind = getattr(torch, dtype)  # training may begin in float32 and go on in float64
    problem = plan.problem(kind)
    places = torch.arange(len(plan.start), dtype=torch.float64)
    answers = {}
    for k, size in enumerate(SIZES):
        size *= SCALED if name.startswith("lm.") else 1.0
        vector = (size * torch.sin(1.0 + (k + 1) * 0.7 * places)).to(kind)
        found = problem.total(vector)
        key = f"{name}/{dtype}/{k}"
        answers[f"{key}/value"] = found.value.double().reshape(1).clone()
        answers[f"{key}/gradient"] = found.gradient.clone()
        answers[f"{key}/noise"] = torch.tensor([float(found.noise)], dtype=torch.float64)
    return answers


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=map("-".join, CASES))
def test_values_and_gradients_are_those_that_were_frozen(name: str, dtype: str) -> None:
    frozen = load_file(FROZEN)
    found = evaluations(name, dtype)
    for k in range(len(SIZES)):
        key, precise = f"{name}/{dtype}/{k}", TOLERANCE[dtype]
        value, wanted = float(found[f"{key}/value"]), float(frozen[f"{key}/value"])
        noise = float(found[f"{key}/noise"] + frozen[f"{key}/noise"])
        assert abs(value - wanted) <= precise * max(1.0, abs(wanted)) + noise
        gradient = frozen[f"{key}/gradient"]
        atol = precise * max(1.0, float(gradient.abs().max())) + noise
        torch.testing.assert_close(found[f"{key}/gradient"], gradient, rtol=0, atol=atol)


def test_nothing_frozen_is_forgotten() -> None:
    names = {key.rsplit("/", 2)[0] for key in load_file(FROZEN)}
    assert names == {"/".join(case) for case in CASES}


if __name__ == "__main__":
    save_file({k: v for case in CASES for k, v in evaluations(*case).items()}, FROZEN)
