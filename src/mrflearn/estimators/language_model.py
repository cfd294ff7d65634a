"""`LanguageModel`: the Markov random field of a text, learned in time independent of its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.language_model_answers import draw_sentences, fill_gap
from mrflearn.estimators.language_model_file import Learned, restore, store
from mrflearn.estimators.lifted_training import (
    Form,
    LiftedFit,
    LiftedSettings,
    NumberType,
    Start,
    train_lifted,
    train_on_best_weights,
)
from mrflearn.estimators.nearest_words import WordSpace
from mrflearn.estimators.neighbour_training import Direct, train_direct
from mrflearn.estimators.text_likelihood import LikelihoodMethod, TextLikelihood, likelihood
from mrflearn.estimators.text_moments import checked_moments, counted, moments_of
from mrflearn.features.moments import Moments
from mrflearn.inference.lifted import BoundName, Ceiling
from mrflearn.io.corpus import Text, encode_corpus, hold
from mrflearn.io.files import PathLike
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.neighbour_lm import BilinearPairs, ExplicitPairs, LowRankPairs
from mrflearn.models.storage import figure
from mrflearn.training.checkpoint import Checkpoint

Estimator = Literal["bound"] | Direct


class LanguageModel(WordSpace):
    """A field in which every word is bound to `context` neighbours on each side.

    dims: dimensions of the word vectors.
    estimator: `"bound"` makes a lower bound on the log-likelihood large, from moments alone;
        `"pl"` and `"pl-sgd"` the pseudolikelihood of the text, by L-BFGS or minibatches; `"ml"`
        the exact likelihood, for small vocabularies.
    bound: which lower bound: `"chains"`, the looser `"stars"` of [Jernite, Rush, Sontag 2015], or
        `"windows"`, all but exact: context 2, up to 4,000 words (20,000 on a GPU).
    weights: of the chains, one for each offset; None takes weights that fall with distance, and
        `"validation"` the best of several such on the validation text.
    form: pair scores `"low-rank"` (U W_l, eq. 5), `"bilinear"` (U R_l W, eq. 4) or `"explicit"`
        (a free table, for small vocabularies).
    triples: scores of three words in a row too, by windows; up to 128 words.
    l2: price of squared vector entries, in nats per position.
    max_evaluations, patience: training ends after so many evaluations of the bound, or once the
        validation bound has not risen for `patience` checks.
    warm_start: `fit` goes on from the last fit, with its vocabulary.
    dtype: `"float32"` or `"float64"`; None takes float64 for up to 1,000 words.  Where float32 gets
        stuck, training goes on in float64.
    """

    def __init__(
        self,
        context: int = 2,
        dims: int = 30,
        *,
        estimator: Estimator = "bound",
        bound: BoundName = "chains",
        weights: Sequence[float] | Literal["validation"] | None = None,
        form: Form = "low-rank",
        triples: bool = False,
        l2: float = 3e-6,
        minimum_count: int = 1,
        vocabulary_size: int | None = None,
        max_evaluations: int = 600,
        patience: int = 20,
        warm_start: bool = False,
        device: str = "cpu",
        dtype: NumberType | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.context = context
        self.dims = dims
        self.estimator = estimator
        self.bound = bound
        self.weights = weights
        self.form = form
        self.triples = triples
        self.l2 = l2
        self.minimum_count = minimum_count
        self.vocabulary_size = vocabulary_size
        self.max_evaluations = max_evaluations
        self.patience = patience
        self.warm_start = warm_start
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Text | Moments,
        y: object = None,
        *,
        valid: Text | Moments | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from lists of words, a text file with one sentence a line, or moments.

        With `valid` the model with the best bound there is kept.  Training by a bound is saved to
        `checkpoint` every minute, and with `resume` goes on from there.
        """
        del y  # scikit-learn passes it to every estimator
        earlier = getattr(self, "_learned", None) if self.warm_start else None
        moments = self._training_moments(X, None if earlier is None else earlier.vocabulary)
        held_out = None if valid is None else moments_of(valid, moments.vocabulary, self.context)
        settings = LiftedSettings(
            self.bound,
            None if isinstance(self.weights, str) else self.weights,
            self.form,
            self.triples,
            self.dims,
            self.l2,
            self.max_evaluations,
            self.patience,
            self.device,
            self.dtype,
            self.random_state,
            self.verbose,
            checkpoint,
            resume,
            None if earlier is None else Start(earlier.model, earlier.duals),
        )
        fitted = self._train(X, moments, settings, held_out)
        self.outcome_ = fitted.outcome
        lengths = np.stack([moments.lengths, moments.length_counts])
        assert moments.vocabulary is not None  # noqa: S101 - _training_moments made sure
        self._learned = Learned(
            fitted.model, fitted.duals, fitted.ceiling, moments.vocabulary, lengths
        )
        self.bound_ = self.log_likelihood(moments).per_position
        self.valid_bound_ = None if held_out is None else self.log_likelihood(held_out).per_position
        return self

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<S>` for the edge of a sentence and `<unk>` for any other word."""
        return self._fitted().vocabulary

    @property
    def ceiling_(self) -> Ceiling:
        """The proven upper bound on log Z that bounds of texts are counted with."""
        return self._fitted().ceiling

    @property
    def vectors_(self) -> NDArray[np.float32]:
        """The vector of each word (U), in the order of the vocabulary."""
        pairs = self._fitted().model.pairs
        if isinstance(pairs, ExplicitPairs):
            raise SettingsError("a model with explicit tables has no word vectors.")
        assert isinstance(pairs, (LowRankPairs, BilinearPairs))  # noqa: S101 - the other forms
        return np.asarray(pairs.left.cpu(), dtype=np.float32)

    def log_likelihood(
        self, X: Text | Moments, method: LikelihoodMethod = "bound"
    ) -> TextLikelihood:
        """How probable a text is, in nats; see `TextLikelihood` for what each method gives."""
        learned = self._fitted()
        moments = moments_of(X, learned.vocabulary, self.context)
        text = None if isinstance(X, Moments) else X
        ids = None if text is None else encode_corpus(hold(text), learned.vocabulary)
        return likelihood(learned, moments, ids, method, self.random_state)

    def score(self, X: Text | Moments, y: object = None) -> float:
        """The certified lower bound on the log-likelihood, in nats per position."""
        del y
        return self.log_likelihood(X).per_position

    def fill(
        self, words: Sequence[str | None], top: int = 10, *, gap: str = "_"
    ) -> list[tuple[str, float]]:
        """The most probable words for the one gap (`None` or `"_"`) of a sentence.

        Probabilities are exact: p(word | all other words), from both sides.
        """
        return fill_gap(self._fitted(), words, top, gap)

    def sample(
        self, count: int = 1, *, seed: int | None = None, sweeps: int = 50
    ) -> list[list[str]]:
        """New sentences: a length as often as the text had it, then its words.

        Words are drawn exactly for small vocabularies, else by Gibbs sweeps.
        """
        generator = np.random.default_rng(self.random_state if seed is None else seed)
        return draw_sentences(self._fitted(), count, generator, sweeps)

    def _learned_parts(self) -> Parts:
        kept, tensors = store(self._fitted())
        return {**kept, "bound": self.bound_, "valid_bound": self.valid_bound_}, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._learned = restore(self.form, learned, tensors)
        self.bound_ = figure(learned["bound"])
        held_out = learned["valid_bound"]
        self.valid_bound_ = None if held_out is None else figure(held_out)

    def _stored_settings(self) -> dict[str, Any]:
        weights = list(self.ceiling_.weights) if self.bound == "chains" else None
        return {**super()._stored_settings(), "weights": weights}

    def _train(
        self,
        text: Text | Moments,
        moments: Moments,
        settings: LiftedSettings,
        valid: Moments | None,
    ) -> LiftedFit:
        if self.estimator == "bound" and not self._chooses_weights:
            return train_lifted(moments, settings, valid)
        if self.estimator == "bound":
            if valid is None:
                raise DataError("weights='validation' needs a validation text: valid=...")
            return train_on_best_weights(moments, settings, valid)
        if self.estimator not in ("pl", "pl-sgd", "ml"):
            known = "'bound', 'pl', 'pl-sgd', 'ml'"
            raise SettingsError(f"estimator {self.estimator!r} is not one of {known}.")
        if isinstance(text, Moments):
            if self.estimator != "ml":
                raise DataError("pseudolikelihood reads the text itself, not only its moments.")
            return train_direct("ml", moments, None, settings)
        assert moments.vocabulary is not None  # noqa: S101 - _training_moments made sure
        ids = encode_corpus(hold(text), moments.vocabulary)
        return train_direct(self.estimator, moments, ids, settings)

    def _training_moments(self, text: Text | Moments, known: Vocabulary | None = None) -> Moments:
        if isinstance(text, Moments):
            moments = checked_moments(text, self.context)
            return moments if known is None else moments_of(moments, known, self.context)
        if known is not None:
            return moments_of(text, known, self.context)
        return counted(
            text, self.context, size=self.vocabulary_size, minimum_count=self.minimum_count
        )

    @property
    def _chooses_weights(self) -> bool:
        return isinstance(self.weights, str) and self.bound == "chains"

    def _fitted(self) -> Learned:
        learned: Learned = self._after_fit("_learned")
        return learned
