"""The tasks: which files, which features, which labels.

Features are those the peers were measured with: the chunking templates of CRFsuite's tutorial; for
names, words with their shapes and affixes in a window; for parts of speech, those of the word, and
its neighbours' forms.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mrflearn.io.conllu import read_conllu
from mrflearn.io.formats import read_columns
from mrflearn.io.spans import convert_tags

Words = tuple[str, ...]
Items = list[list[str]]


@dataclass(frozen=True)
class Sentence:
    """Words (and, where the task has them, tags to look at) with the labels to find."""

    words: Words
    tags: Words
    labels: Words


@dataclass(frozen=True)
class Task:
    """Where the sentences of each part are, and what is looked at in them."""

    name: str
    chunks: bool
    parts: Callable[[Path], dict[str, list[Sentence]]]
    features: Callable[[Sentence], Items]


def _chunking(data: Path) -> dict[str, list[Sentence]]:
    return {
        part: [
            Sentence(s["word"], s["pos"], s["chunk"])
            for s in read_columns(data / "conll2000" / f"{part}.txt")
        ]
        for part in ("train", "test")
    }


def _names(data: Path) -> dict[str, list[Sentence]]:
    columns = ("word", "pos", "chunk", "name")
    files = {"train": "train.txt.gz", "test": "testa.txt"}
    return {
        part: [
            Sentence(s["word"], s["pos"], convert_tags(s["name"], to="IOB2"))
            for s in read_columns(data / "conll2003" / file, columns)
        ]
        for part, file in files.items()
    }


def _ewt(data: Path, column: str) -> dict[str, list[Sentence]]:
    files = {part: f"en_ewt-ud-{part}.conllu" for part in ("train", "dev", "test")}
    files["train"] += ".gz"
    return {
        part: [
            Sentence(tuple(form.replace(" ", "_") for form in s.forms), (), getattr(s, column))
            for s in read_conllu(data / "ud-ewt" / file)
        ]
        for part, file in files.items()
    }


def _wsj(data: Path, shuffled: bool) -> dict[str, list[Sentence]]:
    path = data / "treebank-sample" / "tagged.txt"
    found = [Sentence(s["word"], (), s["tag"]) for s in read_columns(path, ("word", "tag"), "\t")]
    if shuffled:
        order = list(range(len(found)))
        random.Random(0).shuffle(order)
        found = [found[i] for i in order]
    return {"train": found[:3000], "test": found[3000:]}


CHUNK_TEMPLATES = (
    *[(("w", i),) for i in range(-2, 3)],
    *[(("w", i), ("w", i + 1)) for i in (-1, 0)],
    *[(("pos", i),) for i in range(-2, 3)],
    *[(("pos", i), ("pos", i + 1)) for i in range(-2, 2)],
    *[(("pos", i), ("pos", i + 1), ("pos", i + 2)) for i in range(-2, 1)],
)


def chunk_features(sentence: Sentence) -> Items:
    """The tutorial's templates; one that reaches outside the sentence gives nothing."""
    columns = {"w": sentence.words, "pos": sentence.tags}
    length = len(sentence.words)
    items: Items = [[] for _ in range(length)]
    for template in CHUNK_TEMPLATES:
        name = "|".join(f"{column}[{offset}]" for column, offset in template) + "="
        first, last = template[0][1], template[-1][1]
        for t in range(max(0, -first), length - max(0, last)):
            items[t].append(name + "|".join(columns[c][t + offset] for c, offset in template))
    items[0].append("__BOS__")
    items[-1].append("__EOS__")
    return items


NAME_SHAPES = {
    "Aa": "[A-Z][a-z]+$",
    "AA": "[A-Z][A-Z]+$",
    "A": "[A-Z]$",
    "A+": "[A-Z]+$",
    "A*a*A": "[A-Z]+[a-z]+[A-Z]+[A-Za-z]*$",
    "dash": ".*-",
    "aA": ".*[a-z].*[A-Z]",
}
TAG_SHAPES = {
    "cap": "[A-Z]",
    "allcap": "[A-Z]+$",
    "digit": ".*[0-9]",
    "num": "[0-9.,:/-]*[0-9][0-9.,:/-]*$",
    "dash": ".*-",
    "punct": "[^A-Za-z0-9]+$",
}


@lru_cache(maxsize=100_000)
def _name_atoms(word: str) -> tuple[str, ...]:
    shapes = [f"s={name}" for name, shape in NAME_SHAPES.items() if re.match(shape, word)]
    return (f"w={word}", *shapes, *_affixes(word))


def _affixes(word: str) -> Iterator[str]:
    for size in range(1, min(5, len(word))):
        yield f"p{size}={word[:size]}"
        yield f"f{size}={word[-size:]}"


def name_features(sentence: Sentence) -> Items:
    """Word, shapes and affixes at the offsets -2 to 2."""
    atoms = [("<s>",), ("<s>",), *map(_name_atoms, sentence.words), ("</s>",), ("</s>",)]
    return [
        [f"{place - 2}@{atom}" for place in range(5) for atom in atoms[t + place]]
        for t in range(len(sentence.words))
    ]


@lru_cache(maxsize=100_000)
def _tag_atoms(word: str) -> tuple[str, ...]:
    shapes = [f"s={name}" for name, shape in TAG_SHAPES.items() if re.match(shape, word)]
    return ("b", f"w0={word}", f"l0={word.lower()}", *_affixes(word.lower()), *shapes)


def tag_features(sentence: Sentence) -> Items:
    """The word, its affixes and shapes, the words and endings around it, and word pairs."""
    words = sentence.words
    items: Items = [list(_tag_atoms(word)) for word in words]
    items[0] += ["BOS", *(["BOScap"] if words[0][:1].isupper() else [])]
    items[-1].append("EOS")
    for t in range(1, len(words)):
        before, after = words[t - 1], words[t]
        pair = f"{before}|{after}"
        items[t] += [f"w-1={before}", f"f-1={before[-3:].lower()}", f"w-1|0={pair}"]
        items[t - 1] += [f"w+1={after}", f"f+1={after[-3:].lower()}", f"w0|+1={pair}"]
    for t in range(2, len(words)):
        items[t].append(f"w-2={words[t - 2]}")
        items[t - 2].append(f"w+2={words[t]}")
    return items


TASKS = {
    task.name: task
    for task in (
        Task("chunks", True, _chunking, chunk_features),
        Task("names", True, _names, name_features),
        Task("wsj", False, lambda data: _wsj(data, shuffled=False), tag_features),
        Task("wsj-random", False, lambda data: _wsj(data, shuffled=True), tag_features),
        Task("ewt-upos", False, lambda data: _ewt(data, "upos"), tag_features),
        Task("ewt-xpos", False, lambda data: _ewt(data, "xpos"), tag_features),
    )
}
