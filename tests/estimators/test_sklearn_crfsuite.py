"""Programs written for sklearn-crfsuite run with the import changed."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import make_scorer
from sklearn.model_selection import RandomizedSearchCV

import mrflearn as sklearn_crfsuite
from mrflearn import metrics, scorers
from mrflearn.errors import DataError, NotFittedError, StorageError
from support.tagged_items import random_data

Sentence = list[tuple[str, str, str]]
NAMES = {"B-LOC": ("Madrid", "Lima", "Sevilla"), "B-PER": ("Ana", "Luis", "Rosa")}


def corpus(count: int, seed: int = 0) -> list[Sentence]:
    """Sentences of (word, part of speech, name tag), in the manner of CoNLL-2002."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        sentence: Sentence = []
        for _ in range(draw.randint(2, 6)):
            tag = draw.choice(["O", "O", "B-LOC", "B-PER"])
            if tag == "O":
                sentence.append((draw.choice(["vive", "en", "la", "ciudad"]), "VMI", tag))
            else:
                sentence.append((draw.choice(NAMES[tag]), "NP", tag))
            if tag == "B-LOC" and draw.random() < 0.3:
                sentence.append(("Norte", "AQ", "I-LOC"))
        found.append(sentence)
    return found


def word2features(sent: Sentence, i: int) -> dict[str, Any]:
    word, postag = sent[i][0], sent[i][1]
    features = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "postag": postag,
        "postag[:2]": postag[:2],
    }
    if i > 0:
        features |= {"-1:word.lower()": sent[i - 1][0].lower(), "-1:postag": sent[i - 1][1]}
    else:
        features["BOS"] = True
    if i == len(sent) - 1:
        features["EOS"] = True
    return features


def sent2features(sent: Sentence) -> list[dict[str, Any]]:
    return [word2features(sent, i) for i in range(len(sent))]


def sent2labels(sent: Sentence) -> list[str]:
    return [label for _, _, label in sent]


def test_the_tutorial() -> None:
    train_sents, test_sents = corpus(60), corpus(20, seed=1)
    X_train, y_train = map(sent2features, train_sents), map(sent2labels, train_sents)
    X_train, y_train = list(X_train), list(y_train)
    X_test, y_test = [sent2features(s) for s in test_sents], [sent2labels(s) for s in test_sents]
    crf = sklearn_crfsuite.CRF(
        algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True
    )
    crf.fit(X_train, y_train)
    labels = list(crf.classes_)
    labels.remove("O")
    y_pred = crf.predict(X_test)
    assert isinstance(y_pred, np.ndarray)
    assert y_pred.dtype == object
    assert metrics.flat_f1_score(y_test, y_pred, average="weighted", labels=labels) > 0.9
    assert scorers.flat_accuracy(crf, X_test, y_test) == crf.score(X_test, y_test)
    assert 0.5 < scorers.sequence_accuracy(crf, X_test, y_test) <= 1
    sorted_labels = sorted(labels, key=lambda name: (name[1:], name[0]))
    report = metrics.flat_classification_report(y_test, y_pred, labels=sorted_labels, digits=3)
    assert "B-LOC" in report

    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", max_iterations=20, all_possible_transitions=True)
    params_space = {"c1": scipy.stats.expon(scale=0.5), "c2": scipy.stats.expon(scale=0.05)}
    f1_scorer = make_scorer(metrics.flat_f1_score, average="weighted", labels=labels)
    rs = RandomizedSearchCV(
        crf, params_space, cv=3, n_iter=3, scoring=f1_scorer, random_state=0, error_score="raise"
    )
    rs.fit(X_train, y_train)
    crf = rs.best_estimator_
    assert rs.best_score_ > 0.8
    assert crf.size_ > 0
    common = Counter(crf.transition_features_).most_common(5)
    assert all(isinstance(weight, float) for (_, _), weight in common)
    assert Counter(crf.transition_features_).most_common()[-1][1] <= common[0][1]
    (attr, label), weight = Counter(crf.state_features_).most_common(1)[0]
    assert attr in crf.attributes_
    assert label in crf.classes_
    assert weight > 0


def test_scores_of_sequences_are_those_of_all_tokens() -> None:
    y, found = [["A", "B"], ["A"]], np.array([["A", "A"], ["A"]], dtype=object)
    assert metrics.flat_accuracy_score(y, found) == pytest.approx(2 / 3)
    assert metrics.flat_precision_score(y, found, labels=["A"], average="micro") == 2 / 3
    assert metrics.flat_recall_score(y, found, pos_label="A") == 1.0
    assert metrics.flat_fbeta_score(y, found, beta=1, pos_label="A") == pytest.approx(0.8)
    assert metrics.sequence_accuracy_score(y, found) == 0.5
    assert metrics.sequence_accuracy_score([], []) == 0.0
    square = np.array([["A", "B"], ["B", "A"]], dtype=object)
    assert metrics.sequence_accuracy_score(square.tolist(), square) == 1.0
    with pytest.raises(DataError, match="not as many"):
        metrics.flat_accuracy_score(y, y[:1])


def test_answers_have_the_shape_of_sklearn_crfsuite() -> None:
    X, y = random_data(3, sequences=30)
    crf = sklearn_crfsuite.CRF().fit(X, y)
    ragged = crf.predict(X)
    assert ragged.shape == (30,)
    assert isinstance(ragged[0], list)
    assert crf.predict(X[:1]).shape == crf.predict_marginals(X[:1]).shape == (1, len(X[0]))
    assert crf.predict([]).shape == (0,)
    assert isinstance(crf.predict_marginals(X)[0][0], dict)
    assert isinstance(crf.predict_single(X[0]), list)
    assert isinstance(crf.predict_marginals_single(X[0]), list)


def test_nothing_is_known_before_fit() -> None:
    crf = sklearn_crfsuite.CRF(model_filename="not-there")
    for name in (
        "classes_", "tagger_", "training_log_", "size_", "num_attributes_", "attributes_",
        "state_features_", "transition_features_",
    ):  # fmt: skip
        assert getattr(crf, name) is None, name
    for ask in (crf.top_features, crf.top_transitions, crf.top_edge_features):
        with pytest.raises(NotFittedError):
            ask()
    with pytest.raises(NotFittedError):
        crf.predict([])


def test_the_tagger_answers_for_one_sequence() -> None:
    X, y = random_data(3, sequences=30)
    crf = sklearn_crfsuite.CRF().fit(X, y)
    tagger = crf.tagger_
    with pytest.raises(DataError, match="no sequence"):
        tagger.tag()
    assert tagger.tag(X[0]) == tagger.tag() == crf.predict_single(X[0])
    assert tagger.labels() == crf.classes_
    tagger.set(X[1])
    assert tagger is crf.tagger_
    assert tagger.marginal("A", 0) == crf.predict_marginals_single(X[1])[0]["A"]
    assert np.log(tagger.probability(y[1])) == pytest.approx(crf.log_prob(X[1:2], y[1:2])[0])
    info = tagger.info()
    assert info.transitions == crf.transition_features_
    assert info.state_features == crf.state_features_
    assert list(info.labels) == crf.classes_
    assert int(info.header["num_attrs"]) == crf.num_attributes_
    again = pickle.loads(pickle.dumps(crf))
    assert again.tagger_.tag(X[0]) == tagger.tag(X[0])
    tagger.close()
    assert crf.fit(X[:5], y[:5]).tagger_ is not tagger


def test_the_log_tells_of_every_iteration(tmp_path: Path) -> None:
    X, y = random_data(3, sequences=30)
    crf = sklearn_crfsuite.CRF(max_iterations=20).fit(X, y, X_dev=X[:5], y_dev=y[:5])
    log = crf.training_log_
    assert [own["num"] for own in log.iterations] == list(range(1, len(log.iterations) + 1))
    assert log.last_iteration is log.iterations[-1]
    assert log.last_iteration["loss"] < log.iterations[0]["loss"]
    assert 0 <= log.last_iteration["validation"] <= 1
    assert log.featgen_num_features == log.last_iteration["active_features"]
    assert log.last_iteration["feature_norm"] > 0
    assert {"error_norm", "linesearch_step", "linesearch_trials", "time", "scores"} <= set(
        log.iterations[0]
    )
    crf.save(tmp_path / "model")
    assert sklearn_crfsuite.load(tmp_path / "model").training_log_.iterations == log.iterations
    assert sklearn_crfsuite.CRF(max_iterations=0).fit(X, y).training_log_.last_iteration is None


def test_the_log_is_that_of_crfsuite(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = random_data(3, sequences=30)
    trainer = pycrfsuite.Trainer(verbose=False)
    for items, tags in zip(X, y, strict=True):
        trainer.append(items, tags)
    trainer.set_params({"max_iterations": 100})
    trainer.train(str(tmp_path / "model"))
    theirs, ours = trainer.logparser, sklearn_crfsuite.CRF(dtype="float64").fit(X, y).training_log_
    assert ours.featgen_num_features == theirs.featgen_num_features
    assert set(theirs.last_iteration) <= set(ours.last_iteration)
    for name in ("loss", "feature_norm", "active_features"):
        assert ours.last_iteration[name] == pytest.approx(theirs.last_iteration[name], rel=1e-4)


def test_a_model_file_is_written_and_opened(tmp_path: Path) -> None:
    X, y = random_data(3, sequences=30)
    path = tmp_path / "model"
    fitted = sklearn_crfsuite.CRF(model_filename=path, features=None).fit(X, y)
    opened = sklearn_crfsuite.CRF(model_filename=str(path))
    assert opened.classes_ == fitted.classes_
    assert opened.predict(X).tolist() == fitted.predict(X).tolist()
    assert opened.state_features_ == fitted.state_features_
    (tmp_path / "text").write_text("no model")
    with pytest.raises(DataError, match="damaged"):
        sklearn_crfsuite.CRF(model_filename=tmp_path / "text").predict(X)
    with pytest.raises(StorageError, match="not a mrflearn model"):
        sklearn_crfsuite.CRF(model_filename=tmp_path / "text").fit(X, y)
    assert (tmp_path / "text").read_text() == "no model"


def test_a_model_of_crfsuite_is_opened(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = random_data(3, sequences=30)
    trainer = pycrfsuite.Trainer(verbose=False)
    for items, tags in zip(X, y, strict=True):
        trainer.append([{**item, "señal": "ñ"} for item in items], tags)
    path = tmp_path / "model.crfsuite"
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    crf = sklearn_crfsuite.CRF(model_filename=path)
    assert crf.classes_ == tagger.labels()
    assert crf.predict(X).tolist() == [tagger.tag(items) for items in X]
    assert crf.state_features_ == pytest.approx(tagger.info().state_features, abs=1e-5)
    assert crf.transition_features_ == pytest.approx(tagger.info().transitions, abs=1e-5)
    crf.save(tmp_path / "ours")
    assert sklearn_crfsuite.load(tmp_path / "ours").predict(X).tolist() == crf.predict(X).tolist()
    whole = path.read_bytes()
    for end in (3, 40, 60, len(whole) // 2):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match=r"model\.crfsuite"):
            sklearn_crfsuite.CRF(model_filename=path).predict(X)
