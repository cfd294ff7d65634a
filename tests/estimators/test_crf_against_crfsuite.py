"""The same features, the same optimum and the same answers as python-crfsuite's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrflearn import CRF
from support.tagged_items import random_data

pycrfsuite = pytest.importorskip("pycrfsuite")


def crfsuite(X: Any, y: Any, path: Path, **options: Any) -> tuple[Any, Any]:
    """(tagger, its info) after training to the end."""
    trainer = pycrfsuite.Trainer(verbose=False)
    for items, tags in zip(X, y, strict=True):
        trainer.append(items, tags)
    trainer.set_params({"epsilon": 1e-9, "delta": 1e-12, "max_iterations": 2000} | options)
    trainer.train(str(path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path / "model"))
    return tagger, tagger.info()


def ours(X: Any, y: Any, **options: Any) -> CRF:
    return CRF(dtype="float64", epsilon=1e-9, delta=0.0, max_iterations=2000, **options).fit(X, y)


@given(st.integers(0, 10**6), st.integers(2, 4), st.booleans(), st.booleans())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_reach_the_same_optimum(
    tmp_path: Path, seed: int, labels: int, all_states: bool, all_transitions: bool
) -> None:
    X, y = random_data(seed, sequences=12, labels=labels)
    flags = {"feature.possible_states": all_states, "feature.possible_transitions": all_transitions}
    tagger, info = crfsuite(X, y, tmp_path, c2=0.5, **flags)
    crf = ours(
        X, y, c2=0.5, all_possible_states=all_states, all_possible_transitions=all_transitions
    )
    assert crf.state_features_ == pytest.approx(info.state_features, abs=1e-5)
    assert crf.transition_features_ == pytest.approx(info.transitions, abs=1e-5)
    assert list(crf.classes_) == list(info.labels)
    for items, tags in zip(X, y, strict=True):
        tagger.set(items)
        chance = crf.log_prob([items], [tags])[0]
        assert tagger.probability(tags) == pytest.approx(2.718281828459045**chance, rel=1e-4)


def test_both_reach_the_same_sparse_optimum(tmp_path: Path) -> None:
    X, y = random_data(4, sequences=20)
    _, info = crfsuite(X, y, tmp_path, c1=0.5, c2=0.1)
    crf = ours(X, y, c1=0.5, c2=0.1)
    large = {pair: w for pair, w in crf.state_features_.items() if abs(w) > 1e-4}
    assert large == pytest.approx(
        {pair: w for pair, w in info.state_features.items() if abs(w) > 1e-4}, abs=2e-3
    )


def test_a_crfsuite_model_is_taken_over(tmp_path: Path) -> None:
    X, y = random_data(5, sequences=20)
    tagger, info = crfsuite(X, y, tmp_path)
    crf = CRF.from_weights(list(info.labels), info.state_features, info.transitions)
    assert crf.predict(X).tolist() == [tagger.tag(items) for items in X]


def test_min_freq_drops_the_same_features(tmp_path: Path) -> None:
    X, y = random_data(6, sequences=20)
    _, info = crfsuite(X, y, tmp_path, **{"feature.minfreq": 2.5})
    crf = ours(X, y, min_freq=2.5)
    assert crf.state_features_.keys() == info.state_features.keys()
    assert crf.transition_features_.keys() == info.transitions.keys()
