"""What a grammar answers on the page."""

from __future__ import annotations

import pytest

from mrflearn import PCFG
from mrflearn.datasets.english import sample_documents
from mrflearn.describe import tasks_of
from mrflearn.describe.description import Task
from mrflearn.serving.examples import explained


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    trees = [s.tree for d in sample_documents(15, seed=0) for s in d.sentences]
    model = PCFG(smoothing=0, min_count=1).fit(trees)
    return {task.name: task for task in tasks_of(model)}


def test_examples_are_answered(tasks):
    assert list(tasks) == ["parse", "next word"]
    for task in tasks.values():
        for example in explained(task)["examples"]:
            assert task(example)


def test_trees_come_with_their_shares(tasks):
    trees = [s.tree for d in sample_documents(15, seed=0) for s in d.sentences]
    found = tasks["parse"](" ".join(trees[0].words))
    assert "tree 1, probability" in str(found[0])


def test_what_has_no_parse_is_told(tasks):
    note, unknown = tasks["parse"]("unheard of")
    assert "cannot produce this sentence" in note.shown()["text"]
    assert "unheard" in unknown.text
