"""Modified Kneser-Ney word for word from its definitions, with dictionaries and recursion."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

Gram = tuple[str, ...]


class SlowKneserNey:
    """Probabilities by recursion; `S` begins and ends sentences; discounts are given."""

    def __init__(self, sentences: Sequence[Sequence[str]], order: int, words: Sequence[str]):
        self.order, self.words = order, words
        occurrences: list[Counter[Gram]] = [Counter() for _ in range(order)]
        for sentence in sentences:
            padded = ("<S>", *sentence, "<S>")
            for n in range(1, order + 1):
                for i in range(len(padded) - n + 1):
                    if n > 1 or i > 0:
                        occurrences[n - 1][padded[i : i + n]] += 1
        self.occurrences = occurrences
        self.adjusted = [self._adjusted(n) for n in range(1, order + 1)]
        self.discounts = [self._discounts(Counter(a.values())) for a in self.adjusted]
        self.after: dict[Gram, list[str]] = defaultdict(list)
        for grams in self.adjusted:
            for gram in grams:
                self.after[gram[:-1]].append(gram[-1])

    def _adjusted(self, n: int) -> Counter[Gram]:
        if n == self.order:
            return self.occurrences[n - 1]
        before: Counter[Gram] = Counter(gram[1:] for gram in self.occurrences[n])
        for gram, count in self.occurrences[n - 1].items():
            if n > 1 and gram[0] == "<S>":
                before[gram] = count
        return before

    @staticmethod
    def _discounts(of: Counter[int]) -> list[float]:
        fallback = [0.0, 0.5, 1.0, 1.5]
        if not (of[1] and of[2] and of[3]):
            return fallback
        y = of[1] / (of[1] + 2 * of[2])
        found = [0.0, *(k - (k + 1) * y * of[k + 1] / of[k] for k in (1, 2, 3))]
        return found if all(0 < found[k] <= k for k in (1, 2, 3)) else fallback

    def probability(self, word: str, context: Gram) -> float:
        """p(word | context), the context cut to the order."""
        context = context[max(0, len(context) - self.order + 1) :]
        n = len(context) + 1
        lower = 1 / len(self.words) if n == 1 else self.probability(word, context[1:])
        followers = self.after.get(context)
        if not followers:
            return lower
        adjusted, cuts = self.adjusted[n - 1], self.discounts[n - 1]
        total = sum(adjusted[(*context, w)] for w in followers)
        share = sum(cuts[min(adjusted[(*context, w)], 3)] for w in followers) / total
        own = adjusted[(*context, word)]
        return (own - cuts[min(own, 3)]) / total + share * lower
