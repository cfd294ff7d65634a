"""Single parses of sentences: the best, or the n best in order.

A node is a symbol over a span, and an edge one way to divide it.  Nothing here recurses, so
sentences may be as long as memory allows.
"""

from __future__ import annotations

import heapq
from functools import cache, partial
from itertools import count as numbers_from
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.errors import InferenceError
from mrflearn.graph.chart import ChartPotentials
from mrflearn.kernels.chart import best_inside
from mrflearn.kernels.rules import RuleLists

Figures: TypeAlias = NDArray[np.float64]
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


@torch.no_grad()
def best_parses(potentials: ChartPotentials, n: int) -> list[list[Parse]]:
    """The n best parses of each sentence, best first; fewer where there are fewer."""
    if n < 1:
        raise InferenceError(f"the {n} best parses were asked for; 1 is the least.")
    shape = potentials.shape.to(potentials.words.device)
    words, rules = potentials.padded_words.double(), potentials.rules.double()
    start = potentials.start.double().cpu().numpy()
    lists = RuleLists.of(shape, rules.cpu().numpy())
    found: list[list[Parse]] = [[] for _ in potentials.lengths]
    for batch in potentials.batches(ELEMENTS):
        scores = words[batch.tokens]
        b, size, _ = scores.shape
        # In memory by width, as the best scores of spans are.
        table = scores.new_full((size + 1, shape.symbols, size + 1, b), -torch.inf)
        table = table.permute(3, 1, 2, 0)
        nodes = potentials.nodes_of(batch)
        if shape.phrases:
            own_nodes = None if nodes is None else nodes.double()
            table[:, : shape.phrases] = best_inside(scores, rules, shape, own_nodes)
        table[:, shape.phrases :, :size, 1] = scores.transpose(1, 2)
        numbers, lengths = batch.sentences.tolist(), batch.lengths.tolist()
        for row, (sentence, own) in enumerate(zip(numbers, lengths, strict=True)):
            chart = table[row].cpu().numpy()
            scored = None if nodes is None else nodes[row].double().cpu().numpy()
            found[sentence] = _best(chart, chart[:, 0, own] + start, lists, own, n, scored)
    return found


def _best(
    chart: Figures,
    roots: Figures,
    rules: RuleLists,
    size: int,
    count: int,
    nodes: Figures | None = None,
) -> list[Parse]:
    """The `count` best parses of a sentence of so many words, best first, or all if fewer.

    `chart[s, i, w]` scores the best parse of symbol s over w words from word i on, and `roots[s]`
    that of symbol s over the sentence, as a start symbol; `nodes[i, w, s]` is what a node scores.

    Partial parses wait in a queue, ordered by the score of their best completion, which the chart
    knows: none is ever looked at in vain [Pauls and Klein 2009, "K-best A* parsing"].
    """
    serial = numbers_from()
    order = np.argsort(-roots, kind="stable")[:count].tolist()
    # (cost, serial number, nodes still to be divided, nodes done), both lists as linked pairs
    queue: list[tuple[float, int, Any, Any]] = [
        (-float(roots[s]), next(serial), (ChartSpan(0, size, s), None), None)
        for s in order
        if roots[s] > -np.inf
    ]
    found: list[Parse] = []
    best_edges = cache(partial(_best_edges, chart, rules, count))  # parses share their parts
    while queue and len(found) < count:
        cost, _, waiting, done = heapq.heappop(queue)
        while waiting and waiting[0].end - waiting[0].start == 1:
            done, waiting = (waiting[0], done), waiting[1]
        if waiting is None:
            found.append(Parse(-cost, _unlinked(done)))
            continue
        node, rest = waiting
        known = float(chart[node.symbol, node.start, node.end - node.start])
        if nodes is not None:
            known -= float(nodes[node.start, node.end - node.start, node.symbol])
        for score, left, right, split in best_edges(node):
            parts = ChartSpan(node.start, split, left), (ChartSpan(split, node.end, right), rest)
            heapq.heappush(queue, (cost + known - score, next(serial), parts, (node, done)))
    return found


def _best_edges(
    chart: Figures, rules: RuleLists, count: int, node: ChartSpan
) -> list[tuple[float, int, int, int]]:
    """The `count` best ways to divide a phrase over a span: (score, left, right, split)."""
    start, end, symbol = node
    first, last = rules.first[symbol], rules.first[symbol + 1]
    left, right = rules.left[first:last], rules.right[first:last]
    score = rules.score[first:last, None] + chart[left, start, 1 : end - start]
    split = np.arange(start + 1, end)
    score = (score + chart[right[:, None], split, end - split]).ravel()
    one = count == 1
    best = np.array([score.argmax()]) if one else np.argsort(-score, kind="stable")[:count]
    rule, place = np.divmod(best, len(split))
    columns = score[best], left[rule], right[rule], split[place]
    found = zip(*(column.tolist() for column in columns), strict=True)
    return [edge for edge in found if edge[0] > -np.inf]


def _unlinked(done: Any) -> tuple[ChartSpan, ...]:
    spans = []
    while done is not None:
        spans.append(done[0])
        done = done[1]
    return tuple(reversed(spans))
