"""Random grammars with their scores, and every parse of a sentence by listing them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from mrflearn.graph.chart import ChartPotentials
from mrflearn.kernels.rules import RuleShape


@dataclass(frozen=True)
class Problem:
    """Scores of a grammar and of sentences of one length."""

    shape: RuleShape
    words: Tensor  # b n p
    rules: Tensor
    start: Tensor

    def potentials(self) -> ChartPotentials:
        """The scores with the words of all sentences end to end."""
        b, n, _ = self.words.shape
        words, lengths = self.words.flatten(0, 1), torch.full((b,), n)
        return ChartPotentials(self.shape, words, lengths, self.rules, self.start)


def make_problem(
    phrases: int,
    preterminals: int,
    length: int,
    *,
    seed: int,
    dense: bool = True,
    sentences: int = 2,
    forbidden: float = 0.0,
    spread: float = 1.0,
) -> Problem:
    """Normal scores of a given spread, a share of them -inf; half of all rules if not dense."""
    generator = torch.Generator().manual_seed(seed)
    shape = RuleShape.full(phrases, preterminals)
    if not dense:
        kept = torch.rand(len(shape), generator=generator) < 0.5
        shape = RuleShape(
            phrases, preterminals, shape.parent[kept], shape.left[kept], shape.right[kept]
        )

    def scores(*size: int) -> Tensor:
        found = spread * torch.randn(size, generator=generator, dtype=torch.float64)
        return found.masked_fill(torch.rand(size, generator=generator) < forbidden, -torch.inf)

    words = scores(sentences, length, preterminals)
    return Problem(shape, words, scores(len(shape)), scores(shape.symbols))


def problems(largest: int, longest: int) -> st.SearchStrategy[Problem]:
    """Grammars of up to so many phrases and as many preterminals, and sentences up to a length."""
    return st.builds(
        make_problem,
        st.integers(1, largest),
        st.integers(1, largest),
        st.integers(1, longest),
        seed=st.integers(0, 10_000),
        dense=st.booleans(),
        forbidden=st.sampled_from([0.0, 0.2, 0.6]),
        spread=st.sampled_from([0.5, 3.0]),
    )


@dataclass(frozen=True)
class Derivation:
    """One parse: its score, its spans (start, end, symbol), and the rules it uses."""

    score: float
    spans: tuple[tuple[int, int, int], ...]
    rules: tuple[int, ...]


def all_parses(problem: Problem, sentence: int) -> list[Derivation]:
    """Every parse of a sentence with a score above -inf."""
    words, n = problem.words[sentence], problem.words.shape[1]
    found = (
        Derivation(parse.score + float(problem.start[symbol]), parse.spans, parse.rules)
        for symbol in range(problem.shape.symbols)
        for parse in _below(problem, words, symbol, 0, n)
    )
    return [parse for parse in found if parse.score > -torch.inf]


def _below(
    problem: Problem, words: Tensor, symbol: int, start: int, end: int
) -> Iterator[Derivation]:
    shape, here = problem.shape, (start, end, symbol)
    if symbol >= shape.phrases:
        if end - start == 1:
            yield Derivation(float(words[start, symbol - shape.phrases]), (here,), ())
        return
    for rule in (shape.parent == symbol).nonzero()[:, 0].tolist():
        for split in range(start + 1, end):
            left = _below(problem, words, int(shape.left[rule]), start, split)
            right = list(_below(problem, words, int(shape.right[rule]), split, end))
            for one, other in itertools.product(left, right):
                score = float(problem.rules[rule]) + one.score + other.score
                rules = (rule, *one.rules, *other.rules)
                yield Derivation(score, (here, *one.spans, *other.spans), rules)


def normalised(
    phrases: int, preterminals: int, words: int, *, seed: int, going_on: float, dense: bool = True
) -> tuple[RuleShape, Tensor, Tensor, Tensor]:
    """A grammar of probabilities in nats: shape, rules, start symbols, words by preterminal.

    A part of a phrase is again a phrase with probability about `going_on`.
    """
    problem = make_problem(phrases, preterminals, 1, seed=seed, dense=dense)
    shape, weight = problem.shape, problem.rules.exp()
    for part in (shape.left, shape.right):
        weight = weight * torch.where(part < phrases, going_on / phrases, 1 / preterminals)
    total = torch.zeros(phrases, dtype=torch.float64).index_add(0, shape.parent, weight)
    emission = torch.randn(
        preterminals, words, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    rules = (weight / total[shape.parent]).log()
    return shape, rules, problem.start.log_softmax(0), emission.log_softmax(1)
