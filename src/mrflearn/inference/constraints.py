"""Which labels may begin, follow and end: masks of -inf laid on the scores of chains.

A masked score makes every sum and every search exact over the sequences that remain, so decoding,
n best, sampling and probabilities all obey the same constraints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.io.spans import SCHEMES, Scheme, split_tag
from mrflearn.kernels.chain_steps import Steps


@dataclass(frozen=True, eq=False)
class TransitionMask:
    """True where a label may begin a sequence, where the second may follow the first, may end."""

    start: Bool[Tensor, "s"]
    move: Bool[Tensor, "s s"]
    end: Bool[Tensor, "s"]

    def __and__(self, other: TransitionMask) -> TransitionMask:
        """What both allow."""
        return TransitionMask(
            self.start & other.start, self.move & other.move, self.end & other.end
        )

    def lifted(self, label: Int[Tensor, "p"]) -> TransitionMask:
        """The same for states that each stand for a label (pairs, in a second-order chain)."""
        return TransitionMask(self.start[label], self.move[label][:, label], self.end[label])

    def apply(
        self,
        unary: Float[Tensor, "r s"],
        transition: Float[Tensor, "*q s s"],
        steps: Steps,
    ) -> tuple[Float[Tensor, "r s"], Float[Tensor, "*q s s"]]:
        """The scores of chains with -inf wherever something is not allowed."""
        ending = torch.ones(len(unary), dtype=torch.bool, device=unary.device)
        ending[steps.previous] = False
        barred = ending[:, None] & ~self.end.to(unary.device)
        barred[: steps.starting] |= ~self.start.to(unary.device)
        move = self.move.to(unary.device)
        return unary.masked_fill(barred, -torch.inf), transition.masked_fill(~move, -torch.inf)


def legal_chunks(labels: Sequence[str], scheme: Scheme) -> TransitionMask:
    """Only what is well-formed in a scheme: in IOB2, for one, I-NP after B-NP or I-NP alone."""
    if scheme not in SCHEMES:
        raise DataError(f"there is no tagging scheme '{scheme}'; there are {', '.join(SCHEMES)}.")
    tags = [split_tag(label) for label in labels]
    if scheme != "BIOES" and (
        odd := [a for a, tag in zip(labels, tags, strict=True) if tag[0] in "ES"]
    ):
        raise DataError(f"'{odd[0]}' is no tag of {scheme}. Is the scheme BIOES?")
    letters = {letter for letter, _ in tags}
    if scheme == "BIOES" and letters & {"B", "I"} and not letters & {"E", "S"}:
        raise DataError(
            "in BIOES a chunk ends in an E- or S- tag, and the model has none: no chunk could be "
            "found. Its tags are those of IOB1 or IOB2; ask for that scheme, or train on BIOES."
        )
    outside = ("O", "")
    follows = [[_follows(first, second, scheme) for second in tags] for first in tags]
    return TransitionMask(
        torch.tensor([_follows(outside, tag, scheme) for tag in tags], dtype=torch.bool),
        torch.tensor(follows, dtype=torch.bool).reshape(len(tags), len(tags)),
        torch.tensor([_follows(tag, outside, scheme) for tag in tags], dtype=torch.bool),
    )


def _follows(first: tuple[str, str], second: tuple[str, str], scheme: Scheme) -> bool:
    (before, label_before), (letter, label) = first, second
    same = label == label_before
    if scheme == "IOB1":  # B only sets a chunk apart from the one of its label before it
        return letter != "B" or (before in "BI" and same)
    if scheme == "IOB2":
        return letter != "I" or (before in "BI" and same)
    if before in "BI":
        return letter in "IE" and same
    return letter not in "IE"


def allowed_moves(labels: Sequence[str], moves: Iterable[tuple[str, str]]) -> TransitionMask:
    """Only these (label, next label) pairs; any label may begin and end."""
    kept = torch.zeros(len(labels), len(labels), dtype=torch.bool)
    for first, second in moves:
        kept[_number(first, labels), _number(second, labels)] = True
    free = torch.ones(len(labels), dtype=torch.bool)
    return TransitionMask(free, kept, free)


def forbidden_moves(labels: Sequence[str], moves: Iterable[tuple[str, str]]) -> TransitionMask:
    """All but these (label, next label) pairs; any label may begin and end."""
    only = allowed_moves(labels, moves)
    return TransitionMask(only.start, ~only.move, only.end)


def allowed_states(
    labels: Sequence[str], wanted: Sequence[str | Collection[str] | None]
) -> Bool[Tensor, "n s"]:
    """For each token the labels it may have: one, any of several, or with None any at all."""
    allowed = torch.zeros(len(wanted), len(labels), dtype=torch.bool)
    for token, choice in enumerate(wanted):
        if choice is None:
            allowed[token] = True
            continue
        for label in [choice] if isinstance(choice, str) else choice:
            allowed[token, _number(label, labels)] = True
    return allowed


def _number(label: str, labels: Sequence[str]) -> int:
    if label not in labels:
        raise DataError(
            f"the model knows no label '{label}', so it can be neither allowed nor forced; it "
            f"knows {', '.join(map(str, labels[:12]))}{', ...' if len(labels) > 12 else ''}."
        )
    return labels.index(label)
