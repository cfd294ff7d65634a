from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import mrflearn
from mrflearn import GraphCRF
from mrflearn.errors import DataError, GraphError, InferenceError, NotFittedError, SettingsError
from mrflearn.estimators import crf_training
from mrflearn.execution.executor import Processes
from mrflearn.graph.builders import grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.enumeration import Enumeration
from mrflearn.objectives.field_objectives import Principle

ESTIMATORS = ("pw", "pwpl", "pl", "edge-pl", "ml", "bp", "pw-reweighted")


def picture(seed: int, side: int = 4) -> tuple[nx.Graph, dict[Any, str]]:
    """A ladder whose labels mostly agree with those before them, seen through noise."""
    draw = np.random.default_rng(seed)
    graph = nx.grid_2d_graph(2, 2 * side)
    labels: dict[Any, str] = {}
    for node in sorted(graph, key=lambda place: (place[1], place[0])):
        around = [labels[other] for other in graph[node] if other in labels]
        fresh = draw.choice(["land", "sea"])
        labels[node] = around[0] if around and draw.random() < 0.8 else str(fresh)
        other = "sea" if labels[node] == "land" else "land"
        seen = labels[node] if draw.random() < 0.7 else other
        graph.nodes[node]["features"] = {"looks": seen}
    return graph, {node: labels[node] for node in graph}


def pictures(first: int, count: int) -> tuple[list[nx.Graph], list[dict[Any, str]]]:
    made = [picture(seed) for seed in range(first, first + count)]
    return [graph for graph, _ in made], [labels for _, labels in made]


@pytest.fixture(scope="module")
def fitted() -> GraphCRF:
    return GraphCRF("pl", c2=0.1, dtype="float64", n_jobs=1).fit(*pictures(0, 25))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_learns_that_neighbours_agree(estimator: str) -> None:
    X, y = pictures(0, 25)
    model = GraphCRF(estimator, c2=0.1, dtype="float64", n_jobs=1).fit(X, y)  # type: ignore[arg-type]
    edge = model.feature_weights()["edge"]
    alike = edge["bias", "land", "land"] + edge["bias", "sea", "sea"]
    assert alike > edge["bias", "land", "sea"] + edge["bias", "sea", "land"]
    if estimator == "pw-reweighted":
        return  # its small shares anneal the pieces, and it labels worse: the paper's Table 7
    held_out = pictures(100, 25)
    alone = np.mean(
        [
            graph.nodes[node]["features"]["looks"] == label
            for graph, labels in zip(*held_out, strict=True)
            for node, label in labels.items()
        ]
    )
    assert model.score(*held_out) > alone + 0.01


def test_undirected_edges_have_no_sense(fitted: GraphCRF) -> None:
    edge = fitted.feature_weights()["edge"]
    assert edge["bias", "land", "sea"] == edge["bias", "sea", "land"]
    X, y = pictures(0, 3)
    turned = []
    for graph in X:
        other = nx.Graph([(b, a) for a, b in reversed(list(graph.edges))])
        nx.set_node_attributes(other, dict(graph.nodes(data="features")), "features")
        turned.append(other)
    assert fitted.predict(turned) == fitted.predict(X)
    assert fitted.log_prob(turned, y) == pytest.approx(fitted.log_prob(X, y))


def test_directed_edges_have_a_sense() -> None:
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 3)])
    model = GraphCRF("ml", c2=0.01, n_jobs=1).fit([graph], [["a", "b", "a", "b"]])
    edge = model.feature_weights()["edge"]
    assert edge["bias", "a", "b"] > edge["bias", "b", "a"] > 0
    with pytest.raises(DataError, match="undirected"):
        model.predict([nx.Graph(graph)])


def test_answers_agree_with_enumeration(fitted: GraphCRF) -> None:
    graph = picture(7, side=3)[0]
    _, batch = fitted._asked([graph])
    potentials = fitted.model_.potentials(batch)
    listed, scores = Enumeration().n_best(potentials, 6)
    best = fitted.decode([graph])[0]
    names = [fitted.classes_[k] for k in listed[0].tolist()]
    assert best.labels == dict(zip(graph.nodes, names, strict=True))
    assert (best.kind, best.converged) == ("exact", True)
    found = fitted.n_best([graph], 6)[0]
    assert [own.score for own in found] == pytest.approx(scores.squeeze(1).tolist())
    beliefs = Enumeration()(potentials)
    mine = fitted.predict_marginals([graph])[0]
    for node, row in zip(graph.nodes, beliefs.variables.tolist(), strict=True):
        assert list(mine[node].values()) == pytest.approx(row)
    arrays = fitted.predict_proba([graph])[0]
    assert {node: own.tolist() for node, own in arrays.items()} == {
        node: list(own.values()) for node, own in mine.items()
    }
    labels = dict(zip(graph.nodes, names, strict=True))
    expected = float(scores[0, 0]) - float(beliefs.log_partition[0])
    assert fitted.log_prob([graph], [labels]) == pytest.approx([expected])


def test_forced_labels_are_kept(fitted: GraphCRF) -> None:
    graph = picture(8, side=3)[0]
    known = [{(0, 0): "sea", (1, 1): {"land"}}]
    best = fitted.predict([graph], known)[0]
    assert (best[0, 0], best[1, 1]) == ("sea", "land")
    for own in fitted.n_best([graph], 4, known)[0]:
        assert (own.labels[0, 0], own.labels[1, 1]) == ("sea", "land")
    sure = fitted.predict_marginals([graph], known)[0]
    assert sure[0, 0] == pytest.approx({"sea": 1.0, "land": 0.0})


def test_wide_graphs_are_answered_approximately_and_say_so(fitted: GraphCRF) -> None:
    wide = nx.complete_graph(40)
    narrow = picture(9, side=3)[0]
    answers = fitted.decode([narrow, wide])
    assert [own.kind for own in answers] == ["exact", "approximation"]
    assert fitted.marginal_kinds([narrow, wide]) == ["exact", "approximation"]
    with pytest.raises(InferenceError, match="too wide"):
        _exactly(fitted).predict([wide])


def _exactly(fitted: GraphCRF) -> GraphCRF:
    copy = GraphCRF(inference="exact")
    copy.model_, copy.names_, copy.mirrored_ = fitted.model_, fitted.names_, fitted.mirrored_
    return copy


def test_tree_reweighted_bounds_say_so(fitted: GraphCRF) -> None:
    graph, labels = picture(10, side=3)
    exact = fitted.log_prob([graph], [labels])[0]
    bound = _exactly(fitted).set_params(inference="trw")
    assert bound.marginal_kinds([graph]) == ["upper bound"]
    assert bound.log_prob([graph], [labels])[0] <= exact + 1e-6
    with pytest.raises(InferenceError, match="for best labels take 'bp'"):
        bound.predict([graph])


def test_a_graph_in_two_parts_is_two_graphs(fitted: GraphCRF) -> None:
    one, two = picture(1, side=2)[0], picture(2, side=2)[0]
    both = nx.disjoint_union(one, two)
    apart = [own.score for own in fitted.decode([one, two])]
    allowing = copy.copy(fitted).set_params(connected=False)
    assert allowing.decode([both])[0].score == pytest.approx(sum(apart))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_graphs_without_edges_and_without_nodes(estimator: str) -> None:
    lonely, empty = nx.Graph(), nx.Graph()
    for node, colour in enumerate(["red", "blue", "red"]):
        lonely.add_node(node, features=[colour])
    X, y = [lonely, empty], [["stop", "go", "stop"], []]
    model = GraphCRF(estimator, connected=False, c2=0.05, n_jobs=1).fit(X, y)  # type: ignore[arg-type]
    joined = lonely.copy()
    joined.add_edge(0, 1)
    colours = {0: "stop", 1: "go", 2: "stop"}
    assert model.predict([*X, joined]) == [colours, {}, colours]
    assert model.log_prob(X, y)[1] == 0.0


def test_training_says_where_messages_did_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = BeliefPropagation(max_sweeps=1)
    monkeypatch.setattr(crf_training, "Principle", partial(Principle, bp=hasty))
    model = GraphCRF("bp", max_iterations=2, dtype="float64").fit(*pictures(0, 2)[:2])
    assert "did not converge" in model.outcome_.reason


def test_factor_graphs_with_factors_of_three() -> None:
    triples = [(0, 1, 2), (2, 3, 4)]
    graph = FactorGraph(
        torch.full((5,), 2),
        (
            FactorGroup("look", torch.arange(5).unsqueeze(1)),
            FactorGroup("majority", torch.tensor(triples)),
        ),
    )
    draw = np.random.default_rng(0)
    X, y = [], []
    for _ in range(40):
        own = [("no", "yes")[k] for k in draw.integers(0, 2, 5)]
        own[2] = max(("no", "yes"), key=[*own[:2], *own[3:]].count)
        seen = [
            {"sees": label} if draw.random() < 0.8 and k != 2 else {} for k, label in enumerate(own)
        ]
        X.append((graph, {"look": seen}))
        y.append(own)
    model = GraphCRF("ml", c2=0.1, n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.8
    assert set(model.feature_weights()) == {"look", "majority"}
    table, listed = model.predict_proba(X[:1])[0], model.predict_marginals(X[:1])[0]
    assert table.tolist() == [list(own.values()) for own in listed]


def test_partial_labels_train() -> None:
    X, y = pictures(0, 12)
    hidden = [
        {node: None if sum(node) % 3 == 0 else label for node, label in own.items()} for own in y
    ]
    for estimator in ("ml", "pl", "pwpl", "pw"):
        model = GraphCRF(estimator, c2=0.05, n_jobs=1).fit(X, hidden)  # type: ignore[arg-type]
        edge = model.feature_weights()["edge"]
        assert edge["bias", "land", "land"] > 0 > edge["bias", "land", "sea"]
        assert model.predict(X, hidden) != model.predict(X)


@pytest.mark.parametrize("options", [{"c1": 0.5}, {"algorithm": "l2sgd", "max_iterations": 20}])
def test_other_optimisers(options: dict[str, Any]) -> None:
    X, y = pictures(0, 12)
    model = GraphCRF("pl", c2=0.05, n_jobs=1, **options).fit(X, y)
    assert model.score(X, y) > 0.75


def test_processes_learn_the_same(processes: Processes) -> None:
    X, y = pictures(0, 12)
    alone = GraphCRF("pw", dtype="float64", max_iterations=2, n_jobs=1).fit(X, y)
    spread = GraphCRF("pw", dtype="float64", max_iterations=2, n_jobs=1)
    spread.fit(X, y, executor=processes)
    assert spread.outcome_.value == pytest.approx(alone.outcome_.value, rel=1e-8)
    for mine, other in zip(spread.model_.weights, alone.model_.weights, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-8)


def test_saving_and_loading(fitted: GraphCRF, tmp_path: Path) -> None:
    X, _ = pictures(50, 3)
    fitted.save(tmp_path / "model")
    again = mrflearn.load(tmp_path / "model")
    assert isinstance(again, GraphCRF)
    assert again.predict(X) == fitted.predict(X)
    assert again.get_params() == fitted.get_params()


def test_a_graph_in_parts_is_refused_unless_asked_for(fitted: GraphCRF) -> None:
    whole, labels = picture(0)
    apart = nx.disjoint_union(whole, nx.path_graph(["x", "y"]))
    given = [labels, dict.fromkeys(apart, "sea")]
    said = r"example 1 is not connected: it is in 2 parts, of \d+, 2 nodes; no path leads from 0 to"
    with pytest.raises(GraphError, match=said):
        GraphCRF().fit([whole, apart], given)
    with pytest.raises(GraphError, match=said):
        fitted.predict([whole, apart])
    alone = FactorGraph(torch.full((3,), 2), (FactorGroup("pair", torch.tensor([[0, 2]])),))
    with pytest.raises(GraphError, match="of 2, 1 nodes; no path leads from 0 to 1"):
        GraphCRF().fit([alone], [["a", "b", "a"]])
    model = GraphCRF("ml", connected=False, n_jobs=1).fit([whole, apart], given)
    assert set(model.predict([apart])[0]) == set(apart)


def test_a_fit_that_fails_leaves_the_model_as_it_was() -> None:
    graph, labels = picture(0)
    others = [{node: f"other {label}" for node, label in labels.items()}]
    model = GraphCRF("auto", max_iterations=1)
    for _ in range(2):
        before = dict(vars(model))
        with pytest.raises(SettingsError, match="algorithm='ap'"):
            model.set_params(algorithm="ap").fit([nx.DiGraph(graph)], others)
        assert vars(model) == {**before, "algorithm": "ap"}
        model.set_params(algorithm="lbfgs").fit([graph], [labels])


def test_mistakes_are_named(fitted: GraphCRF) -> None:
    graph, labels = picture(0)
    with pytest.raises(NotFittedError):
        GraphCRF().predict([graph])
    with pytest.raises(DataError, match="example 0 is a dict"):
        GraphCRF().fit([{}], [labels])
    with pytest.raises(DataError, match="X has 1 graphs and y has 2"):
        GraphCRF().fit([graph], [labels, labels])
    with pytest.raises(DataError, match="no node 'moon'"):
        GraphCRF().fit([graph], [{**labels, "moon": "sea"}])
    with pytest.raises(GraphError, match="parallel edges"):
        GraphCRF().fit([nx.MultiGraph(graph)], [labels])
    with pytest.raises(GraphError, match="joined to itself"):
        GraphCRF().fit([nx.Graph([(0, 0)])], [["a"]])
    with pytest.raises(DataError, match="names no label"):
        GraphCRF().fit([graph], [dict.fromkeys(graph)])
    with pytest.raises(GraphError, match=r"reads variable .*, but there are 2"):
        FactorGraph(torch.full((2,), 2), (FactorGroup("pair", torch.tensor([[0, 9]])),))
    with pytest.raises(DataError, match="items for 'egde'"):
        GraphCRF().fit([(grid(2, 2), {"egde": []})], [["a"] * 4])
    with pytest.raises(SettingsError, match="not one of ml"):
        GraphCRF("mle").fit([graph], [labels])  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="for chains"):
        GraphCRF("ml", algorithm="ap").fit([graph], [labels])
    everything = dict.fromkeys(graph, "sea")
    assert fitted.predict([graph], [everything]) == [everything]
