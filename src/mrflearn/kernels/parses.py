"""Best parses and n-best parses of a chart.

Letters in shapes: b: sentences of length n; m: spans of one width, by first word; p:
preterminals; a: phrases; q: pairs of symbols that some rule asks for; r: rules.
The inside pass with maxima for sums: in logarithms, so that nothing needs to be scaled.

A node is a symbol over a span, and an edge one way to divide it.  Nothing here recurses, so
sentences may be as long as memory allows.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cache
from itertools import count as numbers_from
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.kernels.rules import Pairs, RuleShape

# The scores of the best parses of every span, for sentences of one length.


def best_scores(
    words: Float[Tensor, "b n p"], rules: Float[Tensor, " r"], shape: RuleShape
) -> Float[Tensor, "a b n+1 n+1"]:
    """The score of the best parse of each phrase over each span, by first word and width."""
    b, n, _ = words.shape
    turned = words.permute(2, 1, 0).contiguous()
    found = [turned, turned]  # by width; nothing has width 0
    beside_left, beside_right = _beside_words(turned, rules, shape)
    by_left, by_right = shape.blocks.word_left.above_right, shape.blocks.word_right.above_left
    table = turned.new_full((shape.phrases, b, n + 1, n + 1), -torch.inf)
    for width in range(2, n + 1):
        value = _best_of_splits(found, n - width + 1, rules, shape)
        if width > 2:
            after = found[-1][by_left.second, 1:] + beside_left[:, : n - width + 1]
            before = found[-1][by_right.second, :-1] + beside_right[:, width - 1 :]
            _raise(_raise(value, by_left.first, after), by_right.first, before)
        found.append(value)
        table[:, :, : n - width + 1, width] = value.transpose(1, 2)
    return table


def _best_of_splits(
    found: list[Tensor], m: int, rules: Float[Tensor, " r"], shape: RuleShape
) -> Float[Tensor, "a m b"]:
    """The best of all splits into two words or into two phrases."""
    width, b = len(found), found[1].shape[2]
    block = shape.blocks.words if width == 2 else shape.blocks.phrases
    pairs = found[1].new_full((len(block.parts), m, b), -torch.inf)
    for k in [1] if width == 2 else range(2, width - 1):
        left, right = found[k][:, :m], found[width - k][:, k : k + m]
        torch.maximum(pairs, _sums(block.parts, left, right), out=pairs)
    value = found[1].new_full((shape.phrases, m, b), -torch.inf)
    return _raise(value, block.parent, pairs[block.parts.of_rule] + _columns(rules[block.rule]))


def _beside_words(
    words: Float[Tensor, "p n b"], rules: Float[Tensor, " r"], shape: RuleShape
) -> tuple[Float[Tensor, "q n b"], Float[Tensor, "q n b"]]:
    """The best rule for each parent and other part, beside each word on the left and right."""
    left, right = shape.blocks.word_left, shape.blocks.word_right
    found = []
    for block, word, pairs in (
        (left, left.left, left.above_right),
        (right, right.right, right.above_left),
    ):
        nothing = words.new_full((len(pairs), *words.shape[1:]), -torch.inf)
        scores = words[word] + _columns(rules[block.rule])
        found.append(_raise(nothing, pairs.of_rule, scores))
    return found[0], found[1]


def _sums(pairs: Pairs, first: Float[Tensor, "x m b"], second: Float[Tensor, "y m b"]) -> Tensor:
    return first.index_select(0, pairs.first) + second.index_select(0, pairs.second)


def _columns(scores: Float[Tensor, " r"]) -> Float[Tensor, "r 1 1"]:
    return scores[:, None, None]


def _raise(
    value: Float[Tensor, "x m b"], row: Int[Tensor, " r"], scores: Float[Tensor, "r m b"]
) -> Float[Tensor, "x m b"]:
    """The value itself, raised in place to the scores that belong to its rows."""
    return value.scatter_reduce_(0, row[:, None, None].expand_as(scores), scores, "amax")


# Single parses out of a chart: the best ones in order, or drawn at random.


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
class RuleLists:
    """Rules sorted by parent: those of phrase a stand from first[a] to first[a + 1]."""

    first: Indices
    left: Indices
    right: Indices
    score: Numbers

    @classmethod
    def of(cls, shape: RuleShape, score: Numbers) -> RuleLists:
        """The lists of a grammar's rules and their scores."""
        parent, left, right = (x.cpu().numpy() for x in (shape.parent, shape.left, shape.right))
        order = np.argsort(parent, kind="stable")
        first = np.searchsorted(parent[order], np.arange(shape.phrases + 1))
        return cls(first, left[order], right[order], score[order])


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


def best_parses(forest: Forest, count: int) -> list[Parse]:
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


def draw_parse(forest: Forest, generator: np.random.Generator) -> Parse:
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
