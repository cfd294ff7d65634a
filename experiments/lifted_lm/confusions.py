"""Real-word errors: which of some similar words stood in a sentence?

Words are confused that one letter more, less or other makes of each other, as typing errors do that
no dictionary finds.  A model is asked for held-out words that have such neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import torch
from cloze import GAPS_AT_A_TIME, Gap, around, choose_gaps

from mrflearn import NgramLanguageModel
from mrflearn.graph.lifted import WordPotentials
from mrflearn.graph.trigrams import TrigramPotentials
from mrflearn.io.corpus import Vocabulary

SHORTEST = 3  # letters
Chooser: TypeAlias = Callable[[Sequence["Question"]], Sequence[str]]


@dataclass(frozen=True)
class Question:
    """A gap, and the words that may have stood there, the right one among them."""

    gap: Gap
    choices: tuple[str, ...]

    def filled(self, word: str) -> list[str]:
        words = list(self.gap.words)
        words[self.gap.position] = word
        return words


def confusions(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The words that each may be confused with, in alphabetical order; only those that have any."""
    patterns: dict[tuple[str, str], set[str]] = defaultdict(set)
    plain = {word for word in words if word.isalpha() and len(word) >= SHORTEST}
    for word in plain:
        for k in range(len(word)):
            shorter = word[:k] + word[k + 1 :]
            patterns[word[:k] + "*" + word[k + 1 :], "other"].add(word)
            if shorter in plain:
                patterns[shorter, "less"].update((word, shorter))
    near: dict[str, set[str]] = defaultdict(set)
    for (core, kind), group in patterns.items():
        for one, two in combinations(sorted(group), 2):
            if kind == "other" or core in (one, two):
                near[one].add(two)
                near[two].add(one)
    return {word: tuple(sorted(own)) for word, own in near.items()}


def questions(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, *, count: int, seed: int = 0
) -> list[Question]:
    """Held-out words that have confusions, drawn evenly."""
    near = confusions(vocabulary.words)
    every = list(sentences)
    certain = {word for line in every for word in line if word not in near}
    gaps = choose_gaps(every, count=count, seed=seed, unless=certain)
    return [Question(gap, (gap.answer, *near[gap.answer])) for gap in gaps]


def accuracy(choose: Chooser, asked: Sequence[Question]) -> float:
    """The share of questions that are answered right."""
    found = zip(choose(asked), asked, strict=True)
    return float(np.mean([word == own.gap.answer for word, own in found]))


def both_sides(field: WordPotentials | TrigramPotentials, vocabulary: Vocabulary) -> Chooser:
    """The word of the highest conditional probability given both sides."""

    @torch.no_grad()
    def choose(asked: Sequence[Question]) -> list[str]:
        chosen = []
        for start in range(0, len(asked), GAPS_AT_A_TIME):
            part = asked[start : start + GAPS_AT_A_TIME]
            before, after = around([own.gap for own in part], field.offsets, vocabulary)
            device = field.unary.device
            scores = field.conditional(before.to(device), after.to(device)).cpu().numpy()
            for own, row in zip(part, scores, strict=True):
                ids = vocabulary.encode(own.choices)
                chosen.append(own.choices[int(row[ids].argmax())])
        return chosen

    return choose


def by_ngrams(model: NgramLanguageModel, *, sentence: bool) -> Chooser:
    """The word by the probability of the whole sentence, or by that of the word after its left."""

    def choose(asked: Sequence[Question]) -> list[str]:
        lines = [own.filled(word) for own in asked for word in own.choices]
        if sentence:
            values = model.score_samples(lines)
        else:
            tokens = model.token_scores(lines).log_probability
            first = np.cumsum([0, *(len(line) + 1 for line in lines)])[:-1]
            places = [own.gap.position for own in asked for _ in own.choices]
            values = tokens[first + places]
        ends = np.cumsum([len(own.choices) for own in asked])[:-1]
        parts = zip(asked, np.split(values, ends), strict=True)
        return [own.choices[int(part.argmax())] for own, part in parts]

    return choose
