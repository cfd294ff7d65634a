"""FactorialCRF and SkipChainCRF: what they learn, what they answer, and what they refuse."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from mrflearn import Constraints, word_features
from mrflearn.errors import (
    DataError,
    GraphError,
    MrflearnError,
    NotFittedError,
    SettingsError,
)
from mrflearn.estimators import field_crf
from mrflearn.estimators.base import load
from mrflearn.estimators.layered_crf import FactorialCRF, SkipChainCRF
from mrflearn.features.features import compile_features
from mrflearn.models.field_batch import sequence_batch

ESTIMATORS = ["pw", "pwpl", "pl", "edge-pl", "pw-reweighted", "bp", "ml"]
WORDS = {"DT": ["the", "a"], "NN": ["cat", "dog"], "VB": ["runs", "sees"]}
QUIET = {"c2": 0.05, "n_jobs": 1, "dtype": "float64"}


def sentences(count: int, seed: int) -> tuple[list, list]:
    """Words whose tags mostly, and whose phrases always, follow from them and one another."""
    draw = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        tags = [["DT", "NN"], ["DT", "NN", "VB"], ["VB", "DT", "NN"]][draw.integers(3)]
        words = [WORDS[tag][draw.integers(2)] if draw.random() < 0.8 else "it" for tag in tags]
        phrases = ["O" if tag == "VB" else "B" if tag == "DT" else "I" for tag in tags]
        X.append([[f"w={word}"] for word in words])
        y.append([tags, phrases])
    return X, y


@pytest.fixture(scope="module")
def fitted() -> FactorialCRF:
    return FactorialCRF(**QUIET).fit(*sentences(60, 0))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_learns_both_layers(estimator):
    model = FactorialCRF(estimator, **QUIET).fit(*sentences(40, 1))
    assert model.score(*sentences(20, 2)) > 0.85
    assert sorted(model.classes_[1]) == ["B", "I", "O"]


def by_hand(model: FactorialCRF, X: list) -> dict[tuple, float]:
    """The score of every labelling of one sequence, by enumeration of its factors."""
    features = compile_features(
        X, model.model_.templates[0].names, model.model_.templates[0].columns
    )
    only = [template.name for template in model.model_.templates]
    batch = sequence_batch(model.wiring_, features, only=only)
    potentials = model.model_.potentials(batch)
    names = [list(own) for own in model.names_]
    length = len(X[0])
    scores = {}
    for states in itertools.product(*[range(len(own)) for own in names] * length):
        labels = tuple(tuple(names[k][states[2 * t + k]] for t in range(length)) for k in range(2))
        scores[labels] = float(potentials.score(torch.tensor(states)))
    return scores


def test_answers_agree_with_enumeration(fitted):
    X = sentences(1, 5)[0]
    X = [X[0][:2]]
    scores = by_hand(fitted, X)
    total = math.log(sum(map(math.exp, scores.values())))
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    (best,) = fitted.decode(X)
    assert tuple(map(tuple, best.layers)) == ranked[0]
    assert best.score == pytest.approx(scores[ranked[0]])
    assert best.kind == "exact"
    (listed,) = fitted.n_best(X, 3)
    assert [tuple(map(tuple, own.layers)) for own in listed] == ranked[:3]
    second = [list(layer) for layer in ranked[1]]
    assert fitted.log_prob(X, [second]) == pytest.approx([scores[ranked[1]] - total])
    chance = fitted.predict_marginals(X)[0][1][0]["B"]
    expected = sum(math.exp(s - total) for own, s in scores.items() if own[1][0] == "B")
    assert chance == pytest.approx(expected)


def test_forced_labels_hold_and_the_rest_is_best(fitted):
    X = [sentences(1, 5)[0][0][:2]]
    scores = by_hand(fitted, X)
    known = [[[None, {"NN", "VB"}], ["O", None]]]
    allowed = {
        own: s for own, s in scores.items() if own[1][0] == "O" and own[0][1] in ("NN", "VB")
    }
    (found,) = fitted.predict(X, known)
    assert tuple(map(tuple, found)) == max(allowed, key=allowed.__getitem__)
    assert fitted.predict(X, Constraints(forced=known)) == [found]
    with pytest.raises(SettingsError, match="are for chains"):
        fitted.predict(X, Constraints(scheme="IOB2"))


def test_labels_never_seen_cannot_be_forced(fitted):
    with pytest.raises(DataError, match="label 'XX' was not seen in training"):
        fitted.predict([[["w=cat"]]], [[["XX"], [None]]])


def test_an_empty_sequence_has_no_labels(fitted):
    X = sentences(2, 5)[0]
    first, empty, last = fitted.predict([X[0], [], X[1]])
    assert empty == [[], []]
    assert [first, last] == fitted.predict(X)
    assert fitted.predict_marginals([[]]) == [[[], []]]


def test_saved_and_loaded_it_answers_the_same(fitted, tmp_path: Path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    X = sentences(8, 3)[0]
    assert again.predict(X) == fitted.predict(X)
    assert again.classes_ == fitted.classes_
    assert again.get_params()["c2"] == fitted.c2
    assert again.top_features(n=3) == fitted.top_features(n=3)
    with pytest.raises(SettingsError, match="no label 'Q'"):
        again.top_features("Q")


def test_layers_are_coupled_as_told():
    X, y = sentences(20, 4)
    three = [[*own, own[0]] for own in y]
    model = FactorialCRF(coupled=[(0, 2)], max_iterations=3, **QUIET).fit(X, three)
    names = [template.name for template in model.model_.templates]
    assert [name for name in names if name.startswith("cotemporal")] == ["cotemporal 0,2"]
    assert [len(own) for own in model.predict(X[:1])[0]] == [len(X[0])] * 3
    with pytest.raises(GraphError, match="cannot be coupled"):
        FactorialCRF(coupled=[(0, 3)]).fit(X, three)


def test_unknown_labels_are_learned_around():
    X, y = sentences(40, 6)
    holed = [[[None, *tags[1:]], phrases] for tags, phrases in y]
    model = FactorialCRF("pl", **QUIET).fit(X, holed)
    assert model.score(X, y) > 0.9


def test_weights_of_samples_count_like_copies():
    X, y = sentences(6, 7)
    weighted = FactorialCRF(**QUIET).fit(X, y, sample_weight=[2, 1, 1, 1, 1, 1])
    copied = FactorialCRF(**QUIET).fit([*X, X[0]], [*y, y[0]])
    assert weighted.outcome_.value == pytest.approx(copied.outcome_.value, rel=1e-6)


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        ([[["A", "B"], ["C"]]], r"layers of sequence 0 have \[2, 1\] labels"),
        ([[["A"], ["C"]]], "sequence 0 has 2 items and 1 labels"),
        ([[["A", "B"], ["C", "D"]], [["A", "B"]]], "sequence 1 has 1 layers, not 2"),
        (["AB"], "the labels of sequence 0 are 'AB'"),
        ([[]], "sequence 0 has 0 layers"),
        ([], "no token with a label"),
    ],
)
def test_layers_that_do_not_fit_are_refused(y, problem):
    with pytest.raises(DataError, match=problem):
        FactorialCRF().fit([[["a"], ["b"]]], y)


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(DataError, match="no token"):
        FactorialCRF().fit([[]], [[[], []]])
    with pytest.raises(DataError, match="no token"):
        SkipChainCRF().fit([], [])


def test_unknown_estimators_are_refused():
    X, y = sentences(3, 8)
    with pytest.raises(SettingsError, match="estimator 'em' is not one of"):
        FactorialCRF("em").fit(X, y)


def test_before_fit_there_are_no_answers():
    with pytest.raises(NotFittedError):
        FactorialCRF().predict([])
    with pytest.raises(NotFittedError):
        SkipChainCRF().predict([])
    assert clone(SkipChainCRF(rule="same-word")).rule == "same-word"


def test_n_best_of_chains_is_that_of_search_and_needs_none(monkeypatch):
    X, y = sentences(30, 0)
    model = FactorialCRF(**QUIET).fit(X, [own[:1] for own in y])  # one layer: a chain
    asked = [*sentences(4, 5)[0], [], [["w=cat"]]]
    known = [[[None] * len(own)] for own in asked]
    known[0][0][0] = {"DT", "VB"}
    found = model.n_best(asked, 4, known)
    assert [len(own) for own in found[-2:]] == [1, 3]

    class Refusing(field_crf.Chain):
        def refuses(self, graph):
            return "not now"

    monkeypatch.setattr(field_crf, "Chain", Refusing)
    for mine, searched in zip(found, model.n_best(asked, 4, known), strict=True):
        assert [own.score for own in mine] == pytest.approx([own.score for own in searched])
        assert mine[0].layers == searched[0].layers


def notices(count: int, seed: int) -> tuple[list, list, list]:
    """Names that are told once as a speaker's, and stand again without a sign of it."""
    draw = np.random.default_rng(seed)
    X, y, words = [], [], []
    for number in range(count):
        name = f"Name{seed}x{number}"
        own = ["by", name, "on", "time", "Mr", name] if draw.random() < 0.5 else ["by", "us", "at"]
        own += ["see", name if name in own else "it", "there"]
        words.append(own)
        y.append(["S" if word == name else "O" for word in own])
        X.append([[f"w={word}"] if not word.startswith("Name") else ["name"] for word in own])
        for t in range(1, len(own)):
            X[-1][t].append(f"before={own[t - 1]}" if own[t - 1] in ("by", "Mr") else "far")
    return X, y, words


@pytest.mark.parametrize("estimator", ["pw", "pwpl", "pl"])
def test_a_skip_chain_learns_and_remembers_its_rule(estimator, tmp_path: Path):
    X, y, words = notices(40, 0)
    model = SkipChainCRF(estimator, **QUIET).fit(X, y, words=words)
    assert "skip 0" in [template.name for template in model.model_.templates]
    X, y, words = notices(20, 1)
    assert model.score(X, y, words=words) > 0.95
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(X, words=words) == model.predict(X, words=words)
    X, words = X[:1], words[:1]
    chances = again.predict_marginals(X, words=words)
    assert sum(chances[0][0].values()) == pytest.approx(1)
    (best,) = again.n_best(X, 1, words=words)
    assert best[0].layers == [again.predict(X, words=words)[0]]
    assert again.log_prob(X, [best[0].layers[0]], words=words)[0] <= 0


def test_belief_propagation_starts_from_the_chain():
    X, y, words = notices(20, 2)
    model = SkipChainCRF("bp", start="chain", **QUIET).fit(X, y, words=words)
    assert model.outcome_.converged
    assert model.score(X, y, words=words) > 0.95
    with pytest.raises(MrflearnError, match="start='middle' is not one of"):
        SkipChainCRF(start="middle").fit(X, y, words=words)


def test_a_rule_may_be_a_function(tmp_path: Path):
    X, y, words = notices(10, 3)

    def ends(own):
        return [(0, len(own) - 1)]

    model = SkipChainCRF(rule=ends, max_iterations=3, **QUIET).fit(X, y, words=words)
    found = model.predict(X, words=words)
    model.save(tmp_path / "model")
    with pytest.raises(MrflearnError, match="rule of its user's own"):
        SkipChainCRF.load(tmp_path / "model").predict(X, words=words)
    assert SkipChainCRF.load(tmp_path / "model", rule=ends).predict(X, words=words) == found
    with pytest.raises(MrflearnError, match="'some' is not one of capitalised, same-word"):
        SkipChainCRF(rule="some").fit(X, y, words=words)


def test_documents_without_skips_in_training_are_a_plain_chain():
    X, y, words = [[["a"], ["b"]]], [["A", "B"]], [["x", "y"]]
    model = SkipChainCRF(max_iterations=3, **QUIET).fit(X, y, words=words)
    twice = [["a"], ["b"], ["a"]]
    assert len(model.predict([twice], words=[["Same", "y", "Same"]])[0]) == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [([["x"]], "document 0 has 2 items and 1 words"), ([], "1 sequences of items and 0 of words")],
)
def test_words_that_do_not_fit_are_refused(words, problem):
    with pytest.raises(DataError, match=problem):
        SkipChainCRF().fit([[["a"], ["b"]]], [["A", "B"]], words=words)


def documents(count: int, seed: int) -> tuple[list, list]:
    """The same notices, each item with its word among its features."""
    X, y, words = notices(count, seed)
    items = [[dict.fromkeys(item, 1.0) for item in own] for own in X]
    for own, names in zip(items, words, strict=True):
        for item, word in zip(own, names, strict=True):
            item["word"] = word
    return items, y


def word_in(item: dict) -> str:
    return item["word"]


def test_items_carry_their_words(tmp_path: Path):
    X, y = documents(12, 0)
    words = [[item["word"] for item in own] for own in X]
    model = SkipChainCRF(max_iterations=5, **QUIET).fit(X, y)
    assert "skip 0" in [template.name for template in model.model_.templates]
    given = SkipChainCRF(word=None, max_iterations=5, **QUIET).fit(X, y, words=words)
    assert model.predict_marginals(X) == given.predict_marginals(X, words=words)
    with pytest.raises(SettingsError, match="say which feature is a token"):
        given.predict(X)
    found = SkipChainCRF(word=word_in, max_iterations=5, **QUIET).fit(X, y)
    assert found.predict_marginals(X) == model.predict_marginals(X)
    found.save(tmp_path / "model")
    assert load(tmp_path / "model").word is None
    again = SkipChainCRF.load(tmp_path / "model", word=word_in)
    assert again.predict(X) == model.predict(X)


def test_words_are_found_among_names_of_features():
    X, y, words = notices(12, 0)
    items = [word_features(own) for own in words]
    made = SkipChainCRF(word="w[0]", max_iterations=3, **QUIET).fit(items, y)
    given = SkipChainCRF(max_iterations=3, **QUIET).fit(items, y, words=words)
    assert made.predict_marginals(items) == given.predict_marginals(items, words=words)
    with pytest.raises(DataError, match="an item has no word"):
        SkipChainCRF().fit(X, y)


def test_scikit_learn_searches_and_pipes():
    X, y = documents(12, 0)
    search = GridSearchCV(
        SkipChainCRF(max_iterations=3, **QUIET), {"rule": ["capitalised", "same-word"]}, cv=2
    ).fit(X, y)
    assert search.best_score_ > 0.5
    layers = sentences(8, 1)
    search = GridSearchCV(FactorialCRF(max_iterations=3, **QUIET), {"c2": [0.1, 1.0]}, cv=2)
    assert search.fit(*layers).best_params_["c2"] in (0.1, 1.0)
    steps = [("as it is", FunctionTransformer()), ("crf", SkipChainCRF(max_iterations=3, **QUIET))]
    assert Pipeline(steps).fit(X, y).score(X, y) > 0.5


def test_marginals_as_arrays(fitted):
    X = sentences(3, 5)[0]
    for layers, tables in zip(fitted.predict_marginals(X), fitted.predict_proba(X), strict=True):
        for own, table, names in zip(layers, tables, fitted.classes_, strict=True):
            assert [dict(zip(names, row, strict=True)) for row in table.tolist()] == own
    X, y = documents(4, 0)
    skip = SkipChainCRF(max_iterations=3, **QUIET).fit(X, y)
    for own, table in zip(skip.predict_marginals(X), skip.predict_proba(X), strict=True):
        assert [dict(zip(skip.classes_, row, strict=True)) for row in table.tolist()] == own
