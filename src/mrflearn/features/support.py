"""Which attribute-label and label-label pairs get a weight, as CRFsuite decides it.

A pair gets one where the sum of its values over the training data (labels as given) is at least
`min_freq`; pairs never seen have the sum 0 and are candidates only where all pairs are asked for.
So with min_freq = 0 a pair whose values sum to less than 0 gets none: that too is CRFsuite's way.

Letters in shapes: f: weighted attribute-label pairs; e: weighted label-label pairs; g: weighted
triples of labels; a: attributes; h: weighted triples of an attribute and two labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Int64
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.edges import edge_names, find_edges
from mrflearn.features.features import UNKNOWN, CompiledFeatures, Numbering
from mrflearn.features.labels import CompiledLabels

ATTRIBUTES_AT_ONCE = 2**18
NO_EDGES = torch.zeros(0, 3, dtype=torch.int64)
Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Support:
    """Weighted pairs, ordered by attribute and label, and by first and second label.

    `attribute` and `label` name state weight i; `source` and `target` transition weight i;
    `triples` (None: the chain is of the first order) the weights of three neighbours; `edges` the
    weights of (attribute, label before, label).  Every dense column has a weight for every label.
    """

    attributes: Numbering
    columns: tuple[str, ...]
    labels: Numbering
    attribute: Int64[Tensor, " f"]
    label: Int64[Tensor, " f"]
    source: Int64[Tensor, " e"]
    target: Int64[Tensor, " e"]
    triples: Int64[Tensor, "g 3"] | None = None
    edges: Int64[Tensor, "h 3"] = field(default_factory=lambda: NO_EDGES)

    @property
    def transitions(self) -> int:
        """How many weights pairs and triples of labels have."""
        return len(self.source) + (0 if self.triples is None else len(self.triples))


def find_support(
    features: CompiledFeatures,
    labels: CompiledLabels,
    *,
    order: int = 1,
    min_freq: float = 0.0,
    all_states: bool = False,
    all_transitions: bool = False,
) -> tuple[Support, CompiledFeatures]:
    """The weighted pairs, and the features renumbered so that only weighted attributes remain."""
    attribute, label = _state_pairs(features, labels, min_freq, all_states)
    source, target = _transition_pairs(features.lengths, labels, min_freq, all_transitions)
    edges, marked = NO_EDGES, edge_names(features.names)
    if bool(marked.any()):
        if order != 1:
            raise DataError("attributes of transitions (`edge`, B templates) need order=1.")
        attribute, label = (part[~marked[attribute]] for part in (attribute, label))
        edges = find_edges(features, labels, marked, min_freq, all_transitions)
    used = torch.zeros(len(features.names), dtype=torch.bool)
    used[attribute] = used[edges[:, 0]] = True
    names = features.names
    if not bool(used.all()):
        number = torch.where(used, used.cumsum(0) - 1, UNKNOWN)
        kept = (name for name, wanted in zip(names, used.tolist(), strict=True) if wanted)
        names = Numbering(kept, closed=True)
        features = features.renumbered(number, names)
        attribute = number[attribute]
        edges = torch.cat([number[edges[:, :1]], edges[:, 1:]], dim=1)
    closed = Numbering(names, closed=True) if not names.closed else names
    known = Numbering(labels.names, closed=True)
    triples = None
    if order == 2:
        triples = _triples(features.lengths, labels, source, target, all_transitions)
    pairs = (attribute, label, source, target)
    support = Support(closed, features.columns, known, *pairs, triples, edges)
    return support, replace(features, names=closed)


def _state_pairs(
    features: CompiledFeatures, labels: CompiledLabels, min_freq: float, everything: bool
) -> tuple[Tensor, Tensor]:
    size, count = max(len(labels.names), 1), len(features.names)
    if everything and min_freq <= 0 and features.values is None:
        code = torch.arange(count * size)
        return code.div(size, rounding_mode="floor"), code % size
    total = _pair_sums(features, labels, size)
    if everything:
        dense = torch.from_numpy(total.toarray()).flatten()
        code = (dense >= min_freq).nonzero().squeeze(1)
        return code.div(size, rounding_mode="floor"), code % size
    kept = total.data >= min_freq
    attribute = np.repeat(np.arange(count), np.diff(total.indptr))[kept]
    return torch.from_numpy(attribute), torch.from_numpy(total.indices[kept].astype(np.int64))


def _pair_sums(features: CompiledFeatures, labels: CompiledLabels, size: int) -> csr_array:
    """The sum of the values of each attribute with each label, where they met.

    A token counts for each label of its set, and one of unknown label for none.
    """
    shape = (len(features.names), size)
    # Part by part, each summed up before the next: text has few distinct pairs.  Sparse matrices
    # are joined as lists and not added, for that would drop pairs whose sum is 0.
    parts = [_summed(*part, shape) for part in _pairs_met(features, labels)]
    if not parts:
        return csr_array(shape, dtype=np.float64)
    attribute, label, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return coo_array((value, (attribute, label)), shape).tocsr()


def _summed(attribute: Tensor, label: Tensor, value: Tensor, shape: tuple[int, int]) -> Triple:
    pairs = coo_array((value.double().numpy(), (attribute.numpy(), label.numpy())), shape)
    total = pairs.tocsr().tocoo()
    return total.row.astype(np.int32), total.col.astype(np.int32), total.data


def _pairs_met(
    features: CompiledFeatures, labels: CompiledLabels
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(attributes, labels, values), in parts."""
    owner, values = features.owner, features.values
    for begin in range(0, len(owner), ATTRIBUTES_AT_ONCE):
        part = slice(begin, begin + ATTRIBUTES_AT_ONCE)
        state = labels.states[owner[part]].int()
        known = state != UNKNOWN
        value = torch.ones(len(state)) if values is None else values[part]
        yield features.attributes[part][known], state[known], value[known]
    for row in (~labels.allowed.all(dim=1)).nonzero().squeeze(1).tolist():
        token = int(labels.uncertain[row])
        own = slice(int(features.ends[token - 1]) if token else 0, int(features.ends[token]))
        attribute = features.attributes[own]
        value = torch.ones(len(attribute)) if values is None else values[own]
        for choice in labels.allowed[row].nonzero().squeeze(1).tolist():
            yield attribute, torch.full_like(attribute, choice), value


def _transition_pairs(
    lengths: Tensor, labels: CompiledLabels, min_freq: float, everything: bool
) -> tuple[Tensor, Tensor]:
    size = max(len(labels.names), 1)
    allowed = None if not len(labels.uncertain) else labels.allowed_states()
    first = torch.zeros(len(labels.states), dtype=torch.bool)
    starts = lengths.cumsum(0) - lengths
    first[starts[lengths > 0]] = True
    later = (~first).nonzero().squeeze(1)
    before, after = labels.states[later - 1], labels.states[later]
    known = (before != UNKNOWN) & (after != UNKNOWN)
    counts = torch.bincount(before[known] * size + after[known], minlength=size * size)
    if allowed is not None:
        # Between sets, every pair that the two tokens may form counts as seen.
        sure = allowed[later[~known] - 1], allowed[later[~known]]
        counts = counts + torch.einsum("ks,kt->st", *(part.long() for part in sure)).flatten()
    seen = counts >= max(min_freq, 0 if everything else 1)
    code = seen.nonzero().squeeze(1)
    return code.div(size, rounding_mode="floor"), code % size


def _triples(
    lengths: Tensor, labels: CompiledLabels, source: Tensor, target: Tensor, everything: bool
) -> Int64[Tensor, "g 3"]:
    """The triples seen, or all that weighted pairs can form."""
    size = max(len(labels.names), 1)
    if everything:
        first, second = (target[:, None] == source[None, :]).nonzero().unbind(dim=1)
        return torch.stack([source[first], source[second], target[second]], dim=1)
    position = torch.arange(len(labels.states)) - (lengths.cumsum(0) - lengths).repeat_interleave(
        lengths
    )
    third = (position >= 2).nonzero().squeeze(1)
    seen = torch.stack([labels.states[third - back] for back in (2, 1, 0)], dim=1)
    seen = seen[(seen != UNKNOWN).all(dim=1)]
    code = torch.unique((seen[:, 0] * size + seen[:, 1]) * size + seen[:, 2])
    triples = torch.stack([code // size**2, code // size % size, code % size], dim=1)
    weighted = torch.zeros(size, size, dtype=torch.bool)
    weighted[source, target] = True
    both = weighted[triples[:, 0], triples[:, 1]] & weighted[triples[:, 1], triples[:, 2]]
    return triples[both]
