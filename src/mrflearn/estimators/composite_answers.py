"""What a trained composite model answers: scores, parses, continuations, topics, new documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.errors import DataError, SettingsError
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts
from mrflearn.inference.prefix import Prefix
from mrflearn.io.documents import Document
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.composite_lm import CompositeModel
from mrflearn.models.hidden_backoff import Tokens
from mrflearn.models.ngram_arpa import END
from mrflearn.models.ngram_level import with_blind
from mrflearn.objectives.expected_counts import (
    Batch,
    explain_tokens,
    sentence_log_likelihoods,
)
from mrflearn.training.composite_batches import Given, batches, encode
from mrflearn.training.composite_fit import CompositeFit
from mrflearn.training.composite_folding import Folded, fold_in

Figures: TypeAlias = NDArray[np.float64]


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
        tokens = Tokens(
            torch.from_numpy(self._next_rows(context)),
            torch.full((size,), bucket),
            torch.zeros(size, dtype=torch.int64),
            torch.from_numpy(given[:, :-1]),
            torch.from_numpy(given[:, -1]),
            torch.ones(size, dtype=torch.int64),
        ).to(model.weights.device, model.weights.dtype)
        topics = torch.from_numpy(shares).to(model.weights).expand(size, -1)
        scores = explain_tokens(model, tokens, topics).scores.double().cpu().numpy()
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
        given = Given(text, self.fit.ngrams).values(self.fit.tag_of_word)
        rows = np.arange(len(text))
        return text, list(batches(text, given, self.model.shape, row_of_sentence=rows))

    def _fold(self, text: DocumentStream, ready: list[tuple[Counts, Batch]]) -> Folded:
        return fold_in(self.model, text, ready, self.fit.prior, self.fit.strength)

    @torch.no_grad()
    def scores(self, batch: Batch, topics: torch.Tensor) -> torch.Tensor:
        """p(token | preterminal) of each token of a batch, topics by the row of its sentence."""
        tokens = batch.tokens.to(self.model.weights.device, self.model.weights.dtype)
        return explain_tokens(self.model, tokens, topics[tokens.document]).scores

    def name(self, word: int) -> str:
        """A word as users see it, `</s>` for the sentence end."""
        return END if word == self.vocabulary.separator else self.vocabulary.words[word]
