"""Cloze tests: how often a model guesses the word that was taken out of a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch

from mrflearn import NgramLanguageModel
from mrflearn.errors import DataError
from mrflearn.graph.lifted import WordPotentials
from mrflearn.io.corpus import Vocabulary

GAPS_AT_A_TIME = 1024
# (gaps, how many) -> the best words for each gap, best first.
Guesser: TypeAlias = Callable[[Sequence["Gap"], int], Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Gap:
    """A sentence and the position of the word to be guessed in it."""

    words: tuple[str, ...]
    position: int

    @property
    def answer(self) -> str:
        return self.words[self.position]

    @property
    def left(self) -> tuple[str, ...]:
        return self.words[: self.position]


@dataclass(frozen=True)
class ClozeAccuracy:
    """The share of gaps whose word was the first guess, or among the first `top`."""

    first: float
    among_top: float
    top: int
    gaps: int

    @property
    def standard_error(self) -> float:
        """Of `among_top`, as if gaps were independent."""
        return float(np.sqrt(self.among_top * (1 - self.among_top) / self.gaps))


class NextWord(Protocol):
    """A model that continues the beginning of a sentence."""

    def next_word(self, words: Sequence[str], n: int) -> Sequence[tuple[str, float]]: ...


def choose_gaps(
    sentences: Iterable[Sequence[str]], *, count: int, seed: int = 0, unless: Iterable[str] = ()
) -> list[Gap]:
    """Gaps drawn evenly from all positions whose word is not one of `unless`."""
    banned = set(unless)
    every = [
        Gap(words, position)
        for words in map(tuple, sentences)
        for position, word in enumerate(words)
        if word not in banned
    ]
    if not every:
        raise DataError("there is no word to take out. Is the text empty, or all unknown?")
    order = np.random.default_rng(seed).permutation(len(every))[:count]
    return [every[index] for index in sorted(order.tolist())]


def left_guesser(model: NextWord) -> Guesser:
    """Guesses that see only the words to the left of a gap; the sentence's end is no word."""

    def guess(gaps: Sequence[Gap], top: int) -> list[list[str]]:
        found = (model.next_word(gap.left, n=top + 1) for gap in gaps)
        return [[word for word, _ in words if word != "</s>"][:top] for words in found]

    return guess


def two_sided_guesser(model: NgramLanguageModel) -> Guesser:
    """Guesses of the word that makes the whole sentence most probable by n-grams."""
    table, vocabulary = model.model_, model.vocabulary_
    states, reach = len(vocabulary), model.order - 1
    separator = [vocabulary.separator]

    def guess(gaps: Sequence[Gap], top: int) -> list[list[str]]:
        best = []
        for gap in gaps:
            left = (separator + vocabulary.encode(gap.left).tolist())[-max(1, reach) :]
            right = vocabulary.encode(gap.words[gap.position + 1 :]).tolist() + separator
            block = np.array([*left, -1, *right[:reach]])
            stream = np.tile(block, (states, 1))
            stream[:, len(left)] = np.arange(states)
            logs = table.log_probabilities(np.concatenate([separator, stream.ravel()]))
            scores = logs.reshape(stream.shape)[:, len(left) :].sum(axis=1)
            scores[vocabulary.separator] = -np.inf
            found = np.argpartition(-scores, top)[:top]
            best.append(vocabulary.decode(found[np.argsort(-scores[found])].tolist()))
        return best

    return guess


def neighbour_guesser(field: WordPotentials, vocabulary: Vocabulary) -> Guesser:
    """Guesses from the exact conditional given the words on both sides of a gap."""

    @torch.no_grad()
    def guess(gaps: Sequence[Gap], top: int) -> list[list[str]]:
        best: list[list[str]] = []
        for start in range(0, len(gaps), GAPS_AT_A_TIME):
            before, after = _around(gaps[start : start + GAPS_AT_A_TIME], field.offsets, vocabulary)
            device = field.unary.device
            scores = field.conditional(before.to(device), after.to(device))
            scores[:, vocabulary.separator] = -torch.inf
            best += map(
                vocabulary.decode, scores.topk(min(top, field.states - 1), 1).indices.tolist()
            )
        return best

    return guess


def _around(
    gaps: Sequence[Gap], context: int, vocabulary: Vocabulary
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids of the words before and after each gap, the nearest first; separators beyond the ends."""
    sides: tuple[list[list[int]], list[list[int]]] = ([], [])
    for gap in gaps:
        left, right = gap.words[: gap.position][::-1], gap.words[gap.position + 1 :]
        for side, words in zip(sides, (left, right), strict=True):
            ids = vocabulary.encode(words[:context]).tolist()
            side.append(ids + [vocabulary.separator] * (context - len(ids)))
    return torch.tensor(sides[0]), torch.tensor(sides[1])


def cloze(guess: Guesser, gaps: Sequence[Gap], *, top: int = 10) -> ClozeAccuracy:
    """The accuracy of a guesser's first and first `top` guesses."""
    guesses = guess(gaps, top)
    if len(guesses) != len(gaps):
        raise DataError(f"{len(guesses)} lists of guesses for {len(gaps)} gaps.")
    pairs = list(zip(gaps, guesses, strict=True))
    first = sum(list(words[:1]) == [gap.answer] for gap, words in pairs)
    among = sum(gap.answer in list(words[:top]) for gap, words in pairs)
    return ClozeAccuracy(first / len(gaps), among / len(gaps), top, len(gaps))
