"""The left-context log-bilinear language model, the baseline of Jernite, Rush & Sontag 2015.

A. Mnih & G. Hinton, Three new graphical models for statistical language modelling, ICML 2007:
the model, its negative log-likelihood with the gradient written out (about half the time that
automatic differentiation takes on a CPU), the paper's schedule of rates [appendix B], and training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.text_score import ScoresText, TextScore
from mrflearn.execution.resources import choose_device
from mrflearn.features.ngrams import sentence_stream
from mrflearn.io.corpus import Text, Vocabulary, count_corpus, encode_corpus, hold
from mrflearn.models.ngram import TokenScores
from mrflearn.objectives.base import Evaluation, Objective, total
from mrflearn.objectives.problem import Problem
from mrflearn.training.loop import Optimiser, minimise
from mrflearn.training.outcome import EarlyStopping, Verdict
from mrflearn.training.sgd import Adagrad, ByEpochs, EpochState

ROWS = 2048  # contexts scored at once; bounds memory, changes no result


@final
@dataclass(frozen=True, eq=False)
class LogBilinearModel:
    """p(w | context) ~ exp(q . output(w) + bias(w)), q = sum over l of vector(w_l) transition(l).

    w_l is the word at distance l to the left.  `outputs` None: words have one vector for both
    roles, as in Mnih and Hinton; else two, U and W in eq. 1 of Jernite, Rush and Sontag.
    """

    vectors: Float[Tensor, "v d"]
    transitions: Float[Tensor, "k d d"]
    bias: Float[Tensor, " v"]
    outputs: Float[Tensor, "v d"] | None = None

    @classmethod
    def start(
        cls,
        log_frequency: Float[Tensor, " v"],
        context: int,
        dims: int,
        generator: torch.Generator,
        *,
        tied: bool = True,
    ) -> Self:
        """Small random vectors around the unigram model."""

        def small(*shape: int) -> Tensor:
            return 0.1 * torch.randn(*shape, generator=generator, dtype=log_frequency.dtype)

        words = len(log_frequency)
        parts = small(words, dims), small(context, dims, dims), log_frequency
        return cls(*parts, None if tied else small(words, dims))

    def parameters(self) -> dict[str, Tensor]:
        own = {"vectors": self.vectors, "transitions": self.transitions, "bias": self.bias}
        return own if self.outputs is None else {**own, "outputs": self.outputs}

    @property
    def predicted(self) -> Float[Tensor, "v d"]:
        """The vectors of words that are predicted."""
        return self.vectors if self.outputs is None else self.outputs

    def predictions(self, contexts: Int[Tensor, "b k"]) -> Float[Tensor, "b d"]:
        """The vector that each context expects to come next."""
        return torch.einsum("bki,kij->bj", self.vectors[contexts], self.transitions)

    def scores(self, contexts: Int[Tensor, "b k"]) -> Float[Tensor, "b v"]:
        """Unnormalised log-probabilities of every next symbol."""
        return torch.addmm(self.bias, self.predictions(contexts), self.predicted.T)

    def log_probabilities(
        self, contexts: Int[Tensor, "b k"], targets: Int[Tensor, " b"]
    ) -> Float[Tensor, " b"]:
        """The log-probability of each target after its context, in nats."""
        scores = self.scores(contexts)
        return scores.gather(1, targets[:, None])[:, 0] - scores.logsumexp(1)


class Predictions(NamedTuple):
    """Contexts (the nearest symbol first) and the symbols that followed them."""

    contexts: Int[Tensor, "b k"]
    targets: Int[Tensor, " b"]


@final
class PredictionLoss(Objective[LogBilinearModel]):
    """-log p of the next symbols, minibatch by minibatch; gradients lie in one buffer."""

    def __init__(self, model: LogBilinearModel, batches: Sequence[Predictions]) -> None:
        self.model, self.batches = model, batches
        self.buffer = torch.empty_like(self.start)

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        return total([self._detached(k, vector) for k in range(self.parts)])

    def _detached(self, index: int, vector: Float[Tensor, " p"]) -> Evaluation:
        found = self.part(index, vector)
        return Evaluation(found.value, found.gradient.clone())

    def at(self, vector: Float[Tensor, " p"]) -> LogBilinearModel:
        return LogBilinearModel(**self.layout.unflatten(vector))

    @property
    def parts(self) -> int:
        return len(self.batches)

    def part(self, index: int, vector: Float[Tensor, " p"]) -> Evaluation:
        gradient = self.at(self.buffer)
        value = negative_log_likelihood(self.at(vector), self.batches[index], gradient)
        return Evaluation(value, self.buffer)


def negative_log_likelihood(
    model: LogBilinearModel, batch: Predictions, gradient: LogBilinearModel
) -> Float[Tensor, ""]:
    """The value in nats, summed over the batch; its gradient is written into `gradient`."""
    contexts, targets = batch
    rows = torch.arange(len(targets), device=targets.device)
    near = model.vectors[contexts]
    expected = torch.einsum("bki,kij->bj", near, model.transitions)
    scores = torch.addmm(model.bias, expected, model.predicted.T)
    log_sums = scores.logsumexp(1)
    value = (log_sums - scores[rows, targets]).sum()
    error = scores.sub_(log_sums[:, None]).exp_()  # probabilities, less one at the truth
    error[rows, targets] -= 1
    torch.sum(error, 0, out=gradient.bias)
    torch.mm(error.T, expected, out=gradient.predicted)
    if gradient.outputs is not None:
        gradient.vectors.zero_()
    toward = error @ model.predicted
    gradient.transitions.copy_(torch.einsum("bki,bj->kij", near, toward))
    back = torch.einsum("bj,kij->bki", toward, model.transitions)
    gradient.vectors.index_add_(0, contexts.reshape(-1), back.reshape(-1, back.shape[-1]))
    return value


@final
@dataclass(frozen=True)
class HalvingSGD(ByEpochs):
    """SGD whose rate is halved whenever the validation score falls; ends below the rate `least`.

    `validate` takes the model after each epoch; higher is better.  The gradient is summed
    over the examples of the minibatch, so larger minibatches need lower rates.
    """

    validate: Callable[[Any], float]
    least: float = 1e-4
    epochs: int = field(default=100, kw_only=True)

    def blank(self, start: Float[Tensor, " p"]) -> EpochState:
        state = super().blank(start)
        # The rate and the last score, on the CPU: they are read at every step.
        state.kept["halving"] = torch.tensor([self.rate, -math.inf], dtype=torch.float64)
        return state

    def advance(self, problem: Problem, state: EpochState) -> Verdict | None:
        rate, before = state.kept["halving"].tolist()
        if rate < self.least:
            return Verdict("value", f"the rate has been halved to {rate:.2g}.")
        super().advance(problem, state)
        score = self.validate(problem.objective.at(problem.natural(state.vector)))
        rate = rate if score > before else rate / 2
        state.kept["halving"] = torch.tensor([rate, score], dtype=torch.float64)
        return None

    def move(self, state: EpochState, found: Evaluation, epochs: float) -> float:  # noqa: ARG002
        rate = float(state.kept["halving"][0])
        state.vector.add_(found.gradient, alpha=-rate)
        return rate


class LogBilinearLanguageModel(ScoresText):
    """The log-bilinear model of Mnih & Hinton 2007 over the words to the left.

    tied: one vector a word, or one in contexts and another where it is predicted.
    optimiser: `"adagrad"`, or `"sgd"` whose rate is halved whenever the validation score falls
        (the paper's, with rate 0.1 and minibatches of 64), which needs `validation`.
    rate: of a mean over the minibatch for sgd; of each weight for adagrad.
    """

    def __init__(
        self,
        dims: int = 30,
        context: int = 2,
        *,
        tied: bool = True,
        optimiser: Literal["adagrad", "sgd"] = "adagrad",
        rate: float = 0.1,
        batch_size: int = 256,
        epochs: int = 20,
        patience: int = 2,
        min_count: int = 1,
        vocabulary_size: int | None = None,
        device: str = "cpu",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.context = context
        self.dims = dims
        self.tied = tied
        self.optimiser = optimiser
        self.rate = rate
        self.batch_size = batch_size
        self.epochs = epochs
        self.patience = patience
        self.min_count = min_count
        self.vocabulary_size = vocabulary_size
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Text, *, validation: Text | None = None) -> Self:
        """Learns from text; with `validation` the epoch that scores it best is kept."""
        text = hold(X)
        self.vocabulary_ = Vocabulary.from_counts(
            count_corpus(text), size=self.vocabulary_size, min_count=self.min_count
        )
        train = self._predictions(self._stream(text))
        generator = torch.Generator().manual_seed(self.random_state)
        order = torch.randperm(len(train.targets), generator=generator).to(train.targets.device)
        start = self._start(train, generator)
        batches = [
            Predictions(train.contexts[rows], train.targets[rows])
            for rows in order.split(self.batch_size)
        ]
        validate = None if validation is None else self._validation(hold(validation))
        self.outcome_ = minimise(
            PredictionLoss(start, batches),
            self._optimiser(validate),
            callbacks=[EarlyStopping(validate, self.patience)] if validate else (),
            progress=self.verbose,
            seed=self.random_state,
        )
        self.model_ = self.outcome_.model
        return self

    def text_score(self, X: Text) -> TextScore:
        """The log-probability of a text, and what it is spread over."""
        return TextScore.of_tokens(self.token_scores(X))

    def token_scores(self, X: Text) -> TokenScores:
        """The log-probability of every word and sentence end, with which words were unknown."""
        model = self.model_
        stream = self._stream(hold(X))
        values = _log_probabilities(model, self._predictions(stream))
        ends = stream[1:] == self.vocabulary_.separator
        return TokenScores(values, ends, stream[1:] == self.vocabulary_.unknown)

    def next_word(self, words: Sequence[str] = (), n: int = 10) -> list[tuple[str, float]]:
        """The most probable continuations of a sentence's beginning; `</s>` is its end."""
        model, vocabulary = self.model_, self.vocabulary_
        stream = np.array([vocabulary.separator, *vocabulary.encode(words).tolist(), 0])
        contexts = left_contexts(stream, self.context, vocabulary.separator)[-1:]
        scores = model.scores(torch.as_tensor(contexts, device=model.vectors.device))
        best = scores[0].softmax(0).topk(min(n, len(vocabulary)))
        names = vocabulary.decode(best.indices.tolist())
        separator = vocabulary.words[vocabulary.separator]
        names = ["</s>" if name == separator else name for name in names]
        return list(zip(names, best.values.tolist(), strict=True))

    def _optimiser(self, validate: Any) -> Optimiser[Any]:
        if self.optimiser == "adagrad":
            return Adagrad(rate=self.rate, epochs=self.epochs)
        if self.optimiser != "sgd":
            raise SettingsError(f"optimiser {self.optimiser!r} is not one of 'adagrad', 'sgd'.")
        if validate is None:
            raise SettingsError(
                "optimiser='sgd' halves its rate on a validation text: give validation."
            )
        step = self.rate / self.batch_size  # gradients are sums over the minibatch
        return HalvingSGD(validate, rate=step, least=step / 100, epochs=self.epochs)

    def _validation(self, text: Text) -> Any:
        held_out = self._predictions(self._stream(text))

        def validate(model: LogBilinearModel) -> float:
            return float(_log_probabilities(model, held_out).mean())

        return validate

    def _start(self, train: Predictions, generator: torch.Generator) -> LogBilinearModel:
        counts = torch.bincount(train.targets.cpu(), minlength=len(self.vocabulary_)).float() + 0.1
        start = LogBilinearModel.start(
            (counts / counts.sum()).log(), self.context, self.dims, generator, tied=self.tied
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


def _log_probabilities(model: LogBilinearModel, data: Predictions) -> NDArray[np.float64]:
    with torch.no_grad():
        pieces = [
            model.log_probabilities(contexts, targets).double().cpu()
            for contexts, targets in zip(*(part.split(ROWS) for part in data), strict=True)
        ]
    return np.asarray(torch.cat(pieces))


def left_contexts(stream: NDArray[np.int64], context: int, separator: int) -> NDArray[np.int64]:
    """For each symbol after the first a row of those before it, the nearest first.

    Before the beginning of its sentence there are only separators.
    """
    columns = [stream[:-1]]
    for distance in range(2, context + 1):
        further = np.concatenate([np.full(distance - 1, separator), stream[:-distance]])
        beyond = columns[-1] == separator
        columns.append(np.where(beyond, separator, further[: len(beyond)]))
    return np.stack(columns, axis=1)
