"""Attributes of transitions: weights on (attribute of a token, label before it, its own label).

A name that `edge` has marked is such an attribute.  Its triples are chosen as CRFsuite chooses
pairs: those seen in training whose values sum to at least `min_freq`, or all pairs of labels for
every attribute where all transitions are asked for.  A first token has no transition into it: its
marked attributes count for nothing.

Letters in shapes: a: attributes; h: weighted triples; n: marked attributes of all tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Int64
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.features import UNKNOWN, CompiledFeatures
from mrflearn.features.labels import CompiledLabels

MARK = "\x01edge\x01"  # no text has this: scripts that know nothing of edges mean the same as ever
PAIRS_AT_ONCE = 2**22


def edge(name: str) -> str:
    """The name of an attribute of the transition into its token, to stand in an item of `X`.

    In a list: `["w=dog", edge("w=dog")]`; in a dict: `{"w": "dog", edge("w"): "dog"}`.  It has a
    weight for each (label before, label) it was seen with, or, with all_possible_transitions, for
    all of them; at the first token of a sequence it counts for nothing.
    """
    if not isinstance(name, str):
        raise DataError(f"{name!r} is a {type(name).__name__}; names of attributes are strings.")
    return MARK + name


def edge_names(names: Collection[str]) -> Bool[Tensor, " a"]:
    """Which names are marked as attributes of transitions."""
    if MARK not in "".join(names):  # far faster than a look at each of them
        return torch.zeros(len(names), dtype=torch.bool)
    found = []
    for name in names:
        marked = MARK in name
        found.append(marked)
        if marked and name.rfind(MARK):
            raise DataError(
                f"'{name.replace(MARK, '')}' is marked by `edge` inside a nested dict, or twice: "
                "mark the outermost key, once."
            )
    return torch.tensor(found, dtype=torch.bool)


def find_edges(
    features: CompiledFeatures,
    labels: CompiledLabels,
    marked: Bool[Tensor, " a"],
    min_freq: float,
    everything: bool,
) -> Int64[Tensor, "h 3"]:
    """The weighted (attribute, label before, label), in this order of sorting."""
    size = len(labels.names)
    total = _sums(features, labels, marked, size)
    if everything:
        chosen = marked.nonzero().squeeze(1)
        row, code = torch.from_numpy(total[chosen.numpy()].toarray() >= min_freq).nonzero().t()
        attribute = chosen[row]
    else:
        kept = total.data >= min_freq
        rows = np.repeat(np.arange(len(marked)), np.diff(total.indptr))[kept]
        attribute = torch.from_numpy(rows)
        code = torch.from_numpy(total.indices[kept].astype(np.int64))
    return torch.stack([attribute, code // size, code % size], dim=1)


def _sums(
    features: CompiledFeatures, labels: CompiledLabels, marked: Tensor, size: int
) -> csr_array:
    """The sum of the values of each attribute with each pair of labels, where they met."""
    shape = (len(marked), size**2)
    parts = list(_met(features, labels, marked, size))
    attribute, code, value = (torch.cat(column).numpy() for column in zip(*parts, strict=True))
    return coo_array((value, (attribute, code)), shape).tocsr()


def _met(
    features: CompiledFeatures, labels: CompiledLabels, marked: Tensor, size: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(attributes, label before * labels + label, values), in parts.

    Between sets every pair counts that they may form; a token of unknown label counts for none.
    """
    starts = features.lengths.cumsum(0) - features.lengths
    later = torch.ones(features.tokens, dtype=torch.bool)
    later[starts[features.lengths > 0]] = False
    chosen = (marked[features.attributes] & later[features.owner]).nonzero().squeeze(1)
    token, attribute = features.owner[chosen].long(), features.attributes[chosen].long()
    value = torch.ones(len(chosen)) if features.values is None else features.values[chosen]
    value = value.double()
    before, after = labels.states[token - 1], labels.states[token]
    known = (before != UNKNOWN) & (after != UNKNOWN)
    yield attribute[known], (before * size + after)[known], value[known]
    if bool(known.all()):
        return
    allowed = labels.allowed_states()
    allowed[labels.uncertain[labels.allowed.all(dim=1)]] = False
    for part in (~known).nonzero().squeeze(1).split(max(1, PAIRS_AT_ONCE // size**2)):
        pairs = allowed[token[part] - 1][:, :, None] & allowed[token[part]][:, None, :]
        row, code = pairs.flatten(1).nonzero().t()
        yield attribute[part][row], code, value[part][row]
