"""The estimator that `auto` takes for CRFs: one of each rule, and that it is what is learned."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from mrflearn import CRF, FactorialCRF, GraphCRF, SkipChainCRF, edge
from mrflearn.errors import DataError, MrflearnError
from mrflearn.estimators import crf_training, field_crf
from mrflearn.estimators.crf_training import choose_for_chains
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import chain_templates
from mrflearn.models.loglinear import FieldPlans
from support.command import run

WORDS = [["the", "Cat", "saw", "the", "Cat"], ["a", "dog"], ["Cat"]]
LABELS = [["D", "N", "V", "D", "N"], ["D", "N"], ["N"]]


def items(on_edges: bool = False) -> list[list[list[str]]]:
    return [[[word, edge(word)] if on_edges else [word] for word in own] for own in WORDS]


def plans(*, on_edges: bool = False, order: int = 1) -> FieldPlans:
    features = compile_features(items(on_edges))
    labels = compile_labels(LABELS, features.lengths, Numbering())
    return FieldPlans(chain_templates(features, labels, order=order)[0])


@pytest.mark.parametrize(
    ("on_edges", "tokens", "estimator", "why"),
    [
        (False, 10**9, "ml", "share one table"),
        (True, 1_000, "ml", "quick enough"),
        (True, 10**7, "pwpl", "tables of 3 x 3 labels"),
    ],
)
def test_each_rule_of_chains(on_edges: bool, tokens: int, estimator: str, why: str) -> None:
    choice = choose_for_chains(plans(on_edges=on_edges), tokens)
    assert choice.estimator == estimator
    assert why in choice.reason


def test_where_nothing_else_is_offered_it_is_exact() -> None:
    tables = plans(on_edges=True)
    assert choose_for_chains(tables, 10**9, algorithm="ap").estimator == "ml"
    assert choose_for_chains(tables, 10**9, device="cuda").estimator == "ml"
    assert choose_for_chains(plans(order=2), 10**9).estimator == "ml"


def test_a_chain_learns_what_the_chosen_one_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = CRF(estimator="auto", n_jobs=1).fit(items(), LABELS)
    assert auto.choice_.estimator == "ml"
    exact = CRF(n_jobs=1).fit(items(), LABELS)
    assert auto.state_features_ == pytest.approx(exact.state_features_)
    monkeypatch.setattr(crf_training, "MANY_CELLS", 10)
    auto = CRF(estimator="auto", n_jobs=1).fit(items(on_edges=True), LABELS)
    pieces = CRF(estimator="pwpl", n_jobs=1).fit(items(on_edges=True), LABELS)
    assert auto.choice_.estimator == "pwpl"
    assert auto.state_features_ == pytest.approx(pieces.state_features_)


def test_layers_skips_and_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [[own, own] for own in LABELS]
    both = FactorialCRF("auto", n_jobs=1).fit(items(), layers)
    assert (both.choice_.estimator, "loops" in both.choice_.reason) == ("pw", True)
    alone = FactorialCRF("auto", n_jobs=1).fit(items(), [[own] for own in LABELS])
    assert alone.choice_.estimator == "ml"
    named = FactorialCRF("auto", pieces="edges", n_jobs=1).fit(items(), layers)
    assert named.choice_ == ("pw", "pieces are named")
    skips = SkipChainCRF("auto", n_jobs=1).fit(items(), LABELS, words=WORDS)
    assert skips.choice_.estimator == "pw"
    ring = nx.cycle_graph(4)
    assert GraphCRF("auto", n_jobs=1).fit([ring], [list("abab")]).choice_.estimator == "pw"
    monkeypatch.setattr(field_crf, "MANY_CELLS", 10)
    many = FactorialCRF("auto", n_jobs=1).fit(items(), layers)
    assert (many.choice_.estimator, "joint states" in many.choice_.reason) == ("pwpl", True)


def test_the_command_line_says_what_was_chosen_and_why(tmp_path: Path) -> None:
    file, model = tmp_path / "words.txt", str(tmp_path / "model")
    sentences = [zip(*own, strict=True) for own in zip(WORDS, LABELS, LABELS, strict=True)]
    file.write_text("\n\n".join("\n".join(map(" ".join, own)) for own in sentences) + "\n")
    words = ("--columns", "word,a,b", "--estimator", "auto", "-o", model, "--json")
    found = run("train", "crf", str(file), *words)
    assert found.json()["estimator"] == "ml"
    assert "--estimator auto: ml, since exact likelihood is quick" in found.err
    found = run("train", "crf", str(file), *words, "--labels", "a,b", "--overwrite")
    assert found.json()["estimator"] == "pw"
    assert "--estimator auto: pw, since the graphs have loops" in found.err


def test_what_is_chosen_by_hand_later_leaves_no_choice_behind() -> None:
    ring = nx.cycle_graph(4)
    for model, data in (
        (CRF(estimator="auto", max_iterations=1), (items(), LABELS)),
        (GraphCRF("auto", n_jobs=1, max_iterations=1), ([ring], [list("abab")])),
    ):
        assert hasattr(model.fit(*data), "choice_")
        assert not hasattr(model.set_params(estimator="pw").fit(*data), "choice_")


def test_labels_to_calibrate_by_must_be_as_many() -> None:
    crf = CRF(max_iterations=2).fit(items(), LABELS)
    with pytest.raises(DataError, match="X has 3 sequences and y has 2"):
        crf.calibrate(items(), LABELS[:2])


@pytest.mark.parametrize("model", [CRF(dtype="half"), FactorialCRF(dtype="half")], ids=str)
def test_numbers_of_an_unknown_type_are_refused(model: CRF | FactorialCRF) -> None:
    layers = [[own] for own in LABELS] if isinstance(model, FactorialCRF) else LABELS
    with pytest.raises(MrflearnError, match="dtype 'half' is not one of float32"):
        model.fit(items(), layers)
