"""What the answers of a chain CRF must obey, laid on its scores before any question is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from mrflearn.errors import DataError, InferenceError
from mrflearn.inference.constraints import (
    Constraints,
    allowed_moves,
    allowed_states,
    forbidden_moves,
    legal_chunks,
)
from mrflearn.io.spans import Scheme
from mrflearn.kernels import chain_sums
from mrflearn.models.chain_crf import ChainScores

Pairs = Collection[tuple[str, str]]


@dataclass(frozen=True)
class Rules:
    """Rules for the labels of every sequence, and for single tokens.

    scheme: only chunk tags that are well-formed in `"IOB1"`, `"IOB2"` or `"BIOES"`.
    allowed: the only (label, next label) pairs there may be; None: all.
    forbidden: pairs there may not be.
    forced: for every sequence, for every token, a label, a set of labels, or None (any).
    mask: for every sequence an array (tokens x labels, labels as in `classes_`), True where
        a label may be; None in place of an array: anything may be.
    """

    scheme: Scheme | None = None
    allowed: Pairs | None = None
    forbidden: Pairs = ()
    forced: Sequence[Sequence[str | Collection[str] | None]] | None = None
    mask: Sequence[Any] | None = None

    def part(self, first: int, end: int) -> Rules:
        """The same for the sequences from `first` up to `end` alone."""
        forced = None if self.forced is None else self.forced[first:end]
        return replace(
            self, forced=forced, mask=None if self.mask is None else self.mask[first:end]
        )

    def lay_on(self, chains: ChainScores, labels: Sequence[str]) -> ChainScores:
        """The scores with -inf wherever a rule is broken; `InferenceError` if nothing remains."""
        unary, table, chain = chains.unary, chains.table, chains.chain
        state = chain.label(torch.arange(chain.states, device=unary.device)).cpu()
        for constraints in self._constraints(labels):
            unary, table = constraints.lifted(state).apply(unary, table, chains.steps)
        for tokens in self._tokens(labels, chains.steps.lengths.tolist()):
            allowed = chain.allowed(chains.steps.pack(tokens.to(unary.device)))
            unary = unary.masked_fill(~allowed, -torch.inf)
        obeying = replace(chains, unary=unary, table=table)
        _check(obeying)
        return obeying

    def _constraints(self, labels: Sequence[str]) -> Iterable[Constraints]:
        if self.scheme is not None:
            yield legal_chunks(labels, self.scheme)
        if self.allowed is not None:
            yield allowed_moves(labels, self.allowed)
        if self.forbidden:
            yield forbidden_moves(labels, self.forbidden)

    def _tokens(self, labels: Sequence[str], lengths: list[int]) -> Iterable[Bool[Tensor, "k s"]]:
        if self.forced is not None:
            _check_lengths("forced labels", [len(own) for own in self.forced], lengths)
            yield allowed_states(labels, [choice for own in self.forced for choice in own])
        if self.mask is not None:
            yield _joined(self.mask, lengths, len(labels))


def _joined(masks: Sequence[Any], lengths: list[int], labels: int) -> Bool[Tensor, "k s"]:
    """The masks of all sequences end to end."""
    if len(masks) != len(lengths):
        raise DataError(f"there are masks for {len(masks)} sequences, but {len(lengths)} in X.")
    parts = [np.ones((0, labels), dtype=bool)]
    for number, (own, length) in enumerate(zip(masks, lengths, strict=True)):
        part = np.ones((length, labels), dtype=bool) if own is None else np.asarray(own, dtype=bool)
        if part.shape != (length, labels):
            raise DataError(
                f"the mask of sequence {number} has shape {part.shape}; it has {length} items "
                f"and there are {labels} labels."
            )
        parts.append(part)
    return torch.from_numpy(np.concatenate(parts))


def at_temperature(chains: ChainScores, temperature: float) -> ChainScores:
    """The same with all scores divided: probabilities are softer above 1, sharper below."""
    if temperature == 1.0:
        return chains
    return replace(chains, unary=chains.unary / temperature, table=chains.table / temperature)


def _check_lengths(what: str, found: list[int], lengths: list[int]) -> None:
    if found == lengths:
        return
    if len(found) != len(lengths):
        raise DataError(f"there are {what} for {len(found)} sequences, but {len(lengths)} in X.")
    number = next(i for i, n in enumerate(lengths) if found[i] != n)
    raise DataError(
        f"sequence {number} has {lengths[number]} items but {what} for {found[number]}."
    )


def _check(chains: ChainScores) -> None:
    total = chain_sums.log_partition(chains.unary, chains.table, chains.steps)
    if bool((total == -torch.inf).any()):
        raise InferenceError(
            f"sequence {int((total == -torch.inf).int().argmax())} has no labelling that the rules "
            "allow. Do forced labels contradict the scheme, or each other?"
        )
