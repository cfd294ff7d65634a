"""The tasks of the paper's section 5: which sentences, which labels, which features."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from synthetic import ALPHAS, MixedOrderModel

from features import (
    NameLists,
    chunk_features,
    lexicon_of,
    name_features,
    name_lists,
    seminar_features,
    tag_features,
)
from mrflearn import edge
from mrflearn.io.formats import ColumnSentence, read_columns
from mrflearn.io.seminars import Seminar, read_seminars
from mrflearn.io.spans import convert_tags

NAME_COLUMNS = ("word", "pos", "chunk", "name")
TAGGED_POOL = 3000  # of the treebank sample's 3,914 sentences; the others are the test set


class Example(NamedTuple):
    """A sequence: words (for skip edges), what is known of each token, labels of each layer."""

    words: Sequence[str]
    items: list[list[str]]
    layers: tuple[Sequence[str], ...]


class Parts(NamedTuple):
    """What is trained on, and what is tested on."""

    train: list[Example]
    test: list[Example]


@dataclass(frozen=True)
class Task:
    """A structure, the names of its layers, and the data of each draw (a subset or a fold)."""

    name: str
    structure: str
    layers: tuple[str, ...]
    parts: Callable[[Path, int, int | None], Parts]  # data folder, draw, training size
    draws: int
    size: int | None = None  # sentences to train on in the paper; None: all there are


def names(data: Path, draw: int, size: int | None) -> Parts:
    """CoNLL-2003, train to testa; draw 0 is the training set in its order."""
    train = _conll(data / "conll2003" / "train.txt.gz", NAME_COLUMNS)
    test = _conll(data / "conll2003" / "testa.txt", NAME_COLUMNS)
    chosen = train[:size] if draw == 0 else _drawn(train, draw, size)[0]
    return Parts(*([_name_example(s) for s in part] for part in (chosen, test)))


def tags(data: Path, draw: int, size: int | None) -> Parts:
    """The treebank sample: a random subset of the first 3,000 sentences to the other 914."""
    sentences = _treebank(data)
    chosen, _ = _drawn(sentences[:TAGGED_POOL], draw, size)
    return Parts(*([_tag_example(s) for s in part] for part in (chosen, sentences[TAGGED_POOL:])))


def tags_on_edges(data: Path, draw: int, size: int | None) -> Parts:
    """The same with features on transitions alone; into the first token leads no transition."""
    return _with_items(tags(data, draw, size), lambda own: own[:1] + _marked(own[1:]))


def tags_on_both(data: Path, draw: int, size: int | None) -> Parts:
    """The same with every feature on tokens and on transitions."""
    return _with_items(tags(data, draw, size), lambda own: _beside(own, own))


def tags_with_words(data: Path, draw: int, size: int | None) -> Parts:
    """The same with every feature on tokens, and the word itself on transitions too."""

    def words(items: list[list[str]]) -> list[list[str]]:
        return [[name for name in own if name.startswith("0@")] for own in items]

    return _with_items(tags(data, draw, size), lambda own: _beside(own, words(own)))


def tags_with_own(data: Path, draw: int, size: int | None) -> Parts:
    """The same with every feature on tokens, and all but the words around on transitions too."""
    around = ("-2@", "-1@", "1@", "2@")

    def of_the_token(items: list[list[str]]) -> list[list[str]]:
        return [[name for name in own if not name.startswith(around)] for own in items]

    return _with_items(tags(data, draw, size), lambda own: _beside(own, of_the_token(own)))


def chunks(data: Path, draw: int, size: int | None) -> Parts:
    """CoNLL-2000: a random subset to the standard test set; draw 0 is the first sentences.

    The lexicon is of the sentences not trained on; where all are, it is of the treebank sample,
    which has none of CoNLL-2000's.
    """
    train, test = (_conll(data / "conll2000" / f"{part}.txt") for part in ("train", "test"))
    size = len(train) if size is None else size
    chosen, rest = (train[:size], train[size:]) if draw == 0 else _drawn(train, draw, size)
    tagged = [(s["word"], s["pos"]) for s in rest]
    lexicon = lexicon_of(tagged or ((s["word"], s["tag"]) for s in _treebank(data)))
    return Parts(*([_chunk_example(s, lexicon) for s in part] for part in (chosen, test)))


def seminars(data: Path, draw: int, size: int | None) -> Parts:
    """The announcements, half of them (or `size`) to train on and the others to test."""
    found = _announcements(data)
    train, test = _drawn(found, draw, size or len(found) // 2)
    return Parts(train, test)


def hmm(_: Path, draw: int, size: int | None) -> Parts:
    """Sequences of a generating model: the draws go through the alphas again and again."""
    model = MixedOrderModel.drawn(ALPHAS[draw % len(ALPHAS)], draw // len(ALPHAS))
    generator = np.random.default_rng(draw)
    train = _hmm_examples(model, size or 1000, generator)
    return Parts(train, _hmm_examples(model, 1000, generator))


TASKS = {
    task.name: task
    for task in (
        Task("names", "chain", ("name",), names, 1),
        Task("tags", "chain of nodes", ("tag",), tags, 5, 1911),
        Task("tags-edges", "chain of nodes", ("tag",), tags_on_edges, 5, 1911),
        Task("tags-both", "chain of nodes", ("tag",), tags_on_both, 5, 1911),
        Task("tags-words", "chain of nodes", ("tag",), tags_with_words, 5, 1911),
        Task("tags-own", "chain of nodes", ("tag",), tags_with_own, 5, 1911),
        Task("chunks-223", "factorial", ("pos", "chunk"), chunks, 5, 223),
        Task("chunks-447", "factorial", ("pos", "chunk"), chunks, 5, 447),
        Task("chunks-grmm", "factorial", ("pos", "chunk"), chunks, 1, 223),
        Task("chunks-all", "factorial", ("pos", "chunk"), chunks, 1),
        Task("seminars", "skip", ("field",), seminars, 10),
        Task("hmm", "chain", ("state",), hmm, 150, 1000),
    )
}


def _marked(items: list[list[str]]) -> list[list[str]]:
    return [[edge(name) for name in own] for own in items]


def _beside(items: list[list[str]], on: list[list[str]]) -> list[list[str]]:
    """Features on tokens, and those on the transitions into them."""
    return [plain + own for plain, own in zip(items, _marked(on), strict=True)]


def _with_items(parts: Parts, change: Callable[[list[list[str]]], list[list[str]]]) -> Parts:
    return Parts(*([e._replace(items=change(e.items)) for e in part] for part in parts))


def _drawn(found: list, draw: int, size: int | None) -> tuple[list, list]:  # type: ignore[type-arg]
    """A random subset and the rest, the same for the same draw."""
    order = random.Random(draw).sample(range(len(found)), len(found))
    return [found[i] for i in order[:size]], [found[i] for i in order[size:]]


@lru_cache(maxsize=4)
def _conll(path: Path, columns: tuple[str, ...] = ("word", "pos", "chunk")) -> list[ColumnSentence]:
    return list(read_columns(path, columns))


def _treebank(data: Path) -> list[ColumnSentence]:
    return list(read_columns(data / "treebank-sample" / "tagged.txt", ("word", "tag"), "\t"))


def _name_example(sentence: ColumnSentence) -> Example:
    labels = convert_tags(sentence["name"], to="IOB2")
    return Example(sentence["word"], name_features(sentence["word"]), (labels,))


def _tag_example(sentence: ColumnSentence) -> Example:
    return Example(sentence["word"], tag_features(sentence["word"]), (sentence["tag"],))


def _chunk_example(sentence: ColumnSentence, lexicon: dict[str, list[str]]) -> Example:
    phrases = [tag if tag.endswith("-NP") else "O" for tag in sentence["chunk"]]
    items = chunk_features(sentence["word"], lexicon)
    return Example(sentence["word"], items, (sentence["pos"], phrases))


@lru_cache(maxsize=1)
def _announcements(data: Path) -> list[Example]:
    persons = _conll(data / "conll2003" / "train.txt.gz", NAME_COLUMNS)
    lists = name_lists((s["word"], s["name"]) for s in persons)
    return [_seminar_example(seminar, lists) for seminar in read_seminars(data / "seminars")]


def _seminar_example(seminar: Seminar, lists: NameLists) -> Example:
    labels = ["O"] * len(seminar.tokens)
    for start, end, field in seminar.fields:
        for token in range(start, end):
            labels[token] = labels[token] if labels[token] != "O" else f"I-{field}"
    items = seminar_features(seminar.tokens, seminar.text, seminar.offsets, lists)
    return Example(seminar.tokens, items, (labels,))


def _hmm_examples(
    model: MixedOrderModel, count: int, generator: np.random.Generator
) -> list[Example]:
    signs, states = model.sample(count, generator)
    return [
        Example(
            [f"x={sign}" for sign in own], [["bias", f"x={sign}"] for sign in own], (list(hidden),)
        )
        for own, hidden in zip(signs, states.astype(str), strict=True)
    ]
