"""A hidden Markov tagger by its definitions, in plain dictionaries; all sequences are listed."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence

EDGE = None


def kind(word: str) -> str:
    if re.search(r"\d", word):
        return "digits"
    if word[:1].isupper():
        return "capitals" if len(word) > 1 and word.isupper() else "capital"
    return "hyphen" if "-" in word else "small"


def ladder(word: str, longest: int) -> list[tuple[str, str]]:
    form = re.sub(r"\d", "0", word)
    ends = [form[-n:] if n else "" for n in range(min(longest, len(form)) + 1)]
    return [("all", ""), *((kind(word), end) for end in ends)]


class SlowHMM:
    """The same settings as `models.hmm.HMM`, without a beam."""

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        tags: Sequence[Sequence[str]],
        *,
        order: int,
        suffixes: bool,
        rare: int,
        longest: int,
    ) -> None:
        self.order, self.suffixes, self.longest = order, suffixes, longest
        self.words, self.tags = Counter(), Counter()
        self.pairs, self.placed, self.behind = Counter(), Counter(), Counter()
        self.grams: list[Counter] = [Counter() for _ in range(3)]
        self.contexts: list[Counter] = [Counter() for _ in range(3)]
        for words, own in zip(sentences, tags, strict=True):
            line = [EDGE, EDGE, *own, EDGE]
            for i in range(2, len(line)) if own else ():
                for n in range(3):
                    self.grams[n][tuple(line[i - n : i + 1])] += 1
                    self.contexts[n][tuple(line[i - n : i])] += 1
            for i, (word, tag) in enumerate(zip(words, own, strict=True)):
                self.words[word] += 1
                self.tags[tag] += 1
                self.pairs[word, tag] += 1
                self.placed[line[i + 1], tag, word] += 1
                self.behind[line[i + 1], tag] += 1
        limit = max(rare, min(self.words.values()))
        self.rare = {word for word, times in self.words.items() if times <= limit}
        self.endings: Counter = Counter()
        for word, tag in self.pairs:
            if word in self.rare:
                self.endings.update((end, tag) for end in ladder(word, longest))
        self.weights = self._weights()
        self.left = self._left()

    def _weights(self) -> list[float]:
        votes = [1.0] * (self.order + 1)
        for gram, times in self.grams[2].items():
            shares = []
            for n in range(self.order + 1):
                own = gram[2 - n :]
                below = self.contexts[n][own[:-1]] - 1
                shares.append((self.grams[n][own] - 1) / below if below else 0.0)
            best = [n for n, share in enumerate(shares) if share == max(shares)]
            for n in best:
                votes[n] += times / len(best)
        return [vote / sum(votes) for vote in votes]

    def _left(self) -> float:
        votes = 1.0
        for (before, tag, word), times in self.placed.items():
            below = self.behind[before, tag] - 1
            ours = (times - 1) / below if below else 0.0
            below = self.tags[tag] - 1
            theirs = (self.pairs[word, tag] - 1) / below if below else 0.0
            votes += times * (1.0 if theirs > ours else 0.5 if theirs == ours else 0.0)
        return votes / (self.words.total() + 2)

    def transition(self, first: str | None, second: str | None, third: str | None) -> float:
        gram, chance, weight = (first, second, third), 0.0, 0.0
        for n in range(self.order + 1):
            own = gram[2 - n :]
            if self.contexts[n][own[:-1]]:
                weight += self.weights[n]
                chance += self.weights[n] * self.grams[n][own] / self.contexts[n][own[:-1]]
        return chance / weight

    def guess(self, word: str, tag: str, strength: float = 6.0) -> float:
        """P(tag | ending)."""
        chance, trust = 0.0, 0.0
        for end in ladder(word, self.longest):
            total = sum(self.endings[end, other] for other in self.tags)
            if not total:
                break
            chance = (self.endings[end, tag] + trust * chance) / (total + trust)
            trust = strength
        return chance

    def alone(self, word: str, tag: str) -> float:
        """P(word | tag), but for a factor of each new word."""
        times = self.words[word]
        if self.suffixes:
            guess = self.guess(word, tag)
            if not times:
                return guess / self.tags[tag]
            return (self.pairs[word, tag] + guess) / (times + 1) * times / self.tags[tag]
        if times:
            return self.pairs[word, tag] / self.tags[tag]
        rare = sum(self.pairs[other, tag] for other in self.rare)
        return rare / sum(self.words[other] for other in self.rare) / self.tags[tag]

    def emission(self, before: str | None, tag: str, word: str) -> float:
        alone = self.alone(word, tag)
        if self.order == 1:
            return alone
        times = self.placed[before, tag, word]
        counted = times / self.behind[before, tag] if times else 0.0
        return (1 - self.left) * counted + self.left * alone

    def joint(self, words: Sequence[str], tags: Sequence[str]) -> float:
        line, chance = [EDGE, EDGE, *tags, EDGE], 1.0
        for i, word in enumerate(words):
            own = word
            if not i and word not in self.words and word.lower() in self.words:
                own = word.lower()
            chance *= self.transition(*line[i : i + 3])
            chance *= self.emission(line[i + 1], line[i + 2], own)
        return chance * self.transition(*line[-3:])

    def every(self, words: Sequence[str]) -> dict[tuple[str, ...], float]:
        """The probability of each tag sequence that is possible."""
        found = {
            tags: self.joint(words, tags)
            for tags in itertools.product(self.tags, repeat=len(words))
        }
        total = math.fsum(found.values())
        return {tags: chance / total for tags, chance in found.items() if chance > 0}
