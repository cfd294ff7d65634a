"""The mark of unknown words is no answer, in a terminal or on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn import CompositeLanguageModel, LanguageModel, NgramLanguageModel
from mrflearn.describe import tasks_of
from support.command import run

TEXT = [line.split() for line in ("the dog barks", "the rare cat sees the dog", "a cat sees")] * 3
MODELS = {
    "fill": (LanguageModel(3, 1, min_count=4, max_iterations=10), "the _"),
    "next-word": (NgramLanguageModel(2, min_count=4), "the"),
}


@pytest.mark.parametrize("verb", MODELS)
def test_it_is_not_offered(tmp_path: Path, verb: str) -> None:
    model, words = MODELS[verb]
    model.fit(TEXT).save(tmp_path / "model")
    asked = model.fill if verb == "fill" else model.next_word
    assert "<unk>" in {word for word, _ in asked(words.split(), 5)}
    found = run(verb, str(tmp_path / "model"), words, "-n", "3", "--json").json()
    told = [word for word, _ in found["words" if verb == "fill" else "next"]]
    assert len(told) == 3
    assert "<unk>" not in told
    table, *_ = tasks_of(model)[0](words)
    assert "<unk>" not in [row[0] for row in table.shown()["rows"]]


def test_it_distinguishes_no_topic() -> None:
    texts = [TEXT, [["a", "b", "c", "rare"]] * 4]
    model = CompositeLanguageModel(2, topics=2, min_count=4, max_iterations=2).fit(texts)
    assert "<unk>" in {word for topic in model.topic_words(9) for word, _ in topic}
    (table,) = {task.name: task for task in tasks_of(model)}["topics"]("", n=9)
    assert "<unk>" not in str(table.rows)  # type: ignore[attr-defined]


def test_words_that_are_not_known_are_named(tmp_path: Path) -> None:
    model, _ = MODELS["fill"]
    model.fit(TEXT).save(tmp_path / "model")
    found = run("fill", str(tmp_path / "model"), "The _ barks at the dog")
    assert "not in the vocabulary, and read as <unk>: The, barks, at\n" in found.err
    assert run("fill", str(tmp_path / "model"), "the _ sees").err == ""
    MODELS["next-word"][0].fit(TEXT).save(tmp_path / "ngrams")
    found = run("next-word", str(tmp_path / "ngrams"), "The", "dog")
    assert "not in the vocabulary, and read as <unk>: The\n" in found.err


def test_questions_are_read_as_the_text_was(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("The dog, barks.\nThe cat, sees.\n" * 3)
    model = NgramLanguageModel(3, tokenize=True).fit(tmp_path / "raw.txt")
    following, score = tasks_of(model)[:2]
    table, *_ = following("THE cat, sees")
    assert table.shown()["rows"][0][0] == "."
    assert [type(own).__name__ for own in score("The Dog, barks.")] == ["Facts"]  # and no note


def test_a_gap_stands_between_spaces(tmp_path: Path) -> None:
    MODELS["fill"][0].fit(TEXT).save(tmp_path / "model")
    found = run("fill", str(tmp_path / "model"), "the dog _.")
    assert found.code != 0
    assert "0 gaps" in found.err
    assert "spaces around it" in found.err


def test_a_model_saved_from_python_has_a_report(tmp_path: Path) -> None:
    model, _ = MODELS["fill"]
    model.fit(TEXT).save(tmp_path / "model")
    found = run("inspect", str(tmp_path / "model"), "--html", str(tmp_path / "report.html"))
    assert found.code == 0, found.err
    assert "report.html" in found.err
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>model</h1>" in text
    assert "Training" in text
