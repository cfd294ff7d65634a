"""What a fitted chain answers: labels, n-best, marginals, spans, samples, probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from mrflearn.errors import DataError, TrainingError
from mrflearn.estimators.base import Estimator
from mrflearn.estimators.constraints import Constraints, Given
from mrflearn.estimators.labelling import accuracy, check_n, chunk_f1, marginal_dicts
from mrflearn.execution.resources import moved, one_thread
from mrflearn.features.features import Numbering, compile_labels
from mrflearn.inference.spans import ChunkReading, chunks_of, span_probabilities
from mrflearn.io.spans import are_chunk_tags
from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import Steps, row_scores
from mrflearn.models.loglinear import ChainPotentials

SEQUENCES_AT_ONCE = 1_000  # bounds memory, changes no result
COLDEST, HOTTEST = 0.01, 100.0  # temperatures


class ScoredSpan(NamedTuple):
    """The tokens from `start` up to, but excluding, `end`, and the probability of this chunk."""

    start: int
    end: int
    label: str
    probability: float


@dataclass(kw_only=True, eq=False, repr=False)
class ChainAnswers(Estimator):
    """What every fitted chain of labels can be asked, wherever its potentials come from.

    X is a list of sequences or a generator of them, each as `fit` takes them.
    """

    random_state: int = 0

    labels_: Numbering = field(init=False)
    temperature_: float = field(init=False)

    @abstractmethod
    def _fitted(self) -> Any:
        """What has a `device` and makes the potentials; `NotFittedError` before `fit`."""

    @abstractmethod
    def _potentials(self, X: Iterable[Any], *, whole: bool = False) -> Iterator[ChainPotentials]:
        """Those of the sequences in their order: of some at a time, or of the `whole` of them."""

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of their first appearance."""
        return list(self.labels_)

    def predict(self, X: Iterable[Any], constraints: Given = None) -> NDArray[np.object_]:
        """The most probable labels of each sequence.

        Parameters
        ----------
        X
            Sequences of items, as `fit` takes them.
        constraints
            What the labels must obey: `Constraints`, or known labels in the form of y.

        Returns
        -------
        array of lists of labels; as in sklearn_crfsuite, sequences x tokens where all sequences
        have as many of them

        """
        return np.array(self._best(X, constraints), dtype=object)

    def predict_single(self, xseq: Iterable[Any]) -> list[str]:
        """The most probable labels of one sequence, as a list."""
        return self._best([xseq])[0]

    @one_thread()
    def _best(self, X: Iterable[Any], constraints: Given = None) -> list[list[str]]:
        chains = self._chains(X, constraints)
        return [own for some in chains for own in best_labels(some, list(self.labels_))]

    def predict_marginals(self, X: Iterable[Any], constraints: Given = None) -> NDArray[np.object_]:
        """The marginal probability of every label at every token.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        array of lists of {label: probability}, of the shape that `predict` gives

        """
        found = marginal_dicts(self.predict_proba(X, constraints), self.classes_)
        return np.array(found, dtype=object)

    def predict_marginals_single(self, xseq: Iterable[Any]) -> list[dict[str, float]]:
        """The marginal probability of every label at every token of one sequence, as a list."""
        return marginal_dicts(self.predict_proba([xseq]), self.classes_)[0]

    @one_thread()
    def predict_proba(
        self, X: Iterable[Any], constraints: Given = None
    ) -> list[NDArray[np.float64]]:
        """The same marginals as arrays.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        list of arrays, tokens x labels in the order of `classes_`

        """
        chains = self._chains(X, constraints)
        return [own for some in chains for own in marginal_arrays(some)]

    @one_thread()
    def predict_spans(
        self, X: Iterable[Any], n: int = 1, constraints: Given = None
    ) -> list[list[ScoredSpan]]:
        """The chunks of each sequence with their exact probabilities.

        Parameters
        ----------
        X, constraints
            As in `predict`.
        n
            Chunks of the n most probable labellings.

        Returns
        -------
        list of lists of (start, end, label, probability), from left to right

        """
        check_n(n)
        chains = self._chains(X, constraints)
        return [own for some in chains for own in scored_spans(some, list(self.labels_), n)]

    @one_thread()
    def n_best(
        self, X: Iterable[Any], n: int = 5, constraints: Given = None
    ) -> list[list[tuple[list[str], float]]]:
        """The n most probable labellings of each sequence.

        Parameters
        ----------
        X, constraints
            As in `predict`.
        n
            How many; there may be fewer.

        Returns
        -------
        list of lists of (labels, probability), most probable first

        """
        check_n(n)
        found = []
        for chains in self._chains(X, constraints):
            paths, scores = chain_search.n_best(*chains.scores, n)
            total = chain_sums.log_partition(*chains.scores)
            shares = (scores - total[:, None]).double().exp().tolist()
            ranked = [_named(path, chains, list(self.labels_)) for path in paths.unbind(dim=1)]
            possible = scores.isfinite().sum(dim=1).tolist()  # there may be fewer than n
            found += [
                [(ranked[rank][i], shares[i][rank]) for rank in range(count)]
                for i, count in enumerate(possible)
            ]
        return found

    @one_thread()
    def sample(
        self,
        X: Iterable[Any],
        n: int = 1,
        *,
        random_state: int | None = None,
        constraints: Given = None,
    ) -> list[list[list[str]]]:
        """Labellings drawn from the distribution of each sequence.

        Parameters
        ----------
        X, constraints
            As in `predict`.
        n
            How many of each sequence.
        random_state
            The seed; None: that of the estimator.

        Returns
        -------
        for each sequence a list of n lists of labels

        """
        check_n(n)
        generator = torch.Generator(device=self._fitted().device)
        generator.manual_seed(self.random_state if random_state is None else random_state)
        found = []
        for chains in self._chains(X, constraints):
            drawn = chain_search.sample(*chains.scores, n, generator)
            draws = [_named(states, chains, list(self.labels_)) for states in drawn]
            found += [list(own) for own in zip(*draws, strict=True)]
        return found

    @one_thread()
    def entropy(self, X: Iterable[Any], constraints: Given = None) -> list[float]:
        """The entropy of the distribution over each sequence's labellings, in nats."""
        parts = (chain_sums.entropy(*own.scores) for own in self._chains(X, constraints))
        return [value for part in parts for value in part.double().tolist()]

    @one_thread()
    def log_prob(self, X: Iterable[Any], y: Iterable[Any]) -> list[float]:
        """log p(y | x) of each sequence, in nats; y may hold None and sets as in training."""
        self._fitted()
        remaining = iter(y)
        values: list[float] = []
        for chains in self._chains(X):
            own = list(islice(remaining, len(chains.steps.lengths)))
            labels = compile_labels(own, chains.steps.lengths.cpu(), self.labels_)
            if len(labels.uncertain):
                allowed = labels.allowed_states().to(chains.unary.device)
                states = chains.chain.allowed(chains.steps.pack(allowed))
                bound = chains.unary.masked_fill(~states, -torch.inf)
                score = chain_sums.log_partition(bound, chains.table, chains.steps).double()
            else:
                score = path_scores(chains, labels.states)
            values += (score - chain_sums.log_partition(*chains.scores).double()).tolist()
        if (left := sum(1 for _ in remaining)) > 0:
            raise DataError(f"y has {left} sequences more than X.")
        return values

    def score(self, X: Iterable[Any], y: Iterable[Sequence[str]]) -> float:
        """The share of tokens whose label is right."""
        return accuracy(list(y), self._best(X))

    def calibrate(self, X: Iterable[Any], y: Iterable[Any]) -> Self:
        """Fits `temperature_`, by which all scores are divided, on data not trained on.

        Predictions stay the same; probabilities come to mean what they say.  Sequences with a
        label that training never saw are left out: no temperature makes them possible.  All are
        held in memory at once.
        """
        self._fitted()
        sequences, gold = list(X), list(y)
        if len(sequences) != len(gold):
            raise DataError(f"X has {len(sequences)} sequences and y has {len(gold)}.")
        known = [all(not isinstance(s, str) or s in self.labels_ for s in own) for own in gold]
        (chains,) = self._potentials(compress(sequences, known), whole=True)
        labels = compile_labels(compress(gold, known), chains.steps.lengths.cpu(), self.labels_)
        self.temperature_ = fit_temperature(*chains.scores, path_scores(chains, labels.states))
        return self

    def _chains(self, X: Iterable[Any], constraints: Given = None) -> Iterator[ChainPotentials]:
        first = 0
        obeyed = None if constraints is None else Constraints.of(constraints)
        for own in self._potentials(X):
            chains, count = at_temperature(own, self.temperature_), len(own.steps.lengths)
            if obeyed is not None:
                chains = obeyed.part(first, first + count).apply(chains, list(self.labels_))
            yield chains
            first += count


def best_labels(chains: ChainPotentials, labels: Sequence[str]) -> list[list[str]]:
    """The most probable labels of each sequence."""
    return _named(chain_search.viterbi(*chains.scores)[0], chains, labels)


def held_out_score(
    y: Iterable[Sequence[str]],
    lengths: Int64[Tensor, " b"],
    names: Iterable[str],
    potentials: Callable[[Any], Iterable[ChainPotentials]],
) -> Callable[[Any], float]:
    """The score of a model, between 0 and 1: F1 over chunks where labels are such, else accuracy.

    `potentials` gives those of the held-out sequences, which have these lengths, under a model.
    """
    gold, labels = [list(own) for own in y], list(names)
    if [len(own) for own in gold] != lengths.tolist():
        raise DataError(
            "X and y of the validation set differ in the number or the lengths of their sequences."
        )
    rated = chunk_f1 if are_chunk_tags(labels) else accuracy

    @torch.no_grad()
    def score(model: Any) -> float:
        return rated(gold, [own for k in potentials(model) for own in best_labels(k, labels)])

    return score


def marginal_arrays(chains: ChainPotentials) -> list[NDArray[np.float64]]:
    """The probability of every label at every token, tokens x labels for each sequence."""
    if chains.table.ndim == 2:
        single = chain_sums.expectations(*chains.scores).single
    else:
        _, single, _ = chain_sums.marginals(*chains.scores)
    found = chains.chain.of_labels(single).double()
    whole = found.sum(dim=1, keepdim=True)
    found /= torch.where(
        whole > 0, whole, 1.0
    )  # single precision makes them 1.00001 here and there
    rows = chains.steps.unpack(found, len(found)).cpu().numpy()
    return np.split(rows, chains.steps.lengths.cumsum(0).cpu().numpy()[:-1])


def _named(
    states: Int64[Tensor, " r"], chains: ChainPotentials, labels: Sequence[str]
) -> list[list[str]]:
    rows = chains.steps.unpack(chains.chain.label(states), len(states))
    names = iter([labels[number] for number in rows.tolist()])
    return [list(islice(names, length)) for length in chains.steps.lengths.tolist()]


def path_scores(chains: ChainPotentials, states: Int64[Tensor, " k"]) -> Float[Tensor, " b"]:
    """The score of each labelled sequence; -inf where the chain has no such path."""
    steps, table = chains.steps, chains.table
    path = chains.chain.path(steps.pack(states.to(steps.source.device)), steps)
    score = row_scores(chains.unary.double(), table.double(), path.clamp(min=0), steps)
    return steps.totals(score.masked_fill(path < 0, -torch.inf))


def scored_spans(
    chains: ChainPotentials, labels: Sequence[str], n_best: int = 1
) -> list[list[ScoredSpan]]:
    """The chunks of each sequence's best labelling, or of its n best, from left to right."""
    unary, table, steps = chains.scores
    state = chains.chain.label(torch.arange(chains.chain.states, device=unary.device))
    reading = moved(ChunkReading.of(labels).lifted(state.cpu()), unary.device)
    paths, scores = chain_search.n_best(unary, table, steps, n_best)
    # A sequence with fewer labellings than n: its best one stands in for those there are not.
    real = (scores > -torch.inf)[steps.sequence]
    spans = chunks_of(torch.where(real, paths, paths[:, :1]), steps, reading)
    chance = span_probabilities(unary, table, steps, spans, reading)
    columns = (spans.sequence, spans.start, spans.end, spans.label, chance.double())
    found: list[list[ScoredSpan]] = [[] for _ in range(len(steps.lengths))]
    for i, start, end, label, p in zip(*(part.tolist() for part in columns), strict=True):
        found[i].append(ScoredSpan(start, end, reading.names[label], p))
    return found


def at_temperature(chains: ChainPotentials, temperature: float) -> ChainPotentials:
    """The same with all scores divided: probabilities are softer above 1, sharper below."""
    if temperature == 1.0:
        return chains
    return replace(chains, unary=chains.unary / temperature, table=chains.table / temperature)


# One number fitted after training: how much to believe a chain's scores [Guo et al. 2017, On
# calibration of modern neural networks, section 4.2], for whole sequences.


def fit_temperature(
    unary: Float[Tensor, "r s"],
    transition: Float[Tensor, "*q s s"],
    steps: Steps,
    truth_score: Float[Tensor, " b"],
) -> float:
    """The temperature T at which exp(score / T) makes held-out sequences most probable.

    `truth_score` is the score of each sequence's true assignment.  Above 1: the model was too
    sure.  The best sequence stays the same at every temperature.
    """
    possible = truth_score > -torch.inf  # no temperature makes the impossible probable
    if not bool(possible.any()):
        raise TrainingError(
            "no held-out sequence is possible under the model, so no temperature fits. Are their "
            "labels unknown to the model, or do they contradict the constraints?"
        )
    total = float(truth_score[possible].double().sum())

    def surprise(log_cold: float) -> float:
        cold = float(np.exp(log_cold))
        value = chain_sums.log_partition(unary * cold, transition * cold, steps)
        return float(value[possible].double().sum()) - cold * total

    # Convex in 1 / T (log Z is convex in a scale of its scores), so unimodal in its logarithm.
    bounds = -np.log(HOTTEST), -np.log(COLDEST)
    with torch.no_grad():
        best = minimize_scalar(surprise, bounds=bounds, options={"xatol": 1e-4})
    return float(np.exp(-best.x))
