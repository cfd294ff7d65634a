"""What a composite language model answers: scores, parses, topics, samples."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice, repeat

import numpy as np
import torch
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator
from mrflearn.estimators.composite_memory import (
    PLAIN,
    TOPIC_LEVEL,
    SourceScores,
    join_sources,
    own_sources,
)
from mrflearn.estimators.composite_training import CompositeFit
from mrflearn.estimators.text_score import OpenVocabulary, TextScore, best_words
from mrflearn.execution.resources import one_thread
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts
from mrflearn.inference.charts import Prefix
from mrflearn.inference.parses import best_parses
from mrflearn.io.corpus import Document, Documents, Vocabulary, hold_documents
from mrflearn.io.trees import PART, Tree
from mrflearn.models.composite_lm import (
    Figures,
    TokenBatch,
    batches,
    explain,
    ngram_scores,
    stream_of,
)
from mrflearn.models.ngram import TokenScores, draw, with_blind
from mrflearn.models.pcfg import DerivationSampler, named_tree
from mrflearn.models.token_mixture import cache_scores, next_in_caches
from mrflearn.models.topics import Folded, fold_in
from mrflearn.objectives.expected_counts import sentence_log_likelihoods

NOTHING = "there is nothing to score: no words. Is the file empty?"


class CompositeQuestions(Estimator, OpenVocabulary):
    """What `CompositeLanguageModel` answers once it is trained."""

    order: int
    random_state: int
    fit_: CompositeFit

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<S>` for sentence boundaries and `<unk>` for any other word."""
        return self.fit_.vocabulary

    @one_thread()
    def score_samples(self, X: Documents) -> Figures:
        """Log-probability of each sentence with its end, given those before in its document.

        Parameters
        ----------
        X
            Documents, or the path of a file or folder, as `fit` takes them.

        Returns
        -------
        ndarray of shape (sentences,)
            Nats; empty sentences are skipped.

        """
        return self._score(hold_documents(X))

    @one_thread()
    def text_score(self, X: Documents) -> TextScore:
        """Log-probability of documents, and what it is spread over.

        Parameters
        ----------
        X
            Documents, or the path of a file or folder, as `fit` takes them.

        Returns
        -------
        TextScore
            Log-likelihood in nats, numbers of words, sentences and unknown words, perplexity.

        """
        documents = hold_documents(X)
        if self.fit_.memory is None:
            spoken = [words for sentences in documents for words in sentences if len(words)]
            return TextScore.of_sentences(self._score(documents), spoken, self.vocabulary_)
        text, scores = self._token_scores(documents)
        tokens, words = text.stream[1:], self.vocabulary_
        marks = tokens == words.separator, tokens == words.unknown
        return TextScore.of_tokens(TokenScores(scores, *marks))

    @one_thread()
    def source_scores(self, X: Documents) -> SourceScores:
        """What each source of words makes of every token, and all of them together.

        Parameters
        ----------
        X
            Documents, or the path of a file or folder, as `fit` takes them.

        Returns
        -------
        SourceScores
            `columns`, the probabilities of words and sentence ends in order by source; `classes`
            of what stands before; `mixed`, the probabilities by the whole model.

        """
        return self._source_scores(hold_documents(X))[1]

    @one_thread()
    def parse(
        self, sentences: Sequence[Sequence[str]], *, document: Document = ()
    ) -> list[Tree | None]:
        """The most probable tree of each sentence.

        Parameters
        ----------
        sentences
            Sentences, each a list of words.
        document
            The sentences before, which topics are inferred from.

        Returns
        -------
        list of Tree or None
            None where the grammar cannot produce a sentence.

        """
        shares = self.document_topics([document])
        found = iter(self._best_trees([[words] for words in sentences], shares))
        return [next(found) if len(words) else None for words in sentences]

    @one_thread()
    def parse_documents(self, X: Documents) -> list[list[Tree | None]]:
        """The most probable tree of each sentence, after those before it in its document.

        Sentences of one length are parsed together, which is many times faster than one by one.

        Parameters
        ----------
        X
            Documents, or the path of a file or folder, as `fit` takes them.

        Returns
        -------
        list of list of Tree or None
            None where the grammar cannot produce a sentence.

        """
        documents = hold_documents(X)
        found = iter(self._best_trees(documents, self._folded(documents)[2].before))
        return [[next(found) if len(words) else None for words in d] for d in documents]

    @one_thread()
    def next_word(
        self, words: Sequence[str] = (), n: int = 10, *, document: Document = ()
    ) -> list[tuple[str, float]]:
        """The most probable continuations of the beginning of a sentence.

        Parameters
        ----------
        words
            The sentence so far.
        n
            How many words to return.
        document
            The sentences before, which topics are inferred from.

        Returns
        -------
        list of (word, probability)
            The most probable first; `</s>` is the end of the sentence.

        """
        ids = self.vocabulary_.encode(words).tolist()
        before = stream_of([document], self.vocabulary_).stream
        shares = [model.document_topics([document])[0] for model in self._models()]
        return best_words(self._next(ids, before, shares), self.vocabulary_, n)

    def level_weights(self) -> dict[str, float]:
        """The mean weight of each level that a word may come from.

        Returns
        -------
        dict of str to float
            For each level its share, in the order of backing off.

        """
        model = self.fit_.model
        names = [str(level) or "words alone" for level in model.shape.levels]
        names += ["n-gram", "n-gram, blind to A", "uniform"]
        weights = model.weights.double().mean(dim=(0, 1)).tolist()
        return dict(zip(names, weights, strict=True))

    @one_thread()
    def topic_words(self, n: int = 10) -> list[list[tuple[str, float]]]:
        """The words that tell each topic best from the others.

        Parameters
        ----------
        n
            How many words to return per topic.

        Returns
        -------
        list of list of (word, probability)
            p(word | topic), for each topic.

        """
        fit = self.fit_
        model, words_of, size = fit.model, fit.vocabulary.words, len(fit.vocabulary)
        mixed = torch.zeros(size, model.shape.topics, dtype=torch.float64)
        weights = (model.weights.mean(dim=0) * model.tags.unsqueeze(1)).double().cpu()
        for place, (level, table) in enumerate(zip(model.shape.levels, model.tables, strict=True)):
            if level.topic and not level.words:
                words = table[:size].double().cpu()
                share = weights[:, place]
                mixed += (words * (share if level.tag else share.sum()).reshape(-1, 1)).sum(dim=1)
        if not mixed.any():
            raise SettingsError(
                "this model was trained with one topic, which distinguishes nothing. Train with "
                "topics=2 or more."
            )
        given = (mixed / mixed.sum(dim=0)).numpy()
        common = given @ fit.prior
        with np.errstate(divide="ignore", invalid="ignore"):
            tells = np.where(given > 0, given * np.log(given / common[:, None]), 0)
        tells[fit.vocabulary.separator] = -np.inf  # the edge of a sentence is no word
        best = np.argsort(-tells, axis=0, kind="stable")[: min(n, len(tells) - 1)]
        return [
            [(words_of[w], float(given[w, h])) for w in best[:, h]] for h in range(given.shape[1])
        ]

    @one_thread()
    def document_topics(self, X: Documents) -> Figures:
        """Topic proportions of each document, once it is read to its end.

        Parameters
        ----------
        X
            Documents, or the path of a file or folder, as `fit` takes them.

        Returns
        -------
        ndarray of shape (documents, topics)
            Each row sums to 1.

        """
        documents = hold_documents(X)
        after = self._folded(documents)[2].after
        return np.stack([after.get(d, self.fit_.prior) for d in range(len(documents))])

    @one_thread()
    def sample(
        self,
        n: int = 1,
        *,
        sentences: int = 10,
        random_state: int | None = None,
        longest: int = 200,
    ) -> list[list[list[str]]]:
        """New documents.

        Parameters
        ----------
        n
            How many documents to draw.
        sentences
            Sentences per document; empty ones are left out.
        random_state
            Seed; None takes that of the model.
        longest
            Sentences are cut off after this many words.

        Returns
        -------
        list of list of list of str
            The words of each sentence of each document.

        """
        seed = self.random_state if random_state is None else random_state
        generator, documents = np.random.default_rng(seed), []
        for _ in range(n):
            shares = [model._topic_shares(generator) for model in self._models()]
            document: list[list[str]] = []
            for _ in range(sentences):
                words = self._sentence(document, shares, generator, longest)
                document += [words] if words else []
            documents.append(document)
        return documents

    def _models(self) -> list[CompositeQuestions]:
        """The model itself, and the one without its grammar, where that is a source of words."""
        memory = self.fit_.memory
        if memory is None or memory.plain is None:
            return [self]
        plain = copy.copy(self)
        plain.fit_ = memory.plain
        return [self, plain]

    def _topic_shares(self, generator: np.random.Generator) -> Figures:
        """Those of a new document, by the prior of folding in: worth that many draws."""
        fit = self.fit_
        drawn = generator.gamma(np.maximum(fit.strength * fit.prior, 1e-3))
        return np.asarray(drawn / drawn.sum() if drawn.sum() > 0 else fit.prior)

    def _score(self, documents: Sequence[Document]) -> Figures:
        """log p of each sentence after those before it in its document."""
        if self.fit_.memory is not None:
            text, scores = self._token_scores(documents)
            return np.asarray(np.add.reduceat(scores, text.first))
        text, ready, folded = self._folded(documents)
        if not len(text):
            raise DataError(NOTHING)
        model, values = self.fit_.model, np.empty(len(text))
        shares = torch.from_numpy(folded.before).to(model.weights)
        for batch in ready:
            values[batch.sentences] = sentence_log_likelihoods(model, batch, shares).cpu().numpy()
        return values

    def _token_scores(self, documents: Sequence[Document]) -> tuple[DocumentStream, Figures]:
        """log p of each token after those before it in its document, by all sources."""
        text, found = self._source_scores(documents)
        with np.errstate(divide="ignore"):
            return text, np.log(found.mixed)

    def _source_scores(self, documents: Sequence[Document]) -> tuple[DocumentStream, SourceScores]:
        fit, order = self.fit_, self.order
        text, ready, folded = self._folded(documents)
        if not len(text):
            raise DataError(NOTHING)
        shares = torch.from_numpy(folded.before).to(fit.model.weights)
        own = own_sources(fit.model, text, ready, shares, fit.words_of_tags)
        if fit.memory is None:
            return text, SourceScores(
                own, np.zeros(len(text.stream) - 1, np.int64), own["composite"]
            )
        for plain in self._models()[1:]:
            own[PLAIN] = plain._source_scores(documents)[1].mixed
        level = fit.memory.level
        given = np.exp(level.model.log_probabilities(text.stream))
        caches = cache_scores(text, order, given)
        bucket, cached = level.buckets(text.stream), fit.memory.cached
        joined = join_sources(own, given, bucket, caches, order, cached=cached)
        return text, fit.memory.mix(joined)

    def _ready(self, documents: Sequence[Document]) -> tuple[DocumentStream, list[TokenBatch]]:
        """Documents in batches, each sentence with topic shares of its own."""
        fit = self.fit_
        text = stream_of(documents, fit.vocabulary)
        if not len(text):
            return text, []
        given = ngram_scores(text, fit.ngrams, fit.tag_of_word)
        return text, batches(text, given, fit.model.shape, by_sentence=True)

    def _folded(
        self, documents: Sequence[Document]
    ) -> tuple[DocumentStream, list[TokenBatch], Folded]:
        """The same, and the topic shares before each sentence and after each document."""
        (text, ready), fit = self._ready(documents), self.fit_
        if not ready:
            return text, ready, Folded(fit.prior[None], {}, 0.0)
        return text, ready, fold_in(fit.model, text, ready, fit.prior, fit.strength)

    @torch.no_grad()
    def _scores(self, batch: TokenBatch, topics: Tensor) -> Tensor:
        """p(token | preterminal) of each token of a batch, topics by the row of its sentence."""
        model, tokens = self.fit_.model, batch.to(self.fit_.model)
        return explain(model, tokens, topics.to(model.weights)[tokens.document]).scores

    def _best_trees(self, documents: Sequence[Document], shares: Figures) -> list[Tree | None]:
        """The trees of all sentences that have words; `shares` has one row for each, or for all."""
        fit = self.fit_
        wiring, start = fit.model.shape.grammar, fit.model.start
        if wiring is None:
            raise SettingsError("this model was trained without a grammar; it has no trees.")
        if not wiring.dense:
            # A part of a split node is no tree, though text may be likely as one.
            parts = [name.startswith(PART) for name in fit.names]
            start = start.masked_fill(torch.tensor(parts, device=start.device), -torch.inf)
        spoken = [words for sentences in documents for words in sentences if len(words)]
        topics = torch.from_numpy(shares).expand(len(spoken), -1)
        trees: list[Tree | None] = [None] * len(spoken)
        for batch in self._ready(documents)[1]:
            scores = self._scores(batch, topics)
            found = replace(fit.model, start=start).potentials(scores, batch.lengths)
            for number, parses in zip(batch.sentences.tolist(), best_parses(found, 1), strict=True):
                for parse in parses:
                    words, binarised = spoken[number], not wiring.dense
                    trees[number] = named_tree(parse.spans, words, fit.names, binarised=binarised)
        return trees

    def _next(self, ids: Sequence[int], before: Counts, topics: Sequence[Figures]) -> Figures:
        """p(word) of every word after the beginning of a sentence; the separator is its end.

        `before` is the stream of the document's sentences before, `topics` what shares of them
        each of the `_models` sees.
        """
        fit, order = self.fit_, self.order
        model, separator, size = fit.model, fit.vocabulary.separator, len(fit.vocabulary)
        shares = topics[0]
        emissions = {"composite": self._emission(ids, shares)}
        if fit.memory is None:
            return self._derived(ids, shares, emissions)["composite"]
        if fit.words_of_tags is not None:
            emissions["grammar"] = fit.words_of_tags
        own = self._derived(ids, shares, emissions)
        if "topics" in fit.memory.mixture.names:
            table = model.tables[model.shape.levels.index(TOPIC_LEVEL)][:size, 0]
            own["topics"] = table.double().cpu().numpy() @ shares
            own["topics"][separator] *= model.shape.ends
        for plain, seen in zip(self._models()[1:], topics[1:], strict=True):
            own[PLAIN] = plain._next(ids, before, [seen])
        level = fit.memory.level
        given = np.exp(level.model.next_symbol(ids))
        stream = np.array([separator, *ids, fit.vocabulary.unknown], np.int64)
        bucket = np.full(size, level.buckets(stream)[-1])
        caches = next_in_caches(np.concatenate([before, ids]).astype(np.int64), order, given)
        joined = join_sources(own, given, bucket, caches, order, cached=fit.memory.cached)
        return fit.memory.mix(joined).mixed

    def _derived(
        self, ids: Sequence[int], shares: Figures, emissions: dict[str, Figures]
    ) -> dict[str, Figures]:
        """p(word) of every word after the beginning of a sentence, by each p(word | preterminal).

        All are nan where the grammar has no sentence that begins so.
        """
        fit, found = self.fit_, dict[str, Figures]()
        model, wiring = fit.model, fit.model.shape.grammar
        if wiring is None:
            return {name: emission[:, 0] for name, emission in emissions.items()}
        logs = (model.rules.double().cpu(), model.start.double().cpu())
        prefix = Prefix.of(*logs, wiring.to(torch.device("cpu")))
        for name, emission in emissions.items():
            scores = torch.zeros(0, wiring.preterminals, dtype=torch.float64)
            if name == "grammar":
                scores = torch.from_numpy(emission[np.asarray(ids, np.int64)])
            elif ids:
                (batch,) = self._ready([[fit.vocabulary.decode(ids)]])[1]
                scores = self._scores(batch, torch.from_numpy(shares)[None]).double().cpu()
            beliefs = prefix(scores.log())
            chances = emission @ beliefs.follows[-1].exp().numpy()
            chances[fit.vocabulary.separator] = float(beliefs.ends[-1].exp())
            known = beliefs.begins[-1] > -torch.inf or fit.memory is None
            found[name] = chances if known else np.full_like(chances, np.nan)
        return found

    @torch.no_grad()
    def _emission(self, context: Sequence[int], shares: Figures) -> Figures:
        """p(word | preterminal) of every word after a context, (words, preterminals).

        With a grammar the sentence end is no word; without one it is, under the separator's id.
        """
        fit = self.fit_
        model, size, separator = fit.model, len(fit.vocabulary), fit.vocabulary.separator
        given, bucket = np.zeros((size, model.shape.tags + 1)), 0
        if fit.ngrams is not None:
            plain = np.exp(fit.ngrams.model.next_symbol(context))
            given = plain[:, None] * with_blind(fit.tag_of_word)
            given = given / np.maximum(given.sum(axis=0), np.finfo(np.float64).tiny)
            stream = np.array([separator, *context, fit.vocabulary.unknown], np.int64)
            bucket = int(fit.ngrams.buckets(stream)[-1])
        nothing, rows = np.zeros(size, np.int64), self._next_rows(context)
        columns = (nothing + 1, rows, nothing + bucket, nothing, given)
        tokens = TokenBatch(False, nothing, *map(torch.from_numpy, columns))
        scores = self._scores(tokens, torch.from_numpy(shares)[None]).double().cpu().numpy()
        if not model.shape.ends:
            scores[separator] = 0
        return np.asarray(scores)

    def _next_rows(self, context: Sequence[int]) -> Counts:
        """The rows of every word in the tables, right after a context."""
        index = self.fit_.model.shape.index
        size, edge = index.states, index.separator
        if index.order == 1:
            return np.arange(size)[None]
        tail = list(context)[-(index.order - 1) :]
        pieces = [[*tail, word] if word == edge else [*tail, word, edge] for word in range(size)]
        stream = np.concatenate([[edge], *pieces]).astype(np.int64)
        places = np.cumsum([len(piece) for piece in pieces]) - 1
        places -= np.arange(size) != edge
        return index.rows(stream)[:, places]

    def _sentence(
        self,
        document: Document,
        topics: Sequence[Figures],
        generator: np.random.Generator,
        longest: int,
    ) -> list[str]:
        """A new sentence: a derivation, if there is one, then words left to right.

        In a mixture a word need not come from a derivation, so the next word is drawn each time.
        """
        fit, ids = self.fit_, list[int]()
        model, wiring = fit.model, fit.model.shape.grammar
        if fit.memory is not None:
            before = stream_of([document], fit.vocabulary).stream
            while len(ids) < longest:
                word = draw(self._next(ids, before, topics).cumsum(), generator)
                if word == fit.vocabulary.separator:
                    break
                ids.append(word)
            return fit.vocabulary.decode(ids)
        tags: Iterable[int] = repeat(0)
        if wiring is not None:
            symbols = DerivationSampler(wiring, model.rules, model.start).draw(generator)
            tags = (s - wiring.phrases for s, _ in symbols if s >= wiring.phrases)
        for tag in islice(tags, longest):
            word = draw(self._emission(ids, topics[0])[:, tag].cumsum(), generator)
            if word == fit.vocabulary.separator:
                break
            ids.append(word)
        return fit.vocabulary.decode(ids)
