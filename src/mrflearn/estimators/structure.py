"""`FieldStructure`: who is joined to whom, where nobody says it."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from mrflearn.errors import DataError, NotFittedError
from mrflearn.estimators.field_inputs import sample_weights, state_rows
from mrflearn.execution.device import choose_device
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.pairwise import pairwise
from mrflearn.statistics.observations import Samples, check_states
from mrflearn.training.neighbourhood_selection import NeighbourhoodSelection


class FieldStructure(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The edges of a field, by regressing every variable on all others with a price on each.

    Then learn on what was found: `MarkovField(structure.graph_, estimator="lap").fit(X)`.

    states: states of every variable; None takes the largest seen.
    gamma: how much the criterion (EBIC) disfavours many neighbours among many variables; 0 is BIC.
    keep: an edge is kept where `"both"` of its variables choose the other, or `"either"` does.
    """

    def __init__(
        self,
        *,
        states: int | None = None,
        gamma: float = 0.25,
        keep: Literal["both", "either"] = "both",
        prices: int = 25,
        device: str = "cpu",
    ) -> None:
        self.states = states
        self.gamma = gamma
        self.keep = keep
        self.prices = prices
        self.device = device

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Finds the edges from rows of states (samples x variables, counted from 0)."""
        del y  # scikit-learn passes it to every estimator
        select = NeighbourhoodSelection(gamma=self.gamma, prices=self.prices, keep=self.keep)
        rows = torch.as_tensor(state_rows(X), device=choose_device(self.device))
        if rows.ndim != 2 or rows.shape[1] < 2:
            raise DataError(
                f"samples have the shape {tuple(rows.shape)}; rows of at least two variables are "
                "needed to find edges."
            )
        states = self.states or max(2, int(rows.max()) + 1 if rows.numel() else 0)
        sizes = torch.full((rows.shape[1],), states, device=rows.device)
        check_states(rows, sizes)
        weights = None
        if sample_weight is not None:
            weights = sample_weights(sample_weight, len(rows), rows.device)
        seen = Samples.distinct(rows, weights)
        edges = select(seen.states, seen.weights, states)
        self.edges_: NDArray[np.int64] = edges.cpu().numpy()
        self.states_ = states
        self.n_features_in_ = rows.shape[1]
        return self

    @property
    def graph_(self) -> FactorGraph:
        """The found edges as a graph to learn on."""
        if not hasattr(self, "edges_"):
            raise NotFittedError("this FieldStructure is not fitted yet; call `fit`.")
        sizes = torch.full((self.n_features_in_,), self.states_)
        return pairwise(sizes, torch.as_tensor(self.edges_))
