"""The feature index: which attributes of a factor have a weight for which of its labels.

A template is a kind of factor: its weights are tied, one for each weighted pair of an attribute and
a cell (a tuple of labels, numbered like the entries of a table of that shape).  Pairs are chosen as
CRFsuite chooses them: those whose values sum to at least `min_freq` over the training data (labels
as given); pairs never seen have the sum 0 and are candidates only where all pairs are asked for.
So with min_freq = 0 a pair whose values sum to less than 0 has no weight: that too is CRFsuite's
way.

A linear chain has the templates "state" (the attributes of a token, and its label), "transition"
(two neighbouring labels, with the attributes that `edge` marks and one that every transition has)
and, of the second order, "triple" (three neighbouring labels).

Letters in shapes: w: weights; f: factors; a: their arity; t: cells; z: attributes of all rows;
k: tokens.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Int64
from numpy.typing import NDArray
from scipy.sparse import coo_array
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.execution.held import narrowed
from mrflearn.features.features import (
    UNKNOWN,
    CompiledFeatures,
    CompiledLabels,
    Numbering,
    attributes_of,
)

MARK = "\x01edge\x01"  # no text has this: scripts that know nothing of edges mean the same as ever
BIAS = "(bias)"  # the name of the constant that every factor has
ATTRIBUTES_AT_ONCE = 2**18
FACTORS_AT_ONCE = 2**15
CELLS_AT_ONCE = 2**22
PAIR = ("attribute", "cell")
Pairs = tuple[Int64[Tensor, " w"], ...]  # attributes, and cells
NO_PAIRS: Pairs = (torch.zeros(0, dtype=torch.int64),) * 2


@dataclass(frozen=True, eq=False)
class FactorTemplate:
    """The weighted pairs of one kind of factor, ordered by attribute and cell.

    Every dense column has a weight for every cell.
    """

    name: str
    shape: tuple[int, ...]
    names: Numbering
    columns: tuple[str, ...]
    attribute: Int64[Tensor, " w"]
    cell: Int64[Tensor, " w"]

    @property
    def cells(self) -> int:
        """How many tuples of labels there are."""
        return math.prod(self.shape)

    @cached_property
    def codes(self) -> Int64[Tensor, " w"]:
        """attribute * cells + cell of every weight, ascending."""
        return self.attribute * self.cells + self.cell

    def __len__(self) -> int:
        return len(self.attribute)

    def __getstate__(self) -> dict[str, Any]:
        """Numbers by as few bytes as hold them: templates travel to every worker."""
        own = self.__dict__.items()
        held = {name: value for name, value in own if name not in ("codes", *PAIR)}
        return held | {name: narrowed(getattr(self, name).numpy()) for name in PAIR}

    def __setstate__(self, held: dict[str, Any]) -> None:
        self.__dict__.update(held)
        for name in PAIR:
            self.__dict__[name] = torch.as_tensor(held[name]).long()

    def find(
        self, attribute: Int64[Tensor, " n"], cell: Int64[Tensor, " n"]
    ) -> Int64[Tensor, " n"]:
        """The weight of each pair, or `UNKNOWN`; negative attributes and cells have none."""
        code = attribute * self.cells + cell
        if not len(self.codes):
            return torch.full_like(code, UNKNOWN)
        place = torch.searchsorted(self.codes, code).clamp_(max=len(self.codes) - 1)
        met = (self.codes[place] == code) & (attribute >= 0) & (cell >= 0)
        return torch.where(met, place, UNKNOWN)

    def recoded(
        self, names: Numbering, shape: tuple[int, ...], labels: Int64[Tensor, " s"] | None = None
    ) -> Pairs:
        """The pairs with other numbers of attributes and labels; `UNKNOWN` where there is none.

        Without `labels`, the new number of each label, they keep their numbers.
        """
        number = torch.tensor([names.get(name, UNKNOWN) for name in self.names], dtype=torch.int64)
        return number[self.attribute], recoded_cells(self.cell, self.shape, shape, labels)


def recoded_cells(
    cell: Int64[Tensor, " n"],
    shape: tuple[int, ...],
    other: tuple[int, ...],
    labels: Int64[Tensor, " s"] | None = None,
) -> Int64[Tensor, " n"]:
    """The cells in a table of another shape; `UNKNOWN` where a label is not among the new ones."""
    states = torch.stack(torch.unravel_index(cell, shape), dim=1)
    if labels is not None:
        states = labels[states]
    inside = ((states >= 0) & (states < torch.tensor(other))).all(dim=1)
    return torch.where(inside, cells_of(states, other), UNKNOWN)


def cells_of(states: Int64[Tensor, "f a"], shape: Sequence[int]) -> Int64[Tensor, " f"]:
    """Which entry of a flattened table of this shape each row of states names."""
    cells = torch.zeros(len(states), dtype=torch.int64, device=states.device)
    for axis, size in enumerate(shape):
        cells = cells * size + states[:, axis]
    return cells


def joint_mask(
    allowed: Bool[Tensor, "v s"], scope: Int64[Tensor, "f a"], shape: Sequence[int]
) -> Bool[Tensor, "f t"]:
    """Which cells of each factor have an allowed state on every axis."""
    mask = torch.ones(len(scope), 1, dtype=torch.bool)
    for axis, size in enumerate(shape):
        own = allowed[scope[:, axis], :size]
        mask = (mask.unsqueeze(2) & own.unsqueeze(1)).flatten(1)
    return mask


# Which pairs have a weight, decided by what was seen.


class KnownLabels(Protocol):
    """Labels of tokens or variables: known, unknown, or one of several."""

    @property
    def states(self) -> Int64[Tensor, " v"]:
        """The label of each, `UNKNOWN` where it is not certain."""

    def allowed_states(self) -> Bool[Tensor, "v s"]:
        """Which labels each may have."""

    def unknown(self) -> Bool[Tensor, " v"]:
        """Of which nothing is known."""


def weighted_pairs(
    features: CompiledFeatures,
    rows: Int64[Tensor, " f"],
    scope: Int64[Tensor, "f a"],
    shape: tuple[int, ...],
    labels: KnownLabels,
    *,
    min_freq: float = 0.0,
    everything: bool = False,
) -> Pairs:
    """The pairs of factors with these rows of features and these variables that have a weight.

    A factor counts for each tuple that its sets of labels allow, and for none where a label is
    entirely unknown.
    """
    count, size = len(features.names), math.prod(shape)
    if everything and min_freq <= 0 and (features.values is None or min_freq == -math.inf):
        return torch.unravel_index(torch.arange(count * size), (count, size))
    attribute, column, value = weighted_sums(features, rows, scope, shape, labels)
    if everything:
        total = np.zeros((count, size))
        total[attribute, column] = value
        return torch.from_numpy(total >= min_freq).nonzero(as_tuple=True)
    kept = value >= min_freq
    return torch.from_numpy(attribute[kept]), torch.from_numpy(column[kept])


def weighted_sums(
    features: CompiledFeatures,
    rows: Int64[Tensor, " f"],
    scope: Int64[Tensor, "f a"],
    shape: tuple[int, ...],
    labels: KnownLabels,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Attribute, cell and the sum of values of every pair that was met, in order."""
    count, size = len(features.names), math.prod(shape)
    # Part by part, each summed up before the next: text has few distinct pairs.  Sparse matrices
    # are joined as lists and not added, for that would drop pairs whose sum is 0.
    parts = [
        part
        for factor, cell in _met(labels, scope, shape)
        for part in _sums(features, rows[factor], cell, (count, size))
    ]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    attribute, column, value = (np.concatenate(own) for own in zip(*parts, strict=True))
    total = coo_array((value, (attribute, column)), (count, size)).tocsr()
    total.sort_indices()
    row = np.repeat(np.arange(count), np.diff(total.indptr))
    return row, total.indices.astype(np.int64), total.data


def _met(
    labels: KnownLabels, scope: Int64[Tensor, "f a"], shape: tuple[int, ...]
) -> Iterator[tuple[Int64[Tensor, " n"], Int64[Tensor, " n"]]]:
    """Factors and the cells their labels allow, in parts."""
    sure = (labels.states != UNKNOWN)[scope].all(dim=1)
    for some in sure.nonzero().squeeze(1).split(FACTORS_AT_ONCE):
        yield some, cells_of(labels.states[scope[some]], shape)
    if bool(sure.all()):
        return
    allowed = labels.allowed_states()
    open_ones = ~sure & ~labels.unknown()[scope].any(dim=1)
    for some in open_ones.nonzero().squeeze(1).split(max(1, CELLS_AT_ONCE // math.prod(shape))):
        row, cell = joint_mask(allowed, scope[some], shape).nonzero().unbind(dim=1)
        yield some[row], cell


def _sums(
    features: CompiledFeatures, rows: Tensor, cell: Tensor, shape: tuple[int, int]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(attributes, cells, the sums of their values), in parts."""
    counts = features.ends.diff(prepend=features.ends.new_zeros(1))[rows]
    part = (counts.cumsum(0) - counts).div(ATTRIBUTES_AT_ONCE, rounding_mode="floor")
    sizes = part.unique_consecutive(return_counts=True)[1].tolist()
    for own, cells in zip(rows.split(sizes), cell.split(sizes), strict=True):
        place, owner = attributes_of(features, own)
        value = torch.ones(len(place)) if features.values is None else features.values[place]
        pair = (features.attributes[place].numpy(), cells[owner].numpy())
        total = coo_array((value.double().numpy(), pair), shape).tocsr().tocoo()
        yield total.row.astype(np.int32), total.col.astype(np.int32), total.data


# The templates of linear chains.


def edge(name: str) -> str:
    """The name of an attribute of the transition into its token, to stand in an item of `X`.

    In a list: `["w=dog", edge("w=dog")]`; in a dict: `{"w": "dog", edge("w"): "dog"}`.  It has a
    weight for each (label before, label) it was seen with, or, with all_possible_transitions, for
    all of them; at the first token of a sequence it counts for nothing.
    """
    if not isinstance(name, str):
        raise DataError(f"{name!r} is a {type(name).__name__}; names of attributes are strings.")
    return MARK + name


def edge_names(names: Collection[str]) -> Bool[Tensor, " n"]:
    """Which names are marked as attributes of transitions."""
    if MARK not in "".join(names):  # far faster than a look at each of them
        return torch.zeros(len(names), dtype=torch.bool)
    wrong = [name.replace(MARK, "") for name in names if name.rfind(MARK) > 0]
    if wrong:
        raise DataError(
            f"'{wrong[0]}' is marked by `edge` twice, or in a nested dict: mark the outermost key."
        )
    return torch.tensor([name.startswith(MARK) for name in names])


def constant() -> CompiledFeatures:
    """One row that has the constant alone."""
    one = torch.ones(1, dtype=torch.int64)
    number = torch.zeros(1, dtype=torch.int32)
    return CompiledFeatures(Numbering([BIAS], closed=True), (), one, one, number, None, None)


def chain_templates(
    features: CompiledFeatures,
    labels: CompiledLabels,
    *,
    order: int = 1,
    min_freq: float = 0.0,
    all_states: bool = False,
    all_transitions: bool = False,
) -> tuple[tuple[FactorTemplate, ...], CompiledFeatures]:
    """The templates, and the features renumbered so that only weighted attributes remain."""
    marked, shape = edge_names(features.names), (max(len(labels.names), 1),) * 2
    tokens = torch.arange(features.tokens)
    weighted = partial(weighted_pairs, labels=labels, min_freq=min_freq)
    found = weighted(features, tokens, tokens[:, None], shape[:1], everything=all_states)
    attribute, label = (part[~marked[found[0]]] for part in found)
    moves, edges = neighbours(features.lengths, 2), NO_PAIRS
    pairs = _label_pairs(labels, moves, max(min_freq, 0 if all_transitions else 1))
    own = marked.nonzero().squeeze(1)
    if len(own):
        if order != 1:
            raise DataError("attributes of transitions (`edge`, B templates) need order=1.")
        joined = _only(features, marked)
        edges = weighted(joined, moves[:, 1], moves, shape, everything=all_transitions)
    used = torch.zeros(len(features.names), dtype=torch.bool)
    used[attribute] = used[own[edges[0]]] = True
    on_edges = _where(features.names, used & marked) if len(own) else ()
    joint = Numbering([BIAS, *on_edges], closed=True)
    if not bool(used.all()):
        features = _only(features, used)
    weights = (used.cumsum(0) - 1)[attribute], label
    number = torch.cat([torch.zeros_like(pairs), 1 + edges[0].unique(return_inverse=True)[1]])
    templates = [
        FactorTemplate("state", shape[:1], features.names, features.columns, *weights),
        FactorTemplate("transition", shape, joint, (), number, torch.cat([pairs, edges[1]])),
    ]
    if order == 2:
        seen = seen_triples(labels, features.lengths)
        triples = weighted_triples(seen, pairs, shape[0], all_transitions)
        weights = (torch.zeros_like(triples), triples)
        templates.append(FactorTemplate("triple", shape[:1] * 3, joint, (), *weights))
    return tuple(templates), features


def neighbours(lengths: Int64[Tensor, " b"], count: int) -> Int64[Tensor, "n count"]:
    """All runs of so many neighbouring tokens of a sequence."""
    first = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    last = (torch.arange(len(first)) - first >= count - 1).nonzero()
    return last - torch.arange(count - 1, -1, -1)


def transition_features(
    features: CompiledFeatures, number: Int64[Tensor, " n"], names: Numbering
) -> CompiledFeatures:
    """Of every token the attributes of the transition into it: the constant, and marked ones.

    `number` says which of the `names` of a transition template each attribute is.  Where there is
    the constant alone, one row serves all.
    """
    if len(names) == 1:
        return constant()
    return with_bias(replace(features.renumbered(number, names), columns=(), dense=None))


def with_bias(features: CompiledFeatures) -> CompiledFeatures:
    """The same tokens, each with a constant as its last attribute."""
    number = features.names.get(BIAS, len(features.names))
    names = features.names
    if number == len(names):
        names = Numbering([*names, BIAS], closed=True)
    total = len(features.attributes) + features.tokens
    ends = features.ends + torch.arange(1, features.tokens + 1)
    constant = torch.zeros(total, dtype=torch.bool)
    constant[ends - 1] = True
    attributes = torch.full((total,), number, dtype=torch.int32)
    attributes[~constant] = features.attributes
    values = None
    if features.values is not None:
        values = torch.ones(total)
        values[~constant] = features.values
    return replace(features, names=names, ends=ends, attributes=attributes, values=values)


def edge_numbers(names: Numbering, on_edges: Numbering) -> Int64[Tensor, " n"]:
    """The number of each attribute among those of transitions; `UNKNOWN` where it is none."""
    if len(on_edges) == 1:  # the constant alone
        return torch.full((len(names),), UNKNOWN)
    found = [on_edges.get(name, UNKNOWN) if name.startswith(MARK) else UNKNOWN for name in names]
    return torch.tensor(found, dtype=torch.int64)


def merged(
    first: Sequence[FactorTemplate], second: Sequence[FactorTemplate]
) -> tuple[FactorTemplate, ...]:
    """All pairs of both; what `first` numbers keeps its number: attributes and labels."""
    if len(first) != len(second):
        raise DataError("the order of the chain differs from that learned before.")
    union = []
    for one, other in zip(first, second, strict=True):
        if one.columns != other.columns and one.columns and other.columns:
            raise DataError("the dense blocks differ from those learned from before.")
        names = Numbering(dict.fromkeys([*one.names, *other.names]), closed=True)
        parts = (own.recoded(names, other.shape) for own in (one, other))
        code = torch.cat([attribute * other.cells + cell for attribute, cell in parts]).unique()
        pairs = torch.unravel_index(code, (len(names), other.cells))
        columns = one.columns or other.columns
        union.append(FactorTemplate(one.name, other.shape, names, columns, *pairs))
    return tuple(union)


def _only(features: CompiledFeatures, wanted: Bool[Tensor, " n"]) -> CompiledFeatures:
    """The same tokens with these attributes alone, numbered again."""
    number = torch.where(wanted, wanted.cumsum(0) - 1, UNKNOWN)
    return features.renumbered(number, Numbering(_where(features.names, wanted), closed=True))


def _where(names: Collection[str], wanted: Bool[Tensor, " n"]) -> Iterator[str]:
    return (name for name, kept in zip(names, wanted.tolist(), strict=True) if kept)


def _label_pairs(
    labels: CompiledLabels, moves: Int64[Tensor, "n 2"], least: float
) -> Int64[Tensor, " w"]:
    """The pairs of neighbouring labels met `least` times."""
    return (label_pair_counts(labels, moves) >= least).nonzero().squeeze(1)


def label_pair_counts(labels: CompiledLabels, moves: Int64[Tensor, "n 2"]) -> Int64[Tensor, " q"]:
    """How often each pair of neighbouring labels was met; between sets all they may form."""
    states, shape = labels.states[moves], (max(len(labels.names), 1),) * 2
    known = (states != UNKNOWN).all(dim=1)
    counts = torch.bincount(cells_of(states[known], shape), minlength=math.prod(shape))
    if not bool(known.all()):
        allowed = labels.allowed_states()
        open_ones = (allowed[token].long() for token in moves[~known].t())
        counts = counts + torch.einsum("ks,kt->st", *open_ones).flatten()
    return counts


def seen_triples(labels: CompiledLabels, lengths: Int64[Tensor, " b"]) -> Int64[Tensor, " g"]:
    """The triples of neighbouring labels that were met."""
    states = labels.states[neighbours(lengths, 3)]
    known = states[(states != UNKNOWN).all(dim=1)]
    triples: Tensor = cells_of(known, (len(labels.names),) * 3).unique()
    return triples


def weighted_triples(
    seen: Int64[Tensor, " n"], pairs: Int64[Tensor, " e"], size: int, everything: bool
) -> Int64[Tensor, " g"]:
    """The triples of labels among those seen, or all that weighted pairs can form."""
    if everything:
        source, target = torch.unravel_index(pairs, (size, size))
        first, second = (target[:, None] == source[None, :]).nonzero(as_tuple=True)
        return source[first] * size**2 + pairs[second]
    both = torch.isin(torch.stack([seen.div(size, rounding_mode="floor"), seen % size**2]), pairs)
    kept: Tensor = seen[both.all(dim=0)]
    return kept
