"""Sentences as lattices: a node is a tag that a word may have, or a pair of them in a row.

Letters in shapes: r: rows (tokens) laid out by `Steps`; n: nodes; k: some nodes; e: edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int

from mrflearn.kernels.chain_steps import Steps
from mrflearn.kernels.lattice import Edges, Lattice
from mrflearn.models.tag_transitions import TagTransitions
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
class _Layout:
    """Node j of row r is tag j % own[r] of its word, behind tag j // own[r] of the word before.

    With one tag a node the second never counts: `before` is 1 everywhere.
    """

    own: Int[np.ndarray, "r"]
    before: Int[np.ndarray, "r"]
    degree: Int[np.ndarray, "r"]
    previous: Int[np.ndarray, "r"]  # -1: a sentence begins
    begin: Int[np.ndarray, "r+1"]


def tag_lattice(
    word: Int[np.ndarray, "r"],
    steps: Steps,
    entries: WordTags,
    transitions: TagTransitions,
    order: int,
) -> TagLattice:
    """The lattice of sentences laid out by `steps`; rows hold the numbers of words."""
    edge = transitions.log_probability.shape[1] - 1
    layout = _layout(word, steps, entries, order)
    row = np.repeat(np.arange(len(word)), np.diff(layout.begin))
    behind, own = np.divmod(np.arange(len(row)) - layout.begin[row], layout.own[row])
    entry = entries.begin[word[row]] + own
    tag, score = entries.tag[entry], entries.score[entry]
    previous = layout.previous[row]
    before = np.where(previous < 0, edge, entries.tag[entries.begin[word[previous]] + behind])
    context = transitions.context[before, tag]
    table = transitions.log_probability
    score[previous < 0] += table[transitions.context[edge, edge], tag[previous < 0]]
    bounds, last = _bounds(layout, steps)
    ending = np.isin(row, last)
    score[ending] += table[context[ending], edge]
    width = table.shape[1]
    flat, base = table.reshape(-1), context * width

    def edges(nodes: Int[np.ndarray, "k"]) -> Edges:
        rows = row[nodes]
        degree = layout.degree[rows]
        begin = np.cumsum(degree) - degree
        # Sources of a node: the nodes of the row before that have the tag it stands behind.
        place = np.arange(degree.sum()) - np.repeat(begin, degree)
        back = layout.previous[rows]
        stride = layout.own[back] if order == 2 else np.ones_like(back)
        start = layout.begin[back] + behind[nodes]
        source = np.repeat(start, degree) + place * np.repeat(stride, degree)
        return Edges(source, flat[base[source] + np.repeat(tag[nodes], degree)], begin, degree)

    lattice = Lattice(score, edges, steps.sizes, bounds, layout.begin[last], layout.begin[last + 1])
    return TagLattice(lattice, row, tag)


def _layout(
    word: Int[np.ndarray, "r"], steps: Steps, entries: WordTags, order: int
) -> _Layout:
    own = np.diff(entries.begin)[word]
    previous = np.full(len(word), -1)
    previous[steps.starting :] = steps.previous.numpy()
    behind = np.where(previous < 0, 1, own[previous])
    before = behind if order == 2 else np.ones_like(own)
    degree = before[previous] if order == 2 else behind
    begin = np.concatenate([[0], np.cumsum(own * before)])
    return _Layout(own, before, degree, previous, begin)


def _bounds(layout: _Layout, steps: Steps) -> tuple[tuple[int, ...], Int[np.ndarray, "b"]]:
    """The first node of each step, and the last row of each sentence, longest sentence first."""
    rows = np.concatenate([[0], np.cumsum(steps.sizes)]).astype(np.int64)
    length = steps.lengths.numpy()[steps.order.numpy()]
    length = length[length > 0]
    last = rows[length - 1] + np.arange(len(length))
    return tuple(layout.begin[rows].tolist()), last
