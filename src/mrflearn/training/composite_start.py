"""Where EM starts for a composite model: a grammar, topics by PLSA, and tables of counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.treebank import TreebankCounts
from mrflearn.io.corpus import Vocabulary
from mrflearn.io.ptb import read_trees
from mrflearn.io.trees import Tree
from mrflearn.kernels.rules import RuleShape
from mrflearn.models.composite_lm import CompositeModel, CompositeShape, TokenBatch, maximise_tables
from mrflearn.models.topics import PLSA, document_counts

# The grammar: none, random, or read off a treebank.


GrammarLike: TypeAlias = str | tuple[int, int] | Iterable[Tree] | None
NEW_ROOT = 1e-3  # sentences that a symbol never seen at the root is taken to have begun
GOES_ON = 0.45  # the probability that a child is a phrase: derivations end, and are not too short
ONE_WORD = 0.05  # the probability that a sentence is a single preterminal
OTHER_TAGS = 0.1  # times that a word is taken to have been seen with tags in their common shares


class GrammarStart(NamedTuple):
    """Logs of rules and of start symbols, and how likely each word has each preterminal."""

    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    tag_of_word: Float[Tensor, "w a"]


class GrammarChoice(NamedTuple):
    """Wiring, places to start EM from, and names of symbols."""

    wiring: RuleShape | None
    starts: list[GrammarStart]
    names: tuple[str, ...]


def choose_grammar(
    grammar: GrammarLike, vocabulary: Vocabulary, horizontal: int | None, restarts: int, seed: int
) -> GrammarChoice:
    """What `grammar=` stands for; `horizontal` is for treebanks, the last two for latent ones."""
    if grammar is None:
        nothing = torch.zeros(0, dtype=torch.float64)
        every = torch.ones(len(vocabulary), 1, dtype=torch.float64)
        return GrammarChoice(None, [GrammarStart(nothing, nothing, every)], ())
    if isinstance(grammar, tuple) and len(grammar) == 2 and isinstance(grammar[0], int):
        grammar = f"latent:{grammar[0]},{grammar[1]}"
    if not isinstance(grammar, str):
        return _from_trees(grammar, vocabulary, horizontal)
    if re.match("treebank:.", grammar):
        return _from_trees(read_trees(grammar.removeprefix("treebank:")), vocabulary, horizontal)
    sizes = re.fullmatch(r"latent:\s*0*([1-9]\d*)\s*,\s*0*([1-9]\d*)\s*", grammar)
    if sizes is None:
        raise SettingsError(
            f"grammar {grammar!r} is not known; try latent:10,20 (two numbers, phrases and "
            "preterminals, each 1 or more), treebank:FILE, or None."
        )
    return _latent(RuleShape.full(int(sizes[1]), int(sizes[2])), len(vocabulary), restarts, seed)


def _latent(wiring: RuleShape, words: int, restarts: int, seed: int) -> GrammarChoice:
    """A grammar with every rule there can be, at random probabilities."""
    tags, symbols = wiring.preterminals, wiring.symbols
    names = (*(f"X{k}" for k in range(wiring.phrases)), *(f"T{k}" for k in range(tags)))
    child, root = _spread(wiring, GOES_ON, 1 - GOES_ON), _spread(wiring, 1 - ONE_WORD, ONE_WORD)
    starts = []
    for number in range(restarts):
        generator = torch.Generator().manual_seed(seed + 1000 * number)
        noise = _noise((wiring.phrases, symbols, symbols), generator)
        rules = child[:, None] * child * noise
        start = root * _noise((symbols,), generator)
        guess = torch.empty(words, tags, dtype=torch.float64).exponential_(generator=generator)
        logs = (rules / rules.sum(dim=(1, 2), keepdim=True)).reshape(-1).log()
        shares = guess / guess.sum(dim=1, keepdim=True)
        starts.append(GrammarStart(logs, (start / start.sum()).log(), shares))
    return GrammarChoice(wiring, starts, names)


def _spread(wiring: RuleShape, *shares: float) -> Float[Tensor, " s"]:
    """Uniform probabilities of phrases, and of preterminals, which have these shares together."""
    sizes = torch.tensor([wiring.phrases, wiring.preterminals])
    return (torch.tensor(shares, dtype=torch.float64) / sizes).repeat_interleave(sizes)


def _noise(shape: tuple[int, ...], generator: torch.Generator) -> Float[Tensor, " ..."]:
    """Factors that break symmetry and leave no rule out of reach."""
    return torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5


def _from_trees(
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
    return GrammarChoice(counts.shape, [start], counts.phrases + counts.preterminals)


def tag_shares_of_words(
    counts: Float[Tensor, "w a"], separator: int | None
) -> Float[Tensor, "w a"]:
    """How likely each word has each preterminal; nothing is ruled out, as texts are small.

    The separator, if one is named, is made by the grammar and has no preterminal at all.
    """
    common = counts.sum(dim=0) + 1e-9
    raised = counts + OTHER_TAGS * common / common.sum()
    shares = raised / raised.sum(dim=1, keepdim=True)
    if separator is not None:
        shares[separator] = 0
    return shares


# Topics from PLSA, and tables: preterminals by a guess from the word.


PLSA_STEPS = 30
MOST_DOCUMENTS = 0.5  # the share of documents above which a word is no sign of a topic
UNIFORM = 0.1  # how much of another level's weight the uniform distribution begins with


def start_topics(text: DocumentStream, shape: CompositeShape, documents: int, seed: int) -> PLSA:
    """PLSA of the words that levels have to explain, after a few steps of EM.

    Words found in most documents tell topics apart least and would drown the others: they are
    left aside here, and begin with no topic in particular.
    """
    mine = text.by_document(documents)
    words = [text.stream[1:][text.places(sentences, ends=shape.ends)] for sentences in mine]
    counts = document_counts(words, shape.index.states)
    spread = np.bincount(counts.indices, minlength=shape.index.states)
    common = spread > MOST_DOCUMENTS * documents
    rare = counts.copy()
    rare.data = rare.data * ~common[rare.indices]
    rare.eliminate_zeros()
    topics = PLSA.random(documents, shape.index.states, shape.topics, seed)
    for _ in range(PLSA_STEPS if shape.topics > 1 else 1):
        _, topics = topics.step(rare)
    return PLSA(np.where(common[:, None], 1.0, topics.words), topics.documents)


def start_model(
    shape: CompositeShape, train: list[TokenBatch], topics: PLSA, grammar: GrammarStart, given: bool
) -> CompositeModel:
    """Relative frequencies in every level, hidden things guessed from the word and the document.

    Every level that has something to say begins with the same weight.
    """
    counts = tuple(torch.zeros(shape.table_shape(l), dtype=torch.float64) for l in shape.levels)
    tags = torch.zeros(shape.tags, dtype=torch.float64)
    by_word, by_document = torch.from_numpy(topics.words), torch.from_numpy(topics.documents)
    for batch in train:
        words = batch.rows[0]
        tag = grammar.tag_of_word[words]
        topic = by_word[words] * by_document[batch.document]
        total = topic.sum(dim=1, keepdim=True)
        topic = torch.where(total > 0, topic / total, 1 / shape.topics)
        tags += tag.sum(dim=0)
        one = tag.new_ones(len(tag), 1)
        for level, table in zip(shape.levels, counts, strict=True):
            seen = tag if level.tag else one, topic if level.topic else one
            used = seen[0].unsqueeze(2) * seen[1].unsqueeze(1)
            table.index_add_(0, batch.rows[level.words], used)
    tables = maximise_tables(shape, counts, _fallbacks(shape, counts))
    weights = _equal_weights(shape, given)
    return CompositeModel(shape, tables, weights, tags / tags.sum(), grammar.rules, grammar.start)


def _fallbacks(shape: CompositeShape, counts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What stands where a preterminal or topic was not seen: frequencies without regard to them.

    The rows at the end are for n-grams not seen (nothing) and contexts not seen (all words equal).
    """
    plain = tuple(table.sum(dim=(1, 2), keepdim=True) for table in counts)
    last = tuple(map(torch.zeros_like, plain))
    for table in last:
        table[-1] = 1 / shape.symbols
    found = maximise_tables(shape, plain, last)
    return tuple(one.expand(own.shape) for one, own in zip(found, counts, strict=True))


def _equal_weights(shape: CompositeShape, given: bool) -> Float[Tensor, "b a l"]:
    """The same for every level that can differ from the others.

    With one preterminal there is nothing to be blind to, and an n-gram model alone is just itself.
    """
    shown = [True] * len(shape.levels)
    shown += [given, given and shape.tags > 1, bool(shape.levels) or not given]
    begun = torch.tensor(shown, dtype=torch.float64)
    begun[-1] *= UNIFORM if begun[:-1].any() else 1
    weights = begun.repeat(shape.buckets, shape.tags, 1)
    return weights / weights.sum(dim=2, keepdim=True)
