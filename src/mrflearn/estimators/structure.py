"""`FieldStructure`: who is joined to whom, where nobody says it."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from mrflearn.errors import DataError, NotFittedError
from mrflearn.estimators.field_inputs import (
    check_observed,
    column_name,
    column_names,
    sample_weights,
    state_table,
    tell,
    tell_codes,
)
from mrflearn.execution.device import choose_device
from mrflearn.features.observations import Samples, check_states
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.pairwise import pairwise
from mrflearn.io.state_codes import StateCodes
from mrflearn.training.neighbourhood_selection import NeighbourhoodSelection


class FieldStructure(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The edges of a field, by regressing every variable on all others with a price on each.

    Then learn on what was found: `MarkovField(structure.graph_, estimator="lap").fit(X)`.

    states: states of every variable, counted from 0; None takes what each column shows (its codes,
        where these do not begin at 0), as `MarkovField` does.
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
        """Finds the edges from rows of states (samples x variables, counted from 0).

        NaN, or -1 among states, is a missing value: each variable is then learned from the rows in
        which it and its candidate neighbours were observed; `weights_` says from how many.
        """
        del y  # scikit-learn passes it to every estimator
        select = NeighbourhoodSelection(gamma=self.gamma, prices=self.prices, keep=self.keep)
        table, names = state_table(X)[0], column_names(X)
        if table.shape[1] < 2:
            raise DataError(
                f"samples have the shape {table.shape}; rows of at least two variables are "
                "needed to find edges."
            )
        check_observed(table, names)
        codes = StateCodes.seen(table)
        if self.states is not None:
            count = table.shape[1]
            codes = StateCodes((None,) * count, (self.states,) * count)
        states = codes.encode(table).astype(np.int64, copy=False)
        rows = torch.as_tensor(states, device=choose_device(self.device))
        sizes = torch.tensor(codes.sizes, device=rows.device)
        check_states(rows, sizes, missing_allowed=True)
        tell_codes(table, codes, names)
        weights = None
        if sample_weight is not None:
            weights = sample_weights(sample_weight, len(rows), rows.device)
        seen = Samples.distinct(rows, weights)
        found = select(seen.states, seen.weights, sizes)
        self.edges_: NDArray[np.int64] = found.edges.cpu().numpy()
        self.weights_: NDArray[np.float64] = found.weights.cpu().numpy()
        self.states_ = codes.sizes
        self.n_features_in_ = rows.shape[1]
        if bool((rows < 0).any()):
            least = int(self.weights_.argmin())
            tell(
                "values are missing: the neighbours of each column are chosen from the rows in "
                f"which it and its candidates are observed; the fewest are "
                f"{self.weights_[least]:,.6g} of {seen.total:,.6g}, for column "
                f"{column_name(least, names)}"
            )
        return self

    @property
    def graph_(self) -> FactorGraph:
        """The found edges as a graph to learn on."""
        if not hasattr(self, "edges_"):
            raise NotFittedError("this FieldStructure is not fitted yet; call `fit`.")
        return pairwise(torch.tensor(self.states_), torch.as_tensor(self.edges_))
