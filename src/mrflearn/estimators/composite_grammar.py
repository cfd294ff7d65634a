"""The grammar a composite model begins with: none, random, or read off a treebank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.features.treebank import TreebankCounts
from mrflearn.io.corpus import Vocabulary
from mrflearn.io.trees import Tree
from mrflearn.kernels.rules import RuleShape
from mrflearn.training.composite_start import GrammarStart, tag_shares_of_words

GrammarLike: TypeAlias = str | tuple[int, int] | Iterable[Tree] | None
NEW_ROOT = 1e-3  # sentences that a symbol never seen at the root is taken to have begun
GOES_ON = 0.45  # the chance that a child is a phrase: derivations end, and are not too short
ONE_WORD = 0.05  # the chance that a sentence is a single preterminal


@final
@dataclass(frozen=True, eq=False)
class GrammarChoice:
    """Wiring, places to start EM from, names of symbols, and whether trees were binarised."""

    wiring: RuleShape | None
    starts: list[GrammarStart]
    names: tuple[str, ...]
    binarised: bool


def choose_grammar(
    grammar: GrammarLike, vocabulary: Vocabulary, horizontal: int | None, restarts: int, seed: int
) -> GrammarChoice:
    """What `grammar=` stands for; `horizontal` is for treebanks, the last two for latent ones."""
    if grammar is None:
        nothing = torch.zeros(0, dtype=torch.float64)
        every = torch.ones(len(vocabulary), 1, dtype=torch.float64)
        return GrammarChoice(None, [GrammarStart(nothing, nothing, every)], (), False)
    if isinstance(grammar, str):
        kind, _, rest = grammar.partition(":")
        if kind == "latent":
            return latent(*_two_numbers(rest, grammar), vocabulary, restarts, seed)
        if kind == "treebank" and rest:
            from mrflearn.io.ptb import read_trees

            return from_trees(read_trees(rest), vocabulary, horizontal)
        raise SettingsError(
            f"grammar {grammar!r} is not known; try latent:10,20 (phrases, preterminals), "
            "treebank:FILE, or None."
        )
    if isinstance(grammar, tuple) and len(grammar) == 2 and isinstance(grammar[0], int):
        return latent(
            *_two_numbers(",".join(map(str, grammar)), grammar), vocabulary, restarts, seed
        )
    return from_trees(grammar, vocabulary, horizontal)


def latent(
    phrases: int, preterminals: int, vocabulary: Vocabulary, restarts: int, seed: int
) -> GrammarChoice:
    """A grammar with every rule there can be, at random probabilities."""
    wiring = RuleShape.full(phrases, preterminals)
    names = (*(f"X{k}" for k in range(phrases)), *(f"T{k}" for k in range(preterminals)))
    starts = []
    for number in range(restarts):
        generator = torch.Generator().manual_seed(seed + 1000 * number)
        starts.append(_random_start(wiring, len(vocabulary), generator))
    return GrammarChoice(wiring, starts, names, binarised=False)


def from_trees(
    trees: Iterable[Tree], vocabulary: Vocabulary, horizontal: int | None
) -> GrammarChoice:
    """The grammar of a treebank: its rules, relative frequencies, and the tags of its words.

    Traces and grammatical functions are dropped, chains of only children are made one node, and
    nodes of many children are split, the new ones remembering `horizontal` sisters.
    """
    counts = TreebankCounts.of(trees, horizontal=horizontal)
    if not counts.rules:
        raise DataError("the treebank has no tree of two words or more; it makes no grammar.")
    roots = counts.root_counts() + NEW_ROOT
    guess = tag_shares_of_words(counts.word_tags(vocabulary), None)
    start = GrammarStart(counts.log_rules(), (roots / roots.sum()).log(), guess)
    names = counts.phrases + counts.preterminals
    return GrammarChoice(counts.shape, [start], names, binarised=True)


def _random_start(wiring: RuleShape, words: int, generator: torch.Generator) -> GrammarStart:
    phrases, tags = wiring.phrases, wiring.preterminals
    child = torch.cat(
        [
            torch.full((phrases,), GOES_ON / phrases, dtype=torch.float64),
            torch.full((tags,), (1 - GOES_ON) / tags, dtype=torch.float64),
        ]
    )
    rules = child[:, None] * child * _noise((phrases, wiring.symbols, wiring.symbols), generator)
    rules = rules / rules.sum(dim=(1, 2), keepdim=True)
    start = torch.full((wiring.symbols,), ONE_WORD / tags, dtype=torch.float64)
    start[:phrases] = (1 - ONE_WORD) / phrases
    start = start * _noise((wiring.symbols,), generator)
    guess = torch.empty(words, tags, dtype=torch.float64).exponential_(generator=generator)
    logs = (rules.reshape(-1).log(), (start / start.sum()).log())
    return GrammarStart(*logs, guess / guess.sum(dim=1, keepdim=True))


def _noise(shape: tuple[int, ...], generator: torch.Generator) -> Float[Tensor, " ..."]:
    """Factors that break symmetry and leave no rule out of reach."""
    return torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5


def _two_numbers(text: str, given: object) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise SettingsError(
            f"grammar {given!r}: a latent grammar has two numbers, phrases and preterminals, each "
            "1 or more, as in latent:10,20."
        )
    return int(parts[0]), int(parts[1])
