"""The three texts: the built-in English with its truth, the treebank sample, Brown."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from mrflearn.datasets.english import document_log_probability, sample_documents
from mrflearn.io.ptb import read_trees
from mrflearn.io.trees import Tree, remove_traces

Documents = list[list[list[str]]]
D = TypeVar("D")
LONGEST = 40
FRESH = 2006  # the seed of the built-in test documents; settings were chosen on text of seed 1
JUDGED_BEFORE = 0  # of every ten documents the one that is held out
FRESH_TREES, FRESH_BROWN = 5, 3  # and the one to test on, which no setting was chosen on
PLAIN = 60  # documents
TREES_PER_DOCUMENT = 20  # the sample has lost its documents: runs of sentences stand for them


@dataclass(frozen=True)
class Text:
    """Documents to learn from, to choose by and to be judged by, and trees to start grammars from.

    `floor` is the least perplexity that the test documents can have.
    """

    train: Documents
    held: Documents
    test: Documents
    trees: list[Tree]
    floor: float | None = None
    vocabulary_size: int | None = None
    min_count: int = 1


def built_in(documents: int, sentences: int) -> Text:
    """The built-in grammar's text; its floor is what its own probabilities give the test part."""
    drawn = sample_documents(documents + documents // 5, sentences=sentences, seed=1)
    fresh = sample_documents(documents // 5, sentences=sentences, seed=FRESH)
    plain = [[list(s.words) for s in d.sentences] for d in drawn]
    test = [[list(s.words) for s in d.sentences] for d in fresh]
    total = sum(document_log_probability(d) for d in fresh)
    tokens = sum(len(words) + 1 for d in test for words in d)
    trees = [s.tree for d in drawn[:documents] for s in d.sentences]
    floor = float(np.exp(-total / tokens))
    return Text(plain[:documents], plain[documents:], test, trees, floor)


def treebank(data: Path, count: int) -> Text:
    """The first sentences of the treebank sample in runs; of ten, one held out and one to test."""
    trees: list[Tree] = []
    for tree in read_trees(data / "treebank-sample" / "trees.mrg"):
        plain = remove_traces(tree)
        if plain is not None and len(plain.words) <= LONGEST and len(trees) < count:
            trees.append(plain)
    size = TREES_PER_DOCUMENT
    groups = [trees[i : i + size] for i in range(0, len(trees), size)]
    lower = [[[w.lower() for w in tree.words] for tree in group] for group in groups]
    kept = [_lower(tree) for group in _divide(groups, FRESH_TREES)[0] for tree in group]
    return Text(*_divide(lower, FRESH_TREES), kept, min_count=2)


def brown(data: Path, documents: int, trees: list[Tree]) -> Text:
    """The first Brown documents in lower case, of every ten one held out and one to test on.

    Short sentences only.  It has no trees of its own: its grammar starts from another text's.
    """
    found = [
        [[word.lower() for word in words] for words in document if len(words) <= LONGEST]
        for document in _brown(data, documents)
    ]
    return Text(*_divide(found, FRESH_BROWN), trees, vocabulary_size=10_000)


def plain(data: Path) -> Text:
    """The first 60 Brown documents as they are; the next six to test on, six more held out.

    Little text, sentences of any length, every word known, and no trees.
    """
    found = _brown(data, PLAIN + 12)
    return Text(found[:PLAIN], found[PLAIN + 6 :], found[PLAIN : PLAIN + 6], [])


def _brown(data: Path, documents: int) -> Documents:
    """The words of the first Brown documents."""
    found: Documents = []
    with gzip.open(data / "brown" / "brown-tagged.txt.gz", "rt", encoding="utf-8") as stream:
        for line in stream:
            if line.startswith("#DOC\t"):
                if len(found) == documents:
                    break
                found.append([])
            elif words := [token.rsplit("/", 1)[0] for token in line.split()]:
                found[-1].append(words)
    return found


def _divide(documents: list[D], fresh: int) -> tuple[list[D], list[D], list[D]]:
    """(documents to learn from, held-out ones, test documents), by their number alone."""
    held, test = documents[JUDGED_BEFORE::10], documents[fresh::10]
    train = [d for i, d in enumerate(documents) if i % 10 not in (JUDGED_BEFORE, fresh)]
    return train, held, test


def _lower(tree: Tree) -> Tree:
    from mrflearn.io.trees import rebuild

    def change(node: Tree, children: tuple[Tree, ...]) -> tuple[Tree, ...]:
        word = None if node.word is None else node.word.lower()
        return (Tree(node.label, children, word),)

    return rebuild(tree, change)[0]
