"""`Constraints` on the labels of an answer: scores of -inf before any question is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from mrflearn.errors import DataError, InferenceError, SettingsError
from mrflearn.inference import spans
from mrflearn.io.spans import Scheme
from mrflearn.kernels import chain_sums
from mrflearn.models.loglinear import ChainPotentials

Pairs = Collection[tuple[str, str]]


@dataclass(frozen=True)
class Constraints:
    """What the labels of an answer must obey.

    Parameters
    ----------
    scheme
        Only chunk tags that are well-formed in `"IOB1"`, `"IOB2"` or `"BIOES"`.
    allowed
        The only (label, next label) pairs there may be; None: all.
    forbidden
        Pairs (label, next label) there may not be.
    forced
        For each example the labels that are known, in the form of y: a label, a set of labels, or
        None (any); None in place of an example where none is known.
    mask
        For each sequence a boolean array (tokens x labels in the order of `classes_`), True where
        a label may be; None in place of an array: anything may be.

    Notes
    -----
    CRFs on graphs, factorial and skip-chain ones among them, take `forced` alone.

    """

    scheme: Scheme | None = None
    allowed: Pairs | None = None
    forbidden: Pairs = ()
    forced: Sequence[Any] | None = None
    mask: Sequence[Any] | None = None

    @classmethod
    def of(cls, given: Constraints | Iterable[Any]) -> Constraints:
        """The constraints that a user gave: as they are, or as known labels in the form of y."""
        return given if isinstance(given, Constraints) else cls(forced=list(given))

    def part(self, first: int, end: int) -> Constraints:
        """The same for the sequences from `first` up to `end` alone."""
        forced = None if self.forced is None else self.forced[first:end]
        mask = None if self.mask is None else self.mask[first:end]
        return replace(self, forced=forced, mask=mask)

    def apply(self, chains: ChainPotentials, labels: Sequence[str]) -> ChainPotentials:
        """The scores, -inf wherever a constraint is violated; `InferenceError` if none is left."""
        unary, table, chain = chains.unary, chains.table, chains.chain
        state = chain.label(torch.arange(chain.states, device=unary.device)).cpu()
        for mask in self._transitions(labels):
            unary, table = mask.lifted(state).apply(unary, table, chains.steps)
        for tokens in self._tokens(labels, chains.steps.lengths.tolist()):
            allowed = chain.allowed(chains.steps.pack(tokens.to(unary.device)))
            unary = unary.masked_fill(~allowed, -torch.inf)
        impossible = chain_sums.log_partition(unary, table, chains.steps) == -torch.inf
        if bool(impossible.any()):
            raise InferenceError(
                f"sequence {int(impossible.int().argmax())} has no labelling that the constraints "
                "allow. Do forced labels contradict the scheme, or each other?"
            )
        return replace(chains, unary=unary, table=table)

    def _transitions(self, labels: Sequence[str]) -> Iterable[spans.TransitionMask]:
        if self.scheme is not None:
            yield spans.legal_chunks(labels, self.scheme)
        if self.allowed is not None:
            yield spans.allowed_moves(labels, self.allowed)
        if self.forbidden:
            yield spans.forbidden_moves(labels, self.forbidden)

    def _tokens(self, labels: Sequence[str], lengths: list[int]) -> Iterable[Bool[Tensor, "k s"]]:
        if self.forced is not None:
            forced = _filled("forced labels", self.forced, lengths, [None])
            yield spans.allowed_states(labels, list(chain.from_iterable(forced)))
        if self.mask is not None:
            free = np.ones((1, len(labels)), dtype=bool)
            masks = [np.asarray(own, bool) for own in _filled("masks", self.mask, lengths, free)]
            for number, own in enumerate(masks):
                if own.shape != (lengths[number], len(labels)):
                    raise DataError(
                        f"the mask of sequence {number} has shape {own.shape}; the sequence has "
                        f"{lengths[number]} items, and there are {len(labels)} labels."
                    )
            yield torch.from_numpy(np.concatenate([free[:0], *masks]))


def _filled(what: str, given: Sequence[Any], lengths: list[int], free: Any) -> list[Any]:
    """What is given for each sequence; where that is None, `free` for each of its tokens."""
    if len(given) != len(lengths):
        raise DataError(f"there are {what} for {len(given)} sequences, but {len(lengths)} in X.")
    found = []
    for number, (own, length) in enumerate(zip(given, lengths, strict=True)):
        found.append(np.repeat(free, length, axis=0) if own is None else own)
        if len(found[-1]) != length:
            raise DataError(f"sequence {number} has {length} items but {what} for {len(own)}.")
    return found


Given = Constraints | Iterable[Any] | None  # as methods take them


def known_labels(given: Given) -> Sequence[Any] | None:
    """The labels that are known; `SettingsError` where there is anything else to obey."""
    if given is None:
        return None
    own = Constraints.of(given)
    others = {"scheme": own.scheme, "allowed": own.allowed, "mask": own.mask}
    others["forbidden"] = own.forbidden or None
    for name, value in others.items():
        if value is not None:
            raise SettingsError(
                f"Constraints({name}=...) are for chains (`CRF`); CRFs on graphs take known labels "
                "alone, Constraints(forced=...)."
            )
    return own.forced
