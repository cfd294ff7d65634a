"""`MarkovField`: an untied Markov random field learned from samples of all its variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from mrflearn.errors import GraphError, MrflearnError, NotFittedError, StorageError
from mrflearn.execution.device import choose_device
from mrflearn.graph.builders import from_networkx, graph_from_text
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import zero_sum_gauge
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.draw import Draw, Drawing
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.models.storage import StoredModel, read_model, write_model
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.likelihood import Likelihood
from mrflearn.objectives.objective import Objective
from mrflearn.objectives.penalties import L2, NoPenalty
from mrflearn.objectives.pseudolikelihood import Pseudolikelihood, log_conditionals
from mrflearn.statistics.observations import Samples, check_states, clique_counts
from mrflearn.training.fit import Outcome, fit
from mrflearn.training.lbfgs import LBFGS

Estimator = Literal["ml", "pl"]
Method = Literal["exact", "ais", "pl"]
# Rows of samples handled at once by pseudolikelihood; bounds memory, changes no result.
CHUNK = 16_384


class MarkovField(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A Markov random field with free parameters on every variable and every edge.

    graph: `"grid:4x4"`, `"cube:4x4x4"`, `"chimera:3,3,3"`, `"complete"`, `"edges:FILE"`, a
        networkx graph whose node order is the column order, or a `FactorGraph`.
    states: states of every variable, one number or one each; None takes the largest seen.
    estimator: `"ml"` (exact maximum likelihood, for graphs of small width) or `"pl"`
        (pseudolikelihood, for any graph).
    l2: strength of the penalty on the parameters, as `mrflearn.objectives.penalties.L2` has it.
    """

    def __init__(
        self,
        graph: Any = "complete",
        *,
        states: int | Sequence[int] | None = None,
        estimator: Estimator = "pl",
        l2: float = 0.0,
        max_iterations: int = 1000,
        tolerance: float = 1e-7,
        device: str = "cpu",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.graph = graph
        self.states = states
        self.estimator = estimator
        self.l2 = l2
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learns from rows of states (samples x variables, counted from 0)."""
        del y  # scikit-learn passes it to every estimator
        device = choose_device(self.device)
        rows = _rows(X, device)
        graph = self._build(rows).to(device)
        check_states(rows, graph.states)
        weights = None if sample_weight is None else _weights(sample_weight, rows)
        samples = Samples.distinct(rows, weights)
        objective, batches = self._objective(graph, samples)
        outcome = fit(
            TabularModel.zeros(graph),
            batches,
            objective,
            LBFGS(max_iterations=self.max_iterations, tolerance=self.tolerance),
            penalty=L2(self.l2) if self.l2 else NoPenalty(),
            progress=self.verbose,
            seed=self.random_state,
        )
        self.outcome_: Outcome[TabularModel] = outcome
        self.model_ = outcome.model
        self.n_features_in_ = graph.variables
        return self

    @property
    def potentials_(self) -> Potentials:
        """The learned field, in the reference gauge (tables vanish at state 0)."""
        return self._fitted().potentials()

    @property
    def fields_(self) -> NDArray[np.float64]:
        """Zero-sum scores of each variable's states; for two states the spin field h."""
        table = _group(zero_sum_gauge(self.potentials_), 1)
        return table[:, 1] if table.shape[1:] == (2,) else table

    @property
    def couplings_(self) -> NDArray[np.float64]:
        """Zero-sum scores of each edge's states; for two states the spin coupling J."""
        table = _group(zero_sum_gauge(self.potentials_), 2)
        return table[:, 1, 1] if table.shape[1:] == (2, 2) else table

    @property
    def edges_(self) -> NDArray[np.int64]:
        """The two variables of each edge, in the order of `couplings_`."""
        groups = [g for g in self._fitted().graph.groups if g.arity == 2]
        scopes = [group.scope.cpu().numpy() for group in groups]
        return np.concatenate(scopes) if scopes else np.zeros((0, 2), dtype=np.int64)

    def log_likelihood(self, X: ArrayLike, method: Method = "exact") -> NDArray[np.float64]:
        """The log-probability of each row, in nats.

        `exact` by junction tree; `ais` with log Z estimated by annealed importance sampling; `pl`
        the sum of the log-probabilities of each variable given all the others.
        """
        potentials = self.potentials_
        rows = _rows(X, potentials.graph.device)
        check_states(rows, potentials.graph.states)
        if method == "pl":
            return self._pseudolikelihoods(rows)
        if method == "exact":
            log_partition = JunctionTree()(potentials).log_partition
        elif method == "ais":
            generator = torch.Generator(device=rows.device).manual_seed(self.random_state)
            log_partition = AnnealedImportance().estimate(potentials, generator).log_partition
        else:
            raise MrflearnError(f"method {method!r} is not one of 'exact', 'ais', 'pl'.")
        return np.asarray((potentials.score(rows) - log_partition).sum(-1).cpu())

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """The exact log-probability of each row, in nats."""
        return self.log_likelihood(X)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean exact log-probability of a row, in nats."""
        del y
        return float(self.score_samples(X).mean())

    def sample(self, count: int = 1, *, seed: int | None = None) -> NDArray[np.int64]:
        """New rows: exact where the width allows, else by Gibbs (see `draw` for which)."""
        return np.asarray(self.draw(count, seed=seed).samples.cpu())

    def draw(self, count: int, *, seed: int | None = None) -> Draw:
        """New rows together with how they were made."""
        seed = self.random_state if seed is None else seed
        return Drawing()(self.potentials_, count, seed=seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model directory, whole or not at all."""
        model = self._fitted()
        settings = {**self.get_params(), "graph": None, "states": None}
        settings["groups"] = [group.name for group in model.graph.groups]
        write_model(path, StoredModel(type(self).__name__, settings, model.tensors()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "cpu") -> Self:
        """The field that `save` wrote."""
        return cls.from_stored(read_model(path, device=device), device=device)

    @classmethod
    def from_stored(cls, stored: StoredModel, *, device: str = "cpu") -> Self:
        """The field that a stored model holds."""
        if stored.kind != cls.__name__:
            raise StorageError(f"this is a {stored.kind}, not a {cls.__name__}.")
        settings, tensors = dict(stored.settings), stored.tensors
        try:
            model = TabularModel.from_tensors(settings.pop("groups"), tensors)
            self = cls(**{**settings, "graph": model.graph, "device": device})
        except (KeyError, TypeError, GraphError) as error:
            raise StorageError(f"the stored field contradicts itself ({error}).") from error
        self.model_ = model
        self.n_features_in_ = model.graph.variables
        return self

    def _build(self, rows: Tensor) -> FactorGraph:
        if isinstance(self.graph, FactorGraph):
            return self.graph
        states = self.states
        if states is None:
            states = max(2, int(rows.max()) + 1) if rows.numel() else 2
        if isinstance(self.graph, str):
            variables = rows.shape[1] if rows.ndim == 2 else None
            return graph_from_text(self.graph, states, variables=variables)
        if not isinstance(states, int):
            raise GraphError("with a networkx graph give `states` as one number or on the nodes.")
        return from_networkx(self.graph, states)[0]

    def _objective(self, graph: FactorGraph, samples: Samples) -> tuple[Objective, Any]:
        if self.estimator == "pl":
            return Pseudolikelihood(), list(samples.chunks(CHUNK))
        if self.estimator == "ml":
            scopes = [group.scope for group in graph.groups]
            shapes = [graph.shape(group) for group in graph.groups]
            return Likelihood(JunctionTree()), clique_counts(scopes, shapes, samples)
        raise MrflearnError(f"estimator {self.estimator!r} is not one of 'ml', 'pl'.")

    def _pseudolikelihoods(self, rows: Tensor) -> NDArray[np.float64]:
        potentials = self.potentials_
        values = torch.cat([log_conditionals(potentials, part) for part in rows.split(CHUNK)])
        return np.asarray(values.cpu())

    def _fitted(self) -> TabularModel:
        model: TabularModel | None = getattr(self, "model_", None)
        if model is None:
            raise NotFittedError("this MarkovField is not fitted yet; call `fit`, or `load` one.")
        return model


def _rows(X: ArrayLike, device: torch.device) -> Tensor:
    values = np.asarray(X)
    if values.dtype.kind not in "iub":
        if values.dtype.kind == "f" and bool((values == np.floor(values)).all()):
            values = values.astype(np.int64)
        else:
            raise MrflearnError(
                f"samples must be whole numbers (states counted from 0), not {values.dtype}."
            )
    return torch.as_tensor(values.astype(np.int64, copy=False), device=device)


def _weights(weights: ArrayLike, rows: Tensor) -> Tensor:
    values = torch.as_tensor(np.asarray(weights, dtype=np.float64), device=rows.device)
    if values.shape != rows.shape[:1] or not bool((values >= 0).all()):
        raise MrflearnError("sample_weight must hold one number of at least 0 for every row.")
    return values


def _group(potentials: Potentials, arity: int) -> NDArray[np.float64]:
    tables = [
        potentials.factor_scores(i)
        for i, group in enumerate(potentials.graph.groups)
        if group.arity == arity
    ]
    if not tables:
        return np.zeros((0, *[2] * arity))
    if len({table.shape[1:] for table in tables}) > 1:
        raise GraphError("variables differ in their state counts; read `potentials_` instead.")
    return np.asarray(torch.cat(tables).detach().cpu())
