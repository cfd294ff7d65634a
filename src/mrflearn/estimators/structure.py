"""`FieldStructure`: structure learning for pairwise Markov random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, StorageError, warn_user
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.field_inputs import (
    TakesTables,
    answer_rows,
    check_observed,
    sample_weights,
    warn_of_codes,
)
from mrflearn.execution.resources import choose_device
from mrflearn.features.observations import Samples, check_states
from mrflearn.graph.builders import pairwise
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.io.state_codes import StateCodes, column_name
from mrflearn.training.neighbourhood_selection import select_edges


@dataclass(kw_only=True, eq=False, repr=False)
class FieldStructure(TakesTables, Estimator):
    """The edges of a pairwise field, by L1-regularised regression of each variable on all others.

    Then learn on what was found: `MarkovField(structure.graph_, estimator="lap").fit(X)`.

    Parameters
    ----------
    states
        States of every variable, counted from 0; None takes what each column shows (its codes,
        where these do not begin at 0), as `MarkovField` does.
    gamma
        The hyperparameter of the extended Bayesian information criterion (EBIC): how much it
        disfavours many neighbours among many variables; 0 is BIC.
    combine
        `"and"` selects an edge where each of its variables selects the other, `"or"` where at
        least one does.
    l1_path
        The number of L1 regularisation strengths that are tried, from the least without any edge
        down to one hundredth of it.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    random_state
        Seed of the values that stand in for missing ones while candidates are looked for.

    Attributes
    ----------
    edges_
        The two variables of each edge.
    graph_
        The edges as a graph to learn on.
    states_
        The number of states of each variable.
    weights_
        The weight of the rows that each variable's neighbours were selected from.
    n_features_in_
        The number of variables.

    """

    states: int | None = None
    gamma: float = 0.25
    combine: Literal["and", "or"] = "and"
    l1_path: int = 25
    device: str = "cpu"
    random_state: int = 0

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Finds the edges from rows of states (samples x variables, counted from 0).

        Parameters
        ----------
        X
            The samples.  NaN, or -1 among states, is a missing value: each variable is then learned
            from the rows in which it and its candidate neighbours were observed; `weights_` says
            from how many.
        y
            Ignored.
        sample_weight
            One weight per row.

        """
        del y  # scikit-learn passes it to every estimator
        table, names, _, labels = answer_rows(X)
        if table.shape[1] < 2:
            raise DataError(
                f"samples have {table.shape[1]} feature(s) (shape {table.shape}); at least two "
                "variables are needed to find edges."
            )
        check_observed(table, names)
        codes = StateCodes.seen(table, labels)
        if self.states is not None:
            count = table.shape[1]
            codes = StateCodes((None,) * count, (self.states,) * count).named(labels)
        states = codes.encode(table, names, labels).astype(np.int64, copy=False)
        rows = torch.as_tensor(states, device=choose_device(self.device))
        sizes = torch.tensor(codes.sizes, device=rows.device)
        check_states(rows, sizes, missing_allowed=True, names=names)
        warn_of_codes(table, codes, names)
        seen = Samples.distinct(rows, sample_weights(sample_weight, len(rows), rows.device))
        found = select_edges(
            seen,
            sizes,
            gamma=self.gamma,
            path=self.l1_path,
            combine=self.combine,
            seed=self.random_state,
        )
        self.edges_: NDArray[np.int64] = found.edges.cpu().numpy()
        self.weights_: NDArray[np.float64] = found.weights.cpu().numpy()
        self.states_ = codes.sizes
        self.n_features_in_ = rows.shape[1]
        if bool((rows < 0).any()):
            least = int(self.weights_.argmin())
            warn_user(
                "values are missing: the neighbours of each column are chosen from rows in which "
                f"it and its candidates are observed; the fewest are {self.weights_[least]:,.6g} "
                f"of {seen.total:,.6g}, for column {column_name(least, names)}"
            )
        return self

    @property
    def graph_(self) -> FactorGraph:
        """The edges as a graph to learn on."""
        edges = torch.as_tensor(self.edges_)
        return pairwise(torch.tensor(self.states_), edges)

    def _learned_parts(self) -> Parts:
        edges = torch.as_tensor(self.edges_)
        states, weights = torch.tensor(self.states_), torch.as_tensor(self.weights_)
        return {}, {"edges": edges, "states": states, "weights": weights}

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        del learned  # there is nothing but numbers
        edges, states, weights = (tensors[name].cpu() for name in ("edges", "states", "weights"))
        whole = not edges.is_floating_point() and not states.is_floating_point()
        if not whole or states.ndim != 1 or weights.shape != states.shape:
            raise StorageError("edges, states and weights do not fit each other")
        self.edges_ = edges.numpy()
        self.states_ = tuple(states.tolist())
        self.weights_ = weights.numpy()
        self.n_features_in_ = len(states)
        self.graph_  # noqa: B018 - built once to see that edges and states agree
