"""Examples for questions: of built-in English those that a model knows and answers right."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mrflearn.describe.blocks import Block, Note, Table, Tokens, TreeDrawing, plain
from mrflearn.describe.description import Task
from mrflearn.errors import DataError

SHOWN = 3  # examples of a task
KINDS = ("xpos", "upos", "chunk", "ner")  # of the labels of sentences


@cache
def wordings() -> dict[str, Any]:
    """What every task takes and gives in words, and built-in sentences."""
    return tomllib.loads(Path(__file__).with_name("tasks.toml").read_text(encoding="utf-8"))


def explained(task: Task) -> dict[str, Any]:
    """The task as the page needs it, with examples that are answered right if there are any."""
    known = wordings().get(task.name, {"about": "", "hint": "", "examples": []})
    examples = chosen(task, known.get("examples", wordings()["sentences"]))
    shown = {"name": task.name, **known, "examples": examples, "columns": task.columns}
    return {**shown, "most_words": task.most, "options": plain(task.options)}


def chosen(task: Task, built_in: Iterable[Sequence[str]]) -> list[str]:
    """The first questions that are answered right, else of known words, else the usual one, or any.

    A remark on an answer says that there are words which the model does not know.
    """
    right_ones, known, answered = [], [], []
    for question, *right in built_in:
        for text in _forms(question, right, task.columns):
            with suppress(DataError):
                blocks = task(text)
                answered.append(text)
                if not any(isinstance(own, Note) for own in blocks):
                    known.append(text)
                    right_ones += [text] if set(_said(blocks)) <= set(right) else []
                    break
        if len(right_ones) == SHOWN:
            break
    usual = [task.usual] if task.usual else answered
    return (right_ones or known or usual)[:SHOWN]


def _forms(question: str, right: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """A question with the columns that a model looks at; in small letters, as many texts are."""
    words, labels = question.split(), dict(zip(KINDS, right, strict=False))
    cells = [words, *(labels.get(name, right[0]).split() for name in columns[1:])]
    typed = list(map("/".join, zip(*cells, strict=True)))
    yield " ".join(typed)
    yield " ".join(word.lower() for word in typed if word[0].isalnum() or word == "_")


def _said(blocks: Sequence[Block]) -> list[str]:
    """What an answer gives as the best: labels, tags of a tree, or a word."""
    match blocks[0]:
        case Tokens():
            return [" ".join(own.layers[0]) for own in blocks if isinstance(own, Tokens)]
        case TreeDrawing(tree):
            return [" ".join(tree.tags) if tree else ""]
        case Table(rows=rows):
            return [row[0] for row in rows[:1]]
    return []
