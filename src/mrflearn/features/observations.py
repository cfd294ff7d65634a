"""What was observed on the variables of one field: rows of states, and counts on its cliques."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import DataError


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of states, each with the number of times (or the weight) it was seen."""

    states: Int[Tensor, "n v"]
    weights: Float[Tensor, "n"]

    @property
    def total(self) -> float:
        """The weight of all rows together."""
        return float(self.weights.sum())

    @classmethod
    def distinct(
        cls, states: Int[Tensor, "n v"], weights: Float[Tensor, "n"] | None = None
    ) -> Samples:
        """The distinct rows, sorted, each with its summed weight (default: 1 a row)."""
        if weights is None:
            weights = torch.ones(len(states), dtype=torch.float64, device=states.device)
        if not len(states):
            return cls(states, weights)
        rows, where = torch.unique(states, dim=0, return_inverse=True)
        total = torch.zeros(len(rows), dtype=weights.dtype, device=weights.device)
        return cls(rows, total.index_add(0, where, weights))

    def chunks(self, rows: int) -> Iterator[Samples]:
        """The same samples, at most `rows` rows at a time."""
        for start in range(0, len(self.states), rows):
            stop = start + rows
            yield Samples(self.states[start:stop], self.weights[start:stop])


@dataclass(frozen=True, eq=False)
class CliqueCounts:
    """How often each factor's variables were seen in each joint state, and rows a component."""

    counts: tuple[Float[Tensor, "f *shape"], ...]
    weights: Float[Tensor, "c"]


def clique_counts(
    scopes: Sequence[Int[Tensor, "f a"]],
    shapes: Sequence[tuple[int, ...]],
    samples: Samples,
    *,
    components: int = 1,
    rows: int = 65_536,
) -> CliqueCounts:
    """Weighted histograms over every scope, in one pass over the samples."""
    counts = []
    for scope, shape in zip(scopes, shapes, strict=True):
        cells = math.prod(shape)
        histogram = torch.zeros(len(scope) * cells, dtype=torch.float64, device=scope.device)
        offset = torch.arange(len(scope), device=scope.device) * cells
        for chunk in samples.chunks(rows):
            code = torch.zeros(len(chunk.states), len(scope), dtype=torch.int64)
            code = code.to(scope.device)
            for axis, size in enumerate(shape):
                code = code * size + chunk.states[:, scope[:, axis]]
            weight = chunk.weights.to(histogram.dtype).unsqueeze(1).expand_as(code)
            histogram.index_add_(0, (code + offset).reshape(-1), weight.reshape(-1))
        counts.append(histogram.reshape(len(scope), *shape))
    weights = torch.full((components,), samples.total, dtype=torch.float64)
    return CliqueCounts(tuple(counts), weights.to(samples.weights.device))


def check_states(
    states: Int[Tensor, "n v"], sizes: Int[Tensor, "v"], *, missing_allowed: bool = False
) -> None:
    """Raises `DataError` naming row and column of the first entry that is no state."""
    if states.ndim != 2 or states.shape[1] != len(sizes):
        raise DataError(
            f"samples have the shape {tuple(states.shape)}; this field has {len(sizes)} variables, "
            "one a column. Is the table transposed, or the graph of another size?"
        )
    if not len(states):
        raise DataError("there are no samples; at least one row is needed.")
    lowest = -1 if missing_allowed else 0
    if int(states.min()) >= lowest and bool((states.amax(dim=0) < sizes).all()):
        return  # the usual case, told without a table of the size of the samples
    wrong = (states < lowest) | (states >= sizes)
    if bool(wrong.any()):
        row, column = (int(n) for n in wrong.nonzero()[0])
        value, size = int(states[row, column]), int(sizes[column])
        if value == -1:
            raise DataError(
                f"sample row {row}, column {column}: a value is missing (NaN, NA or -1). Missing "
                "values are only for training, by the estimators 'lap' and 'pl'; leave such rows "
                "out here."
            )
        hint = (
            "Are these spins of -1 and +1? Write them as 0 and 1."
            if value < 0
            else "Give more `states`; or, where the table counts from 1, none: then each column's "
            "own codes are its states."
        )
        raise DataError(
            f"sample row {row}, column {column}: {value} is not a state; they run from 0 to "
            f"{size - 1}. {hint}"
        )
