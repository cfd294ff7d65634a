"""Single parses of sentences: the best, or the n best in order.

A node is a symbol over a span, and an edge one way to divide it.  Nothing here recurses, so
sentences may be as long as memory allows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count as numbers_from
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.errors import InferenceError
from mrflearn.graph.chart import ChartPotentials
from mrflearn.kernels.chart import best_inside
from mrflearn.kernels.rules import RuleLists

ELEMENTS = 2**24  # that a batch of charts may hold; one sentence is always taken


class ChartSpan(NamedTuple):
    """A symbol over the words from `start` up to, not including, `end`."""

    start: int
    end: int
    symbol: int


class Parse(NamedTuple):
    """A parse and its score in nats: spans with parents before children, left before right."""

    score: float
    spans: tuple[ChartSpan, ...]


@dataclass(frozen=True, eq=False)
class Forest:
    """The best parse of every symbol over every span of a sentence of n words.

    `chart[s, i, w]` scores symbol s over w words from word i on, and `roots[s]` symbol s over the
    whole sentence, as a start symbol.
    """

    rules: RuleLists
    chart: NDArray[np.float64]
    roots: NDArray[np.float64]

    def best_edges(self, node: ChartSpan, count: int) -> list[tuple[float, int, int, int]]:
        """The `count` best ways to divide a phrase over a span: (score, left, right, split)."""
        (start, end, symbol), rules = node, self.rules
        first, last = rules.first[symbol], rules.first[symbol + 1]
        left, right = rules.left[first:last], rules.right[first:last]
        score = rules.score[first:last, None] + self.chart[left, start, 1 : end - start]
        split = np.arange(start + 1, end)
        score = (score + self.chart[right[:, None], split, end - split]).ravel()
        if count == 1:
            order = score.argmax(0, keepdims=True)
        else:
            order = np.argsort(-score, kind="stable")[:count]
        rule, place = np.divmod(order, len(split))
        columns = score[order], left[rule], right[rule], split[place]
        found = zip(*(column.tolist() for column in columns), strict=True)
        return [edge for edge in found if edge[0] > -np.inf]


@torch.no_grad()
def best_parses(potentials: ChartPotentials, n: int) -> list[list[Parse]]:
    """The n best parses of each sentence, best first; fewer where there are fewer."""
    if n < 1:
        raise InferenceError(f"the {n} best parses were asked for; 1 is the least.")
    found: list[list[Parse]] = [[] for _ in potentials.lengths]
    for sentence, forest, size in _forests(potentials):
        found[sentence] = _best(forest, size, n)
    return found


def _forests(potentials: ChartPotentials) -> Iterator[tuple[int, Forest, int]]:
    """(sentence, forest, number of words) of all sentences with words."""
    shape = potentials.shape.to(potentials.words.device)
    words, rules = potentials.padded_words.double(), potentials.rules.double()
    start = potentials.start.double().cpu().numpy()
    lists = RuleLists.of(shape, rules.cpu().numpy())
    for batch in potentials.batches(ELEMENTS):
        scores = words[batch.tokens]
        b, n, _ = scores.shape
        # In memory by width, as the best scores of spans are.
        table = scores.new_full((n + 1, shape.symbols, n + 1, b), -torch.inf).permute(3, 1, 2, 0)
        table[:, : shape.phrases] = best_inside(scores, rules, shape)
        table[:, shape.phrases :, :n, 1] = scores.transpose(1, 2)
        charts, lengths = table.cpu().numpy(), batch.lengths.tolist()
        for sentence, chart, size in zip(batch.sentences.tolist(), charts, lengths, strict=True):
            yield sentence, Forest(lists, chart, chart[:, 0, size] + start), size


def _best(forest: Forest, size: int, count: int) -> list[Parse]:
    """The `count` best parses of a sentence of so many words, best first, or all if fewer.

    Partial parses wait in a queue, ordered by the score of their best completion, which the chart
    knows: none is ever looked at in vain [Pauls and Klein 2009, "K-best A* parsing"].
    """
    serial = numbers_from()
    order = np.argsort(-forest.roots, kind="stable")[:count].tolist()
    # (cost, serial number, nodes still to be divided, nodes done), both lists as linked pairs
    queue: list[tuple[float, int, Any, Any]] = [
        (-float(forest.roots[s]), next(serial), (ChartSpan(0, size, s), None), None)
        for s in order
        if forest.roots[s] > -np.inf
    ]
    found: list[Parse] = []
    best_edges = cache(lambda node: forest.best_edges(node, count))  # parses share their parts
    while queue and len(found) < count:
        cost, _, waiting, done = heapq.heappop(queue)
        while waiting and waiting[0].end - waiting[0].start == 1:
            done, waiting = (waiting[0], done), waiting[1]
        if waiting is None:
            found.append(Parse(-cost, _unlinked(done)))
            continue
        node, rest = waiting
        known = float(forest.chart[node.symbol, node.start, node.end - node.start])
        for score, left, right, split in best_edges(node):
            parts = ChartSpan(node.start, split, left), (ChartSpan(split, node.end, right), rest)
            heapq.heappush(queue, (cost + known - score, next(serial), parts, (node, done)))
    return found


def _unlinked(done: Any) -> tuple[ChartSpan, ...]:
    spans = []
    while done is not None:
        spans.append(done[0])
        done = done[1]
    return tuple(reversed(spans))
