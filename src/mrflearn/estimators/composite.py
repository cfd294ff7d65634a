"""Composite language models: n-gram, PCFG and PLSA in one directed field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.composite_answers import (
    Answers,
    parse_documents,
    parse_sentences,
    sample_documents,
)
from mrflearn.estimators.composite_grammar import GrammarLike, choose_grammar
from mrflearn.estimators.text_score import ScoresText, TextScore, refuse_marks, unknown_policy
from mrflearn.execution.executor import Executor, executor_for
from mrflearn.execution.resources import choose_device, one_thread
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import NgramIndex
from mrflearn.io.corpus import Document, Documents, Vocabulary, hold_documents
from mrflearn.io.files import PathLike
from mrflearn.io.trees import Tree
from mrflearn.kernels.rules import RuleShape
from mrflearn.models.composite_lm import GIVEN, RULE_COLUMNS, CompositeModel, CompositeShape, Level
from mrflearn.models.ngram import NgramLevel, NgramModel, bucket_count
from mrflearn.models.storage import figure, texts
from mrflearn.training.checkpoint import Checkpoint, checkpoint_of
from mrflearn.training.composite import CompositeFit, CompositeSettings, fit_composite
from mrflearn.training.composite_start import encode
from mrflearn.training.em import EM
from mrflearn.training.outcome import Row

# Composite models to and from what a model directory holds.


CONTEXT_PARTS = ("seen", "kinds", "suffixes", "shorter")


def stored_composite(answers: Answers) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors of a trained model."""
    fit, shape = answers.fit, answers.model.shape
    tensors = {f"model.{name}": value for name, value in answers.model.tensors().items()}
    tensors["prior"] = torch.from_numpy(fit.prior)
    tensors["tag_of_word"] = torch.from_numpy(fit.tag_of_word)
    tensors |= {f"index.{n}": torch.from_numpy(c) for n, c in enumerate(shape.index.codes, 2)}
    if shape.grammar is not None:
        tensors |= {f"wiring.{name}": getattr(shape.grammar, name) for name in RULE_COLUMNS}
    if fit.ngrams is not None:
        tensors |= _ngram_tensors(fit.ngrams)
    history = [[row.iteration, row.value, row.seconds] for row in fit.history]
    own = {
        "words": list(answers.vocabulary.words),
        "symbols": list(answers.names),
        "binarised": answers.binarised,
        "phrases": None if shape.grammar is None else shape.grammar.phrases,
        "dense": shape.grammar is not None and shape.grammar.dense,
        "level_names": [str(level) for level in shape.levels],
        "buckets": shape.buckets,
        "strength": fit.strength,
        "history": history,
        "held_out": list(fit.held_out),
        "reason": fit.reason,
    }
    return own, tensors


def read_composite(
    order: int, topics: int, own: dict[str, Any], tensors: dict[str, Tensor]
) -> Answers:
    """The answers of a model of this order, with so many topics, that these values hold."""
    vocabulary = Vocabulary(texts(own, "words"))
    shape = _shape(own, topics, vocabulary, tensors)
    names = [f"table.{level or '-'}" for level in own["level_names"]]
    tables = tuple(tensors[f"model.{name}"] for name in names)
    rest = (tensors[f"model.{name}"] for name in ("weights", "tags", "rules", "start"))
    model = CompositeModel(shape, tables, *rest)
    for level, table in zip(shape.levels, tables, strict=True):
        if tuple(table.shape) != shape.table_shape(level):
            raise DataError(f"level '{level}' has a table of another size than its text")
    if model.weights.shape[2] != len(shape.levels) + GIVEN:
        raise DataError("it has weights for other levels than it has")
    fit = CompositeFit(
        model,
        _ngrams(order, vocabulary, tensors) if order > 1 else None,
        tensors["tag_of_word"].cpu().numpy(),
        tensors["prior"].cpu().numpy(),
        figure(own["strength"]),
        tuple(
            Row(int(i), figure(v), float("nan"), 1.0, int(i), figure(s))
            for i, v, s in own["history"]
        ),
        tuple(map(figure, own["held_out"])),
        str(own["reason"]),
    )
    return Answers(fit, vocabulary, texts(own, "symbols"), bool(own["binarised"]))


def _shape(
    own: dict[str, Any], topics: int, vocabulary: Vocabulary, tensors: dict[str, Tensor]
) -> CompositeShape:
    levels = tuple(Level.read(name) for name in texts(own, "level_names"))
    orders = range(2, 2 + max((level.words for level in levels), default=0))
    codes = tuple(tensors[f"index.{n}"].cpu().numpy() for n in orders)
    index = NgramIndex(len(vocabulary), vocabulary.separator, codes)
    wiring = None
    if own["phrases"] is not None:
        parent, left, right = (tensors[f"wiring.{name}"] for name in RULE_COLUMNS)
        preterminals = len(own["symbols"]) - own["phrases"]
        phrases, dense = own["phrases"], own["dense"]
        wiring = RuleShape(phrases, preterminals, parent, left, right, dense=dense)
    return CompositeShape(levels, index, wiring, topics, own["buckets"])


def _ngram_tensors(level: NgramLevel) -> dict[str, Tensor]:
    tensors = {f"ngram.{name}": table for name, table in level.model.tensors().items()}
    for part in CONTEXT_PARTS:
        for n, numbers in enumerate(getattr(level, part), start=2):
            tensors[f"ngram.{part}.{n}"] = torch.from_numpy(numbers.astype(np.int64))
    return tensors


def _ngrams(order: int, vocabulary: Vocabulary, tensors: dict[str, Tensor]) -> NgramLevel:
    own = {name.removeprefix("ngram."): table for name, table in tensors.items()}
    rest = (
        tuple(own[f"{part}.{n}"].cpu().numpy() for n in range(2, order + 1))
        for part in CONTEXT_PARTS
    )
    return NgramLevel(NgramModel.from_tensors(vocabulary, order, own), *rest)


# `CompositeLanguageModel`: n-gram, grammar and topics in one model of documents.


Figures: TypeAlias = NDArray[np.float64]
WEIGHT_STEPS = 3  # of EM, each time the weights of levels have their turn


class CompositeLanguageModel(Estimator, ScoresText):
    """A language model of documents: word n-grams, phrase structure and topics in one [Wang 2005].

    Without grammar and topics it is `NgramLanguageModel`; with one part alone, PCFG or PLSA.

    Parameters
    ----------
    order
        Length of the longest n-gram; 1 leaves the words before out of the model.
    grammar
        None; `"latent:10,20"`, numbers of phrases and preterminals, learned from the text; or
        `"treebank:FILE"`, trees whose rules EM starts from; in Python also (10, 20), or trees.
    topics
        Number of topics; 1 leaves them out.
    horizontal
        How many sisters the nodes remember that a treebank's nodes of many children are split into
        (None: all); 0 makes the grammar several times smaller and faster.
    levels
        What theta(uvAh -> w) backs off to beside the n-gram model; `("Ah", "A", "h", "")` is the
        default where there are a grammar and topics; `"vAh"` sees a word before as well.
    longest
        In training, longer sentences teach words and topics but not the grammar.
    min_count
        Words seen less often are read as `<unk>`.
    vocabulary_size
        Only this many words are kept, the most frequent; None keeps all.
    max_iterations
        Most iterations of EM.
    rounds
        How often weights of levels and everything else take turns within them.
    tolerance
        EM stops once the log-likelihood rises by less than this, relatively.
    restarts
        Random latent grammars to begin with; the best after a few iterations is kept.
    dtype
        `"float64"` or `"float32"`, which is faster.
    random_state
        Seed of latent grammars, of folds and of `sample`.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    n_jobs
        Processes that sum expected counts; None: 1, -1: all cores.
    verbose
        Whether to show progress.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The words, with `<S>` for sentence boundaries and `<unk>` for any other word.
    fit_ : CompositeFit
        The model, with the history of EM and why it ended.
    answers_ : Answers
        The model with its words and the names of its symbols.
    unknown_seen_ : bool
        Whether the training text held `<unk>`.
    unknown_policy_ : str
        How words outside the vocabulary are scored, in words.

    """

    def __init__(
        self,
        order: int = 3,
        *,
        grammar: GrammarLike = None,
        topics: int = 1,
        horizontal: int | None = 1,
        levels: Sequence[str] | None = None,
        longest: int | None = 40,
        min_count: int = 1,
        vocabulary_size: int | None = None,
        max_iterations: int = 20,
        rounds: int = 4,
        tolerance: float = 1e-5,
        restarts: int = 1,
        dtype: Literal["float32", "float64"] = "float64",
        random_state: int = 0,
        device: str = "cpu",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.order = order
        self.grammar = grammar
        self.topics = topics
        self.horizontal = horizontal
        self.levels = levels
        self.longest = longest
        self.min_count = min_count
        self.vocabulary_size = vocabulary_size
        self.max_iterations = max_iterations
        self.rounds = rounds
        self.tolerance = tolerance
        self.restarts = restarts
        self.dtype = dtype
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
        """Learns from documents.

        Parameters
        ----------
        X
            Documents, each a list of sentences, each a list of words; or the path of a file with
            one sentence per line and blank lines between documents, or of a folder of such files.
        y
            Ignored; scikit-learn passes it to every estimator.
        executor
            Where expected counts are summed; None takes `n_jobs` processes of this machine.
        checkpoint
            A file that training is saved to every minute.
        resume
            Whether to continue from the checkpoint.

        Returns
        -------
        CompositeLanguageModel
            The estimator itself.

        """
        del y
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
        jobs = 1 if self.n_jobs is None else self.n_jobs
        with executor_for(jobs) if executor is None else nullcontext(executor) as place:
            self.fit_ = fit_composite(
                encoded, vocabulary, shape, order, choice.starts, settings, place
            )
        self.answers_ = Answers(self.fit_, vocabulary, choice.names, choice.binarised)
        self.unknown_seen_ = bool((stream.stream == vocabulary.unknown).any())
        return self

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<S>` for sentence boundaries and `<unk>` for any other word."""
        return self._fitted().vocabulary

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
        return self._fitted().score_sentences(hold_documents(X))

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
        values = self._fitted().score_sentences(documents)
        spoken = [words for sentences in documents for words in sentences if len(words)]
        return TextScore.of_sentences(values, spoken, self.vocabulary_)

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
        return parse_sentences(self._fitted(), sentences, document)

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
        return parse_documents(self._fitted(), hold_documents(X))

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
        return self._fitted().next_word(words, n, document)

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
        return self._fitted().topic_words(n)

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
        return self._fitted().document_topics(hold_documents(X))

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
        return sample_documents(self._fitted(), n, sentences, seed, longest)

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
        return Vocabulary.from_counts(counts, size=self.vocabulary_size, min_count=self.min_count)

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
                raise SettingsError(f"{name} must be >= 1; got {getattr(self, name)}.")
        if self.dtype not in ("float32", "float64"):
            raise SettingsError(f"dtype {self.dtype!r} is not one of 'float32', 'float64'.")

    def _settings(
        self, checkpoint: PathLike | Checkpoint | None, resume: bool
    ) -> CompositeSettings:
        if resume and checkpoint is None:
            raise SettingsError("resume needs the checkpoint to go on from: checkpoint='FILE'.")
        single = self.dtype == "float32"
        em = EM(self.max_iterations, self.tolerance, slack=1e-5 if single else 1e-9)
        return CompositeSettings(
            em,
            self.rounds,
            WEIGHT_STEPS,
            self.longest,
            self.random_state,
            torch.float32 if single else torch.float64,
            choose_device(self.device),
            self.verbose,
            checkpoint_of(checkpoint),
            resume,
        )

    def _fitted(self) -> Answers:
        answers: Answers = self._after_fit("answers_")
        return answers
