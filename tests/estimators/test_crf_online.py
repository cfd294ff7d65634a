"""Passive-aggressive training and AROW: steps as in the papers, and the weights of CRFsuite."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrflearn import CRF
from mrflearn.errors import SettingsError, TrainingError
from support.tagged_items import attributes, random_data

Weights = Counter[Any]
PASSIVE: list[dict[str, Any]] = [
    {"pa_type": 0},
    {"pa_type": 1, "c": 0.05},
    {"pa_type": 2, "c": 0.3},
    {"error_sensitive": False, "averaging": False},
]
ADAPTIVE: list[dict[str, Any]] = [{}, {"variance": 2.0, "gamma": 0.5}]


def counts(items: Any, tags: Any) -> Weights:
    """How often each weight counts in a labelled sequence."""
    found: Weights = Counter()
    for item, tag in zip(items, tags, strict=True):
        for name, value in attributes(item):
            found[name, tag] += value
    found.update(itertools.pairwise(tags))
    return found


def by_hand(algorithm: str, X: Any, y: Any, epochs: int, **how: Any) -> Weights:
    """The weights after steps on one sequence after another, best labels by enumeration."""
    labels = list(dict.fromkeys(tag for tags in y for tag in tags))
    known = set().union(*map(counts, X, y))
    weights, total, evidence = Counter(), Counter(), Counter()
    steps = 0
    first = np.random.default_rng(0).permutation(len(X))
    for epoch in range(epochs):
        for k in np.random.default_rng([0, epoch]).permutation(len(X)):
            items, tags = X[first[k]], y[first[k]]

            def score(guess: Any, items: Any = items) -> float:
                return sum(n * weights[key] for key, n in counts(items, guess).items())

            guesses = itertools.product(labels, repeat=len(items))
            best = max(guesses, key=lambda own: (score(own), [-labels.index(a) for a in own]))
            wrong = sum(a != b for a, b in zip(best, tags, strict=True))
            if wrong:
                delta = counts(items, tags)
                delta.subtract(counts(items, best))
                delta = Counter({key: n for key, n in delta.items() if key in known})
                loss = score(best) - score(tags)
                if algorithm == "pa":
                    loss += math.sqrt(wrong) if how.get("error_sensitive", True) else 1.0
                    norm, c = sum(n * n for n in delta.values()), how.get("c", 1.0)
                    kinds = (loss / norm, min(c, loss / norm), loss / (norm + 0.5 / c))
                    moved = {key: kinds[how.get("pa_type", 1)] * n for key, n in delta.items()}
                else:
                    gamma, begin = how.get("gamma", 1.0), 1 / how.get("variance", 1.0)
                    sure = {key: 1 / (begin + evidence[key] / gamma) for key in delta}
                    spread = gamma + sum(n * n * sure[key] for key, n in delta.items())
                    step = (loss + wrong) / spread
                    moved = {key: step * sure[key] * n for key, n in delta.items()}
                    evidence.update({key: n * n for key, n in delta.items()})
                weights.update(moved)
            total.update(weights)
            steps += 1
    if algorithm == "pa" and how.get("averaging", True):
        return Counter({key: own / steps for key, own in total.items()})
    return weights


def trained(algorithm: str, X: Any, y: Any, **how: Any) -> CRF:
    return CRF(algorithm, epsilon=0.0, batch_size=1, dtype="float64", **how).fit(X, y)


@pytest.mark.parametrize(
    ("algorithm", "how"),
    [*(("pa", own) for own in PASSIVE), *(("arow", own) for own in ADAPTIVE)],
)
def test_every_step_is_the_papers(algorithm: str, how: dict[str, Any]) -> None:
    X, y = random_data(8, sequences=6, longest=4)
    crf = trained(algorithm, X, y, max_iterations=3, **how)
    expected = by_hand(algorithm, X, y, 3, **how)
    found = {**crf.state_features_, **crf.transition_features_}
    assert found == pytest.approx({key: w for key, w in expected.items() if w}, abs=1e-9)


@pytest.mark.parametrize(
    ("algorithm", "how"),
    [*(("pa", own) for own in PASSIVE), *(("arow", own) for own in ADAPTIVE)],
)
def test_one_sequence_has_the_weights_of_crfsuite(
    algorithm: str, how: dict[str, Any], tmp_path: Path
) -> None:
    """Of one sequence there is one order to go in."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = random_data(3, sequences=20)
    X, y = [list(itertools.chain(*X))], [list(itertools.chain(*y))]
    trainer = pycrfsuite.Trainer(verbose=False, algorithm=algorithm)
    trainer.append(X[0], y[0])
    names = {"pa_type": "type"}
    flags = {"error_sensitive", "averaging"}
    options = {names.get(k, k): int(v) if k in flags else v for k, v in how.items()}
    trainer.set_params({"max_iterations": 5, "epsilon": 0.0} | options)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    crf = trained(algorithm, X, y, max_iterations=5, **how)
    # CRFsuite's mean counts the zeros of the beginning as well.
    averaged = algorithm == "pa" and how.get("averaging", True)
    share = 5 / 6 if averaged else 1.0
    states = {key: share * w for key, w in crf.state_features_.items()}
    assert states == pytest.approx(tagger.info().state_features, abs=1e-5)


@pytest.mark.parametrize("algorithm", ["pa", "arow"])
@pytest.mark.parametrize("order", [1, 2])
def test_batches_learn_what_can_be_learned_and_stop(algorithm: str, order: int) -> None:
    X, y = random_data(5, sequences=40)
    y = [["BA"[item["w"] in "uvw"] for item in items] for items in X]
    crf = CRF(algorithm, order=order, batch_size=8).fit(X, y)
    assert crf.score(X, y) > 0.98
    assert crf.outcome_.converged
    assert crf.outcome_.iterations < 100


@pytest.mark.parametrize("algorithm", ["pa", "arow"])
def test_resumed_online_training_has_the_same_weights(algorithm: str, tmp_path: Path) -> None:
    X, y = random_data(5, sequences=30)
    full = CRF(algorithm, max_iterations=6, epsilon=0.0).fit(X, y)
    CRF(
        algorithm, max_iterations=6, epsilon=0.0, callbacks=[lambda s: "x" * (s.iteration > 2)]
    ).fit(X, y, checkpoint=tmp_path / "half")
    rest = CRF(algorithm, max_iterations=6, epsilon=0.0)
    rest.fit(X, y, checkpoint=tmp_path / "half", resume=True)
    assert rest.state_features_ == full.state_features_


def test_what_online_training_refuses() -> None:
    X, y = random_data(5, sequences=3)
    with pytest.raises(TrainingError, match="every label"):
        CRF("pa").fit(X, [[None, *own[1:]] for own in y])
    with pytest.raises(TrainingError, match="positive"):
        CRF("pa", c=0.0).fit(X, y)
    with pytest.raises(SettingsError, match="c1"):
        CRF("arow", c1=1.0).fit(X, y)


@pytest.mark.data
@pytest.mark.parametrize("algorithm", ["pa", "arow"])
def test_chunks_are_found_as_well_as_by_crfsuite(
    algorithm: str, data_folder: Path, tmp_path: Path
) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    from mrflearn import word_features
    from mrflearn.evaluation import chunk_report
    from mrflearn.io import read_columns

    def read(name: str, count: int) -> tuple[list[Any], list[Any]]:
        sentences = list(read_columns(data_folder / "conll2000" / name))[:count]
        rows = [list(zip(s["word"], s["pos"], strict=True)) for s in sentences]
        return [word_features(own) for own in rows], [list(s["chunk"]) for s in sentences]

    (X, y), (V, z) = read("train.txt", 300), read("test.txt", 300)
    trainer = pycrfsuite.Trainer(verbose=False, algorithm=algorithm)
    for items, tags in zip(X, y, strict=True):
        trainer.append(items, tags)
    trainer.set_params({"max_iterations": 10})
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    theirs = chunk_report(z, [tagger.tag(items) for items in V]).total.f1
    crf = CRF(algorithm, max_iterations=10, batch_size=4).fit(X, y)
    assert chunk_report(z, crf.predict(V)).total.f1 > theirs - 0.015
