"""The grammar a composite model begins with: none, random, or read off a treebank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.data.binarisation import binarise, collapse_unaries
from mrflearn.data.trees import Tree, remove_traces, strip_functions
from mrflearn.data.vocabulary import Vocabulary
from mrflearn.errors import DataError, MrflearnError
from mrflearn.kernels.rule_shape import RuleShape
from mrflearn.training.composite_start import GrammarStart, tag_shares_of_words

GrammarLike: TypeAlias = str | tuple[int, int] | Iterable[Tree] | None
Child: TypeAlias = tuple[str, bool]  # a label, and whether a word is right below it
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
    grammar: GrammarLike, vocabulary: Vocabulary, restarts: int, seed: int
) -> GrammarChoice:
    """What `grammar=` stands for."""
    if grammar is None or grammar == "none":
        nothing = torch.zeros(0, dtype=torch.float64)
        every = torch.ones(len(vocabulary), 1, dtype=torch.float64)
        return GrammarChoice(None, [GrammarStart(nothing, nothing, every)], (), False)
    if isinstance(grammar, str):
        kind, _, rest = grammar.partition(":")
        if kind == "latent":
            return latent(*_two_numbers(rest, grammar), vocabulary, restarts, seed)
        if kind == "treebank" and rest:
            from mrflearn.data.ptb import read_trees

            return from_trees(read_trees(rest), vocabulary)
        raise MrflearnError(
            f"grammar {grammar!r} is not known; try latent:10,20 (phrases, preterminals), "
            "treebank:FILE, or none."
        )
    if isinstance(grammar, tuple) and len(grammar) == 2 and isinstance(grammar[0], int):
        return latent(
            *_two_numbers(",".join(map(str, grammar)), grammar), vocabulary, restarts, seed
        )
    return from_trees(grammar, vocabulary)


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


def from_trees(trees: Iterable[Tree], vocabulary: Vocabulary) -> GrammarChoice:
    """The grammar of a treebank: its rules, relative frequencies, and the tags of its words.

    Traces and grammatical functions are dropped, chains of only children are made one node, and
    nodes of many children are split, the new ones remembering one sister.
    """
    rules: Counter[tuple[str, Child, Child]] = Counter()
    roots: Counter[Child] = Counter()
    tags: Counter[tuple[str, str]] = Counter()
    for tree in trees:
        plain = remove_traces(tree)
        if plain is None:
            continue
        binary = binarise(collapse_unaries(strip_functions(plain)), horizontal=1)
        roots[_child(binary)] += 1
        for node in binary.nodes():
            if node.word is not None:
                tags[node.label, node.word] += 1
            else:
                rules[node.label, _child(node.children[0]), _child(node.children[1])] += 1
    if not rules:
        raise DataError("the treebank has no tree of two words or more; it makes no grammar.")
    phrases = sorted({parent for parent, _, _ in rules})
    preterminals = sorted({tag for tag, _ in tags})
    number = {(name, False): k for k, name in enumerate(phrases)}
    number |= {(name, True): k for k, name in enumerate(preterminals, start=len(phrases))}
    listed = sorted(
        (number[parent, False], number[left], number[right], times)
        for (parent, left, right), times in rules.items()
    )
    parent, left, right, times = (torch.tensor(column) for column in zip(*listed, strict=True))
    wiring = RuleShape(len(phrases), len(preterminals), parent, left, right)
    total = torch.zeros(len(phrases), dtype=torch.float64).index_add_(0, parent, times.double())
    first = torch.full((wiring.symbols,), NEW_ROOT, dtype=torch.float64)
    for child, often in roots.items():
        first[number[child]] += often
    guess = _tag_of_word(tags, preterminals, vocabulary)
    logs = ((times / total[parent]).log(), (first / first.sum()).log())
    return GrammarChoice(
        wiring, [GrammarStart(*logs, guess)], (*phrases, *preterminals), binarised=True
    )


def _child(tree: Tree) -> Child:
    return tree.label, tree.word is not None


def _tag_of_word(
    tags: Counter[tuple[str, str]], preterminals: list[str], vocabulary: Vocabulary
) -> Float[Tensor, "w a"]:
    """How likely each word has each preterminal."""
    counts = torch.zeros(len(vocabulary), len(preterminals), dtype=torch.float64)
    place = {tag: k for k, tag in enumerate(preterminals)}
    ids = vocabulary.encode(word for _, word in tags).tolist()
    for word, ((tag, _), times) in zip(ids, tags.items(), strict=True):
        counts[word, place[tag]] += times
    return tag_shares_of_words(counts, None)


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


def _noise(shape: tuple[int, ...], generator: torch.Generator) -> Float[Tensor, "..."]:
    """Factors that break symmetry and leave no rule out of reach."""
    return torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5


def _two_numbers(text: str, given: object) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise MrflearnError(
            f"grammar {given!r}: a latent grammar has two numbers, phrases and preterminals, each "
            "1 or more, as in latent:10,20."
        )
    return int(parts[0]), int(parts[1])
