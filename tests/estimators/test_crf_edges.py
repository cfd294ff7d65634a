"""A CRF with attributes of transitions: every answer by enumeration, storage, learning on."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from mrflearn import CRF, Constraints, edge, load
from mrflearn.errors import DataError
from mrflearn.features.features import compile_features
from mrflearn.io.spans import tags_to_spans
from mrflearn.models import loglinear
from support.tagged_items import assert_exact_answers, log_sum, random_data, scores_of, with_edges

X, Y = random_data(0, sequences=40)
V, Z = random_data(1, sequences=15)
X, V = with_edges(X), with_edges(V)


@pytest.fixture(scope="module")
def fitted() -> CRF:
    return CRF(dtype="float64", c2=0.1).fit(X, Y)


@pytest.mark.parametrize("at_once", [1, 2**22])
def test_answers_are_those_of_enumeration(
    fitted: CRF, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loglinear, "NUMBERS_IN_TABLES", at_once)
    assert_exact_answers(fitted, V, Z)
    assert fitted.predict(compile_features(V)).tolist() == fitted.predict(V).tolist()


def test_partial_labels_and_rules_are_exact(fitted: CRF) -> None:
    partly = [
        [None if (i + j) % 2 else tag for j, tag in enumerate(own)] for i, own in enumerate(Z)
    ]
    forbidden = {("A", "A"), ("B", "C")}
    constraints = Constraints(forbidden=list(forbidden))
    chances, logs = fitted.n_best(V, 1, constraints), fitted.log_prob(V, partly)
    for i, sequence in enumerate(V):
        scores = scores_of(fitted, sequence)
        right = [
            score
            for path, score in scores.items()
            if all(w is None or tag == w for tag, w in zip(path, partly[i], strict=True))
        ]
        assert logs[i] == pytest.approx(log_sum(right) - log_sum(scores))
        obeying = {
            path: score
            for path, score in scores.items()
            if not forbidden & set(itertools.pairwise(path))
        }
        labels, chance = chances[i][0]
        assert tuple(labels) == max(obeying, key=obeying.__getitem__)
        assert chance == pytest.approx(math.exp(obeying[tuple(labels)] - log_sum(obeying)))


def test_spans_and_samples_follow_the_distribution() -> None:
    names = {"A": "B-X", "B": "I-X", "C": "O"}
    crf = CRF(dtype="float64").fit(X, [[names[tag] for tag in own] for own in Y])
    sequence = max(V, key=len)[:4]
    scores = scores_of(crf, sequence)
    total, count = log_sum(scores), 4000
    exact = {path: math.exp(score - total) for path, score in scores.items()}
    for start, end, label, chance in crf.predict_spans([sequence], n=3)[0]:
        wanted = sum(p for path, p in exact.items() if (start, end, label) in tags_to_spans(path))
        assert chance == pytest.approx(wanted)
    drawn = Counter(tuple(path) for path in crf.sample([sequence], count, random_state=1)[0])
    for path, chance in exact.items():
        spread = 5 * math.sqrt(chance * (1 - chance) / count) + 1e-9
        assert drawn[path] / count == pytest.approx(chance, abs=max(spread, 5 / count))


@pytest.mark.parametrize("all_pairs", [False, True])
def test_edges_can_learn_what_nothing_else_can(all_pairs: bool) -> None:
    # At `flip` the label changes, at `keep` it stays: no state and no plain transition says so.
    moves = ["keep", "flip", "flip", "keep", "flip", "keep", "keep", "flip"]
    sequences, labels = [], []
    for start in range(16):
        own, state = [["begin", f"begin={start % 2}"]], start % 2
        tags = ["ab"[state]]
        for move in moves[start % 8 :] + moves[: start % 8]:
            own.append([edge(move)])
            state ^= move == "flip"
            tags.append("ab"[state])
        sequences.append(own)
        labels.append(tags)
    crf = CRF(c2=0.01, all_possible_transitions=all_pairs).fit(sequences, labels)
    assert crf.predict(sequences).tolist() == labels
    assert crf.edge_features_["flip", "a", "b"] > 0 > crf.edge_features_.get(("flip", "a", "a"), -1)
    assert len(crf.edge_features_) == (8 if all_pairs else 4)
    for algorithm in ("l2sgd", "ap"):
        other = CRF(algorithm, c2=0.01, max_iterations=30, batch_size=8).fit(sequences, labels)
        assert other.predict(sequences).tolist() == labels


def test_l1_and_a_dev_set(fitted: CRF, capsys: pytest.CaptureFixture[str]) -> None:
    sparse = CRF(c1=1.0, c2=0.0, verbose=True).fit(X, Y, V, Z)
    assert "training takes about" in capsys.readouterr().err
    assert 0 < len(sparse.edge_features_) < len(fitted.edge_features_)


def test_storage_and_text_hold_the_weights(fitted: CRF, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    fitted.dump(tmp_path / "weights.txt")
    again = CRF.from_dump(tmp_path / "weights.txt", dtype="float64")
    made = CRF.from_weights(
        fitted.classes_,
        fitted.state_features_,
        fitted.transition_features_,  # type: ignore[arg-type]  # pairs, as the order is 1
        fitted.edge_features_,
        dtype="float64",
    )
    for other in (load(tmp_path / "model"), again, made):
        assert other.edge_features_ == fitted.edge_features_
        assert other.log_prob(V, Z) == pytest.approx(fitted.log_prob(V, Z))
    name, first, second, weight = fitted.top_edge_features(1)[0]
    assert fitted.edge_features_[name, first, second] == weight
    assert abs(weight) == max(map(abs, fitted.edge_features_.values()))
    assert f"edge\t{name}\t{first}\t{second}\t" in (tmp_path / "weights.txt").read_text()
    parts = dict(fitted.explain(max(V, key=len), 1, "A"))
    assert parts.keys() <= {attribute for attribute, _ in fitted.state_features_}
    assert fitted.num_attributes_ == len({a for a, _ in fitted.state_features_})


def test_learning_on_takes_new_edges_and_keeps_the_old() -> None:
    crf = CRF(dtype="float64").fit(X, Y)
    before = crf.edge_features_
    crf.partial_fit([[["new"], [edge("novel")]]] * 3, [["A", "F"]] * 3)
    assert crf.edge_features_["novel", "A", "F"] > 0
    assert {names: crf.edge_features_[names] for names in before} == pytest.approx(before, abs=1e-6)
    warm = CRF(dtype="float64", max_iterations=1, warm_start=True).fit(X, Y)
    warm.set_params(max_iterations=None).fit(X, Y)
    assert warm.edge_features_ == pytest.approx(before, abs=1e-2)


def test_calibration_keeps_the_best_labels(fitted: CRF, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    crf = load(tmp_path / "model").calibrate(V, Z)
    assert crf.temperature_ != 1.0
    assert crf.predict(V).tolist() == fitted.predict(V).tolist()
    assert sum(crf.log_prob(V, Z)) > sum(fitted.log_prob(V, Z))


def test_two_kinds_of_triples_do_not_go_together(tmp_path: Path) -> None:
    file = tmp_path / "weights.txt"
    file.write_text("triple\ta\tb\ta\t1.0\nedge\tw\ta\tb\t1.0\n")
    with pytest.raises(DataError, match="either"):
        CRF.from_dump(file)


@pytest.mark.parametrize("order", [1, 2])
def test_chains_stored_at_first_are_read(order: int, tmp_path: Path) -> None:
    """Attributes of edges among all others, pairs of labels and triples in one vector."""
    from mrflearn.estimators.crf_training import packed
    from mrflearn.features.index import MARK
    from mrflearn.models.storage import StoredModel, write_model

    names, ends = packed(["x", MARK + "e", "y"])
    edges = [[1, 0, 1]] if order == 1 else []
    tensors = {
        "attribute": torch.tensor([0, 2]), "label": torch.tensor([1, 0]),
        "source": torch.tensor([0, 1]), "target": torch.tensor([1, 1]),
        "edges": torch.tensor(edges).reshape(-1, 3), "edge": torch.tensor([7.0] * len(edges)),
        "attribute_names": names, "attribute_ends": ends, "state": torch.tensor([1.0, 2.0]),
        "transition": torch.tensor([3.0, 4.0, 5.0][: order + 1]), "dense": torch.tensor([[6.0, 0]]),
    }  # fmt: skip
    if order == 2:
        tensors["triples"] = torch.tensor([[0, 1, 1]])
    learned = {"labels": ["A", "B"], "columns": ["d"], "temperature": 1.5, "recipe": None}
    stored = StoredModel(
        "CRF", {"order": order}, tensors, learned | {"outcome": None, "choice": None}
    )
    write_model(tmp_path / "model", stored)
    crf = CRF.load(tmp_path / "model")
    assert crf.classes_ == ["A", "B"]
    assert crf.temperature_ == 1.5
    assert crf.state_features_ == {("x", "B"): 1, ("y", "A"): 2, ("d", "A"): 6}
    triple = {("A", "B", "B"): 5.0} if order == 2 else {}
    assert crf.transition_features_ == {("A", "B"): 3, ("B", "B"): 4} | triple
    assert crf.edge_features_ == ({("e", "A", "B"): 7.0} if order == 1 else {})
