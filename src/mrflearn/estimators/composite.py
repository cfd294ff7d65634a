"""`CompositeLanguageModel`: n-gram, grammar and topics in one model of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.composite_answers import Answers
from mrflearn.estimators.composite_grammar import GrammarLike, choose_grammar
from mrflearn.estimators.composite_parsing import parse_documents, parse_sentences
from mrflearn.estimators.composite_sampling import sample_documents
from mrflearn.estimators.composite_storage import read_composite, stored_composite
from mrflearn.estimators.left_to_right import refuse_marks, unknown_policy
from mrflearn.execution.device import choose_device
from mrflearn.execution.executor import Executor
from mrflearn.execution.processes import executor_for
from mrflearn.execution.threads import one_thread
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngram_index import NgramIndex
from mrflearn.io.documents import Document, Documents, hold_documents
from mrflearn.io.files import PathLike
from mrflearn.io.trees import Tree
from mrflearn.io.vocabulary import UNKNOWN, Vocabulary
from mrflearn.models.composite_lm import CompositeShape
from mrflearn.models.hidden_backoff import Level
from mrflearn.models.ngram_level import bucket_count
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.composite_batches import encode
from mrflearn.training.composite_fit import fit_composite
from mrflearn.training.composite_trainer import Settings
from mrflearn.training.em import EM

Figures: TypeAlias = NDArray[np.float64]
WEIGHT_STEPS = 3  # of EM, each time the weights of levels have their turn


@dataclass(frozen=True)
class TextScore:
    """The log-probability of documents, in nats, and what it is spread over.

    Tokens are words and one end for each sentence.
    """

    log_likelihood: float
    words: int
    sentences: int
    unknown: int

    @property
    def tokens(self) -> int:
        return self.words + self.sentences

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.log_likelihood / self.tokens))


class CompositeLanguageModel(Estimator):
    """A language model of documents: word n-grams, phrase structure and topics in one [Wang 2005].

    order: the longest n-gram; 1 leaves the words before out of the model.
    grammar: None; "latent:10,20" or (10, 20), so many phrases and preterminals, learned from the
        text; "treebank:FILE", or trees, whose rules EM starts from.
    topics: how many; 1 leaves them out.
    horizontal: how many sisters the nodes remember that a treebank's nodes of many children are
        split into (None: all); 0 makes the grammar several times smaller and faster.
    levels: what theta(uvAh -> w) backs off to beside the n-gram model; ("Ah", "A", "h", "") is the
        default where there are a grammar and topics; "vAh" sees a word before as well.
    longest: in training, longer sentences teach words and topics but not the grammar.
    minimum_count, vocabulary_size: rarer words, and words beyond so many, are read as `<unk>`.
    rounds: how often weights of levels and everything else take turns in `max_iterations` of EM.
    restarts: latent grammars to begin with; the best after a few steps is kept.
    precision: "double" or "single" numbers.

    Without grammar and topics it is `NgramLanguageModel`; with one part alone, PCFG or PLSA.
    """

    def __init__(
        self,
        order: int = 3,
        grammar: GrammarLike = None,
        topics: int = 1,
        *,
        horizontal: int | None = 1,
        levels: Sequence[str] | None = None,
        longest: int | None = 40,
        minimum_count: int = 1,
        vocabulary_size: int | None = None,
        max_iterations: int = 20,
        rounds: int = 4,
        tolerance: float = 1e-5,
        restarts: int = 1,
        precision: str = "double",
        random_state: int = 0,
        device: str = "cpu",
        n_jobs: int = 1,
        verbose: bool = False,
    ) -> None:
        self.order = order
        self.grammar = grammar
        self.topics = topics
        self.horizontal = horizontal
        self.levels = levels
        self.longest = longest
        self.minimum_count = minimum_count
        self.vocabulary_size = vocabulary_size
        self.max_iterations = max_iterations
        self.rounds = rounds
        self.tolerance = tolerance
        self.restarts = restarts
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose

    @one_thread()
    def fit(
        self,
        X: Documents,
        y: object = None,
        *,
        executor: Executor | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from documents: lists of sentences, each a list of words, or a path.

        A path is a file with one sentence a line and blank lines between documents, or a folder
        of such files.  `executor` says where expected counts are summed, `n_jobs` processes here
        by default; `checkpoint` is a file to save training to, and `resume` goes on from it.
        """
        del y  # scikit-learn passes it to every estimator
        self._check_settings()
        documents = hold_documents(X)
        vocabulary = self._vocabulary(documents)
        encoded = encode(documents, vocabulary)
        stream = DocumentStream.of(encoded, vocabulary.separator, range(len(encoded)))
        choice = choose_grammar(
            self.grammar, vocabulary, self.horizontal, self.restarts, self.random_state
        )
        levels = self._levels(choice.wiring is not None)
        most = 1 + max((level.words for level in levels), default=0)
        ends = choice.wiring is None
        index = NgramIndex.of(stream.stream, most, len(vocabulary), vocabulary.separator, ends=ends)
        buckets = bucket_count(self.order)
        shape = CompositeShape(levels, index, choice.wiring, self.topics, buckets)
        order = self.order if self.order > 1 else 0
        settings = self._settings(checkpoint, resume)
        if executor is not None:
            found = fit_composite(
                encoded, vocabulary, shape, order, choice.starts, settings, executor
            )
        else:
            with executor_for(self.n_jobs) as place:
                found = fit_composite(
                    encoded, vocabulary, shape, order, choice.starts, settings, place
                )
        self.fit_ = found
        self.answers_ = Answers(found, vocabulary, choice.names, choice.binarised)
        unknown = int((stream.stream == vocabulary.unknown).sum())
        self.unknown_seen_ = bool(unknown)
        return self

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<S>` for the edge of a sentence and `<unk>` for any other word."""
        return self._fitted().vocabulary

    @one_thread()
    def score_samples(self, X: Documents) -> Figures:
        """The log-probability of each sentence with its end, given those before in its document.

        In nats; empty sentences are skipped.
        """
        return self._fitted().score_sentences(hold_documents(X))

    @one_thread()
    def text_score(self, X: Documents) -> TextScore:
        """The log-probability of documents, and what it is spread over."""
        documents = hold_documents(X)
        values = self._fitted().score_sentences(documents)
        spoken = [words for sentences in documents for words in sentences if len(words)]
        known = self.vocabulary_
        unknown = sum(word not in known or word == UNKNOWN for words in spoken for word in words)
        total = sum(map(len, spoken))
        return TextScore(float(values.sum()), total, len(spoken), unknown)

    def score(self, X: Documents, y: object = None) -> float:
        """The mean log-probability of a token, in nats; sentence ends count as tokens."""
        del y
        found = self.text_score(X)
        return found.log_likelihood / found.tokens

    def perplexity(self, X: Documents) -> float:
        """The perplexity per token; sentence ends and unknown words count as tokens."""
        return self.text_score(X).perplexity

    @one_thread()
    def parse(
        self, sentences: Sequence[Sequence[str]], *, document: Document = ()
    ) -> list[Tree | None]:
        """The most probable tree of each sentence, after the sentences of `document`.

        None where the grammar cannot produce a sentence.
        """
        return parse_sentences(self._fitted(), sentences, document)

    @one_thread()
    def parse_documents(self, X: Documents) -> list[list[Tree | None]]:
        """The most probable tree of each sentence, after those before it in its document.

        Sentences of one length are parsed together, which is many times faster than one by one.
        """
        return parse_documents(self._fitted(), hold_documents(X))

    @one_thread()
    def next_word(
        self, words: Sequence[str] = (), top: int = 10, *, document: Document = ()
    ) -> list[tuple[str, float]]:
        """The most probable continuations of a sentence's beginning; `</s>` is its end."""
        return self._fitted().next_word(words, top, document)

    @one_thread()
    def topic_words(self, top: int = 10) -> list[list[tuple[str, float]]]:
        """For each topic the words that tell it best from the others, with p(word | topic)."""
        return self._fitted().topic_words(top)

    @one_thread()
    def document_topics(self, X: Documents) -> Figures:
        """The topic shares of each document, once it is read to its end."""
        return self._fitted().document_topics(hold_documents(X))

    @one_thread()
    def sample(
        self, count: int = 1, *, sentences: int = 10, seed: int | None = None, longest: int = 200
    ) -> list[list[list[str]]]:
        """New documents of so many sentences; sentences are cut off after `longest` words."""
        chosen = self.random_state if seed is None else seed
        return sample_documents(self._fitted(), count, sentences, chosen, longest)

    def _learned_parts(self) -> Parts:
        learned, tensors = stored_composite(self._fitted())
        return {**learned, "unknown_seen": self.unknown_seen_}, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.answers_ = read_composite(self.order, self.topics, learned, tensors)
        self.fit_ = self.answers_.fit
        self.unknown_seen_ = bool(learned["unknown_seen"])

    def _stored_settings(self) -> dict[str, Any]:
        plain = self.grammar is None or isinstance(self.grammar, str)
        return {
            **super()._stored_settings(),
            "grammar": self.grammar if plain else "given in Python",
            "levels": None if self.levels is None else list(self.levels),
        }

    @property
    def unknown_policy_(self) -> str:
        """How words outside the vocabulary are scored, in words."""
        return unknown_policy(self.unknown_seen_)

    def _vocabulary(self, documents: Sequence[Document]) -> Vocabulary:
        counts = Counter(word for sentences in documents for words in sentences for word in words)
        if not counts:
            raise DataError("the documents hold no words. Is the file empty?")
        refuse_marks(counts)
        return Vocabulary.from_counts(
            counts, size=self.vocabulary_size, minimum_count=self.minimum_count
        )

    def _levels(self, grammar: bool) -> tuple[Level, ...]:
        if self.levels is not None:
            return tuple(Level.read(name) for name in self.levels)
        tag, topic = (["A"] if grammar else []), (["h"] if self.topics > 1 else [])
        both = ["Ah"] if tag and topic else []
        # Beside topics, so that these need not explain common words as well.
        none = [""] if topic or not (tag or self.order > 1) else []
        return tuple(Level.read(name) for name in [*both, *tag, *topic, *none])

    def _check_settings(self) -> None:
        for name in ("order", "topics", "rounds", "restarts"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}={getattr(self, name)}: must be 1 or more.")
        if self.precision not in ("double", "single"):
            raise SettingsError(f"precision={self.precision!r}: must be 'double' or 'single'.")

    def _settings(self, checkpoint: PathLike | Checkpoint | None, resume: bool) -> Settings:
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        if resume and checkpoint is None:
            raise SettingsError("resume needs the checkpoint to go on from: checkpoint='FILE'.")
        single = self.precision == "single"
        em = EM(self.max_iterations, self.tolerance, slack=1e-5 if single else 1e-9)
        return Settings(
            em,
            self.rounds,
            WEIGHT_STEPS,
            self.longest,
            self.random_state,
            torch.float32 if single else torch.float64,
            choose_device(self.device),
            self.verbose,
            checkpoint,
            resume,
        )

    def _fitted(self) -> Answers:
        answers: Answers = self._after_fit("answers_")
        return answers
