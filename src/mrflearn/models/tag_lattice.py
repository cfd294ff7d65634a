"""Sentences as lattices: a node is a tag that a word may have, or a pair of them in a row.

Letters in shapes: r: rows (tokens) laid out by `Steps`; n: nodes; k: some nodes; e: edges;
b: sentences that have words, longest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from mrflearn.kernels.chain_steps import Steps
from mrflearn.kernels.lattice import Edges, Lattice
from mrflearn.models.tag_transitions import TagTransitions
from mrflearn.models.word_context import WordContext
from mrflearn.models.word_tags import WordTags


@final
@dataclass(frozen=True, eq=False)
class TagLattice:
    """A lattice, and the row and the tag of each of its nodes."""

    lattice: Lattice
    row: Int[np.ndarray, "n"]
    tag: Int[np.ndarray, "n"]


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """How the tags of words become nodes: node j of a row is tag j % own, behind tag j // own.

    The second is a tag of the row before, or nothing at all where a node is one tag alone.
    """

    own: Int[np.ndarray, "r"]  # tags of the row's word
    degree: Int[np.ndarray, "r"]  # edges into each node of the row
    stride: Int[np.ndarray, "r"]  # from one source of a node to the next
    previous: Int[np.ndarray, "r"]  # the row before; -1: there is none
    begin: Int[np.ndarray, "r+1"]  # the first node of the row

    @classmethod
    def of(cls, word: Int[np.ndarray, "r"], steps: Steps, entries: WordTags, pairs: bool) -> Rows:
        """The layout of words; nodes are pairs of tags, or single ones."""
        own = np.diff(entries.begin)[word]
        previous = np.full(len(word), -1)
        previous[steps.starting :] = steps.previous.numpy()
        behind = np.where(previous < 0, 1, own[previous])
        if not pairs:
            begin = np.concatenate([[0], np.cumsum(own)])
            return cls(own, behind, np.ones_like(own), previous, begin)
        begin = np.concatenate([[0], np.cumsum(own * behind)])
        return cls(own, behind[previous], own[previous], previous, begin)


@final
@dataclass(frozen=True, eq=False)
class Nodes:
    """For every node its row, its tag and that tag's entry, and the tag it stands behind."""

    row: Int[np.ndarray, "n"]
    behind: Int[np.ndarray, "n"]  # by place among the tags of the row before
    entry: Int[np.ndarray, "n"]
    tag: Int[np.ndarray, "n"]
    before: Int[np.ndarray, "n"]

    @classmethod
    def of(cls, word: Int[np.ndarray, "r"], rows: Rows, entries: WordTags, edge: int) -> Nodes:
        """The nodes of all rows; `edge` stands before the first row of a sentence."""
        row = np.repeat(np.arange(len(word)), np.diff(rows.begin))
        behind, own = np.divmod(np.arange(len(row)) - rows.begin[row], rows.own[row])
        entry = entries.begin[word[row]] + own
        previous = rows.previous[row]
        before = entries.tag[entries.begin[word[previous]] + behind]
        before[previous < 0] = edge
        return cls(row, behind, entry, entries.tag[entry], before)


def tag_lattice(
    word: Int[np.ndarray, "r"],
    steps: Steps,
    entries: WordTags,
    transitions: TagTransitions,
    words_in_context: WordContext | None,
) -> TagLattice:
    """The lattice of sentences laid out by `steps`, whose rows hold the numbers of words.

    Words in context need pairs of tags for nodes; else nodes are single tags.
    """
    rows = Rows.of(word, steps, entries, pairs=words_in_context is not None)
    nodes = Nodes.of(word, rows, entries, transitions.edge)
    score = entries.score[nodes.entry]
    if words_in_context is not None:
        score = words_in_context.scores(nodes.before, nodes.tag, word[nodes.row], score)
    context, last = transitions.context[nodes.before, nodes.tag], _last_rows(steps)
    edge, table = transitions.edge, transitions.log_probability
    starts, ends = rows.previous[nodes.row] < 0, _marked(last, len(word))[nodes.row]
    score[starts] += table[transitions.context[edge, edge], nodes.tag[starts]]
    score[ends] += table[context[ends], edge]
    bounds = tuple(rows.begin[np.concatenate([[0], np.cumsum(steps.sizes)]).astype(int)].tolist())
    lattice = Lattice(
        score,
        lambda some: _edges(some, rows, nodes, context, table),
        steps.sizes,
        bounds,
        rows.begin[last],
        rows.begin[last + 1],
    )
    return TagLattice(lattice, nodes.row, nodes.tag)


def _edges(
    some: Int[np.ndarray, "k"],
    rows: Rows,
    nodes: Nodes,
    context: Int[np.ndarray, "n"],
    table: Float[np.ndarray, "c x"],
) -> Edges:
    """The edges into nodes: from those of the row before that end in the tag they stand behind."""
    row = nodes.row[some]
    degree = rows.degree[row]
    begin = np.cumsum(degree) - degree
    place = np.arange(degree.sum()) - np.repeat(begin, degree)
    start = rows.begin[rows.previous[row]] + nodes.behind[some]
    source = np.repeat(start, degree) + place * np.repeat(rows.stride[row], degree)
    return Edges(source, table[context[source], np.repeat(nodes.tag[some], degree)], begin, degree)


def _last_rows(steps: Steps) -> Int[np.ndarray, "b"]:
    """The last row of each sentence that has one, longest sentence first."""
    first = np.concatenate([[0], np.cumsum(steps.sizes)]).astype(np.int64)
    length = steps.lengths[steps.order].numpy()
    length = length[length > 0]
    result: Int[np.ndarray, "b"] = first[length - 1] + np.arange(len(length))
    return result


def _marked(places: Int[np.ndarray, "b"], size: int) -> Bool[np.ndarray, "r"]:
    marks = np.zeros(size, dtype=bool)
    marks[places] = True
    return marks
