"""CRFs on factor graphs: what factorial, skip-chain and graph CRFs share.

Letters in shapes: v: variables; c: examples; s: states.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.estimators.base import Choice
from mrflearn.estimators.constraints import Given, known_labels
from mrflearn.estimators.crf_training import MANY_CELLS, LogLinearLabeller, Wanted
from mrflearn.estimators.labelling import accuracy, check_label, check_n, marginal_dicts
from mrflearn.execution.resources import choose_dtype
from mrflearn.features.features import Numbering
from mrflearn.features.index import FactorTemplate
from mrflearn.graph.evidence import restrict, with_masks
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.automatic import EXACT, LOOPY_IN_TRAINING, Automatic
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.chain import Chain
from mrflearn.inference.decoding import best_list
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.messages import is_forest
from mrflearn.inference.tree_reweighted import TreeReweighted
from mrflearn.models.field_batch import FieldBatch, find_templates
from mrflearn.models.loglinear import LogLinearField, weights_of
from mrflearn.objectives.field_objectives import Criterion, Pieces
from mrflearn.objectives.likelihood import runs_of
from mrflearn.objectives.reweighted import Shares

# Best labels and probabilities on any graphs, exact wherever the width allows.


Method = Literal["auto", "exact", "bp", "trw"]
Answering = Chain | JunctionTree | BeliefPropagation | TreeReweighted
Question = tuple[Tensor, Potentials, Answering]  # some examples, their field, who answers for it


class FieldAnswer(NamedTuple):
    """What was found for the variables of an example, and how.

    Of best labels: states and their score, "exact" (surely the best) or an "approximation"
    (max-product, then iterated conditional modes).  Of marginals: probabilities and log Z.
    """

    variables: Tensor
    value: float
    kind: str
    converged: bool


def best_states(
    model: LogLinearField, batch: FieldBatch, method: Method = "auto"
) -> list[FieldAnswer]:
    """The best labels of each example among the allowed ones."""
    if method == "trw":
        raise InferenceError("inference='trw' bounds probabilities; for best labels take 'bp'.")

    def best(method: Any, potentials: Potentials) -> tuple[Tensor, Tensor, Any]:
        found = method.best(potentials)
        return found.assignment, found.score, found

    answers = _answers(model, batch, method, best)
    for example, own in enumerate(answers):
        if own.value == -math.inf:
            raise InferenceError(
                f"example {example} has no labelling that is allowed. Do forced labels contradict "
                "each other?"
            )
    return answers


def marginals(
    model: LogLinearField, batch: FieldBatch, method: Method = "auto"
) -> list[FieldAnswer]:
    """The probabilities of all labels of each example, given that only allowed ones occur."""

    def chances(method: Answering, potentials: Potentials) -> tuple[Tensor, Tensor, Any]:
        found = method(potentials)
        # Where all examples are empty, no variable says how many states there are.
        lacking = batch.graph.most_states - found.variables.shape[1]
        variables = torch.nn.functional.pad(found.variables.double(), (0, lacking))
        return variables, found.log_partition, found

    return _answers(model, batch, method, chances)


def _answers(
    model: LogLinearField,
    batch: FieldBatch,
    method: Method,
    ask: Callable[[Answering, Potentials], tuple[Tensor, Tensor, Any]],
) -> list[FieldAnswer]:
    found: dict[int, FieldAnswer] = {}
    for examples, potentials, answering in _asked(model, batch, method):
        variables, value, how = ask(answering, potentials)
        parts = variables.split(batch.sizes[examples].tolist())
        ended = torch.as_tensor(how.converged).expand(len(parts)).tolist()
        rows = zip(examples.tolist(), parts, value.double().tolist(), ended, strict=True)
        for example, part, score, end in rows:
            found[example] = FieldAnswer(part, score, how.kind, end)
    return [found[example] for example in range(batch.graph.components)]


@torch.no_grad()
def best_lists(
    model: LogLinearField, batch: FieldBatch, count: int
) -> list[list[tuple[Int64[Tensor, " v"], float]]]:
    """The `count` best (states, score) of each example among those allowed, exactly."""
    found: dict[int, list[tuple[Tensor, float]]] = {}
    for examples, potentials, method in _asked(model, batch, "exact"):
        if isinstance(method, Chain):
            ranked = method.best_n(potentials, count)
            sizes = batch.sizes[examples].tolist()
            states = zip(*(own.assignment.split(sizes) for own in ranked), strict=True)
            scores = zip(*(own.score.tolist() for own in ranked), strict=True)
            for example, *own in zip(examples.tolist(), states, scores, strict=True):
                found[example] = [pair for pair in zip(*own, strict=True) if pair[1] > -math.inf]
        else:
            for example in examples.split(1):
                ((_, alone, _),) = _part(model, batch, example, "exact")
                found[int(example)] = best_list(alone, count, EXACT)
    return [found[example] for example in range(batch.graph.components)]


@torch.no_grad()
def _asked(model: LogLinearField, batch: FieldBatch, method: Method) -> Iterator[Question]:
    """The examples in parts that fit in memory, each with the method that answers for it."""
    if method not in get_args(Method):
        raise InferenceError(f"inference '{method}' is not one of {', '.join(get_args(Method))}.")
    # Graphs of one form are solved as one: those of one size come together.
    for examples in runs_of(batch, batch.sizes.argsort(stable=True)):
        yield from _part(model, batch, examples.sort().values, method)


def _part(
    model: LogLinearField, batch: FieldBatch, examples: Int64[Tensor, " b"], method: Method
) -> Iterator[Question]:
    own = batch.examples(examples)
    allowed = own.allowed_states()
    restricted = not bool((allowed == own.graph.legal()).all())
    graph = own.graph.planned(with_masks) if restricted else own.graph
    answering = _chosen(graph, method)
    if answering.warm_starts and method == "auto" and len(examples) > 1:
        # One wide graph shall not make the others' answers approximate.
        wide = torch.zeros(len(examples), dtype=torch.bool)
        wide[EXACT.too_wide(graph)] = True
        for alone in examples[wide].split(1):
            yield from _part(model, batch, alone, method)
        if not bool(wide.all()):
            yield from _part(model, batch, examples[~wide], method)
        return
    potentials = model.potentials(own)
    if restricted:
        potentials = restrict(potentials, allowed)
    yield examples, potentials, answering


def _chosen(graph: FactorGraph, method: Method) -> Answering:
    if method == "bp":
        return LOOPY_IN_TRAINING
    if method == "trw":
        return TreeReweighted(tolerance=1e-5)
    found, reason = Automatic(otherwise=LOOPY_IN_TRAINING).chosen(graph)
    if reason is not None and method == "exact":
        raise InferenceError(reason)
    return found


# What all CRFs on graphs share: training, answers and storage of a log-linear field.


class Decoded(NamedTuple):
    """The best labels of an example, what they are worth, and how they were found.

    `kind` is "exact" (no labelling scores higher) or "approximation" (max-product, then iterated
    conditional modes); `converged` says whether message passing converged.
    """

    labels: Any  # in the form of y
    score: float
    kind: str
    converged: bool
    layers: list[list[str]]  # the same as lists, one of each layer of variables


class TopFeature(NamedTuple):
    """A weight: where it stands, what it looks at, and for which labels it speaks."""

    factors: str
    attribute: str
    labels: tuple[str, ...]
    weight: float


@dataclass(kw_only=True, eq=False, repr=False)
class FieldCRF(LogLinearLabeller):
    """The part of a CRF that does not depend on where its graphs come from.

    An estimator derives from it, adds its own parameters to these (`GraphCRF` documents them), and
    turns what its users have into a `FieldBatch`.  The variables of an example are the nodes of a
    graph, or the tokens of a sequence with one or more layers of labels.
    """

    estimator: Wanted = field(default="pw", kw_only=False)
    pieces: Pieces | None = None  # None: as suits the estimator
    shares: Shares = "uniform"
    all_possible_pairs: bool = False
    inference: Method = "auto"

    names_: tuple[Numbering, ...] = field(init=False)  # the labels of each layer
    single: ClassVar[bool] = True  # one layer, without a list around it

    @property
    def classes_(self) -> list[Any]:
        """The labels in the order of their first appearance; of several layers a list of each."""
        self._fitted()
        names = [list(own) for own in self.names_]
        return names[0] if self.single else names

    def predict(self, X: Iterable[Any], constraints: Given = None, **inputs: Any) -> list[Any]:
        """The best labels of each example.

        Parameters
        ----------
        X
            Graphs or sequences, as `fit` takes them.
        constraints
            Known labels in the form of y (None where one is free), or `Constraints(forced=...)`.
        **inputs
            What else `fit` takes of each example: `words` of a `SkipChainCRF`.

        Returns
        -------
        list of labels in the form of y

        """
        return [own.labels for own in self.decode(X, constraints, **inputs)]

    def decode(self, X: Iterable[Any], constraints: Given = None, **inputs: Any) -> list[Decoded]:
        """The best labels of each example, their score, and whether they are surely the best.

        Parameters
        ----------
        X, constraints, **inputs
            As in `predict`.

        Returns
        -------
        list of `Decoded`: labels, score, kind, converged

        """
        examples, batch = self._asked(X, known_labels(constraints), **inputs)
        found = zip(examples, best_states(self._fitted(), batch, self.inference), strict=True)
        return [self._decoded(example, *own) for example, own in found]

    def predict_marginals(
        self, X: Iterable[Any], constraints: Given = None, **inputs: Any
    ) -> list[Any]:
        """The marginal probability of every label of each variable.

        Parameters
        ----------
        X, constraints, **inputs
            As in `predict`.

        Returns
        -------
        list of {label: probability} in the form of y

        """
        found = []
        for example, tables in self._tables(X, constraints, **inputs):
            pairs = zip(tables, self.names_, strict=True)
            layers = [marginal_dicts([table], names)[0] for table, names in pairs]
            found.append(self._form(example, layers))
        return found

    def predict_proba(
        self, X: Iterable[Any], constraints: Given = None, **inputs: Any
    ) -> list[Any]:
        """The same marginals as arrays.

        Parameters
        ----------
        X, constraints, **inputs
            As in `predict`.

        Returns
        -------
        list of arrays, tokens x labels in the order of `classes_` (of several layers a list of
        them, of a networkx graph {node: array})

        """
        found = self._tables(X, constraints, **inputs)
        return [self._form(example, tables) for example, tables in found]

    def n_best(
        self, X: Iterable[Any], n: int = 5, constraints: Given = None, **inputs: Any
    ) -> list[list[Decoded]]:
        """The n best labellings of each example; exact, so the width must allow it.

        Parameters
        ----------
        X, constraints, **inputs
            As in `predict`.
        n
            How many; there may be fewer.

        Returns
        -------
        for each example a list of `Decoded`, best first

        """
        check_n(n)
        examples, batch = self._asked(X, known_labels(constraints), **inputs)
        found = zip(examples, best_lists(self._fitted(), batch, n), strict=True)
        return [[self._decoded(example, *one) for one in own] for example, own in found]

    def log_prob(self, X: Iterable[Any], y: Iterable[Any], **inputs: Any) -> list[float]:
        """log p(y | x) of each example, in nats, by the inference that `inference` names."""
        model, batch = self._fitted(), self._asked(X, y, **inputs)[1]
        free = marginals(model, batch.unlabelled(), self.inference)
        known = marginals(model, batch, self.inference)
        return [own.value - whole.value for own, whole in zip(known, free, strict=True)]

    def score(self, X: Iterable[Any], y: Iterable[Any], **inputs: Any) -> float:
        """The share of variables whose label is right, in every layer; None does not count."""
        examples, batch = self._asked(X, **inputs)
        states = best_states(self._fitted(), batch, self.inference)
        guess = [self._named(own.variables) for own in states]
        true, several = self._layers(examples, y), len(self.names_) > 1
        gold, found = (
            [list(zip(*own, strict=True)) if several else own[0] for own in part]
            for part in (true, guess)
        )
        return accuracy(gold, found)

    def feature_weights(self) -> dict[str, dict[tuple[str, ...], float]]:
        """For each kind of factor {(attribute, label, ...): weight} of all weights not 0."""
        model = self._fitted()
        return {
            template.name: weights_of(model, k, self._axis_labels(template))
            for k, template in enumerate(model.templates)
        }

    @property
    def num_attributes_(self) -> int:
        """How many attributes have been seen."""
        # Kinds of factors may share their names.
        shared = {id(own.names): len(own.names) for own in self._fitted().templates}
        return sum(shared.values())

    def top_features(self, label: str | None = None, n: int = 20) -> list[TopFeature]:
        """The weights of largest absolute value.

        Parameters
        ----------
        label
            Weights that this label is part of; None: of all labels.
        n
            How many.

        Returns
        -------
        list of (factors, attribute, labels, weight)

        """
        axes = chain.from_iterable(map(self._axis_labels, self._fitted().templates))
        check_label(label, set(chain.from_iterable(axes)))
        found = [
            TopFeature(factors, attribute, tuple(labels), weight)
            for factors, weights in self.feature_weights().items()
            for (attribute, *labels), weight in weights.items()
            if label is None or label in labels
        ]
        return nlargest(n, found, key=lambda own: abs(own.weight))

    @abstractmethod
    def _asked(
        self, X: Iterable[Any], y: Iterable[Any] | None = None
    ) -> tuple[Sequence[Any], FieldBatch]:
        """The examples, and the batch of them, with the labels that are known."""

    @abstractmethod
    def _layers(self, examples: Sequence[Any], y: Iterable[Any]) -> list[list[list[Any]]]:
        """The labels of each example, layer by layer."""

    @abstractmethod
    def _form(self, example: Any, layers: Any) -> Any:
        """What was found for each layer of an example, in the form of y."""

    @abstractmethod
    def _axis_labels(self, template: FactorTemplate) -> list[list[str]]:
        """The labels along each axis of a template's factors."""

    def _decoded(
        self, example: Any, states: Tensor, score: float, kind: str = "exact", ended: bool = True
    ) -> Decoded:
        layers = self._named(states)
        return Decoded(self._form(example, layers), score, kind, ended, layers)

    def _named(self, states: Int64[Tensor, " v"]) -> list[list[str]]:
        """The labels of each layer."""
        by_layer = states.reshape(-1, len(self.names_)).t().tolist()
        names = [list(own) for own in self.names_]
        return [[own[k] for k in layer] for own, layer in zip(names, by_layer, strict=True)]

    def _tables(
        self, X: Iterable[Any], constraints: Given, **inputs: Any
    ) -> Iterator[tuple[Any, list[NDArray[np.float64]]]]:
        """Every example, and the marginals of each of its layers, tokens x labels."""
        examples, batch = self._asked(X, known_labels(constraints), **inputs)
        found, layers = marginals(self._fitted(), batch, self.inference), len(self.names_)
        for example, (own, *_) in zip(examples, found, strict=True):
            yield example, [own[k::layers, : len(n)].numpy() for k, n in enumerate(self.names_)]

    def _choose(self, start: LogLinearField, batch: FieldBatch) -> Choice[Criterion]:
        del start
        if self.pieces not in (None, "factors"):
            return Choice("pw", "pieces are named")
        graph = batch.graph
        groups = [group for group in graph.groups if group.arity > 1]
        cells = sum(int(graph.states[group.scope].prod(dim=1).sum()) for group in groups)
        if cells >= MANY_CELLS:
            return Choice(
                "pwpl", f"the factors have {cells:,} joint states, and it needs few of them at once"
            )
        if is_forest(graph):
            return Choice("ml", "the graphs have no loops, so that exact likelihood is quick")
        return Choice("pw", "the graphs have loops, where pieces did best")

    def _train(
        self,
        batch: FieldBatch,
        start: LogLinearField | None = None,
        *,
        tied: Callable[..., tuple[tuple[FactorTemplate, ...], Tensor]] | None = None,
        **how: Any,
    ) -> Self:
        """Trains the field, from the weights of `start` where it has them.

        `tied` gives the templates of weights that are not all free, and which of them are the same.
        """
        templates = find_templates(
            batch, min_freq=self.min_freq, everything=self.all_possible_pairs
        )
        if tied is not None:
            templates, how["tie"] = tied(templates)
        first = LogLinearField.zeros(templates, choose_dtype(self.dtype))
        if start is not None:
            first = start.on(templates)
        weights = sum(part.numel() for part in first.parameters().values())
        graph = batch.graph
        self._report(
            f"{graph.components:,} examples, {graph.variables:,} variables, "
            f"{sum(map(len, graph.groups)):,} factors, {weights:,} weights."
        )
        self._learn(first, batch, **how)
        return self
