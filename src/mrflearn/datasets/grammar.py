"""A probabilistic context-free grammar as a plain record, and what follows from it in closed form.

Expected counts solve one linear system: with M[A, B] the mean number of Bs that one A is rewritten
to, the counts in a whole derivation are (I + M + M^2 + ...) of the start symbol's row, which exist
when the spectral radius of M is below 1.  Then every derivation ends (the grammar is consistent),
and the entropy of a derivation is the sum over symbols of count times entropy of the choice made
there [Grenander 1976; Chi 1999, "Statistical properties of probabilistic context-free grammars"].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError


@dataclass(frozen=True, slots=True)
class Rule:
    """`left` is rewritten as `right`, at least one symbol, with this probability."""

    left: str
    right: tuple[str, ...]
    probability: float

    def __str__(self) -> str:
        return f"{self.left} -> {' '.join(self.right)}"


@dataclass(frozen=True)
class Grammar:
    """A start symbol and rules; symbols that are never on the left are the terminals."""

    start: str
    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        for rule in self.rules:
            if not rule.right or not 0 < rule.probability <= 1:
                raise DataError(
                    f"rule '{rule}' with probability {rule.probability}: the right side must not "
                    "be empty and the probability must lie above 0 and not above 1."
                )
        for left, rules in self.rules_of.items():
            total = math.fsum(rule.probability for rule in rules)
            if abs(total - 1) > 1e-9:
                raise DataError(f"the rules of '{left}' have total probability {total}, not 1.")
        if self.start not in self.rules_of:
            raise DataError(f"the start symbol '{self.start}' is on the left of no rule.")

    @cached_property
    def rules_of(self) -> dict[str, tuple[Rule, ...]]:
        """The rules of each nonterminal, in the order of the grammar."""
        grouped: dict[str, list[Rule]] = {}
        for rule in self.rules:
            grouped.setdefault(rule.left, []).append(rule)
        return {left: tuple(rules) for left, rules in grouped.items()}

    @cached_property
    def nonterminals(self) -> tuple[str, ...]:
        return tuple(self.rules_of)

    @cached_property
    def terminals(self) -> tuple[str, ...]:
        """The terminals in the order in which the rules mention them."""
        mentioned = dict.fromkeys(symbol for rule in self.rules for symbol in rule.right)
        return tuple(symbol for symbol in mentioned if symbol not in self.rules_of)

    @cached_property
    def mean_matrix(self) -> NDArray[np.float64]:
        """M[A, B]: the mean number of Bs that one A is rewritten to; terminals are last."""
        column = {symbol: i for i, symbol in enumerate(self.nonterminals + self.terminals)}
        means = np.zeros((len(self.nonterminals), len(column)))
        for rule in self.rules:
            for symbol in rule.right:
                means[column[rule.left], column[symbol]] += rule.probability
        return means

    @cached_property
    def spectral_radius(self) -> float:
        """Below 1 if and only if derivations have a finite mean size."""
        among_nonterminals = self.mean_matrix[:, : len(self.nonterminals)]
        return float(np.abs(np.linalg.eigvals(among_nonterminals)).max())

    @cached_property
    def expected_counts(self) -> dict[str, float]:
        """How often each symbol, terminals too, occurs in a derivation on average."""
        if self.spectral_radius >= 1:
            raise DataError(
                f"derivations have no finite mean size (spectral radius {self.spectral_radius:.3f}"
                ", must be below 1); give recursive rules less probability."
            )
        inner = len(self.nonterminals)
        start = np.zeros(inner)
        start[self.nonterminals.index(self.start)] = 1
        # counts = start + counts M
        counts = np.linalg.solve(np.eye(inner) - self.mean_matrix[:, :inner].T, start)
        every = np.concatenate((counts, counts @ self.mean_matrix[:, inner:]))
        return dict(zip(self.nonterminals + self.terminals, every.tolist(), strict=True))

    @cached_property
    def expected_length(self) -> float:
        """The mean number of terminals in a derivation."""
        return math.fsum(self.expected_counts[symbol] for symbol in self.terminals)

    def entropy(self, terminal_entropy: Mapping[str, float] | None = None) -> float:
        """The entropy of a derivation, in nats.

        `terminal_entropy` adds, for each terminal, the entropy of what is drawn there.
        """
        counts = self.expected_counts
        choices = (
            -counts[rule.left] * rule.probability * math.log(rule.probability)
            for rule in self.rules
        )
        drawn = (
            counts[symbol] * entropy
            for symbol, entropy in (terminal_entropy or {}).items()
            if symbol in counts
        )
        return math.fsum(choices) + math.fsum(drawn)
