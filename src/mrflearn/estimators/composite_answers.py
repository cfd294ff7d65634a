"""What a composite language model answers: scores, parses, topics, samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts
from mrflearn.features.treebank import usual_form
from mrflearn.inference.charts import Prefix
from mrflearn.inference.parses import Parse, best_parses
from mrflearn.io.corpus import Document, Vocabulary
from mrflearn.io.trees import PART, Tree
from mrflearn.models.composite_lm import CompositeModel, Figures, HiddenTokens, explain
from mrflearn.models.ngram import END, draw, with_blind
from mrflearn.models.pcfg import DerivationSampler
from mrflearn.objectives.expected_counts import Batch, sentence_log_likelihoods
from mrflearn.training.composite import CompositeFit
from mrflearn.training.composite_start import Folded, batches, encode, fold_in, ngram_scores

# What a trained composite model answers: scores, parses, continuations, topics, new documents.


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """A trained model with its words and the names of its symbols."""

    fit: CompositeFit
    vocabulary: Vocabulary
    names: tuple[str, ...]
    binarised: bool  # whether trees of this grammar are to be undone

    @property
    def model(self) -> CompositeModel:
        return self.fit.model

    @property
    def grammar(self) -> bool:
        return self.model.shape.grammar is not None

    def score_sentences(self, documents: Sequence[Document]) -> Figures:
        """log p of each sentence after those before it in its document."""
        text, ready = self.ready(documents)
        if not len(text):
            raise DataError("there is nothing to score: no words. Is the file empty?")
        shares = torch.from_numpy(self._fold(text, ready).before).to(self.model.weights)
        values = np.empty(len(text))
        for sentences, batch in ready:
            values[sentences] = sentence_log_likelihoods(self.model, batch, shares).cpu().numpy()
        return values

    def document_topics(self, documents: Sequence[Document]) -> Figures:
        """The topic shares of each document after its last sentence; the prior's if it is empty."""
        text, ready = self.ready(documents)
        after = self._fold(text, ready).after if len(text) else {}
        return np.stack([after.get(d, self.fit.prior) for d in range(len(documents))])

    def topics_before(self, documents: Sequence[Document]) -> Figures:
        """The topic shares before each sentence that has words."""
        text, ready = self.ready(documents)
        return self._fold(text, ready).before if len(text) else self.fit.prior[None]

    def next_word(
        self, words: Sequence[str], n: int, document: Document
    ) -> list[tuple[str, float]]:
        """The most probable continuations, by prefix probability where there is a grammar."""
        model, wiring = self.model, self.model.shape.grammar
        ids = self.vocabulary.encode(words).tolist()
        shares = self.document_topics([document])[0]
        figures = self.emission(ids, shares)
        if wiring is None:
            chances = figures[:, 0]
        else:
            scores = torch.zeros(0, wiring.preterminals, dtype=torch.float64)
            if ids:
                _, ((_, batch),) = self.ready([[words]])
                topics = torch.from_numpy(shares).to(model.weights).unsqueeze(0)
                scores = self.scores(batch, topics).double().cpu()
            logs = (model.rules.double().cpu(), model.start.double().cpu())
            found = Prefix.of(*logs, wiring.to(torch.device("cpu")))(scores.log())
            chances = figures @ found.follows[-1].exp().numpy()
            chances[self.vocabulary.separator] = float(found.ends[-1].exp())
        best = np.argsort(-chances, kind="stable")[:n].tolist()
        return [(self.name(word), float(chances[word])) for word in best]

    def topic_words(self, n: int) -> list[list[tuple[str, float]]]:
        """The words that tell each topic best from the others, with p(word | topic)."""
        model, size = self.model, len(self.vocabulary)
        mixed = torch.zeros(size, model.shape.topics, dtype=torch.float64)
        weights = (model.weights.mean(dim=0) * model.tags.unsqueeze(1)).double().cpu()
        for place, (level, table) in enumerate(zip(model.shape.levels, model.tables, strict=True)):
            if level.topic and not level.words:
                words = table[:size].double().cpu()
                share = weights[:, place]
                mixed += (words * (share if level.tag else share.sum()).reshape(-1, 1)).sum(dim=1)
        if not mixed.any():
            raise SettingsError("this model was trained with one topic, which tells nothing apart.")
        given = (mixed / mixed.sum(dim=0)).numpy()
        common = given @ self.fit.prior
        with np.errstate(divide="ignore", invalid="ignore"):
            tells = np.where(given > 0, given * np.log(given / common[:, None]), 0)
        tells[self.vocabulary.separator] = -np.inf  # the edge of a sentence is no word
        best = np.argsort(-tells, axis=0, kind="stable")[: min(n, len(tells) - 1)]
        return [
            [(self.vocabulary.words[w], float(given[w, h])) for w in best[:, h]]
            for h in range(given.shape[1])
        ]

    @torch.no_grad()
    def emission(self, context: Sequence[int], shares: Figures) -> Figures:
        """p(word | preterminal) of every word after a context, (words, preterminals).

        With a grammar the sentence end is no word; without one it is, under the separator's id.
        """
        model, size, separator = self.model, len(self.vocabulary), self.vocabulary.separator
        given, bucket = np.zeros((size, model.shape.tags + 1)), 0
        if self.fit.ngrams is not None:
            plain = np.exp(self.fit.ngrams.model.next_symbol(context))
            given = plain[:, None] * with_blind(self.fit.tag_of_word)
            given = given / np.maximum(given.sum(axis=0), np.finfo(np.float64).tiny)
            stream = np.array([separator, *context, self.vocabulary.unknown], np.int64)
            bucket = int(self.fit.ngrams.buckets(stream)[-1])
        tokens = HiddenTokens(
            torch.from_numpy(self._next_rows(context)),
            torch.full((size,), bucket),
            torch.zeros(size, dtype=torch.int64),
            torch.from_numpy(given[:, :-1]),
            torch.from_numpy(given[:, -1]),
            torch.ones(size, dtype=torch.int64),
        ).to(model.weights.device, model.weights.dtype)
        topics = torch.from_numpy(shares).to(model.weights).expand(size, -1)
        scores = explain(model, tokens, topics).scores.double().cpu().numpy()
        if self.grammar:
            scores[separator] = 0
        return np.asarray(scores)

    def _next_rows(self, context: Sequence[int]) -> Counts:
        """The rows of every word in the tables, right after a context."""
        index, size = self.model.shape.index, len(self.vocabulary)
        if index.order == 1:
            return np.arange(size)[None]
        tail = list(context)[-(index.order - 1) :]
        edge = index.separator
        pieces = [[*tail, word] if word == edge else [*tail, word, edge] for word in range(size)]
        stream = np.concatenate([[edge], *pieces]).astype(np.int64)
        places = np.cumsum([len(piece) for piece in pieces]) - 1
        places -= np.arange(size) != edge
        return index.rows(stream)[:, places]

    def ready(
        self, documents: Sequence[Document]
    ) -> tuple[DocumentStream, list[tuple[Counts, Batch]]]:
        """Documents in batches, each sentence with topic shares of its own."""
        separator = self.vocabulary.separator
        encoded = encode(documents, self.vocabulary)
        text = DocumentStream.of(encoded, separator, range(len(documents)))
        if not len(text):
            return text, []
        given = ngram_scores(text, self.fit.ngrams, self.fit.tag_of_word)
        rows = np.arange(len(text))
        return text, list(batches(text, given, self.model.shape, row_of_sentence=rows))

    def _fold(self, text: DocumentStream, ready: list[tuple[Counts, Batch]]) -> Folded:
        return fold_in(self.model, text, ready, self.fit.prior, self.fit.strength)

    @torch.no_grad()
    def scores(self, batch: Batch, topics: torch.Tensor) -> torch.Tensor:
        """p(token | preterminal) of each token of a batch, topics by the row of its sentence."""
        tokens = batch.tokens.to(self.model.weights.device, self.model.weights.dtype)
        return explain(self.model, tokens, topics[tokens.document]).scores

    def name(self, word: int) -> str:
        """A word as users see it, `</s>` for the sentence end."""
        return END if word == self.vocabulary.separator else self.vocabulary.words[word]


# New documents from a composite model: topic shares, derivations, then words left to right.


def sample_documents(
    answers: Answers, n: int, sentences: int, seed: int, longest: int
) -> list[list[list[str]]]:
    """`n` documents of new sentences, empty ones left out; each draws its own topic shares."""
    generator = np.random.default_rng(seed)
    documents = []
    for _ in range(n):
        # The prior of folding in: a document's shares, worth that many draws.
        drawn = generator.gamma(np.maximum(answers.fit.strength * answers.fit.prior, 1e-3))
        shares = drawn / drawn.sum() if drawn.sum() > 0 else answers.fit.prior
        document = []
        for _ in range(sentences):
            ids = list(_sentence(answers, shares, generator, longest))
            document.append(answers.vocabulary.decode(ids))
        documents.append([words for words in document if words])
    return documents


def _sentence(
    answers: Answers, shares: Figures, generator: np.random.Generator, longest: int
) -> Iterator[int]:
    context: list[int] = []
    for tag in _preterminals(answers.model, generator):
        if len(context) >= longest:
            return
        word = draw(answers.emission(context, shares)[:, tag].cumsum(), generator)
        if word == answers.vocabulary.separator:
            return
        context.append(word)
        yield word


def _preterminals(model: CompositeModel, generator: np.random.Generator) -> Iterator[int]:
    """The preterminals of a new sentence from left to right; without a grammar, without end."""
    shape = model.shape.grammar
    if shape is None:
        yield from repeat(0)
        return
    for symbol, _ in DerivationSampler(shape, model.rules, model.start).draw(generator):
        if symbol >= shape.phrases:
            yield symbol - shape.phrases


# Parses of a chart as trees with names, as a treebank has them.


def tree_of(
    parse: Parse | None, words: Sequence[str], names: Sequence[str], binarised: bool
) -> Tree | None:
    """The tree of a parse; the nodes that binarisation put into treebank trees are taken out."""
    if parse is None or not parse.spans:
        return None
    done: list[tuple[int, Tree]] = []  # with where they start, the leftmost on top
    for start, end, symbol in reversed(parse.spans):
        name = names[symbol]
        if end - start == 1:
            done.append((start, Tree(name, (), words[start])))
            continue
        children = done.pop()[1], done.pop()[1]
        done.append((start, Tree(name, children)))
    ((_, tree),) = done
    return usual_form(tree) if binarised else tree


# The most probable trees of sentences under a composite model, many sentences at once.


def parse_sentences(
    answers: Answers, sentences: Sequence[Sequence[str]], document: Document
) -> list[Tree | None]:
    """The best tree of each sentence right after a document, None where there is none."""
    shares = answers.document_topics([document])
    spoken = [words for words in sentences if len(words)]
    found = iter(_best_trees(answers, [[words] for words in spoken], shares))
    return [next(found) if len(words) else None for words in sentences]


def parse_documents(answers: Answers, documents: Sequence[Document]) -> list[list[Tree | None]]:
    """The best tree of each sentence after those before it in its document."""
    found = iter(_best_trees(answers, documents, answers.topics_before(documents)))
    return [[next(found) if len(words) else None for words in d] for d in documents]


def _best_trees(
    answers: Answers, documents: Sequence[Document], shares: Figures
) -> list[Tree | None]:
    """The trees of all sentences that have words; `shares` has one row for each, or for all."""
    model = answers.model
    if not answers.grammar:
        raise SettingsError("this model was trained without a grammar; it has no trees to give.")
    spoken = [words for sentences in documents for words in sentences if len(words)]
    topics = torch.from_numpy(shares).to(model.weights).expand(len(spoken), -1)
    trees: list[Tree | None] = [None] * len(spoken)
    start = _of_whole_trees(answers)
    for numbers, batch in answers.ready(documents)[1]:
        scores = answers.scores(batch, topics)
        found = best_parses(replace(model, start=start).potentials(scores, batch.tokens.lengths), 1)
        for number, best in zip(numbers.tolist(), found, strict=True):
            parse = best[0] if best else None
            trees[number] = tree_of(parse, spoken[number], answers.names, answers.binarised)
    return trees


def _of_whole_trees(answers: Answers) -> Float[Tensor, " s"]:
    """Scores of start symbols; a part of a split node is none, though text may be likely as one."""
    start = answers.model.start
    if not answers.binarised:
        return start
    parts = [name.startswith(PART) for name in answers.names]
    return start.masked_fill(torch.tensor(parts, device=start.device), -torch.inf)
