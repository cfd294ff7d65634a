"""Probabilities of strings under a grammar, all derivations summed: the inside algorithm, batched.

Letters in shapes: b: strings, all of length n; m: spans of one length; t: terminals;
s: symbols after binarisation; r: pairs of symbols that some binary rule asks for.
Every span's column of the chart is divided by its largest entry, whose logarithm is kept beside it:
strings of any length neither underflow nor need logarithms in the inner loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from mrflearn.datasets.grammar import Grammar
from mrflearn.errors import DataError

Array = NDArray[np.float64]
_NUMBERS = 2_000_000  # in the largest temporary array


@dataclass(frozen=True, eq=False)
class InsideAlgorithm:
    """A binarised grammar, chains of unary rules summed in advance."""

    start: int
    lexical: sparse.csr_array  # [s, t] from a terminal to the symbols above it
    binary: sparse.csr_array  # [s, r] from a pair of symbols to the symbols above it
    first: NDArray[np.intp]
    second: NDArray[np.intp]

    @classmethod
    def of(cls, grammar: Grammar, *, count: bool = False) -> InsideAlgorithm:
        """The algorithm for string probabilities or, with `count`, for numbers of derivations."""
        number = {symbol: i for i, symbol in enumerate((*grammar.terminals, *grammar.rules_of))}
        unary: list[tuple[int, int, float]] = []
        binary: list[tuple[int, int, float]] = []
        pairs: dict[tuple[int, int], int] = {}
        tails: dict[int, int] = {}  # a pair that stands for the rest of a longer right side
        for rule in grammar.rules:
            weight = 1.0 if count else rule.probability
            *heads, last = (number[symbol] for symbol in rule.right)
            for head in reversed(heads[1:]):
                pair = pairs.setdefault((head, last), len(pairs))
                last = tails.setdefault(pair, len(number) + len(tails))
            if heads:
                pair = pairs.setdefault((heads[0], last), len(pairs))
                binary.append((number[rule.left], pair, weight))
            else:
                unary.append((number[rule.left], last, weight))
        binary += [(tail, pair, 1.0) for pair, tail in tails.items()]
        size = len(number) + len(tails)
        chains = _chains(_matrix(unary, (size, size)))
        first, second = np.array(list(pairs), dtype=np.intp).reshape(-1, 2).T
        return cls(
            number[grammar.start],
            sparse.csr_array(chains[:, : len(grammar.terminals)]),
            sparse.csr_array(chains @ _matrix(binary, (size, len(pairs)))),
            first,
            second,
        )

    def log_weights(self, scores: Array) -> Array:
        """log of the summed weight of each string, [b].

        `scores` [b, n, t] says how well each terminal, in the grammar's order, fits each position.
        """
        count, length, _ = scores.shape
        if length == 0:
            return np.full(count, -np.inf)
        portion = max(1, _NUMBERS // (max(1, len(self.first)) * length))
        parts = [self._chart(scores[i : i + portion]) for i in range(0, count, portion)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _chart(self, scores: Array) -> Array:
        count, length, terminals = scores.shape
        words = self.lexical @ scores.reshape(-1, terminals).T
        values, scales = [words.reshape(-1, count, length)], [np.zeros((count, length))]
        _rescale(values[0], scales[0])
        for size in range(2, length + 1):
            sums, scale = self._spans(values, scales, length - size + 1)
            value = (self.binary @ sums.reshape(len(self.first), scale.size)).reshape(
                -1, *scale.shape
            )
            _rescale(value, scale)
            values.append(value)
            scales.append(scale)
        with np.errstate(divide="ignore"):
            top: Array = np.log(values[-1][self.start, :, 0]) + scales[-1][:, 0]
        return top

    def _spans(self, values: list[Array], scales: list[Array], m: int) -> tuple[Array, Array]:
        """Sums over the split points of pairs of parts, [r, b, m], and their scales, [b, m]."""
        size = len(values) + 1
        splits = [
            (left[:, :m], right[:, -m:]) for left, right in zip(scales, scales[::-1], strict=True)
        ]
        together = np.stack([left + right for left, right in splits])
        scale = together.max(axis=0)
        # Where no split is possible all is zero, and any finite scale will do.
        factors = np.exp(together - np.where(np.isfinite(scale), scale, 0.0))
        sums = np.zeros((len(self.first), *scale.shape))
        for split in range(1, size):
            left = values[split - 1][:, :, :m] * factors[split - 1]
            sums += left[self.first] * values[size - split - 1][:, :, -m:][self.second]
        return sums, scale


def _rescale(value: Array, scale: Array) -> None:
    """Divide every span's column by its largest entry, in place, and say so in its scale."""
    largest = value.max(axis=0)
    value /= np.where(largest > 0, largest, 1.0)
    with np.errstate(divide="ignore"):
        scale += np.log(largest)


def _matrix(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    rows, columns, weights = zip(*entries, strict=True) if entries else ((), (), ())
    return sparse.csr_array((weights, (rows, columns)), shape=shape, dtype=np.float64)


def _chains(step: sparse.csr_array) -> sparse.csr_array:
    """I + U + U^2 + ...: the weight of all chains of unary rules, the empty one included."""
    power = total = sparse.eye_array(step.shape[0], format="csr")
    for _ in range(step.shape[0]):
        power = power @ step
        if not power.nnz:
            return total
        total = total + power
    raise DataError("unary rules form a cycle, such as A -> B and B -> A; take one of them out.")
