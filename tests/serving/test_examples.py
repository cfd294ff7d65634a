"""Every question of the page explains itself, and its examples are answered right."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mrflearn import (
    CRF,
    PCFG,
    HMMTagger,
    JointTagger,
    LanguageModel,
    NgramLanguageModel,
    WordVectors,
)
from mrflearn.datasets.english import sample_documents
from mrflearn.describe import tasks_of
from mrflearn.describe.blocks import Note, Table, Tokens, TreeDrawing
from mrflearn.describe.description import Task
from mrflearn.serving.examples import explained, wordings

SENTENCES = [s for document in sample_documents(60, seed=0) for s in document.sentences]
WORDS, TAGS = [list(s.words) for s in SENTENCES], [list(s.tags) for s in SENTENCES]
LINES = ("he has been chairman of the board", "one of the men", "he has been here")
TEXT = [line.split() for line in LINES] * 9
RIGHT = {text: set(right) for text, *right in wordings()["sentences"]}


def tasks(model: Any) -> dict[str, Task]:
    return {task.name: task for task in tasks_of(model)}


@pytest.fixture(scope="module")
def tagger() -> HMMTagger:
    return HMMTagger().fit(WORDS, TAGS)


def test_built_in_sentences_have_a_label_for_every_word() -> None:
    for columns in wordings()["sentences"]:
        assert len(columns) == 5
        assert len({len(own.split()) for own in columns}) == 1, columns[0]


def test_every_task_says_what_goes_in_and_what_comes_out() -> None:
    for name, own in wordings().items():
        if name != "sentences":
            assert re.fullmatch(r"[A-Z].*\.", own["about"], re.DOTALL), name
            assert "hint" in own, name
    for unit in ("nats", "bits", "natural logarithm"):
        assert unit in wordings()["score"]["about"]


@pytest.mark.parametrize(
    "model",
    [HMMTagger(), JointTagger(max_iterations=20), CRF(features="words", max_iterations=20)],
    ids=lambda model: type(model).__name__,
)
def test_examples_of_a_tagger_are_tagged_right(model: Any) -> None:
    (task,) = tasks_of(model.fit(WORDS, TAGS))
    examples = explained(task)["examples"]
    assert examples
    for text in examples:
        tokens, *others = task(text)
        assert isinstance(tokens, Tokens)
        assert " ".join(tokens.layers[0]) in RIGHT[text]
        assert not any(isinstance(block, Note) for block in others)


def test_examples_of_a_grammar_are_parsed_with_the_right_tags() -> None:
    task = tasks(PCFG(min_count=1).fit([s.tree for s in SENTENCES]))["parse"]
    for text in explained(task)["examples"]:
        drawing, *_ = task(text)
        assert isinstance(drawing, TreeDrawing)
        assert " ".join(drawing.tree.tags) in RIGHT[text]


@pytest.mark.parametrize(
    ("model", "name"),
    [(LanguageModel(4, 1, max_iterations=30), "fill"), (NgramLanguageModel(2), "next word")],
)
def test_examples_of_a_language_model_have_the_right_word_first(model: Any, name: str) -> None:
    task = tasks(model.fit(TEXT))[name]
    right = {text: words for text, *words in wordings()[name]["examples"]}
    examples = explained(task)["examples"]
    assert examples
    for text in examples:
        table, *_ = task(text)
        assert isinstance(table, Table)
        assert table.rows[0][0] in right[text]


def test_words_that_are_not_known_are_named_in_the_answer(tagger: HMMTagger) -> None:
    crf = CRF(features="words", max_iterations=5).fit(WORDS[:50], TAGS[:50])
    for task in (*tasks_of(tagger), *tasks_of(crf), *tasks_of(NgramLanguageModel(2).fit(WORDS))):
        *_, note = task("the zyzzyva . The")
        assert isinstance(note, Note), task.name
        assert "zyzzyva" in note.text
        assert not re.search(r"\bthe\b", note.text.partition(":")[2])


def test_options_are_bounded(tagger: HMMTagger) -> None:
    (task,) = tasks_of(tagger)
    *_, table = task("the old man disappeared .", n=2)
    assert isinstance(table, Table)
    assert len(table.rows) == 2
    for wrong in ({"n": 0}, {"n": 10**9}, {"n": "2"}, {"scheme": "IOB2"}, {"self": 1}):
        with pytest.raises(Exception, match="does not take"):
            task("the old man disappeared .", **wrong)


def test_chunk_tags_can_be_kept_well_formed() -> None:
    X, y = [["a", "b", "c"]] * 4, [["O", "I-X", "I-X"], ["B-X", "I-X", "O"]] * 2
    (task,) = tasks_of(CRF(features="words", max_iterations=20).fit(X, y))
    assert explained(task)["options"]["scheme"][1] == [None, "IOB2", "IOB1", "BIOES"]
    for labels in task("a b c", n=20, scheme="IOB2")[1].rows:  # type: ignore[attr-defined]
        for before, after in zip(["O", *labels[1:]], labels[1:], strict=False):
            assert after != "I-X" or before != "O"


def test_tables_of_a_language_model_have_no_neighbours() -> None:
    assert list(tasks(LanguageModel(4, 1, form="explicit", max_iterations=2).fit(TEXT))) == ["fill"]
    assert list(tasks(WordVectors(2).fit(TEXT))) == ["neighbors", "analogy"]
