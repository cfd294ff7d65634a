"""Single parses of sentences: the best, the n best in order, or drawn at random.

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
from mrflearn.graph.chart import ChartPotentials, chart_batches
from mrflearn.kernels.chart import log_inside
from mrflearn.kernels.rules import RuleLists

ELEMENTS = 2**24  # that a batch of charts may hold; one sentence is always taken
Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]


class ChartSpan(NamedTuple):
    """A symbol over the words from `start` up to, not including, `end`."""

    start: int
    end: int
    symbol: int


class Parse(NamedTuple):
    """A parse and its score in nats: spans with parents before children, left before right."""

    score: float
    spans: tuple[ChartSpan, ...]


class HyperEdges(NamedTuple):
    """The ways to divide a node: the score of each, its parts' symbols, and where it divides."""

    score: Numbers
    left: Indices
    right: Indices
    split: Indices


@dataclass(frozen=True, eq=False)
class Forest:
    """All parses of a sentence of n words.

    `chart[s, i, w]` scores symbol s over w words from word i on: its best parse, or all of them.
    `roots[s]` scores symbol s over the whole sentence, as a start symbol.
    """

    rules: RuleLists
    chart: Numbers
    roots: Numbers

    @property
    def length(self) -> int:
        """The number of words."""
        return int(self.chart.shape[1]) - 1

    def edges(self, node: ChartSpan) -> HyperEdges:
        """All ways to divide a phrase over a span."""
        chosen = slice(self.rules.first[node.symbol], self.rules.first[node.symbol + 1])
        left, right = self.rules.left[chosen, None], self.rules.right[chosen, None]
        split = np.arange(node.start + 1, node.end)
        score = self.rules.score[chosen, None] + self.chart[left, node.start, split - node.start]
        score = score + self.chart[right, split, node.end - split]
        parts = (np.broadcast_to(part, score.shape).ravel() for part in (left, right, split))
        return HyperEdges(score.ravel(), *parts)

    def best_edges(self, node: ChartSpan, count: int) -> HyperEdges:
        """The `count` best ways to divide a phrase over a span, best first."""
        edges = self.edges(node)
        order = np.argsort(-edges.score, kind="stable")[:count]
        order = order[edges.score[order] > -np.inf]
        score, *parts = edges
        return HyperEdges(score[order], *(part[order] for part in parts))


@torch.no_grad()
def best_parses(potentials: ChartPotentials, n: int) -> list[list[Parse]]:
    """The n best parses of each sentence, best first; fewer where there are fewer."""
    if n < 1:
        raise InferenceError(f"the {n} best parses were asked for; 1 is the least.")
    found: list[list[Parse]] = [[] for _ in potentials.lengths]
    for sentence, forest in _forests(potentials, best=True):
        found[sentence] = _best(forest, n)
    return found


@torch.no_grad()
def sample_parses(
    potentials: ChartPotentials, n: int, generator: np.random.Generator
) -> list[list[Parse]]:
    """n parses drawn given each sentence, and their log-probabilities; none where none can be."""
    found: list[list[Parse]] = [[] for _ in potentials.lengths]
    for sentence, forest in _forests(potentials, best=False):
        if forest.roots.max() > -np.inf:
            found[sentence] = [_drawn(forest, generator) for _ in range(n)]
    return found


def _forests(potentials: ChartPotentials, *, best: bool) -> Iterator[tuple[int, Forest]]:
    """(sentence, forest) of all sentences with words."""
    shape = potentials.shape.to(potentials.words.device)
    words, rules, start = (
        x.double() for x in (potentials.words, potentials.rules, potentials.start)
    )
    lists = RuleLists.of(shape, rules.cpu().numpy())
    for batch in chart_batches(potentials.lengths, ELEMENTS, shape):
        scores = words[batch.tokens]
        b, n, _ = scores.shape
        # In memory by width, as the best scores of spans are.
        table = scores.new_full((n + 1, shape.symbols, n + 1, b), -torch.inf).permute(3, 1, 2, 0)
        table[:, : shape.phrases] = log_inside(scores, rules, shape, best=best).transpose(0, 1)
        table[:, shape.phrases :, :n, 1] = scores.transpose(1, 2)
        roots = (table[:, :, 0, n] + start).cpu().numpy()
        for place, sentence in enumerate(batch.sentences.tolist()):
            yield sentence, Forest(lists, table[place].cpu().numpy(), roots[place])


def _best(forest: Forest, count: int) -> list[Parse]:
    """The `count` best parses, best first, or all if there are fewer; the chart has best scores.

    Partial parses wait in a queue, ordered by the score of their best completion, which the chart
    knows: none is ever looked at in vain [Pauls and Klein 2009, "K-best A* parsing"].
    """
    serial = numbers_from()
    order = np.argsort(-forest.roots, kind="stable")[:count].tolist()
    # (cost, serial number, nodes still to be divided, nodes done), both lists as linked pairs
    queue: list[tuple[float, int, Any, Any]] = [
        (-float(forest.roots[s]), next(serial), (ChartSpan(0, forest.length, s), None), None)
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
        for score, left, right, split in zip(
            *(column.tolist() for column in best_edges(node)), strict=True
        ):
            parts = ChartSpan(node.start, split, left), (ChartSpan(split, node.end, right), rest)
            heapq.heappush(queue, (cost + known - score, next(serial), parts, (node, done)))
    return found


def _drawn(forest: Forest, generator: np.random.Generator) -> Parse:
    """A parse drawn in proportion to its weight; the chart has log-sums.  Its score is a log p."""
    symbol, total = _draw(forest.roots, generator)
    waiting, spans = [ChartSpan(0, forest.length, symbol)], []
    while waiting:
        node = waiting.pop()
        spans.append(node)
        if node.end - node.start > 1:
            edges = forest.edges(node)
            chosen, score = _draw(edges.score, generator)
            total += score
            split = int(edges.split[chosen])
            waiting.append(ChartSpan(split, node.end, int(edges.right[chosen])))
            waiting.append(ChartSpan(node.start, split, int(edges.left[chosen])))
    return Parse(total, tuple(spans))


def _draw(scores: Numbers, generator: np.random.Generator) -> tuple[int, float]:
    """An index drawn in proportion to exp(scores), and its log-probability."""
    weights = np.exp(scores - scores.max())
    ends = weights.cumsum()
    chosen = min(int(np.searchsorted(ends, generator.random() * ends[-1], "right")), len(ends) - 1)
    return chosen, float(np.log(weights[chosen] / ends[-1]))


def _unlinked(done: Any) -> tuple[ChartSpan, ...]:
    spans = []
    while done is not None:
        spans.append(done[0])
        done = done[1]
    return tuple(reversed(spans))
