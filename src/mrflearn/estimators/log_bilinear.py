"""`LogBilinearLanguageModel`: a left-context neural baseline with exact probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.left_to_right import LeftToRight
from mrflearn.execution.device import choose_device
from mrflearn.features.ngrams import left_contexts, sentence_stream
from mrflearn.io.corpus import Text, count_corpus, encode_corpus, hold
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.log_bilinear import LogBilinearModel
from mrflearn.models.ngram import TokenScores
from mrflearn.models.parameters import Layout
from mrflearn.models.storage import texts
from mrflearn.objectives.log_bilinear import Predictions, value_and_gradient
from mrflearn.training.adagrad import Adagrad
from mrflearn.training.callbacks import EarlyStopping
from mrflearn.training.halving import HalvingSGD
from mrflearn.training.minimising import minimise
from mrflearn.training.optimiser import Optimiser
from mrflearn.training.outcome import Outcome

ROWS = 2048  # contexts scored at once; bounds memory, changes no result


class LogBilinearLanguageModel(LeftToRight):
    """The log-bilinear model of Mnih & Hinton 2007 over the words to the left.

    optimiser: `"adagrad"`, or `"sgd"` whose rate is halved whenever the validation score falls
        (the paper's, with rate 0.1 and minibatches of 64), which needs `valid`.
    rate: of a mean over the minibatch for sgd; of each weight for adagrad.
    """

    def __init__(
        self,
        context: int = 2,
        dims: int = 30,
        *,
        optimiser: Literal["adagrad", "sgd"] = "adagrad",
        rate: float = 0.1,
        batch_size: int = 256,
        epochs: int = 20,
        patience: int = 2,
        minimum_count: int = 1,
        vocabulary_size: int | None = None,
        device: str = "cpu",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.context = context
        self.dims = dims
        self.optimiser = optimiser
        self.rate = rate
        self.batch_size = batch_size
        self.epochs = epochs
        self.patience = patience
        self.minimum_count = minimum_count
        self.vocabulary_size = vocabulary_size
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Text, y: object = None, *, valid: Text | None = None) -> Self:
        """Learns from text; with `valid` the epoch that scores it best is kept."""
        del y  # scikit-learn passes it to every estimator
        text = hold(X)
        self.vocabulary_ = Vocabulary.from_counts(
            count_corpus(text), size=self.vocabulary_size, minimum_count=self.minimum_count
        )
        train = self._predictions(self._stream(text))
        generator = torch.Generator().manual_seed(self.random_state)
        order = torch.randperm(len(train.targets), generator=generator).to(train.targets.device)
        start = self._start(train, generator)
        layout = Layout.of(start.parameters())
        vector = layout.flatten(start.parameters())
        batches = [
            Predictions(train.contexts[rows], train.targets[rows])
            for rows in order.split(self.batch_size)
        ]
        buffer = torch.empty_like(vector)
        validate = None if valid is None else self._validation(layout, hold(valid))
        outcome: Outcome[Tensor] = minimise(
            [value_and_gradient(layout, batch, buffer) for batch in batches],
            vector,
            self._optimiser(validate),
            callbacks=[EarlyStopping(validate, self.patience)] if validate else (),
            progress=self.verbose,
            seed=self.random_state,
        )
        self.outcome_ = outcome
        self.model_ = LogBilinearModel(**layout.unflatten(outcome.model))
        return self

    @property
    def vectors_(self) -> NDArray[np.float32]:
        """The vector of each word of `vocabulary_`."""
        return np.asarray(self._fitted().vectors.cpu())

    def token_scores(self, X: Text) -> TokenScores:
        """The log-probability of every word and sentence end, with which words were unknown."""
        model = self._fitted()
        stream = self._stream(hold(X))
        values = _log_probabilities(model, self._predictions(stream))
        ends = stream[1:] == self.vocabulary_.separator
        return TokenScores(values, ends, stream[1:] == self.vocabulary_.unknown)

    def next_word(self, words: Sequence[str] = (), top: int = 10) -> list[tuple[str, float]]:
        """The most probable continuations of a sentence's beginning; `</s>` is its end."""
        model, vocabulary = self._fitted(), self.vocabulary_
        stream = np.array([vocabulary.separator, *vocabulary.encode(words).tolist(), 0])
        contexts = left_contexts(stream, self.context, vocabulary.separator)[-1:]
        scores = model.scores(torch.as_tensor(contexts, device=model.vectors.device))
        best = scores[0].softmax(0).topk(min(top, len(vocabulary)))
        names = vocabulary.decode(best.indices.tolist())
        separator = vocabulary.words[vocabulary.separator]
        names = ["</s>" if name == separator else name for name in names]
        return list(zip(names, best.values.tolist(), strict=True))

    def _learned_parts(self) -> Parts:
        return {"words": list(self.vocabulary_.words)}, self._fitted().parameters()

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.vocabulary_ = Vocabulary(texts(learned, "words"))
        self.model_ = LogBilinearModel(**tensors)

    def _optimiser(self, validate: Any) -> Optimiser[Any]:
        if self.optimiser == "adagrad":
            return Adagrad(rate=self.rate, epochs=self.epochs)
        if self.optimiser != "sgd":
            raise SettingsError(f"optimiser {self.optimiser!r} is not one of 'adagrad', 'sgd'.")
        if validate is None:
            raise SettingsError("optimiser='sgd' halves its rate on a validation text: give valid.")
        step = self.rate / self.batch_size  # gradients are sums over the minibatch
        return HalvingSGD(validate, rate=step, least=step / 100, epochs=self.epochs)

    def _validation(self, layout: Layout, text: Text) -> Any:
        held_out = self._predictions(self._stream(text))

        def validate(vector: Tensor) -> float:
            model = LogBilinearModel(**layout.unflatten(vector))
            return float(_log_probabilities(model, held_out).mean())

        return validate

    def _start(self, train: Predictions, generator: torch.Generator) -> LogBilinearModel:
        counts = torch.bincount(train.targets.cpu(), minlength=len(self.vocabulary_)).float() + 0.1
        start = LogBilinearModel.start(
            (counts / counts.sum()).log(), self.context, self.dims, generator
        )
        device = train.targets.device
        return LogBilinearModel(**{k: v.to(device) for k, v in start.parameters().items()})

    def _stream(self, text: Any) -> NDArray[np.int64]:
        stream = sentence_stream(encode_corpus(text, self.vocabulary_), self.vocabulary_.separator)
        if len(stream) < 2:
            raise DataError("the text has no words. Is the file empty?")
        return stream

    def _predictions(self, stream: NDArray[np.int64]) -> Predictions:
        device = choose_device(self.device)
        contexts = left_contexts(stream, self.context, self.vocabulary_.separator)
        return Predictions(
            torch.as_tensor(contexts, device=device), torch.as_tensor(stream[1:], device=device)
        )

    def _fitted(self) -> LogBilinearModel:
        model: LogBilinearModel = self._after_fit("model_")
        return model


def _log_probabilities(model: LogBilinearModel, data: Predictions) -> NDArray[np.float64]:
    with torch.no_grad():
        pieces = [
            model.log_probabilities(contexts, targets).double().cpu()
            for contexts, targets in zip(*(part.split(ROWS) for part in data), strict=True)
        ]
    return np.asarray(torch.cat(pieces))
