"""The CRF as an estimator: answers by enumeration, scikit-learn, storage, learning on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from mrflearn import (
    CRF,
    Constraints,
    FactorialCRF,
    GraphCRF,
    HMMTagger,
    JointTagger,
    SkipChainCRF,
    load,
    word_features,
)
from mrflearn.errors import (
    DataError,
    NotFittedError,
    SettingsError,
    StorageError,
)
from mrflearn.features.features import compile_features
from mrflearn.io.crfsuite_text import read_crfsuite
from support.edited import edit
from support.tagged_items import assert_exact_answers, log_sum, random_data, scores_of

X, Y = random_data(0, sequences=40)
V, Z = random_data(1, sequences=15)


@pytest.fixture(scope="module")
def fitted() -> CRF:
    return CRF(dtype="float64").fit(X, Y)


def test_answers_are_those_of_enumeration(fitted: CRF) -> None:
    assert_exact_answers(fitted, V, Z)


def test_partial_labels_have_the_probability_of_what_they_allow(fitted: CRF) -> None:
    sequence = V[0][:3]
    partly: list[Any] = [None, {"A", "B"}, "C"][: len(sequence)]
    scores = scores_of(fitted, sequence)
    right = [
        score
        for path, score in scores.items()
        if all(w is None or tag in w for tag, w in zip(path, partly, strict=True))
    ]
    assert fitted.log_prob([sequence], [partly])[0] == pytest.approx(
        log_sum(right) - log_sum(scores)
    )


def test_samples_follow_the_distribution(fitted: CRF) -> None:
    sequence = V[0][:2]
    scores = scores_of(fitted, sequence)
    total, count = log_sum(scores), 4000
    drawn = Counter(tuple(path) for path in fitted.sample([sequence], count, random_state=1)[0])
    for path, score in scores.items():
        chance = math.exp(score - total)
        spread = 5 * math.sqrt(chance * (1 - chance) / count) + 1e-9
        assert drawn[path] / count == pytest.approx(chance, abs=spread)
    assert fitted.sample(V, 2, random_state=3) == fitted.sample(V, 2, random_state=3)


@pytest.mark.parametrize("order", [1, 2])
def test_training_reaches_an_optimum(order: int) -> None:
    crf = CRF(order=order, dtype="float64", epsilon=1e-8, delta=0.0).fit(X, Y)
    assert crf.outcome_.converged
    weights = [*crf.state_features_.values(), *crf.transition_features_.values()]
    loss = -sum(crf.log_prob(X, Y)) + sum(w * w for w in weights)
    assert crf.outcome_.value == pytest.approx(loss, rel=1e-9)


def test_algorithms_agree_on_what_is_easy() -> None:
    easy = [[tags[0]] * len(tags) for tags in Y]
    items = [[{"first": own[0]} for own in zip(tags, strict=True)] for tags in easy]
    for options in (
        {},
        {"c1": 0.1},
        {"algorithm": "l2sgd", "max_iterations": 10},
        {"algorithm": "ap"},
    ):
        assert CRF(**options).fit(items, easy).score(items, easy) == 1.0


def test_l2sgd_approaches_the_optimum_of_lbfgs() -> None:
    best = CRF(dtype="float64").fit(X, Y).outcome_.value
    near = CRF("l2sgd", max_iterations=60, batch_size=4, dtype="float64").fit(X, Y).outcome_.value
    assert best - 1e-6 < near < best * 1.01


def test_l1_makes_weights_of_exactly_zero() -> None:
    sparse, full = CRF(c1=1.0, c2=0.1).fit(X, Y), CRF(c1=0.0, c2=0.1).fit(X, Y)
    assert 0 < len(sparse.state_features_) < len(full.state_features_)


def test_sample_and_class_weights_count() -> None:
    twice = CRF(dtype="float64").fit(X + X[:5], Y + Y[:5])
    weighted = CRF(dtype="float64").fit(X, Y, sample_weight=[2.0] * 5 + [1.0] * (len(X) - 5))
    assert weighted.outcome_.value == pytest.approx(twice.outcome_.value, rel=1e-6)
    heavy = CRF(class_weight={"A": 20.0}).fit(X, Y)
    plain = CRF().fit(X, Y)
    count = [sum(tag == "A" for tags in crf.predict(X) for tag in tags) for crf in (heavy, plain)]
    assert count[0] >= count[1]
    assert CRF(class_weight="balanced").fit(X, Y).score(X, Y) > 0.5


def test_scikit_learns_tools_work() -> None:
    crf = CRF(max_iterations=20)
    assert clone(crf).get_params() == crf.get_params()
    assert cross_val_score(crf, X, Y, cv=3).mean() > 0.4
    search = GridSearchCV(crf, {"c2": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert search.best_params_["c2"] in (0.1, 1.0)
    assert isinstance(search.predict(V), np.ndarray)
    words = [[item["w"] for item in own] for own in X]
    featurise = FunctionTransformer(lambda batch: [word_features(own) for own in batch])
    pipeline = Pipeline([("features", featurise), ("crf", CRF(max_iterations=20))]).fit(words, Y)
    assert pipeline.score(words, Y) > 0.5


def test_the_flow_of_sklearn_crfsuites_tutorial() -> None:
    crf = CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    crf.fit(X, Y)
    labels = list(crf.classes_)
    labels.remove("A")
    predicted = crf.predict(V)
    assert [len(own) for own in predicted] == [len(own) for own in V]
    assert all(isinstance(tag, str) for own in predicted for tag in own)
    moves = Counter(crf.transition_features_).most_common(3)
    assert all(len(pair) == 2 and isinstance(weight, float) for pair, weight in moves)
    states = Counter(crf.state_features_).most_common(3)
    assert all(isinstance(name, str) and label in crf.classes_ for (name, label), _ in states)
    assert crf.predict_marginals_single(V[0]) == crf.predict_marginals([V[0]]).tolist()[0]
    assert crf.predict_single(V[0]) == predicted[0]
    assert len(crf.attributes_) == crf.num_attributes_


def test_a_saved_model_answers_the_same(fitted: CRF, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, CRF)
    assert again.get_params() == fitted.get_params()
    assert again.predict_marginals(V).tolist() == fitted.predict_marginals(V).tolist()
    assert again.state_features_ == fitted.state_features_
    named = CRF(model_filename=tmp_path / "other", max_iterations=2).fit(X, Y)
    assert CRF.load(tmp_path / "other").predict(V).tolist() == named.predict(V).tolist()
    edit(tmp_path / "model", lambda text: text.replace('"labels"', '"labelz"'))
    with pytest.raises(StorageError, match="labels"):
        load(tmp_path / "model")


@pytest.mark.parametrize("order", [1, 2])
def test_text_holds_every_weight(order: int, tmp_path: Path) -> None:
    dense = [[item | {"v": np.array([len(item), 0.5])} for item in own] for own in X]
    crf = CRF(order=order, dtype="float64").fit(dense, Y)
    crf.dump(tmp_path / "weights.txt")
    again = CRF.from_dump(tmp_path / "weights.txt", dtype="float64")
    assert again.classes_ == crf.classes_
    assert again.log_prob(dense, Y) == pytest.approx(crf.log_prob(dense, Y), rel=1e-12)
    (tmp_path / "weights.txt").write_text("state\ta\tx\tmany\n")
    with pytest.raises(DataError, match=r"weights.txt:1: 'many' is no weight"):
        CRF.from_dump(tmp_path / "weights.txt")


def test_explanations_add_up_to_the_score(fitted: CRF) -> None:
    sequence = V[0]
    label = fitted.predict_single(sequence)[0]
    parts = fitted.explain(sequence, 0)
    weights = fitted.state_features_
    assert parts
    assert all(
        share == pytest.approx(weights[name, label] * dict(parts_of(sequence[0]))[name])
        for name, share in parts
    )
    assert parts == sorted(parts, key=lambda part: -abs(part[1]))
    top = fitted.top_features("A", 3)
    assert len(top) == 3
    assert abs(top[0][2]) == max(abs(w) for (_, label), w in weights.items() if label == "A")
    assert fitted.top_transitions(1)[0][1] == max(fitted.transition_features_.values(), key=abs)


def parts_of(item: Any) -> Any:
    from support.tagged_items import attributes

    return attributes(item)


def test_learning_on_takes_new_labels_and_attributes() -> None:
    crf = CRF(dtype="float64").fit(X, Y)
    before = crf.score(X, Y)
    new = [[{"w": "alien"}, {"w": "alien"}]] * 5
    crf.partial_fit(new, [["N", "N"]] * 5)
    assert crf.classes_[-1] == "N"
    assert crf.predict(new[:1]).tolist() == [["N", "N"]]
    assert crf.score(X, Y) > before - 0.05
    begun = CRF().partial_fit(X, Y, classes=["unseen"])
    assert "unseen" in begun.classes_


def test_a_warm_start_begins_where_the_last_fit_ended() -> None:
    crf = CRF(warm_start=True, dtype="float64").fit(X, Y)
    iterations = crf.outcome_.iterations
    assert crf.fit(X, Y).outcome_.iterations < iterations
    cold = CRF(dtype="float64").fit(X, Y).fit(X, Y)
    assert cold.outcome_.iterations == iterations


def test_a_checkpoint_is_resumed(tmp_path: Path) -> None:
    file = tmp_path / "state"
    CRF(max_iterations=3, dtype="float64").fit(X, Y, checkpoint=file)
    resumed = CRF(dtype="float64").fit(X, Y, checkpoint=file, resume=True)
    whole = CRF(dtype="float64").fit(X, Y)
    assert resumed.outcome_.value == whole.outcome_.value
    assert resumed.outcome_.iterations == whole.outcome_.iterations


def test_a_dev_set_keeps_the_best_weights() -> None:
    crf = CRF(c2=1e-3, patience=3).fit(X, Y, X_dev=V, y_dev=Z)
    scores = [row.validation for row in crf.outcome_.history if row.validation is not None]
    assert crf.score(V, Z) == pytest.approx(max(scores))
    chunks = [["B-x" if tag == "A" else "I-x" if tag == "B" else "O" for tag in own] for own in Y]
    tagged = CRF(max_iterations=5).fit(X, chunks, X_dev=X, y_dev=chunks)
    assert all(0 <= (row.validation or 0) <= 1 for row in tagged.outcome_.history)


def test_partial_labels_teach() -> None:
    partly: list[Any] = [[tag if i % 2 else None for i, tag in enumerate(own)] for own in Y]
    crf = CRF().fit(X, partly)
    assert crf.score(X, Y) > 1.5 / len(crf.classes_)
    whole = CRF().fit(X, [[{tag} for tag in own] for own in Y])
    assert whole.outcome_.value == pytest.approx(CRF().fit(X, Y).outcome_.value, rel=1e-5)


def test_compiled_and_streamed_features_train_the_same(tmp_path: Path) -> None:
    listed = CRF(max_iterations=10).fit(X, Y)
    streamed = CRF(max_iterations=10).fit((own for own in X), iter(Y))
    compiled = compile_features(X)
    reused = [CRF(max_iterations=10).fit(compiled, Y) for _ in range(2)]
    for crf in (streamed, *reused):
        assert crf.state_features_ == listed.state_features_
    assert reused[0].predict(compiled).tolist() == listed.predict(X).tolist()
    file = tmp_path / "data.txt"
    file.write_text("x\ta:2\tb\ny\tb\n\nx\ta\n")
    assert set(CRF().fit(read_crfsuite(file)).state_features_) == {
        ("a", "x"),
        ("b", "x"),
        ("b", "y"),
    }


def test_dense_and_sparse_features_work_together() -> None:
    source = np.random.default_rng(0)
    dense = [[{"w": "x", "v": source.normal(size=3)} for _ in own] for own in X]
    tags = [["P" if item["v"][1] > 0 else "N" for item in own] for own in dense]
    crf = CRF(c2=0.01).fit(dense, tags)
    assert crf.score(dense, tags) > 0.95
    assert crf.state_features_["v[1]", "P"] > abs(crf.state_features_["v[0]", "P"])


@pytest.mark.filterwarnings("ignore:y has one label")
@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_no_data_is_too_odd(seed: int) -> None:
    items, tags = random_data(seed, sequences=3, labels=1 + seed % 3, longest=2)
    crf = CRF(max_iterations=3).fit([*items, []], [*tags, []])
    assert crf.predict([[], *items])[0] == []
    assert crf.predict([]).tolist() == []
    assert len(crf.predict([[{"never": "seen"}]])[0]) == 1


@pytest.mark.parametrize(
    "fit",
    [
        lambda: CRF(max_iterations=2).fit([[["a"], ["b"]]], [["X", "X"]]),
        lambda: FactorialCRF().fit([[["a"], ["b"]]], [[["X", "X"], ["Y", "Z"]]]),
        lambda: SkipChainCRF().fit([[["word=a"], ["word=b"]]], [["X", "X"]]),
        lambda: GraphCRF().fit([nx.path_graph(2)], [["X", "X"]]),
        lambda: HMMTagger().fit([["a", "b"]], [["X", "X"]]),
        lambda: JointTagger(max_iterations=2).fit([["a", "b"]], [["X", "X"]]),
    ],
    ids=["chain", "factorial", "skip", "graph", "hmm", "joint"],
)
def test_a_single_label_is_warned_of(fit: Callable[[], object]) -> None:
    with pytest.warns(UserWarning, match="'X'") as told:
        fit()
    assert len(told) == 1


def test_no_features_at_all_leave_the_transitions() -> None:
    crf = CRF(c2=0.01).fit([[{}, {}, {}]] * 5, [["x", "y", "x"]] * 5)
    assert crf.num_attributes_ == 0
    assert crf.predict_single([{}, {}]) in (["x", "y"], ["y", "x"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": "sgd"}, "'sgd' is not one of"),
        ({"algorithm": "pa", "pa_type": 3}, "pa_type=3"),
        ({"algorithm": "arow", "estimator": "pw"}, "algorithm='arow'"),
        ({"features": "teapot"}, "makes no features"),
        ({"algorithm": "l2sgd", "c1": 1.0}, "needs algorithm='lbfgs'"),
        ({"order": 3}, "order=3"),
        ({"dtype": "half"}, "dtype 'half'"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        CRF(**options).fit(X, Y)


@pytest.mark.parametrize(
    "options",
    [
        {"keep_tempfiles": True, "trainer_cls": None},
        {"linesearch": "Backtracking", "max_linesearch": 50, "calibration_max_trials": None},
    ],
)
def test_options_of_crfsuite_without_effect_are_ignored(options: dict[str, Any]) -> None:
    plain, given = CRF(max_iterations=3).fit(X, Y), CRF(max_iterations=3, **options).fit(X, Y)
    assert given.state_features_ == plain.state_features_
    assert given.get_params() == plain.get_params() | options


def test_options_of_crfsuite_that_cannot_be_had_are_refused() -> None:
    with pytest.raises(SettingsError, match="trainer_cls"):
        CRF(trainer_cls=CRF).fit(X, Y)
    with pytest.raises(TypeError, match="unexpected keyword argument 'c3'"):
        CRF(c3=1.0)
    with pytest.raises(TypeError, match="positional"):
        CRF("lbfgs", 0.5)  # type: ignore[misc]


def test_scikit_learn_sees_the_parameters() -> None:
    crf = CRF("l2sgd", c2=0.3, linesearch=None)
    twin = clone(crf)
    assert twin.get_params() == crf.get_params()
    assert twin.set_params(**CRF().get_params()).get_params() == CRF().get_params()
    assert repr(crf) == "CRF(algorithm='l2sgd', c2=0.3)"


def test_held_out_data_may_be_a_pair(fitted: CRF) -> None:
    settings = {"max_iterations": 8, "c2": 0.01}
    pair = CRF(**settings).fit(X, Y, validation=(V, Z))
    apart = CRF(**settings).fit(X, Y, V, Z)
    assert pair.state_features_ == apart.state_features_
    assert [own.validation for own in pair.outcome_.history][-1] is not None


def test_known_labels_may_stand_for_constraints(fitted: CRF) -> None:
    known = [[None] * len(own) for own in V]
    known[0][0] = "B"
    assert (
        fitted.predict(V, known).tolist() == fitted.predict(V, Constraints(forced=known)).tolist()
    )
    assert fitted.predict(V, known)[0][0] == "B"


def test_marginals_as_arrays(fitted: CRF) -> None:
    tables, dicts = fitted.predict_proba([[], *V]), fitted.predict_marginals([[], *V])
    assert tables[0].shape == (0, 3)
    for table, own in zip(tables, dicts, strict=True):
        assert [dict(zip(fitted.classes_, row, strict=True)) for row in table.tolist()] == own


def test_probabilities_sum_to_one_in_single_precision_too() -> None:
    model = CRF(dtype="float32").fit(X, Y)
    long = [item for own in X for item in own] * 5
    (table,) = model.predict_proba([long])
    assert abs(table.sum(axis=1) - 1).max() < 1e-12
    assert table.max() <= 1 + 1e-12


def test_a_verbose_fit_says_how_large_it_will_be(capsys: pytest.CaptureFixture[str]) -> None:
    CRF(max_iterations=1, verbose=True).fit(X, Y)
    said = capsys.readouterr()
    assert said.out == ""
    assert f"40 sequences, {sum(map(len, X))} tokens, 3 labels" in said.err
    assert "training takes about" in said.err
    assert "iteration" in said.err


def test_mistakes_are_named() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        CRF().predict(X)
    with pytest.raises(DataError, match="nothing to learn"):
        CRF().fit([], [])
    with pytest.raises(DataError, match="y is missing"):
        CRF().fit(X)
    with pytest.raises(SettingsError, match="go together"):
        CRF().fit(X, Y, X_dev=V)
    with pytest.raises(SettingsError, match="give one of them"):
        CRF().fit(X, Y, V, Z, validation=(V, Z))
    with pytest.raises(SettingsError, match="validation must be a pair"):
        CRF().fit(X, Y, validation=V)
    crf = CRF(max_iterations=2).fit(X, Y)
    with pytest.raises(DataError, match="was not seen"):
        crf.log_prob(X[:1], [["Q"] * len(X[0])])
    with pytest.raises(DataError, match="2 sequences and y has 1"):
        crf.score(X[:2], Y[:1])
    with pytest.raises(SettingsError, match="n must be >= 1; got 0"):
        crf.n_best(X, 0)
    with pytest.raises(SettingsError, match="no label 'Q'"):
        crf.top_features("Q")
    with pytest.raises(DataError, match="position 99"):
        crf.explain(X[0], 99)
    with pytest.raises(DataError, match="1 dense columns, the model has 0"):
        crf.predict(compile_features([[{"v": np.zeros(1)}]]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("order", [1, 2])
def test_a_gpu_learns_the_same_weights(order: int) -> None:
    here, there = (
        CRF(dtype="float64", order=order, device=device).fit(X, Y) for device in ("cpu", "cuda")
    )
    assert there.state_features_ == pytest.approx(here.state_features_, abs=1e-6)
    assert there.predict(V).tolist() == here.predict(V).tolist()
