"""Training sequences that an executor holds: indexed and compiled where they are.

Workers read items and labels once (`Read`).  What they have seen of attributes and labels adds up
(`Seen`) to the feature index on the driver, the same as that of all sequences in one place; it goes
back to the workers, which make batches for objectives (`ToBatch`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.execution.held import Held, narrowed
from mrflearn.features.features import (
    UNKNOWN,
    CompiledFeatures,
    CompiledLabels,
    Numbering,
    compile_features,
    compile_labels,
    sequence_weights,
)
from mrflearn.features.index import (
    BIAS,
    FactorTemplate,
    edge_names,
    label_pair_counts,
    neighbours,
    seen_triples,
    weighted_sums,
    weighted_triples,
)
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import ChainBatch

Batch = FieldBatch | ChainBatch
NumberedBatch = tuple[str, Batch]  # one part of all data, by a name of its own
Sums = tuple[NDArray[Any], ...]  # attributes, cells, sums of values
NOTHING = torch.zeros(0, dtype=torch.int64)
Example = Sequence[Any]  # (items, labels) or (items, labels, weight)


def without_names(batch: Batch) -> Batch:
    """The batch for an objective, which knows attributes by their numbers."""

    def bare(own: CompiledFeatures) -> CompiledFeatures:
        return replace(own, names=Numbering(closed=True))

    if isinstance(batch, FieldBatch):
        return replace(batch, features=tuple(map(bare, batch.features)))
    return replace(batch, features=bare(batch.features), joint=tuple(map(bare, batch.joint)))


class HeldBatch(NamedTuple):
    """The parts of a batch where an executor holds them, and how much they are together."""

    parts: Held[NumberedBatch]
    sizes: range  # there are as many sequences
    tokens: int
    seen: tuple[Any, ...]  # what tells these data from others


def first_example(examples: Sequence[Example]) -> Example | None:
    """The first of some sequences, if any."""
    return examples[0] if examples else None


def label_names(examples: Iterable[Example]) -> Names:
    """The labels of some sequences by first appearance: the task of a worker."""
    given, names = [own[1] for own in examples], Numbering()
    compile_labels(given, torch.tensor(list(map(len, given))), names)
    return Names(tuple(names))


class Names(NamedTuple):
    """Names by first appearance; those of several parts in the order of the parts."""

    names: tuple[str, ...]

    def __add__(self, other: Names) -> Names:  # type: ignore[override]
        return Names(tuple(dict.fromkeys([*self.names, *other.names])))


class NumberedBlock(NamedTuple):
    """Some sequences by number; attributes have numbers of their own in every block."""

    features: CompiledFeatures
    labels: CompiledLabels
    weight: NDArray[np.float64] | None


@final
@dataclass(frozen=True, eq=False)
class Read:
    """What a worker makes of some sequences first; `extract` makes the items of each."""

    labels: tuple[str, ...]
    extract: Callable[[Any], Any] | None

    def __call__(self, examples: Iterable[Example]) -> NumberedBlock:
        held = list(examples)
        items = (own[0] if self.extract is None else self.extract(own[0]) for own in held)
        features = compile_features(items)
        names = Numbering(self.labels, closed=True)
        labels = compile_labels([own[1] for own in held], features.lengths, names)
        weights = [float(own[2]) if len(own) > 2 else 1.0 for own in held]
        given = any(len(own) > 2 for own in held)
        return NumberedBlock(features, labels, np.array(weights) if given else None)


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """What the feature index of sequences is made of; sums of it are that of all sequences.

    state, edges: (attributes, cells, sums of values) of the tokens and the transitions; pairs: how
    often each pair of labels was met; triples: those of labels that were met.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    state: Sums
    edges: Sums
    pairs: Int64[Tensor, " q"]
    triples: Int64[Tensor, " g"]
    labels: Float[Tensor, " s"]
    sequences: int
    tokens: int

    @classmethod
    def of(cls, order: int, block: NumberedBlock) -> Seen:
        """The task of a worker."""
        features, labels, _ = block
        size, tokens = len(labels.names), torch.arange(features.tokens)
        moves = neighbours(features.lengths, 2)
        marked = edge_names(features.names)
        state: Sums = weighted_sums(features, tokens, tokens[:, None], (size,), labels)
        edges: Sums = tuple(own[:0] for own in state)
        if bool(marked.any()):
            edges = weighted_sums(features, moves[:, 1], moves, (size, size), labels)
            edges = _kept(edges, marked.numpy()[edges[0]])
            state = _kept(state, ~marked.numpy()[state[0]])
        pairs = label_pair_counts(labels, moves)
        triples = seen_triples(labels, features.lengths) if order == 2 else NOTHING
        known = labels.states[labels.states != UNKNOWN]
        counts = torch.bincount(known, minlength=size).double()
        many = len(features), features.tokens
        names = tuple(features.names)
        return cls(names, features.columns, state, edges, pairs, triples, counts, *many)

    def __getstate__(self) -> dict[str, Any]:
        """By few bytes: what all workers have seen passes through the driver."""
        sums = {name: tuple(map(narrowed, getattr(self, name))) for name in ("state", "edges")}
        return {**self.__dict__, **sums}

    def __setstate__(self, held: dict[str, Any]) -> None:
        self.__dict__.update(held)
        for name in ("state", "edges"):
            attribute, cell, value = held[name]
            wide = attribute.astype(np.int64), cell.astype(np.int64), value.astype(np.float64)
            self.__dict__[name] = wide

    def __add__(self, other: Seen) -> Seen:
        number = {name: k for k, name in enumerate(self.names)}
        place = np.array([number.setdefault(name, len(number)) for name in other.names], np.int64)

        def joined(mine: Sums, own: Sums) -> Sums:
            attribute = np.concatenate([mine[0], place[own[0]]])
            cell, value = (np.concatenate(both) for both in zip(mine[1:], own[1:], strict=True))
            if not len(cell):
                return mine
            code = attribute * (cell.max() + 1) + cell
            order = np.argsort(code, kind="stable")  # quick for runs that are sorted
            first = np.flatnonzero(np.diff(code[order], prepend=-1))
            kept = order[first]
            return attribute[kept], cell[kept], np.add.reduceat(value[order], first)

        return Seen(
            tuple(number),
            tuple(dict.fromkeys([*self.columns, *other.columns])),
            joined(self.state, other.state),
            joined(self.edges, other.edges),
            self.pairs + other.pairs,
            torch.cat([self.triples, other.triples]).unique(),
            self.labels + other.labels,
            self.sequences + other.sequences,
            self.tokens + other.tokens,
        )

    def templates(
        self, *, order: int, min_freq: float, all_states: bool, all_transitions: bool
    ) -> tuple[FactorTemplate, ...]:
        """The templates of all sequences, as `chain_templates` finds them."""
        size, count = max(len(self.labels), 1), len(self.names)
        least = max(min_freq, 0 if all_transitions else 1)
        pairs = (self.pairs >= least).nonzero().squeeze(1)
        marked = edge_names(self.names)
        if bool(marked.any()) and order != 1:
            raise DataError("attributes of transitions (`edge`, B templates) need order=1.")
        chosen = partial(_chosen, min_freq=min_freq)
        state = chosen(self.state, (count, size), all_states)
        ordinary = ~marked[state[0]]
        state = state[0][ordinary], state[1][ordinary]
        special = marked.nonzero().squeeze(1)
        attribute, cell, value = self.edges
        attribute = np.searchsorted(special.numpy(), attribute)
        edges = chosen((attribute, cell, value), (len(special), size * size), all_transitions)
        edges = special[edges[0]], edges[1]
        used = torch.zeros(count, dtype=torch.bool)
        used[state[0]] = used[edges[0]] = True
        names = [name for name, kept in zip(self.names, used.tolist(), strict=True) if kept]
        place = used.cumsum(0) - 1
        on_edges = edges[0].unique()
        joint = Numbering([BIAS, *(self.names[k] for k in on_edges.tolist())], closed=True)
        number = torch.cat([torch.zeros_like(pairs), 1 + torch.searchsorted(on_edges, edges[0])])
        own = Numbering(names, closed=True)
        shape = (size, size)
        found = [
            FactorTemplate("state", shape[:1], own, self.columns, place[state[0]], state[1]),
            FactorTemplate("transition", shape, joint, (), number, torch.cat([pairs, edges[1]])),
        ]
        if order == 2:
            triples = weighted_triples(self.triples, pairs, size, all_transitions)
            weights = torch.zeros_like(triples), triples
            found.append(FactorTemplate("triple", (size,) * 3, joint, (), *weights))
        return tuple(found)

    def class_weight(self, given: Any, labels: Sequence[str]) -> Mapping[str, float] | None:
        """Weights of labels, "balanced" over all sequences."""
        if given != "balanced":
            return given  # type: ignore[no-any-return]
        weight = float(self.labels.sum()) / (len(labels) * self.labels.clamp(min=1))
        return dict(zip(labels, weight.tolist(), strict=True))


def _kept(sums: Sums, mask: NDArray[np.bool_]) -> Sums:
    return tuple(own[mask] for own in sums)


def _chosen(
    sums: Sums, shape: tuple[int, int], everything: bool, *, min_freq: float
) -> tuple[Tensor, Tensor]:
    """The pairs of attribute and cell that have a weight, in order."""
    attribute, cell, value = (torch.from_numpy(np.asarray(own)) for own in sums)
    code = attribute.long() * shape[1] + cell.long()
    if everything:
        total = torch.zeros(math.prod(shape), dtype=torch.float64).index_add_(0, code, value)
        code = (total >= min_freq).nonzero().squeeze(1)
    else:
        code = code[value >= min_freq]
    return code.div(shape[1], rounding_mode="floor"), code % shape[1]


@final
@dataclass(frozen=True, eq=False)
class ToBatch:
    """What a worker makes of a block once the index is known: a batch for objectives."""

    templates: tuple[FactorTemplate, ...]
    class_weight: Mapping[str, float] | Literal["balanced"] | None

    def __getstate__(self) -> dict[str, Any]:
        """Of templates a worker needs the names, not the pairs."""
        named = (replace(own, attribute=NOTHING, cell=NOTHING) for own in self.templates)
        return {**self.__dict__, "templates": tuple(named)}

    def __call__(self, block: NumberedBlock) -> NumberedBatch:
        state = self.templates[0]
        number = [state.names.get(name, UNKNOWN) for name in block.features.names]
        features = block.features.renumbered(torch.tensor(number, dtype=torch.int64), state.names)
        if state.columns != features.columns:
            dense = torch.zeros(features.tokens, len(state.columns))
            place = [state.columns.index(name) for name in features.columns]
            if features.dense is not None:
                dense[:, place] = features.dense
            features = replace(features, columns=state.columns, dense=dense)
        weight = sequence_weights(features.lengths, block.labels, self.class_weight, block.weight)
        batch = without_names(ChainBatch.of(self.templates, features, block.labels, weight))
        content = hashlib.blake2b(digest_size=16)
        for own in (features.lengths, features.attributes, features.values, block.labels.states):
            content.update(b"" if own is None else own.numpy().tobytes())
        return content.hexdigest(), batch
