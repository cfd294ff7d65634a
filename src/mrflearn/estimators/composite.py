"""Composite language models: n-gram, PCFG and PLSA in one directed field."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.composite_answers import CompositeQuestions
from mrflearn.estimators.composite_memory import (
    PLAIN,
    Memory,
    class_sizes,
    longer_order,
    source_names,
)
from mrflearn.estimators.composite_training import CompositeFit, CompositeTraining, rows_of
from mrflearn.execution.executor import Executor, executor_for
from mrflearn.execution.resources import one_thread
from mrflearn.features.ngrams import NgramIndex
from mrflearn.io.corpus import Documents, Vocabulary, hold_documents
from mrflearn.io.files import PathLike
from mrflearn.kernels.rules import RULE_COLUMNS, RuleShape
from mrflearn.models.composite_lm import GIVEN, CompositeModel, CompositeShape, Level
from mrflearn.models.ngram import NgramLevel, NgramModel
from mrflearn.models.storage import figure, texts
from mrflearn.models.token_mixture import TokenMixture
from mrflearn.objectives.base import under
from mrflearn.training.checkpoint import Checkpoint, checkpoint_of
from mrflearn.training.composite_start import GrammarLike

SHARED = ("words", "unknown_seen")  # what a model without its grammar has in common with it
CONTEXT_PARTS = ("seen", "kinds", "suffixes", "shorter")  # of an n-gram level, by order


@dataclass(kw_only=True, eq=False, repr=False)
class CompositeLanguageModel(CompositeQuestions):
    """A language model of documents: word n-grams, phrase structure and topics in one [Wang 2005].

    By derivations alone and without grammar and topics it is `NgramLanguageModel`; with one part,
    PCFG or PLSA.

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
    cache
        Whether words may also come from caches of their document so far.
    derivation_only
        Whether words come from derivations alone, as in the paper; else each may also come from one
        part alone, an n-gram model of order 5, the same model without its grammar or a cache, with
        weights from folds of the text, so that a part that does not fit the text has no weight.
    longest
        In training, longer sentences teach words and topics but not the grammar.
    min_count
        Words seen less often are read as `<unk>`.
    vocabulary_size
        Only this many words are kept, the most frequent; None keeps all.
    max_iterations
        Most iterations of EM, all rounds together.
    rounds
        Rounds that they are divided into equally; weights of levels are estimated between rounds.
    tolerance
        A round ends once the log-likelihood rises by less than this, relatively.
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
        The model with the names of its symbols, the history of EM and why it ended.
    unknown_seen_ : bool
        Whether the training text held `<unk>`.
    unknown_policy_ : str
        How words outside the vocabulary are scored, in words.

    """

    order: int = field(default=3, kw_only=False)
    grammar: GrammarLike = None
    topics: int = 1
    horizontal: int | None = 1
    levels: Sequence[str] | None = None
    cache: bool = True
    derivation_only: bool = False
    longest: int | None = 40
    min_count: int = 1
    vocabulary_size: int | None = None
    max_iterations: int = 20
    rounds: int = 4
    tolerance: float = 1e-5
    restarts: int = 1
    dtype: Literal["float32", "float64"] = "float64"
    random_state: int = 0
    device: str = "cpu"
    n_jobs: int | None = None
    verbose: bool = False

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
        for name in ("order", "topics", "rounds", "restarts"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be >= 1; got {getattr(self, name)}.")
        saved = checkpoint_of(checkpoint) if checkpoint or resume else None
        documents = hold_documents(X)
        with executor_for(self.n_jobs) if executor is None else nullcontext(executor) as place:
            training = CompositeTraining(self, documents, place, saved, resume)
            self.fit_ = training.fit()
        self.unknown_seen_ = bool((training.text.stream == self.vocabulary_.unknown).any())
        return self

    def _learned_parts(self) -> Parts:
        fit = self.fit_
        shape, level = fit.model.shape, fit.ngrams
        tensors = {f"model.{name}": value for name, value in fit.model.tensors().items()}
        tensors["prior"] = torch.from_numpy(fit.prior)
        tensors["tag_of_word"] = torch.from_numpy(fit.tag_of_word)
        tensors |= {f"index.{n}": torch.from_numpy(c) for n, c in enumerate(shape.index.codes, 2)}
        if shape.grammar is not None:
            tensors |= {f"wiring.{name}": getattr(shape.grammar, name) for name in RULE_COLUMNS}
        if level is not None:
            tensors |= _level_tensors("ngram", level)
        if fit.memory is not None:
            tensors |= _level_tensors("memory", fit.memory.level)
            tensors["mixture.unigrams"] = torch.from_numpy(fit.memory.unigrams)
            tensors["mixture.weights"] = torch.from_numpy(fit.memory.mixture.weights)
        learned: dict[str, Any] = {
            "words": list(fit.vocabulary.words),
            "symbols": list(fit.names),
            "phrases": None if shape.grammar is None else shape.grammar.phrases,
            "dense": shape.grammar is not None and shape.grammar.dense,
            "level_names": [str(level) for level in shape.levels],
            "buckets": shape.buckets,
            "strength": fit.strength,
            "history": [[row.iteration, row.value, row.seconds] for row in fit.history],
            "held_out": list(fit.held_out),
            "reason": fit.reason,
            "sources": [] if fit.memory is None else list(fit.memory.mixture.names),
            "unknown_seen": self.unknown_seen_,
        }
        for plain in self._models()[1:]:
            own, more = plain._learned_parts()
            learned["plain"] = {name: own[name] for name in own if name not in SHARED}
            tensors |= {f"plain.{name}": table for name, table in more.items()
                        if not name.startswith("ngram.")}  # fmt: skip
        return learned, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        vocabulary, names = Vocabulary(texts(learned, "words")), texts(learned, "symbols")
        levels = tuple(Level.read(name) for name in texts(learned, "level_names"))
        orders = range(2, 2 + max((level.words for level in levels), default=0))
        codes = tuple(tensors[f"index.{n}"].cpu().numpy() for n in orders)
        index = NgramIndex(len(vocabulary), vocabulary.separator, codes)
        wiring = None
        if learned["phrases"] is not None:
            parent, left, right = (tensors[f"wiring.{name}"] for name in RULE_COLUMNS)
            phrases, tags = learned["phrases"], len(names) - learned["phrases"]
            wiring = RuleShape(phrases, tags, parent, left, right, dense=learned["dense"])
        shape = CompositeShape(levels, index, wiring, self.topics, learned["buckets"])
        model, ngrams = CompositeModel.of(shape, under("model.", tensors)), None
        for level, table in zip(shape.levels, model.tables, strict=True):
            if tuple(table.shape) != shape.table_shape(level):
                raise DataError(f"level '{level}' has a table of another size than its text")
        if model.weights.shape[2] != len(shape.levels) + GIVEN:
            raise DataError("it has weights for other levels than it has")
        if self.order > 1:
            ngrams = _read_level("ngram", vocabulary, self.order, tensors)
        memory, sources = None, tuple(texts(learned, "sources"))
        if sources:
            weights = tensors["mixture.weights"].cpu().numpy()
            kinds = class_sizes(self.order, cached=self.cache)
            every = source_names(shape, self.order, cached=self.cache)
            known = tuple(name for name in every if name != PLAIN or name in sources)
            if weights.shape != (np.prod(kinds), len(sources)) or sources != known:
                raise DataError("it has weights for other sources than it has")
            longer = _read_level("memory", vocabulary, longer_order(self.order), tensors)
            unigrams = tensors["mixture.unigrams"].cpu().numpy()
            plain = None
            if PLAIN in sources:
                own, shared = copy.copy(self), {name: learned[name] for name in SHARED}
                held = {f"ngram.{n}": table for n, table in under("ngram.", tensors).items()}
                own._restore({**learned["plain"], **shared}, held | under("plain.", tensors))
                plain = own.fit_
            memory = Memory(longer, unigrams, TokenMixture(sources, weights), plain)
        self.fit_ = CompositeFit(
            model,
            vocabulary,
            names,
            ngrams,
            memory,
            tensors["tag_of_word"].cpu().numpy(),
            tensors["prior"].cpu().numpy(),
            figure(learned["strength"]),
            rows_of([list(map(figure, row)) for row in learned["history"]]),
            tuple(map(figure, learned["held_out"])),
            str(learned["reason"]),
        )
        self.unknown_seen_ = bool(learned["unknown_seen"])

    def _stored_settings(self) -> dict[str, Any]:
        plain = self.grammar is None or isinstance(self.grammar, str)
        return {
            **super()._stored_settings(),
            "grammar": self.grammar if plain else "given in Python",
            "levels": None if self.levels is None else list(self.levels),
        }


def _level_tensors(name: str, level: NgramLevel) -> dict[str, Tensor]:
    """The tables and contexts of an n-gram level, under a name."""
    tensors = {f"{name}.{part}": table for part, table in level.model.tensors().items()}
    for part in CONTEXT_PARTS:
        for n, numbers in enumerate(getattr(level, part), start=2):
            tensors[f"{name}.{part}.{n}"] = torch.from_numpy(numbers.astype(np.int64))
    return tensors


def _read_level(
    name: str, vocabulary: Vocabulary, order: int, tensors: dict[str, Tensor]
) -> NgramLevel:
    """The n-gram level that `_level_tensors` gave."""
    own = under(f"{name}.", tensors)
    parts = (
        tuple(own[f"{part}.{n}"].cpu().numpy() for n in range(2, order + 1))
        for part in CONTEXT_PARTS
    )
    return NgramLevel(NgramModel.from_tensors(vocabulary, order, own), *parts)
