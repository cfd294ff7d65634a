"""`GraphCRF`: a conditional random field on graphs of any form, one an example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.crf_answers import Given, known_labels
from mrflearn.estimators.field_crf import FieldCRF
from mrflearn.estimators.graph_inputs import GraphExample, Graphs
from mrflearn.execution.executor import Executor
from mrflearn.features.features import Numbering, warn_of_single_label
from mrflearn.features.index import FactorTemplate
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.storage import texts
from mrflearn.training.checkpoint import Checkpoint


@dataclass(frozen=True)
class GraphAnswer:
    """The best labels found for one graph, and what they are worth.

    `kind` is "exact" (no labelling scores higher) or "approximation" (max-product, then iterated
    conditional modes); `converged` says whether message passing converged.
    """

    labels: Any
    score: float
    kind: str
    converged: bool


@dataclass(kw_only=True, eq=False, repr=False)
class GraphCRF(FieldCRF):
    """A CRF on any graphs: networkx graphs with features on nodes and edges, or factor graphs.

    In undirected graphs the weights of an edge do not depend on its direction; in directed ones
    they do.

    Parameters
    ----------
    estimator
        `"pw"` (each factor by itself), `"pwpl"` (each variable within each factor), `"pl"` (each
        variable given all around it), `"edge-pl"` (the variables of each factor given all around
        them), `"ml"` (exact; small width), `"bp"` (loopy belief propagation) or `"pw-reweighted"`
        (a convex combination of pieces); `"auto"` takes the one that suits the graphs and says
        why; in Python see `choice_`.
    features
        A function that gives the nodes and edges of a graph their features, as
        `"my_features:of_graph"`; in Python also the function itself.  None: they have them.
    connected
        Whether a graph in several parts is refused, as one with an edge forgotten.
    pieces
        Of `"pw"` and `"pwpl"`: `"edges"` (an edge takes the features of its ends with it; the
        default) or `"factors"`; in Python also, of `"pw"`, lists of kinds of factors, each list one
        piece per example, as in `[["node", "edge"]]`.
    shares
        Of `"pw-reweighted"`: `"uniform"` or `"optimised"`; in Python also {kind of factor: weight}.
    c1
        Strength of the L1 regularisation: c1 * sum |w| is added.
    c2
        Strength of the L2 regularisation: c2 * sum w^2 is added; a Gaussian prior of variance v is
        c2 = 1 / 2v.
    min_freq
        An attribute has weights for the labels that it was seen with this often.
    all_possible_pairs
        Whether every attribute has weights for all labels.
    algorithm : {"lbfgs", "l2sgd"}
        L-BFGS (OWL-QN where c1 > 0), or stochastic gradient descent.
    max_iterations, num_memories, epsilon, period, delta, batch_size
        As in `CRF`.
    inference
        Answers are `"exact"`, by `"bp"`, marginals also by `"trw"`; `"auto"` is exact wherever the
        width of a graph allows.
    callbacks, n_jobs, dtype, random_state, verbose
        As in `CRF`.

    Attributes
    ----------
    classes_
        The labels, in the order of their first appearance.
    outcome_
        How training went.
    choice_
        With `estimator="auto"`: the estimator taken, and why.

    """

    connected: bool = True

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of their first appearance."""
        self._fitted()
        return list(self.labels_)

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        *,
        executor: Executor | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from graphs and the labels of their nodes.

        Parameters
        ----------
        X
            networkx graphs whose nodes and edges may have `features` (an item, as `CRF` takes
            them), or pairs (FactorGraph, {group: items}).
        y
            For each graph {node: label}, or a list in the order of the nodes; None is unknown, a
            set is any of these.
        executor
            Where value and gradient are summed; None: here, on `n_jobs` cores.
        checkpoint, resume
            As in `CRF.fit`.

        Returns
        -------
        the fitted CRF itself

        """
        graphs, labels = Graphs.of(self._extracted(X, 0)), list(y)
        names = Numbering(closed=False)
        for own in graphs.ordered(labels):
            for label in own:
                for name in label if isinstance(label, set | frozenset) else [label]:
                    if isinstance(name, str):
                        names[name]
        if not names:
            raise DataError("y names no label at all; there is nothing to learn from.")
        warn_of_single_label(names)
        names.closed = True
        batch = graphs.batch(len(names))
        if self.connected:
            graphs.insist_on_connection(batch.graph)
        batch = graphs.labelled(batch, labels, names)
        how: dict[str, Any] = {"executor": executor, "checkpoint": checkpoint, "resume": resume}
        self._train(batch, mirrored=graphs.mirrored, **how)
        self.mirrored_, self.labels_ = graphs.mirrored, names
        return self

    def predict(self, X: Iterable[Any], constraints: Given = None) -> list[Any]:
        """The best labels of each graph.

        Parameters
        ----------
        X
            Graphs, as `fit` takes them.
        constraints
            Known labels laid out like y (None where a node is free), or `Constraints(forced=...)`.

        Returns
        -------
        list of {node: label} (of lists of labels for factor graphs)

        """
        return [answer.labels for answer in self.decode(X, constraints)]

    def decode(self, X: Iterable[Any], constraints: Given = None) -> list[GraphAnswer]:
        """The best labels of each graph with their score, and how they were found.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        list of `GraphAnswer`: labels, score, kind, converged

        """
        graphs, batch = self._asked(X, known_labels(constraints))
        rows = zip(graphs.examples, self._decoded(batch), strict=True)
        return [GraphAnswer(own.named(self._names(found)), *how) for own, (found, *how) in rows]

    def predict_marginals(self, X: Iterable[Any], constraints: Given = None) -> list[Any]:
        """The marginal probability of every label at every node; `marginal_kinds` says how exact.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        list of {node: {label: probability}} (of lists of {label: probability} for factor graphs)

        """
        names = self.classes_
        return [
            own.named([dict(zip(names, row, strict=True)) for row in rows.tolist()])
            for own, rows in self._tables(X, constraints)
        ]

    def predict_proba(self, X: Iterable[Any], constraints: Given = None) -> list[Any]:
        """The same marginals as arrays.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        list of {node: array of probabilities in the order of `classes_`} (for factor graphs of
        arrays, variables x labels)

        """
        return [
            rows.numpy() if own.nodes is None else own.named(list(rows.numpy()))
            for own, rows in self._tables(X, constraints)
        ]

    def marginal_kinds(self, X: Iterable[Any]) -> list[str]:
        """How the marginals of each graph are found: exact, a bound, or an approximation."""
        return self._marginals(self._asked(X)[1]).kind

    def n_best(
        self, X: Iterable[Any], n: int = 5, constraints: Given = None
    ) -> list[list[GraphAnswer]]:
        """The n best labellings of each graph; exact, so the width must allow it.

        Parameters
        ----------
        X, constraints
            As in `predict`.
        n
            How many; there may be fewer.

        Returns
        -------
        for each graph a list of `GraphAnswer`, best first

        """
        graphs, batch = self._asked(X, known_labels(constraints))
        return [
            [
                GraphAnswer(example.named(self._names(states)), score, "exact", True)
                for states, score in own
            ]
            for example, own in zip(graphs.examples, self._listed(batch, n), strict=True)
        ]

    def log_prob(self, X: Iterable[Any], y: Iterable[Any]) -> list[float]:
        """log p(y | graph) of each graph, in nats, by the inference that `inference` names."""
        return self._log_prob(self._asked(X, y)[1])

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """The share of nodes whose label is right; nodes without a label do not count."""
        graphs, batch = self._asked(X)
        gold = [label for own in graphs.ordered(y) for label in own]
        found = [name for states, *_ in self._decoded(batch) for name in self._names(states)]
        if len(gold) != len(found):
            raise DataError(f"X has {len(found)} nodes and y has {len(gold)} labels.")
        right: list[bool] = [
            bool(a == b) for a, b in zip(gold, found, strict=True) if a is not None
        ]
        return sum(right) / max(1, len(right))

    def _asked(self, X: Iterable[Any], y: Iterable[Any] | None = None) -> tuple[Graphs, FieldBatch]:
        """The graphs, and the batch of them, with the labels that are known."""
        model, graphs = self._fitted(), Graphs.of(self._items(X))
        if graphs.mirrored != self.mirrored_:
            raise DataError("trained on undirected graphs, asked about directed ones (or reverse).")
        batch = graphs.batch(len(self.labels_), model.templates)
        if self.connected:
            graphs.insist_on_connection(batch.graph)
        return graphs, batch if y is None else graphs.labelled(batch, y, self.labels_)

    def _tables(
        self, X: Iterable[Any], constraints: Given
    ) -> Iterator[tuple[GraphExample, Float[Tensor, "v s"]]]:
        """Every graph, and the marginals of its variables."""
        graphs, batch = self._asked(X, known_labels(constraints))
        found = self._marginals(batch).variables[:, : len(self.labels_)]
        return zip(graphs.examples, found.split(batch.sizes.tolist()), strict=True)

    def _names(self, states: Int64[Tensor, " v"]) -> list[str]:
        names = self.classes_
        return [names[state] for state in states.tolist()]

    def _axis_labels(self, template: FactorTemplate) -> list[list[str]]:
        return [self.classes_] * len(template.shape)

    def _state(self) -> dict[str, Any]:
        return {"labels": list(self.labels_), "mirrored": self.mirrored_}

    def _restore_inputs(self, state: dict[str, Any]) -> None:
        self.labels_ = Numbering(texts(state, "labels"), closed=True)
        self.mirrored_ = bool(state["mirrored"])
