"""What users hand to a field, made into tables of states, weights and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.data.sample_rows import whole_numbers
from mrflearn.data.samples import are_spins
from mrflearn.errors import GraphError, MrflearnError
from mrflearn.graph.builders import from_networkx, graph_from_text
from mrflearn.graph.factor_graph import FactorGraph

Table = NDArray[np.integer[Any]]


def state_table(X: ArrayLike) -> tuple[Table, bool]:
    """Rows of states, and whether they came as spins; NaN becomes -1.

    Whole numbers keep their type.  Where -1 and 1 are the only values they are spins, and become
    the states 0 and 1; beside a 0, -1 is a missing value.
    """
    values = np.asarray(X)
    table: Table | None = None
    if values.dtype.kind == "b":
        table = values.astype(np.uint8)
    elif values.dtype.kind in "iu":
        table = values
    elif values.dtype.kind == "f":
        table = whole_numbers(values.astype(np.float64, copy=False))
    if table is None:
        raise MrflearnError(
            "samples must be whole numbers (states counted from 0, or spins of -1 and 1; NaN or -1 "
            f"where one is missing), not {values.dtype}."
        )
    return ((table > 0).astype(np.uint8), True) if are_spins(table) else (table, False)


def state_rows(X: ArrayLike, device: torch.device, *, spins: bool = True) -> Tensor:
    """The states as a tensor of int64; without `spins`, -1 is always a missing value."""
    table, were_spins = state_table(X)
    if were_spins and not spins:
        table = np.asarray(X)
    return torch.as_tensor(table.astype(np.int64, copy=False), device=device)


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
