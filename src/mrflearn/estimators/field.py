"""`MarkovField`: an untied Markov random field learned from samples of all its variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mrflearn.data.files import PathLike
from mrflearn.errors import GraphError
from mrflearn.estimators.field_choice import choose_estimator
from mrflearn.estimators.field_inputs import field_graph, sample_weights, state_table
from mrflearn.estimators.field_questions import FieldQuestions
from mrflearn.estimators.field_shards import Shards, first_table, learn_from_shards
from mrflearn.estimators.field_training import Estimator, FieldTraining
from mrflearn.estimators.front_door import Parts
from mrflearn.execution.device import choose_device
from mrflearn.execution.executor import Executor, Serial
from mrflearn.execution.processes import executor_for
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import Auxiliary
from mrflearn.graph.potentials import Potentials
from mrflearn.models.storage import texts
from mrflearn.models.tabular import TabularModel
from mrflearn.statistics.neighbourhood_counts import Columns
from mrflearn.statistics.observations import CliqueCounts, check_states
from mrflearn.training.outcome import Outcome


class MarkovField(FieldQuestions):
    """A Markov random field with free parameters on every variable, edge and larger clique.

    graph: `"grid:4x4"`, `"cube:4x4x4"`, `"chimera:3,3,3"`, `"complete"`, `"edges:FILE"`, a
        networkx graph whose node order is the column order, pairs of columns such as `[(0, 1)]`,
        or a `FactorGraph` (any cliques).
    states: states of every variable, one number or one each; None takes the largest seen.
    estimator: `"auto"` takes the one that suits graph and samples, and `choice_` says which and
        why; `"lap"` (each clique from its neighbourhood; small degree, any size), `"pl"`
        (pseudolikelihood, any graph), `"ml"` (exact maximum likelihood, small width), `"bp"` (the
        same with loopy belief propagation), `"consensus"` (each variable by itself, then averaged),
        `"pw"` (each clique by itself) or `"pmm"` (pseudo-moment matching, in closed form).
    auxiliary: what LAP lets the neighbours of a clique follow: `"exact"` (the structure of the true
        marginal), `"dense"` (any distribution) or `"pairwise"` (a pairwise field).
    l2: price of the square of every parameter.
    l1: price of each coupling: of the norm of its table under LAP, of every entry elsewhere.
    n_jobs: processes that share the local problems of `"lap"` and `"consensus"`; -1 is all cores.
    """

    usual_method = "exact"

    def __init__(
        self,
        graph: Any = "complete",
        *,
        states: int | Sequence[int] | None = None,
        estimator: Estimator | Literal["auto"] = "auto",
        auxiliary: Auxiliary = "exact",
        l2: float = 0.0,
        l1: float = 0.0,
        max_iterations: int = 1000,
        tolerance: float = 1e-7,
        device: str = "cpu",
        n_jobs: int = 1,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.graph = graph
        self.states = states
        self.estimator = estimator
        self.auxiliary = auxiliary
        self.l2 = l2
        self.l1 = l1
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learns from rows of states (samples x variables, counted from 0), or of spins (-1 and 1).

        Distinct rows with their counts as `sample_weight` are the same as all the rows.  NaN, or -1
        among states, is a missing value, which `"lap"` learns from.  One byte a state is enough.
        """
        del y  # scikit-learn passes it to every estimator
        device = choose_device(self.device)
        states, self.spins_ = state_table(X)
        table = torch.as_tensor(states)
        self.name_columns(getattr(X, "columns", None))
        graph = self._build(table).to(device)
        training = self._training(graph, missing=bool((table < 0).any()))
        check_states(table, graph.states.cpu(), missing_allowed=True)
        weights = None
        if sample_weight is not None:
            weights = sample_weights(sample_weight, len(table), device)
        with executor_for(self.n_jobs) as place:
            columns = Columns.of(table, weights, device)
            return self._keep(replace(training, mapper=place.map)(graph, columns))

    def fit_shards(
        self,
        paths: Sequence[PathLike],
        executor: Executor | None = None,
        *,
        columns: Sequence[str | int] | None = None,
        missing: bool = False,
    ) -> Self:
        """Learns from files of samples, each counted where the executor runs (default: here).

        For `"lap"`, `"ml"`, `"bp"` and `"pw"`, which need counts alone.  `columns` picks some by
        name or number.  Say `missing` where values may be missing, and give `states` where the
        first file may not show them all.
        """
        first = first_table(paths, columns)
        graph = self._build(torch.as_tensor(first.values))
        training = self._training(graph, missing=missing, counts_alone=True)
        place = Serial() if executor is None else executor
        shards = Shards(paths, columns, missing)
        self._keep(learn_from_shards(training, graph, shards, place, first.values))
        self.name_columns(first.names)
        self.spins_ = first.spins
        return self

    def fit_counts(self, counts: Sequence[ArrayLike]) -> Self:
        """Learns from clique histograms, which is all that `"ml"`, `"bp"` and `"pw"` need.

        For each factor group of the graph, in its order: how often each factor's variables were
        seen in each joint state (factors x states x states ...).
        """
        device = choose_device(self.device)
        tables = tuple(
            torch.as_tensor(np.asarray(c, dtype=np.float64), device=device) for c in counts
        )
        graph = field_graph(self.graph, self.states, None, 1).to(device)
        training = self._training(graph, counts_alone=True)
        shapes = [(len(g), *(graph.shape(g) if len(g) else ())) for g in graph.groups]
        seen = [tuple(table.shape) for table in tables]
        if seen != shapes:
            raise GraphError(f"the histograms have the shapes {seen}; this graph needs {shapes}.")
        weight = tables[0][0].sum().reshape(1)
        return self._keep(training.from_clique_counts(graph, CliqueCounts(tables, weight)))

    def name_columns(self, names: Sequence[str] | None) -> None:
        """Keeps the names of the columns, where there are any, as scikit-learn does."""
        if names is not None:
            self.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def potentials_(self) -> Potentials:
        """The learned field, in the reference gauge (tables vanish at state 0)."""
        return self._fitted().potentials()

    def _learned_parts(self) -> Parts:
        model = self._fitted()
        names = list(getattr(self, "feature_names_in_", [])) or None
        groups = [group.name for group in model.graph.groups]
        learned = {"groups": groups, "names": names, "spins": self.spins_}
        return learned, model.tensors()

    def _take_back(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model_ = TabularModel.from_tensors(list(texts(learned, "groups")), tensors)
        self.graph = self.model_.graph
        self.n_features_in_ = self.graph.variables
        self.name_columns(None if learned["names"] is None else texts(learned, "names"))
        self.spins_ = bool(learned["spins"])

    def _stored_settings(self) -> dict[str, Any]:
        # The graph is among the tensors, with its states.
        return {**super()._stored_settings(), "graph": None, "states": None}

    def _training(
        self, graph: FactorGraph, *, missing: bool = False, counts_alone: bool = False
    ) -> FieldTraining:
        chosen = self.estimator
        self.__dict__.pop("choice_", None)  # of an earlier fit
        if chosen == "auto":
            self.choice_ = choose_estimator(graph, missing=missing, counts_alone=counts_alone)
            chosen = self.choice_.estimator
        return FieldTraining(
            chosen,
            self.auxiliary,
            self.l2,
            self.l1,
            self.max_iterations,
            self.tolerance,
            self.verbose,
        )

    def _build(self, table: Tensor) -> FactorGraph:
        columns = table.shape[1] if table.ndim == 2 else None
        largest = int(table.max()) if table.numel() else 0
        return field_graph(self.graph, self.states, columns, largest)

    def _keep(self, outcome: Outcome[TabularModel]) -> Self:
        self.outcome_ = outcome
        self.model_ = outcome.model
        self.n_features_in_ = outcome.model.graph.variables
        return self

    def _fitted(self) -> TabularModel:
        model: TabularModel = self._after_fit("model_")
        return model
