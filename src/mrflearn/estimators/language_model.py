"""The lifted MRF language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, InferenceError, SettingsError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.language_model_answers import LanguageModelAnswers
from mrflearn.estimators.lifted_training import (
    BoundName,
    Direct,
    Form,
    LiftedFit,
    LiftedSettings,
    NumberType,
    train_direct,
    train_lifted,
    train_on_best_weights,
)
from mrflearn.estimators.text_score import TextScore, TextScoreKind
from mrflearn.estimators.trigram_training import train_trigrams
from mrflearn.features.moments import Moments, moments_of, ring_of
from mrflearn.graph.lifted import WordPotentials
from mrflearn.graph.trigrams import TrigramPotentials
from mrflearn.inference import transfer
from mrflearn.inference.annealed import annealed_ring
from mrflearn.inference.lifted import LogPartitionBound
from mrflearn.inference.trigrams import certified, trigram_marginals
from mrflearn.io.corpus import LINE_END_ID, Text, Vocabulary, encode_corpus, hold
from mrflearn.io.files import PathLike
from mrflearn.models.lifted import FORMS, NeighbourModel
from mrflearn.models.storage import figure, record, texts
from mrflearn.models.trigrams import TrigramModel
from mrflearn.objectives.lifted import WordFrequencies
from mrflearn.objectives.trigrams import TrigramFrequencies
from mrflearn.training.checkpoint import Checkpoint

WORDS_AT_A_TIME, POSITIONS_AT_A_TIME = 256, 1024  # where scores are summed over a text
Estimator = Literal["bound"] | Direct
# What training takes over as it is.
SETTINGS = (
    *("bound", "form", "triples", "order", "dims", "l1", "l2", "max_iterations"),
    *("tolerance", "patience", "device", "dtype"),
)


@dataclass(kw_only=True, eq=False, repr=False)
class LanguageModel(LanguageModelAnswers):
    """Markov random field of a text: each word interacts with `context` neighbours on each side.

    It is learned from counts of word pairs, in time independent of the length of the text
    [Jernite, Rush, Sontag 2015].

    Parameters
    ----------
    dims
        Dimensions of the word vectors.
    context
        Neighbours on each side of a word.
    estimator
        `"bound"` maximises a lower bound on the log-likelihood, from counts alone; `"pl"` and
        `"pl-sgd"` the pseudolikelihood of the text, by L-BFGS or minibatches; `"ml"` the exact
        likelihood, for small vocabularies.
    bound
        Which lower bound: `"chains"`; the looser `"stars"` of the paper; or `"windows"`, nearly
        exact: context 2, up to 4,000 words (20,000 on a GPU).
    weights
        Weights of the chains, one per offset; None takes weights that fall with distance,
        `"validation"` the best of several such on the validation text.
    form
        Pair scores `"low-rank"` (U W_l, eq. 5), `"bilinear"` (U R_l W, eq. 4) or `"explicit"`
        (a free table, for small vocabularies).
    triples
        Whether pairs and triples of words that the text has get sparse scores of their own beside
        the vectors: the best models, bounded all but exactly.  Context 2, up to 5,000 words (40,000
        on a GPU); `bound` and `weights` have no say.  With `form="explicit"` (bound `"windows"`)
        or another `estimator` all triples have free scores; up to 128 words.
    order
        With sparse scores, the longest n-grams that have such: 3, 4 or 5.  Longer ones are better,
        and counted from the text itself, not from moments.
    l1
        L1 regularisation strength of the sparse scores of triples, in nats per position; of those
        of pairs a little more.  None takes 0.58 / positions, as a discount of counts.
    l2
        L2 regularisation strength of the vectors, in nats per position.  None takes 2.9 / positions
        (0.3 / positions for free tables), the same Gaussian prior whatever the length of the text:
        3e-6 for a million words, 3e-4 for 10,000.  With sparse scores None takes 5.2 / positions,
        and frequent words have more of it, rare ones less.
    min_count
        Words seen less often are read as `<unk>`.
    vocabulary_size
        Only this many words are kept, the most frequent; None keeps all.
    max_iterations
        Most iterations of L-BFGS; `"pl-sgd"` makes five passes instead.  Sparse scores are trained
        by so many steps of Adam, whose rate falls to 0 over them.
    tolerance
        L-BFGS stops once the relative norm of the gradient is below it; None takes 1e-7 for
        bounds, 1e-8 for `"ml"` and 1e-6 for `"pl"`.  With None, chains and stars of more than
        1,000 words stop, too, once ten iterations gain less than 5e-4 of the value.
    patience
        Training by a bound stops once the validation bound has not risen for this many checks; with
        sparse scores it goes to its end, and the best model on the way is kept.
    warm_start
        Whether `fit` continues from the last fit, with its vocabulary.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    dtype
        `"float32"` or `"float64"`.  None takes float64 for up to 1,000 words and for `"ml"`, and
        float32 for `"pl"`.  Where float32 makes no more progress with a bound, training continues
        in float64.
    random_state
        Seed of the start, of minibatches, of annealed estimates and of `sample`.
    verbose
        Whether to show progress.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The words, with `<S>` for sentence boundaries and `<unk>` for any other word.
    unknown_seen_ : bool
        Whether the training text held `<unk>`; else text with other words has hardly a probability.
    vectors_ : ndarray of shape (words, dims)
        The vector of each word (U), in the order of the vocabulary.
    bound_, validation_bound_ : float
        Proven lower bounds on the log-likelihood of the training and the validation text, in nats
        per position; the second is None without a validation text.
    log_partition_bound_ : LogPartitionBound
        The proven upper bound on log Z that these bounds are computed with.
    model_ : NeighbourModel or TrigramModel
        The parameters, with the dual variables of the bound; or with sparse scores and their codes.
    outcome_ : Outcome
        How training went: iterations, evaluations, why it ended, history.

    """

    dims: int = field(default=30, kw_only=False)
    context: int = field(default=2, kw_only=False)
    estimator: Estimator = "bound"
    bound: BoundName = "chains"
    weights: Sequence[float] | Literal["validation"] | None = None
    form: Form = "low-rank"
    triples: bool = False
    order: int = 3
    l1: float | None = None
    l2: float | None = None
    min_count: int = 1
    vocabulary_size: int | None = None
    max_iterations: int = 600
    tolerance: float | None = None
    patience: int = 20
    warm_start: bool = False
    device: str = "cpu"
    dtype: NumberType | None = None
    random_state: int = 0
    verbose: bool = False

    def fit(
        self,
        X: Text | Moments,
        y: object = None,
        *,
        validation: Text | Moments | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from a text or from its counts.

        Parameters
        ----------
        X
            Sentences, each a list of words; a text file with one sentence per line; or moments.
        y
            Ignored; scikit-learn passes it to every estimator.
        validation
            Text or moments; training by a bound keeps the model with the best bound there.
        checkpoint
            A file that training by a bound is saved to every minute.
        resume
            Whether to continue from the checkpoint.

        Returns
        -------
        LanguageModel
            The estimator itself.

        """
        del y
        if self.dims < 1:
            raise SettingsError(f"dims must be >= 1; got {self.dims}.")
        text = X if isinstance(X, Moments) else hold(X)
        start = getattr(self, "model_", None) if self.warm_start else None
        known = None if start is None else self.vocabulary_
        moments = self._counted(text, known)
        words = moments.vocabulary
        assert words is not None  # noqa: S101 - `moments_of` made sure
        held_out = None if validation is None else self._counted(validation, words)
        settings = LiftedSettings(
            weights=None if isinstance(self.weights, str) else self.weights,
            seed=self.random_state,
            progress=self.verbose,
            checkpoint=checkpoint,
            resume=resume,
            start=start,
            **{name: getattr(self, name) for name in SETTINGS},
        )
        fitted = self._train(text, moments, settings, held_out)
        self.outcome_, self.log_partition_bound_ = fitted
        self.model_, self.vocabulary_, self._right = fitted.model, words, None
        self.unknown_seen_ = bool(moments.unary[words.unknown])
        self._lengths = np.stack([moments.lengths, moments.length_counts])
        self.bound_ = self._mean_bound(moments)
        self.validation_bound_ = None if held_out is None else self._mean_bound(held_out)
        return self

    @property
    def vectors_(self) -> NDArray[np.float32]:  # type: ignore[override]  # only asked for
        """The vector of each word (U), in the order of the vocabulary."""
        found = self.model_.word_vectors
        if found is None:
            raise SettingsError("a model with explicit tables has no word vectors.")
        return np.asarray(found.cpu(), dtype=np.float32)

    def log_likelihood(self, X: Text | Moments, method: TextScoreKind = "bound") -> TextScore:
        """Log-likelihood of a text, by a method of choice.

        Parameters
        ----------
        X
            Sentences, a text file, or moments (not for `"exact"` and `"pl"`).
        method
            `"bound"`, `"exact"`, `"ring"`, `"ais"` or `"pl"`; see `TextScore.kind`.

        Returns
        -------
        TextScore
            The value in nats with its kind, and what it is spread over.

        """
        if method not in get_args(TextScoreKind):
            raise SettingsError(f"method {method!r} is not one of {get_args(TextScoreKind)}.")
        ids = None if isinstance(X, Moments) else encode_corpus(hold(X), self.vocabulary_)
        moments = self._counted(X, self.vocabulary_, ids)
        errors: dict[str, Any] = {}
        if method in ("exact", "pl"):
            if ids is None:
                raise DataError(f"method {method!r} needs the text itself, not only its moments.")
            total = self._of_sentences(ids) if method == "exact" else self._of_gaps(ids)
        elif method == "bound":
            moments = self._bounded(moments)
            total = self._mean_bound(moments) * moments.positions
        else:
            positions, potentials = moments.positions, self.model_.potentials()
            if method == "ring":
                normaliser = self._of_ring(positions) / positions
            elif isinstance(potentials, TrigramPotentials):
                raise SettingsError(
                    "with sparse scores of three words in a row the bound is all but exact, and "
                    "there is no annealed estimate beside it: choose method 'bound'."
                )
            else:
                generator = torch.Generator(device=potentials.unary.device)
                generator.manual_seed(self.random_state)
                estimate = annealed_ring(potentials, generator)
                normaliser = float(estimate.log_partition)
                errors["standard_error"] = float(estimate.standard_error) * positions
                errors["effective_chains"] = float(estimate.effective_chains)
                errors["reliable"] = bool(estimate.reliable)
            total = (self._mean_score(moments) - normaliser) * positions
        counts = moments.words, moments.sentences, int(moments.unary[self.vocabulary_.unknown])
        return TextScore(total, *counts, method, moments.positions, **errors)

    def text_score(self, X: Text | Moments) -> TextScore:
        """Proven lower bound on the log-likelihood of a text: `log_likelihood(X, "bound")`.

        Parameters
        ----------
        X
            Sentences, each a list of words; a text file with one sentence per line; or moments.

        Returns
        -------
        TextScore
            The bound in nats (kind `"bound"`), and what it is spread over; its perplexity is an
            upper bound on that of the model.

        """
        return self.log_likelihood(X)

    @torch.no_grad()
    def score_samples(self, X: Text) -> NDArray[np.float64]:
        """Share of each sentence in the lower bound on the log-likelihood of the text.

        Parameters
        ----------
        X
            Sentences, each a list of words, or a text file with one sentence per line.

        Returns
        -------
        ndarray of shape (sentences,)
            Nats; they add up to `text_score(X).log_likelihood`.  Blank sentences are skipped.

        """
        if isinstance(X, Moments):
            raise DataError("score_samples needs the text itself, not only its moments.")
        ids = encode_corpus(hold(X), self.vocabulary_)
        moments = self._counted(X, self.vocabulary_, ids)
        potentials, separator = self.model_.potentials().double(), self.vocabulary_.separator
        reach = potentials.offsets
        # A sentence owns its words and the K separators behind it: pairs reach no further.
        line, closing, copies = ring_of(ids, separator, moments.context)
        ring = torch.from_numpy(np.concatenate([np.full(reach, separator), line]))
        ring = ring.to(potentials.unary.device)
        pieces = [
            potentials.position_scores(ring[start : start + reach + POSITIONS_AT_A_TIME])
            for start in range(0, len(line), POSITIONS_AT_A_TIME)
        ]
        values = torch.cat(pieces).cpu().numpy()
        after = np.cumsum(copies)[closing]
        first = np.concatenate([[0], after[:-1]])
        moments = self._bounded(moments)
        normaliser = self.log_partition_bound_.per_position(moments.positions)
        shares = np.add.reduceat(values, first) - (after - first) * normaliser
        total = self._mean_bound(moments) * moments.positions
        # Separators that round the ring of stars up belong to no sentence: shared by all.
        return np.asarray(shares + (total - shares.sum()) / len(shares))

    def _learned_parts(self) -> Parts:
        kept = {
            "log_partition_bound": asdict(self.log_partition_bound_),
            "words": list(self.vocabulary_.words),
            "unknown_seen": self.unknown_seen_,
            "bound": self.bound_,
            "validation_bound": self.validation_bound_,
            **self._training_parts(),
        }
        tensors = {**self.model_.parameters(), "lengths": torch.from_numpy(self._lengths)}
        if isinstance(self.model_, TrigramModel):
            tensors |= {f"codes.{name}": own for name, own in self.model_.codes.items()}
        return kept, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.vocabulary_ = Vocabulary(texts(learned, "words"))
        self.model_ = model = self._restored_model(tensors)
        self.log_partition_bound_ = record(LogPartitionBound, learned["log_partition_bound"])
        self.unknown_seen_ = bool(learned["unknown_seen"])
        self._lengths = tensors["lengths"].cpu().numpy()
        self.bound_ = figure(learned["bound"])
        held_out = learned["validation_bound"]
        self.validation_bound_ = None if held_out is None else figure(held_out)
        self._restore_training(model, learned)

    def _restored_model(self, tensors: dict[str, Tensor]) -> NeighbourModel | TrigramModel:
        words = self.vocabulary_
        if "codes.triples" in tensors:
            found = TrigramModel.from_tensors(tensors, words.separator)
            if found.states != len(words):
                raise DataError("words and scores differ in number")
            return found
        pairs = {name: tensors[name] for name in FORMS[self.form]}
        duals, triples = tensors["duals"], tensors.get("triples")
        model = NeighbourModel(tensors["unary"], pairs, triples, duals)
        if len(words) != model.states or duals.shape != (model.offsets, model.states):
            raise DataError("words, duals and scores differ in number")
        return model

    def _stored_settings(self) -> dict[str, Any]:
        weights = list(self.log_partition_bound_.weights) if self.bound == "chains" else None
        weights = weights or None  # sparse scores have none
        return {**super()._stored_settings(), "weights": weights}

    def _train(
        self,
        text: Text | Moments,
        moments: Moments,
        settings: LiftedSettings,
        validation: Moments | None,
    ) -> LiftedFit[Any]:
        if self.estimator != "bound":
            return train_direct(self.estimator, moments, text, settings)
        if self.triples and self.form == "low-rank":
            return train_trigrams(moments, settings, validation)
        if not (isinstance(self.weights, str) and self.bound == "chains"):
            return train_lifted(moments, settings, validation)
        if validation is None:
            raise DataError("weights='validation' needs a validation text: validation=...")
        return train_on_best_weights(moments, settings, validation)

    def _bounded(self, moments: Moments) -> Moments:
        """The ring that the bound is of: stars need a multiple of K + 1 positions."""
        multiple = self.log_partition_bound_.multiple
        return moments.rounded_up(multiple) if multiple > 1 else moments

    def _mean_bound(self, moments: Moments) -> float:
        """The lower bound on the log-likelihood per position of the ring that it is of."""
        moments = self._bounded(moments)
        normaliser = self.log_partition_bound_.per_position(moments.positions)
        return self._mean_score(moments) - normaliser

    def _mean_score(self, moments: Moments) -> float:
        """The mean score of a position."""
        potentials = self.model_.potentials().double()
        if isinstance(potentials, TrigramPotentials):
            found = TrigramFrequencies.of(moments, potentials.unary, potentials)
            return float(found.mean_score(potentials))
        return float(WordFrequencies.of(moments, potentials.unary).mean_score(potentials))

    def _counted(
        self,
        text: Text | Moments,
        known: Vocabulary | None,
        ids: NDArray[np.int32] | None = None,
    ) -> Moments:
        """The moments of a text over a known vocabulary, or its own; `ids` where it is encoded."""
        limits = {"vocabulary_size": self.vocabulary_size, "min_count": self.min_count}
        more: dict[str, Any] = {"ids": ids, "triples": self.triples, **limits}
        if self.triples and self.form == "low-rank" and self.estimator == "bound":
            more["order"] = self.order
        return moments_of(text, self.context, known, **more)

    def _explicit(self) -> WordPotentials:
        """All scores in double precision, those of all triples among them."""
        potentials = self.model_.potentials().double()
        if not isinstance(potentials, TrigramPotentials):
            return potentials
        if potentials.longer:
            raise InferenceError("n-grams longer than 3 have no exact method: try method='bound'.")
        reason = transfer.too_many_windows(potentials.states, 2, "Try method='bound'.")
        if reason is not None:
            raise InferenceError(reason)
        return potentials.dense()

    def _of_ring(self, positions: int) -> float:
        """log Z of a ring; with sparse scores of three in a row, of one cut between sentences."""
        sparse = isinstance(self.model_, TrigramModel)
        anchor = self.vocabulary_.separator if sparse else None
        return float(transfer.ring_log_partition(self._explicit(), positions, anchor))

    def _of_sentences(self, ids: NDArray[np.int32]) -> float:
        """The log-likelihood of sentences, given their lengths."""
        potentials, separator = self._explicit(), self.vocabulary_.separator
        words = [part[part != LINE_END_ID] for part in np.split(ids, np.flatnonzero(ids < 0))]
        lines = [torch.from_numpy(part.astype(np.int64)) for part in words if len(part)]
        totals = transfer.sentence_log_partitions(potentials, separator, max(map(len, lines)))
        total = 0.0
        for line in lines:
            score = transfer.sentence_score(potentials, separator, line)
            total += float(score - totals[len(line)])
        return total

    def _of_gaps(self, ids: NDArray[np.int32]) -> float:
        """The sum of log p(word | all other words)."""
        return float(self._gap_log_likelihoods(ids).sum())

    def prune(self, size: int, X: Text | Moments) -> Self:
        """Keeps the most useful sparse scores of a model with `triples`; its bound is proven again.

        Parameters
        ----------
        size
            How many sparse scores of pairs and triples to keep.  A score w of what the field has
            with frequency p counts as p (exp(-w) - 1 + w): so much relative entropy is lost
            without it.
        X
            The training text, or its counts, for `bound_`; `validation_bound_` becomes None.

        Returns
        -------
        LanguageModel
            The estimator itself.

        """
        model = self._trigrams("prune")
        if size < 0:
            raise SettingsError(f"size must be >= 0; got {size}.")
        moments = self._counted(X, self.vocabulary_)
        near, far, triples, longer = trigram_marginals(model.potentials())
        self.model_ = model.pruned(size, near, far, triples, longer)
        self.log_partition_bound_ = certified(self.model_.potentials()).bound
        self._right = None
        self.bound_, self.validation_bound_ = self._mean_bound(moments), None
        return self
