"""Asking a CRF about features and labels it has never seen leaves the model as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from mrflearn import CRF, FactorialCRF, GraphCRF, SkipChainCRF
from mrflearn.errors import DataError

SEEN = [[["word=a"], ["word=b"], ["word=a"]]] * 3
NEW = [[["word=z", "odd"], ["word=a"]]]
TAGS, OTHER = [["X", "Y", "X"]] * 3, [["X", "never"]]


def graphs(items: Any) -> list[nx.Graph]:
    found = []
    for own in items:
        found.append(nx.path_graph(len(own)))
        nx.set_node_attributes(found[-1], dict(enumerate(own)), "features")
    return found


def layers(tags: Any) -> list[Any]:
    return [[own, own] for own in tags]


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "chain": (lambda: CRF(max_iterations=5), list, list),
    "factorial": (lambda: FactorialCRF("pw", max_iterations=5), list, layers),
    "skip": (lambda: SkipChainCRF("pw", max_iterations=5), list, list),
    "graph": (lambda: GraphCRF("pw", max_iterations=5), graphs, list),
}


@pytest.mark.parametrize("kind", KINDS)
def test_questions_change_nothing(kind: str, tmp_path: Path) -> None:
    make, items, labels = KINDS[kind]
    model = make().fit(items(SEEN), labels(TAGS))
    answers = np.array(model.predict(items(SEEN)), dtype=object).tolist()
    model.save(tmp_path / "before")
    model.predict(items(NEW))
    model.predict_marginals(items(NEW))
    try:
        model.score(items(NEW), labels(OTHER))
    except DataError as error:
        assert "never" in str(error)  # noqa: PT017 - some count it as wrong, some refuse it
    model.save(tmp_path / "after")
    for path in (tmp_path / "before").iterdir():
        if path.suffix in (".json", ".safetensors"):
            assert path.read_bytes() == (tmp_path / "after" / path.name).read_bytes(), path.name
    assert np.array(model.predict(items(SEEN)), dtype=object).tolist() == answers
