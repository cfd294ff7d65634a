"""What users hand to a field, made into tables of states, weights and graphs."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from torch import Tensor

from mrflearn.errors import DataError, GraphError, SettingsError, warn_user
from mrflearn.graph.builders import from_networkx, graph_from_text
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.io.alignments import ALPHABETS, Molecule
from mrflearn.io.answers import MISSING, SPINS, Labels, column_of, columns_of, frame_names
from mrflearn.io.files import PathLike, plain, url_of
from mrflearn.io.remote import listing
from mrflearn.io.samples import SampleTable, array_states
from mrflearn.io.state_codes import StateCodes, column_name, gaps, observed_range

Table = NDArray[np.integer[Any]]


class TakesTables:
    """An estimator of tables of states, as scikit-learn's tags say it."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags


class Rows(NamedTuple):
    """Rows of states (-1 where one is missing), the names of the columns, and labels of states."""

    values: Table
    names: list[str] | None
    spins: bool = False
    labels: Labels | None = None

    def reordered(self, order: Sequence[int] | None) -> Rows:
        """The columns in another order."""
        if order is None:
            return self
        names = None if self.names is None else [self.names[i] for i in order]
        labels = None if self.labels is None else tuple(self.labels[i] for i in order)
        return Rows(self.values[:, order], names, self.spins, labels)


def answer_rows(X: Any, spin_columns: Collection[int] = ()) -> Rows:
    """The rows of any table: numbers, truth values or words, in arrays, frames or lists.

    In `spin_columns`, -1 is a spin.
    """
    names = frame_names(X)
    if isinstance(X, SampleTable):
        if X.labels is not None:
            return Rows(X.values, names, False, X.labels)
        return Rows(*_checked(*state_table(X), names))
    frame = columns_of(X)
    plain = None if frame is not None or spin_columns else _plain_numbers(X)
    if plain is not None or issparse(X):
        return Rows(*_checked(*state_table(X if plain is None else plain), names))
    if frame is None:
        values = np.asarray(X)
        if values.dtype.kind == "c" or values.ndim != 2 or not values.shape[1]:
            return Rows(*_checked(*state_table(X), names))
        listed = names or [str(place) for place in range(values.shape[1])]
        frame = [(name, own, None) for name, own in zip(listed, values.T, strict=True)]
    columns = [
        column_of(values, name, categories, spins=place in spin_columns)
        for place, (name, values, categories) in enumerate(frame)
    ]
    if not columns:
        return Rows(*_checked(*state_table(np.zeros((len(X), 0))), names))
    table = np.stack([own.states for own in columns], axis=1)
    if all(own.labels == SPINS for own in columns) and not spin_columns:
        return Rows(table, names, spins=True)
    labels = tuple(own.labels for own in columns)
    return Rows(table, names, False, labels if any(own is not None for own in labels) else None)


def _checked(values: Table, spins: bool, names: list[str] | None) -> tuple[Table, Any, bool]:
    return values, names, spins


def _plain_numbers(X: Any) -> NDArray[Any] | None:
    """The table as an array of numbers; None where some of it is words or truth values."""
    values = np.asarray(X)
    if values.dtype.kind == "O":
        try:
            if any(isinstance(value, bool | np.bool_) for value in values.flat):
                return None
            if any(isinstance(value, str) for value in values.flat):
                return None
            return values.astype(np.float64)
        except (TypeError, ValueError):
            return None
    return None if values.dtype.kind in "USc" else values


def state_table(X: ArrayLike) -> tuple[Table, bool]:
    """Rows of states, and whether they came as spins; NaN becomes -1."""
    values = _numbers(X)
    found = array_states(values)
    if found is None:
        raise SettingsError(
            "samples must be whole numbers (states counted from 0, or spins of -1 and 1; NaN or -1 "
            f"where one is missing); this is an array of {values.dtype} with other values."
        )
    table, spins = found
    if table.ndim != 2:
        raise DataError(
            f"samples are a table, samples x variables; this has the shape {table.shape}. "
            "Reshape your data, as by X.reshape(len(X), -1)."
        )
    if not table.shape[1]:
        raise DataError(f"0 feature(s) (shape={table.shape}) while a minimum of 1 is required.")
    # pandas hands out arrays that cannot be written to, of which torch makes no tensors silently.
    return table if table.flags.writeable else table.copy(), spins


def _numbers(X: Any) -> NDArray[Any]:
    """The samples as an array of numbers; an error says how to make some of words or of a file."""
    if issparse(X):
        raise SettingsError("sparse samples are not supported: give X.toarray().")
    values = np.asarray(X)
    if values.dtype.kind == "c":
        raise SettingsError("Complex data not supported: samples are whole numbers.")
    if values.dtype.kind == "O":  # such as a data frame's with None or pandas' NA in it
        try:
            if hasattr(X, "to_numpy"):
                return np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan))
            return values.astype(np.float64)
        except (TypeError, ValueError):
            values = values.astype(str)
    if values.dtype.kind in "US":
        raise SettingsError(
            f"samples are numbers; these are words such as {str(values.flat[0])[:40]!r}. "
            "scikit-learn's OrdinalEncoder().set_output(transform='pandas') numbers categories "
            "and keeps names; a file is read by mrflearn.io.read_samples(path).values, an "
            "alignment by mrflearn.io.read_alignment(path).values."
        )
    return values


def state_rows(X: ArrayLike) -> NDArray[np.int64]:
    """The states as int64; -1 is always a missing value, never a spin."""
    table, were_spins = state_table(X)
    if were_spins:
        table = np.where(table == 0, MISSING, table.astype(np.int64))
    return table.astype(np.int64, copy=False)


def shard_files(paths: Any) -> list[PathLike]:
    """The files of samples that a user named; an error for what is one text, a pattern, a table."""
    if isinstance(paths, str | os.PathLike):
        remedy = (
            f"sorted(glob.glob({str(paths)!r}))"
            if glob.has_magic(str(paths))
            else f"[{str(paths)!r}]"
        )
        raise DataError(f"files of samples come as a list, and this is one name. Try {remedy}.")
    if (
        hasattr(paths, "columns")
        or isinstance(paths, np.ndarray)
        or not isinstance(paths, Iterable)
    ):
        kind = type(paths).__name__
        raise DataError(f"files of samples are a list of names; a {kind} in memory goes to fit.")
    files = list(paths)
    if not files:
        raise DataError("no files of samples were given.")
    for file in files:
        if not isinstance(file, str | os.PathLike):
            kind = type(file).__name__
            raise DataError(
                f"files of samples are a list of names; one of these is a {kind}. Tables in memory "
                "go to fit, all rows together."
            )
        if not url_of(file) and not Path(plain(file)).exists() and glob.has_magic(str(file)):
            try_this = f"sorted(glob.glob({str(file)!r}))"
            raise DataError(f"there is no such file. Is it a pattern? Try {try_this}.", path=file)
    urls = [url_of(file) for file in files]
    found = (listing(url) if url else [own] for own, url in zip(files, urls, strict=True))
    return list(chain.from_iterable(found))


def molecule_of(source: Any) -> Molecule | None:
    """The `molecule` of an alignment, or of a stored field; None where there is none."""
    stored = isinstance(source, dict)
    name = source.get("molecule") if stored else getattr(source, "molecule", None)
    return next((known for known in ALPHABETS if isinstance(name, str) and known == name), None)


def check_observed(table: Table, names: Sequence[str] | None) -> None:
    """Raises `DataError` for a column without any value; warns of rows without any."""
    if not len(table) or table.dtype.kind == "u":
        return
    empty = np.flatnonzero(observed_range(table)[1] < 0)
    if len(empty):
        others = f" (nor do {len(empty) - 1} others)" if len(empty) > 1 else ""
        raise DataError(
            f"column {column_name(int(empty[0]), names)} holds no value at all{others}: every one "
            "is missing, and nothing can be learned of it. Leave the column out."
        )
    rows = int((table < 0).all(axis=1).sum())
    if rows:
        warn_user(f"{rows:,} of {len(table):,} rows hold no value at all, and say nothing")


def warn_of_codes(table: Table, codes: StateCodes, names: Sequence[str] | None) -> None:
    """Warns of what was recoded, and of states that never occur."""
    for remark in codes.remarks(names):
        warn_user(remark)
    unseen = {c: states for c, states in gaps(table).items() if codes.codes[c] is None}
    if unseen:
        column, states = next(iter(unseen.items()))
        more = f"; {len(unseen) - 1} other columns have such states too" * (len(unseen) > 1)
        warn_user(
            f"state {states[0]} of column {column_name(column, names)} never occurs, though larger "
            f"ones do{more}"
        )


def sample_weights(weights: ArrayLike | None, samples: int, device: torch.device) -> Tensor | None:
    """One weight per row; None where none were given."""
    if weights is None:
        return None
    values = torch.as_tensor(np.array(weights, dtype=np.float64), device=device)
    if values.shape != (samples,) or not bool((values >= 0).all() & values.isfinite().all()):
        raise SettingsError("sample_weight must hold one finite number >= 0 for every row.")
    if not bool(values.any()):
        raise SettingsError("every sample_weight is zero: nothing can be learned.")
    return values


def field_graph(graph: Any, states: int | Sequence[int], columns: int | None) -> FactorGraph:
    """The graph a user named, for so many columns with so many states (all of them, or each)."""
    if isinstance(graph, FactorGraph):
        return graph
    if not isinstance(states, int) and len(set(states)) == 1:
        states = states[0]
    if isinstance(graph, str):
        return graph_from_text(graph, states, variables=columns)
    return from_networkx(_joined(graph, columns), states)[0]


def _joined(graph: Any, columns: int | None) -> Any:
    """A networkx graph as it is, or one of all columns that joins the given pairs of them."""
    if hasattr(graph, "is_directed"):
        return graph
    pairs = np.asarray(graph)
    if columns is None or pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise GraphError(
            "a graph is a text such as 'grid:4x4', a networkx graph, a FactorGraph, or pairs of "
            f"column numbers such as [(0, 1), (1, 2)]; not this {type(graph).__name__}."
        )
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < columns:
        raise GraphError(
            f"an edge names column {pairs.min() if pairs.min() < 0 else pairs.max()}, but there "
            f"are {columns} (0 to {columns - 1})."
        )
    joined = nx.empty_graph(columns)
    joined.add_edges_from(pairs.tolist())
    return joined
