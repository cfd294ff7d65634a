"""`GraphCRF`: a conditional random field on graphs of any form, one an example."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from mrflearn.errors import DataError
from mrflearn.estimators.field_crf import FieldCRF, marginals
from mrflearn.estimators.graph_inputs import GraphExample, Graphs
from mrflearn.execution.executor import Executor
from mrflearn.features.features import Numbering, warn_of_single_label
from mrflearn.features.index import FactorTemplate
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.storage import texts
from mrflearn.training.checkpoint import Checkpoint


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
        return list(self.names_[0])

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
        graphs, names = Graphs.of(self._extracted(X, 0)), Numbering()
        batch = graphs.batch(names, y, connected=self.connected)
        warn_of_single_label(names)
        names.closed = True
        how: dict[str, Any] = {"executor": executor, "checkpoint": checkpoint, "resume": resume}
        self._train(batch, mirrored=graphs.mirrored, **how)
        self.mirrored_, self.names_ = graphs.mirrored, (names,)
        return self

    def marginal_kinds(self, X: Iterable[Any]) -> list[str]:
        """How the marginals of each graph are found: exact, a bound, or an approximation."""
        return [own.kind for own in marginals(self._fitted(), self._asked(X)[1], self.inference)]

    def _asked(
        self, X: Iterable[Any], y: Iterable[Any] | None = None
    ) -> tuple[tuple[GraphExample, ...], FieldBatch]:
        model, graphs = self._fitted(), Graphs.of(self._items(X))
        if graphs.mirrored != self.mirrored_:
            raise DataError("trained on undirected graphs, asked about directed ones (or reverse).")
        batch = graphs.batch(self.names_[0], y, model.templates, connected=self.connected)
        return graphs.examples, batch

    def _layers(self, examples: Any, y: Iterable[Any]) -> list[list[list[Any]]]:
        return [[own] for own in Graphs(examples).ordered(y)]

    def _form(self, example: GraphExample, layers: Any) -> Any:
        return example.named(layers[0])

    def _axis_labels(self, template: FactorTemplate) -> list[list[str]]:
        return [self.classes_] * len(template.shape)

    def _state(self) -> dict[str, Any]:
        return {"labels": self.classes_, "mirrored": self.mirrored_}

    def _restore_inputs(self, state: dict[str, Any]) -> None:
        self.names_ = (Numbering(texts(state, "labels"), closed=True),)
        self.mirrored_ = bool(state["mirrored"])
