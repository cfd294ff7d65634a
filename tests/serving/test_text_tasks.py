"""What language models answer on the page, whatever they draw for an example."""

from __future__ import annotations

from typing import Any

import pytest

from mrflearn import CompositeLanguageModel
from mrflearn.describe import tasks_of
from mrflearn.serving.examples import explained

TEXT = [["a"], ["b", "a"]]


@pytest.fixture(scope="module")
def model() -> CompositeLanguageModel:
    return CompositeLanguageModel(2, topics=2, max_iterations=1).fit([TEXT, TEXT])


def test_a_document_of_empty_sentences_is_no_example(
    model: CompositeLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty(n: int = 1, **_: Any) -> list[list[list[str]]]:
        return [[] for _ in range(n)]

    monkeypatch.setattr(model, "sample", empty)
    for task in tasks_of(model):
        for example in explained(task)["examples"] or [""]:
            assert task(example)


@pytest.mark.parametrize("seed", range(12))
def test_every_draw_makes_an_example(seed: int) -> None:
    """Half of what these models draw are empty sentences, which documents leave out."""
    mostly_empty = CompositeLanguageModel(1, max_iterations=1, random_state=seed)
    for task in tasks_of(mostly_empty.fit([[["a"]]])):
        for example in explained(task)["examples"] or [""]:
            assert task(example)
