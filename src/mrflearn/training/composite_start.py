"""Where training of a composite model starts: batches of text, counts of the rest of the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.document_stream import DocumentStream, EncodedDocument
from mrflearn.features.ngrams import Counts
from mrflearn.io.corpus import Vocabulary
from mrflearn.models.composite_lm import (
    GIVEN,
    PLSA,
    CompositeModel,
    CompositeShape,
    Figures,
    HiddenTokens,
    Level,
    document_counts,
    explain,
    maximise_tables,
    shares_before_each,
)
from mrflearn.models.ngram import NgramLevel, with_blind
from mrflearn.objectives.expected_counts import Batch

# Documents made ready for the composite model: batches of sentences of about one length.


TOKENS_PER_BATCH = 8192


class NgramScores(NamedTuple):
    """What an n-gram model makes of each token of a text; zeros without one."""

    given: Figures  # p(token | words before, preterminal), (tokens, preterminals)
    blind: Figures  # p(token | words before), where a grammar makes ends: among words
    bucket: Counts

    def at(self, places: Counts) -> NgramScores:
        """The same for some tokens."""
        return NgramScores(self.given[places], self.blind[places], self.bucket[places])


def ngram_scores(
    text: DocumentStream, level: NgramLevel | None, tag_of_word: Figures
) -> NgramScores:
    """What an n-gram model, if there is one, makes of each token of a text."""
    size, tags = len(text.stream) - 1, tag_of_word.shape[1]
    if level is None:
        return NgramScores(np.zeros((size, tags)), np.zeros(size), np.zeros(size, np.int64))
    found = level.tagged(text.stream, with_blind(tag_of_word))
    return NgramScores(found[:, :-1], found[:, -1], level.buckets(text.stream))


def batches(
    text: DocumentStream,
    given: NgramScores,
    shape: CompositeShape,
    longest: int | None = None,
    row_of_sentence: Counts | None = None,
) -> Iterator[tuple[Counts, Batch]]:
    """(sentence numbers, batch) for all sentences, the short before the long.

    Sentences of more than `longest` words get no derivation.  `row_of_sentence` is whose topic
    shares a sentence has, by default its document's.
    """
    ends = shape.grammar is None
    owner = text.document if row_of_sentence is None else row_of_sentence
    rows = shape.index.rows(text.stream)
    order = np.argsort(text.length, kind="stable")
    limit = np.inf if longest is None else longest
    for charted in (True, False):
        chosen = order[(text.length[order] <= limit) == charted]
        for sentences in _chunks(chosen, text.length):
            places = text.places(sentences, ends=ends)
            sizes = text.length[sentences] + ends
            here = given.at(places)
            tokens = HiddenTokens(
                torch.from_numpy(rows[:, places]),
                torch.from_numpy(here.bucket),
                torch.from_numpy(np.repeat(owner[sentences], sizes)),
                torch.from_numpy(here.given),
                torch.from_numpy(here.blind),
                torch.from_numpy(sizes),
            )
            yield sentences, Batch(tokens, charted)


def _chunks(sentences: Counts, length: Counts) -> Iterator[Counts]:
    total = np.cumsum(length[sentences])
    if len(sentences):
        yield from np.split(sentences, np.flatnonzero(np.diff(total // TOKENS_PER_BATCH)) + 1)


def encode(
    documents: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary
) -> list[EncodedDocument]:
    """Documents as numbers."""
    return [[vocabulary.encode(words) for words in sentences] for sentences in documents]


# Topic shares for unseen documents under the composite model.


STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)


@torch.no_grad()
def by_topic(
    model: CompositeModel, tokens: HiddenTokens
) -> tuple[Float[Tensor, "t h"], Float[Tensor, " t"]]:
    """What each topic gives each token, and what it has without any: preterminals by their shares.

    Derivations are left aside, since the shares of a sentence need only be a function of the
    words before it.
    """
    kind, device = model.weights.dtype, model.weights.device
    tokens = tokens.to(device, kind)
    topics = torch.ones(len(tokens), model.shape.topics, dtype=kind, device=device)
    explained = explain(model, tokens, topics)
    weighed = explained.weights * model.tags.unsqueeze(1)
    gained = torch.zeros_like(topics)
    otherwise = (weighed[:, :, -GIVEN:] * explained.means[:, :, -GIVEN:]).sum(dim=(1, 2))
    for place, level in enumerate(model.shape.levels):
        used = weighed[:, :, place]
        if level.topic:
            used = used if level.tag else used.sum(dim=1, keepdim=True)
            gained += (used.unsqueeze(2) * explained.values[place]).sum(dim=1)
        else:
            otherwise = otherwise + (used * explained.means[:, :, place]).sum(dim=1)
    return gained, otherwise


@final
@dataclass(frozen=True, eq=False)
class Folded:
    """Topic shares before each sentence and after each document, by number.

    `value` is log p of all words where preterminals are drawn by their shares alone.
    """

    before: Figures
    after: dict[int, Figures]
    value: float


def fold_in(
    model: CompositeModel,
    text: DocumentStream,
    batches: Iterable[tuple[Counts, Batch]],
    prior: Figures,
    strength: float,
) -> Folded:
    """Topic shares of documents, from a prior worth `strength` draws and the words so far."""
    size = len(text.stream) - 1
    gained, otherwise = np.zeros((size, model.shape.topics)), np.ones(size)
    ends = model.shape.grammar is None
    for sentences, batch in batches:
        places = text.places(sentences, ends=ends)
        found = by_topic(model, batch.tokens)
        gained[places], otherwise[places] = (x.cpu().numpy() for x in found)
    shares, after, value = np.empty((len(text), model.shape.topics)), {}, 0.0
    for document, mine in enumerate(text.by_document(0)):
        if not len(mine):
            continue
        places = text.places(mine, ends=ends)
        sizes = text.length[mine] + ends
        own = gained[places], otherwise[places]
        *rows, after[document] = shares_before_each(*own, np.cumsum(sizes), prior, strength)
        shares[mine] = rows
        mixed = (own[0] * np.repeat(shares[mine], sizes, axis=0)).sum(axis=1) + own[1]
        with np.errstate(divide="ignore"):
            value += float(np.log(mixed).sum())
    return Folded(shares, after, value)


def best_strength(
    models: Sequence[CompositeModel],
    texts: Sequence[DocumentStream],
    batches: Sequence[list[tuple[Counts, Batch]]],
    prior: Figures,
) -> tuple[float, list[Figures]]:
    """(the prior's strength that suits texts under their models best, shares before sentences)."""
    if models[0].shape.topics == 1:
        return STRENGTHS[0], [np.ones((len(text), 1)) for text in texts]
    folded = [
        [fold_in(*each, prior, strength) for each in zip(models, texts, batches, strict=True)]
        for strength in STRENGTHS
    ]
    best = int(np.argmax([sum(each.value for each in found) for found in folded]))
    return STRENGTHS[best], [each.before for each in folded[best]]


# Where EM begins for the composite model: topics from PLSA, preterminals from a guess by word.


PLSA_STEPS = 30
MOST_DOCUMENTS = 0.5  # the share of documents above which a word is no sign of a topic
UNIFORM = 0.1  # how much of another level's weight the uniform distribution begins with
OTHER_TAGS = 0.1  # times that a word is taken to have been seen with tags in their common shares


@final
@dataclass(frozen=True, eq=False)
class GrammarStart:
    """Logs of rules and of start symbols, and how likely each word has each preterminal."""

    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    tag_of_word: Float[Tensor, "w a"]


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


def start_topics(text: DocumentStream, shape: CompositeShape, documents: int, seed: int) -> PLSA:
    """PLSA of the words that levels have to explain, after a few steps of EM.

    Words found in most documents tell topics apart least and would drown the others: they are
    left aside here, and begin with no topic in particular.
    """
    ends = shape.grammar is None
    mine = text.by_document(documents)
    words = [text.stream[1:][text.places(sentences, ends=ends)] for sentences in mine]
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
    shape: CompositeShape,
    train: Sequence[Batch],
    topics: PLSA,
    grammar: GrammarStart,
    given: bool,
) -> CompositeModel:
    """Relative frequencies in every level, hidden things guessed from the word and the document.

    Every level that has something to say begins with the same weight.
    """
    counts = tuple(torch.zeros(shape.table_shape(l), dtype=torch.float64) for l in shape.levels)
    tags = torch.zeros(shape.tags, dtype=torch.float64)
    by_word, by_document = torch.from_numpy(topics.words), torch.from_numpy(topics.documents)
    for batch in train:
        words = batch.tokens.rows[0]
        tag = grammar.tag_of_word[words]
        topic = by_word[words] * by_document[batch.tokens.document]
        total = topic.sum(dim=1, keepdim=True)
        topic = torch.where(total > 0, topic / total, 1 / shape.topics)
        tags += tag.sum(dim=0)
        for level, table in zip(shape.levels, counts, strict=True):
            _count(level, table, batch.tokens, tag, topic)
    tables = maximise_tables(shape, counts, _fallbacks(shape, counts))
    weights = _equal_weights(shape, given)
    return CompositeModel(shape, tables, weights, tags / tags.sum(), grammar.rules, grammar.start)


def _count(
    level: Level,
    table: Float[Tensor, "k a h"],
    tokens: HiddenTokens,
    tag: Float[Tensor, "t a"],
    topic: Float[Tensor, "t h"],
) -> None:
    """Adds tokens to the counts of a level, in place."""
    one = tag.new_ones(len(tag), 1)
    used = (tag if level.tag else one).unsqueeze(2) * (topic if level.topic else one).unsqueeze(1)
    table.index_add_(0, tokens.rows[level.words], used)


def _fallbacks(
    shape: CompositeShape, counts: tuple[Float[Tensor, "k a h"], ...]
) -> tuple[Float[Tensor, "k a h"], ...]:
    """What stands where a preterminal or topic was not seen: frequencies without regard to them.

    The rows at the end are for n-grams not seen (nothing) and contexts not seen (all words alike).
    """
    plain = tuple(table.sum(dim=(1, 2), keepdim=True) for table in counts)
    even = []
    for level, table in zip(shape.levels, plain, strict=True):
        context, contexts = shape.index.contexts(level.words + 1)
        followers = np.bincount(context, minlength=contexts)[context]
        filled = torch.zeros_like(table)
        filled[: len(context), 0, 0] = torch.from_numpy(1 / np.maximum(followers, 1))
        filled[-1] = 1 / shape.symbols
        even.append(filled)
    found = maximise_tables(shape, plain, tuple(even))
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
