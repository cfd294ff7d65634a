"""What users hand to a field, made into tables of states, weights and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import GraphError, MrflearnError
from mrflearn.graph.builders import from_networkx, graph_from_text
from mrflearn.graph.factor_graph import FactorGraph

Table = NDArray[np.integer[Any]]


def state_table(X: ArrayLike) -> Table:
    """Rows of states as whole numbers, in the type they came in if that is one; NaN becomes -1."""
    values = np.asarray(X)
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind == "f":
        known = np.where(np.isnan(values), -1, values)
        if bool((known == np.floor(known)).all()):
            return known.astype(np.int64)
    raise MrflearnError(
        f"samples must be whole numbers (states counted from 0, NaN or -1 where one is missing), "
        f"not {values.dtype}."
    )


def state_rows(X: ArrayLike, device: torch.device) -> Tensor:
    """The same as a tensor of int64, which numbers states everywhere else."""
    return torch.as_tensor(state_table(X).astype(np.int64, copy=False), device=device)


def sample_weights(weights: ArrayLike, samples: int, device: torch.device) -> Tensor:
    """One weight a row."""
    values = torch.as_tensor(np.asarray(weights, dtype=np.float64), device=device)
    if values.shape != (samples,) or not bool((values >= 0).all()):
        raise MrflearnError("sample_weight must hold one number of at least 0 for every row.")
    return values


def field_graph(
    graph: Any, states: int | Sequence[int] | None, columns: int | None, largest: int
) -> FactorGraph:
    """The graph a user named, for so many columns whose largest state is known."""
    if isinstance(graph, FactorGraph):
        return graph
    if states is None:
        states = max(2, largest + 1)
    if isinstance(graph, str):
        return graph_from_text(graph, states, variables=columns)
    if not isinstance(states, int):
        raise GraphError("with a networkx graph give `states` as one number or on the nodes.")
    return from_networkx(graph, states)[0]
