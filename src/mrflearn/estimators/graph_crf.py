"""`GraphCRF`: a conditional random field on graphs of any form, one an example."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from jaxtyping import Bool, Int64
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.field_crf import FieldCRF
from mrflearn.estimators.field_crf_answers import best_lists, log_probabilities
from mrflearn.estimators.graph_inputs import Graphs, mirrored_templates, mirrored_tie
from mrflearn.features.features import Numbering
from mrflearn.features.labels import warn_of_single_label
from mrflearn.inference.constraints import allowed_states
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.storage import texts
from mrflearn.models.templates import Template
from mrflearn.training.checkpoint import Checkpoint


@dataclass(frozen=True)
class GraphAnswer:
    """The best labels found for one graph, and what they are worth.

    `kind` is "exact" (no labelling scores higher) or "approximation" (max-product, then climbing
    one label at a time); `converged` says whether message passing came to rest.
    """

    labels: Any
    score: float
    kind: str
    converged: bool


@dataclass(kw_only=True, eq=False, repr=False)
class GraphCRF(FieldCRF):
    """A CRF on any graphs: networkx graphs with features on nodes and edges, or factor graphs.

    X is a list of networkx graphs whose nodes and edges may have `features` (an item, as `CRF`
    takes them), or of pairs (FactorGraph, {group: items}).  y is a list of {node: label} or of
    lists in the order of the nodes; None is unknown, a set is any of these.  In undirected graphs
    the weights of an edge do not depend on its sense; in directed ones they do.

    estimator: `"pw"` (each factor by itself), `"pwpl"` (each variable within each factor),
        `"pl"` (each variable given all around it), `"edge-pl"` (the variables of each factor given
        all around them), `"ml"` (exact; small width), `"bp"` (loopy belief propagation) or
        `"pw-reweighted"` (a convex combination of pieces); `"auto"` takes the one that suits the
        graphs, and `choice_` says which and why.
    connected: whether a graph in several parts is refused, as one with an edge forgotten.
    pieces: of `"pw"` and `"pwpl"`: `"edges"` (an edge takes the features of its ends with it; the
        default) or `"factors"`; of `"pw"` also lists of kinds of factors, each list one piece an
        example, as in `[["node", "edge"]]`.
    shares: of `"pw-reweighted"`: `"uniform"`, `"optimised"` or {kind of factor: weight}.
    c1, c2: c1 * sum |w| + c2 * sum w^2 is added; a Gaussian prior of variance v is c2 = 1 / 2v.
    min_freq, all_possible_pairs: which attributes have weights for which labels: those seen
        together so often, or all.
    algorithm, max_iterations, num_memories, epsilon, period, delta, batch_size: as in `CRF`.
    inference: answers are `"exact"`, by `"bp"`, probabilities also by `"trw"`; `"auto"` is exact
        wherever the width of a graph allows.
    executor: where value and gradient are added up; None: here, on `n_jobs` cores.
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
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from graphs and the labels of their nodes.

        checkpoint, resume: as of `CRF.fit`.
        """
        graphs, labels = Graphs.of(X), list(y)
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
        self.mirrored_, self.labels_ = graphs.mirrored, names
        return self._learn(batch, None, checkpoint, resume)

    def predict(self, X: Iterable[Any], forced: Iterable[Any] | None = None) -> list[Any]:
        """The best labels of each graph, as {node: label} (lists for factor graphs).

        forced: for each graph labels that are given: a label, a set of labels, or None (any).
        """
        return [answer.labels for answer in self.decode(X, forced)]

    def decode(self, X: Iterable[Any], forced: Iterable[Any] | None = None) -> list[GraphAnswer]:
        """The best labels of each graph with their score, and how they were found."""
        graphs, batch, allowed = self._asked(X, forced)
        found = self._decode(batch, allowed)
        labels = graphs.split(self._names(found.assignment))
        rows = zip(labels, found.score.tolist(), found.kind, found.converged.tolist(), strict=True)
        return [GraphAnswer(*row) for row in rows]

    def predict_marginals(self, X: Iterable[Any], forced: Iterable[Any] | None = None) -> list[Any]:
        """The probability of every label at every node; see `marginal_kinds` for their kind."""
        graphs, batch, allowed = self._asked(X, forced)
        names = self.classes_
        rows = self._marginals(batch, allowed).variables[:, : len(names)].tolist()
        return graphs.split([dict(zip(names, row, strict=True)) for row in rows])

    def marginal_kinds(self, X: Iterable[Any]) -> list[str]:
        """How the probabilities of each graph are found: exact, a bound, or an approximation."""
        _, batch, _ = self._asked(X, None)
        return list(self._marginals(batch).kind)

    def n_best(
        self, X: Iterable[Any], n: int = 5, forced: Iterable[Any] | None = None
    ) -> list[list[GraphAnswer]]:
        """The n best labellings of each graph, best first; exact, so the width must allow it."""
        graphs, batch, allowed = self._asked(X, forced)
        answers = []
        for number, own in enumerate(best_lists(self._fitted(), batch, allowed, n)):
            alone = Graphs(graphs.examples[number : number + 1])
            answers.append(
                [
                    GraphAnswer(alone.split(self._names(states))[0], score, "exact", True)
                    for states, score in own
                ]
            )
        return answers

    def log_prob(self, X: Iterable[Any], y: Iterable[Any]) -> list[float]:
        """log p(y | graph) of each graph, in nats, by the inference that `inference` names."""
        graphs, batch, _ = self._asked(X, None)
        known = graphs.labelled(batch, y, self.labels_)
        return log_probabilities(self._fitted(), known, self.inference)

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """The share of nodes whose label is right; nodes without a label do not count."""
        graphs, batch, _ = self._asked(X, None)
        gold = [label for own in graphs.ordered(y) for label in own]
        found = self._names(self._decode(batch).assignment)
        if len(gold) != len(found):
            raise DataError(f"X has {len(found)} nodes and y has {len(gold)} labels.")
        right: list[bool] = [
            bool(a == b) for a, b in zip(gold, found, strict=True) if a is not None
        ]
        return sum(right) / max(1, len(right))

    def _asked(
        self, X: Iterable[Any], forced: Iterable[Any] | None
    ) -> tuple[Graphs, FieldBatch, Bool[Tensor, "v s"] | None]:
        model, graphs = self._fitted(), Graphs.of(X)
        if graphs.mirrored != self.mirrored_:
            raise DataError("trained on undirected graphs, asked about directed ones (or reverse).")
        batch = graphs.batch(len(self.labels_), model.templates)
        if self.connected:
            graphs.insist_on_connection(batch.graph)
        if forced is None:
            return graphs, batch, None
        choices = [choice for own in graphs.ordered(forced) for choice in own]
        return graphs, batch, allowed_states(self.classes_, choices)

    def _names(self, states: Int64[Tensor, "v"]) -> list[str]:
        names = self.classes_
        return [names[state] for state in states.tolist()]

    def _templates(self, batch: FieldBatch) -> tuple[Template, ...]:
        templates = super()._templates(batch)
        return mirrored_templates(templates) if self.mirrored_ else templates

    def _tie(self, templates: tuple[Template, ...]) -> Int64[Tensor, "p"] | None:
        return mirrored_tie(templates) if self.mirrored_ else None

    def _axis_labels(self, template: Template) -> list[list[str]]:
        return [self.classes_] * len(template.shape)

    def _state(self) -> dict[str, Any]:
        return {"labels": list(self.labels_), "mirrored": self.mirrored_}

    def _restore_inputs(self, state: dict[str, Any]) -> None:
        self.labels_ = Numbering(texts(state, "labels"), closed=True)
        self.mirrored_ = bool(state["mirrored"])
