"""CRFs on graphs from the command line: as in Python, from files of labelled graphs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrflearn import GraphCRF, load
from mrflearn.io.graphs import LabelledGraph, read_graphs, write_graphs
from support.command import run

OPTIONS = ("--max-iterations", "20", "-q")


def rings() -> list[LabelledGraph]:
    """Rings of six; a side is known at two nodes, and neighbours that are alike are joined so."""
    found = []
    for turn in range(6):
        side = {k: "left" if (k + turn) % 6 < 3 else "right" for k in range(6)}
        nodes = {k: [f"at {side[k]}"] if k in (0, 3) else [] for k in range(6)}
        ends = [(k, (k + 1) % 6) for k in range(6)]
        edges = {(a, b): ["same" if side[a] == side[b] else "cut"] for a, b in ends}
        found.append(LabelledGraph(False, nodes, side, edges))
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "rings.jsonl"
    write_graphs(path, rings())
    return path


@pytest.fixture(scope="module")
def model(file: Path) -> Path:
    target = file.parent / "model"
    answer = run("train", "graph", str(file), "-o", str(target), *OPTIONS, "--json").json()
    assert (answer["graphs"], answer["nodes"], answer["edges"]) == (6, 36, 36)
    assert (target / "report.html").exists()
    return target


def tagged(model: Path, file: Path, *options: str) -> list[dict[str, Any]]:
    out = run("tag", str(model), str(file), *options, "--json").out
    return [json.loads(line) for line in out.splitlines()]


def test_it_is_the_model_of_python(file: Path, model: Path) -> None:
    graphs = list(read_graphs(file))
    own = GraphCRF(max_iterations=20, n_jobs=-1).fit(
        [graph.networkx() for graph in graphs], [graph.labels for graph in graphs]
    )
    assert load(model).feature_weights() == own.feature_weights()
    told = run("train", "graph", str(file), "-o", str(model.parent / "again"), *OPTIONS)
    names = ("labels", "graphs", "estimator")
    assert [told.facts()[name] for name in names] == ["left, right", "6", "pw"]


def test_labels_are_those_of_python(file: Path, model: Path) -> None:
    graphs = [graph.networkx() for graph in read_graphs(file)]
    crf = load(model)
    found = tagged(model, file, "--marginals")
    for answer, best, chances in zip(
        found, crf.decode(graphs), crf.predict_marginals(graphs), strict=True
    ):
        assert answer["labels"] == {str(node): label for node, label in best.labels.items()}
        assert (answer["score"], answer["kind"]) == (best.score, "exact")
        assert answer["marginals"]["0"] == chances[0]
    rows = run("tag", str(model), str(file), "--batch", "1").out.split("\n\n")
    assert rows[0].splitlines()[0].split("\t") == ["0", "left"]
    scores = [own["score"] for own in tagged(model, file, "--number", "3")[0]["nbest"]]
    assert scores == sorted(scores, reverse=True)
    assert run("tag", str(model), str(file), "--number", "2").out.startswith("# 0 ")


def test_evaluation_counts_nodes_and_graphs(file: Path, model: Path, tmp_path: Path) -> None:
    crf = load(model)
    graphs = list(read_graphs(file))
    answer = run("evaluate", str(model), str(file), "--json").json()
    networks = [graph.networkx() for graph in graphs]
    assert answer["accuracy"] == crf.score(networks, [graph.labels for graph in graphs])
    turned = replace(graphs[0], labels=dict.fromkeys(graphs[0].labels, "left"))
    write_graphs(tmp_path / "one.jsonl", [turned])
    told = run("evaluate", str(model), str(tmp_path / "one.jsonl"))
    words = [line.split() for line in told.out.splitlines()]
    assert ["graphs", "1"] in words
    assert ["nodes", "6"] in words
    assert ["true", "predicted", "tokens"] in words


def test_weights_are_inspected(model: Path) -> None:
    answer = run("inspect", str(model), "-n", "3", "--label", "left", "--json").json()
    assert answer["labels"] == ["left", "right"]
    assert answer["weights"].keys() == {"node", "edge"}
    assert len(answer["features"]) == 3
    assert all("left" in own["labels"] for own in answer["features"])
    told = [line.split() for line in run("inspect", str(model)).out.splitlines()]
    assert ["class", "GraphCRF"] in told
    assert ["estimator", "pw"] in told


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("evaluate", "MODEL", "OPEN"), 1, "graph 1 has nodes without a label"),
        (("evaluate", "MODEL", "EMPTY"), 1, "there are no graphs in it"),
        (("train", "graph", "EMPTY", "-o", "m"), 1, "there are no graphs in it"),
        (("train", "graph", "PARTS", "-o", "m", "-q"), 1, "is not connected"),
        (("tag", "MODEL", "OPEN", "--spans"), 2, "has no effect on a GraphCRF"),
        (("inspect", "MODEL", "--label", "up"), 2, "there are left, right"),
        (("score", "MODEL", "OPEN"), 1, "Ask it otherwise: `mrflearn tag`"),
    ],
)
def test_mistakes_are_told(
    words: tuple[str, ...], code: int, says: str, model: Path, tmp_path: Path
) -> None:
    one = rings()[0]
    write_graphs(tmp_path / "open", [replace(one, labels={**one.labels, 0: None})])
    write_graphs(tmp_path / "empty", [])
    write_graphs(tmp_path / "parts", [replace(one, edges={})])
    names = {name.upper(): str(tmp_path / name) for name in ("open", "empty", "parts")}
    names["MODEL"] = str(model)
    found = run(*(names.get(word, word) for word in words))
    assert (found.code, says in found.err) == (code, True), found.err


def test_graphs_in_parts_are_learned_where_meant(tmp_path: Path) -> None:
    write_graphs(tmp_path / "parts", [replace(own, edges={}) for own in rings()])
    words = ("train", "graph", str(tmp_path / "parts"), "--parts", "--estimator", "auto")
    found = run(*words, "-o", str(tmp_path / "m"), "-q")
    assert found.code == 0, found.err


def test_a_single_label_is_refused(tmp_path: Path) -> None:
    nodes = [{"id": name, "features": ["f"], "label": "left"} for name in "ab"]
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"nodes": nodes, "edges": [{"source": "a", "target": "b"}]}) + "\n")
    found = run("train", "graph", str(file), "-q", "-o", str(tmp_path / "m"))
    assert found.code == 1
    assert str(file) in found.err
    assert "'left'" in found.err
