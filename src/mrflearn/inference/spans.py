"""Segments of labels: their exact probabilities, and constraints on label sequences.

A sequence of tags has the chunk (start, end, label) when its reading (`mrflearn.io.spans`) has:
the first tag does not continue what stands before, each further one continues the tag before it,
and what follows does not continue the last.  All three are conditions on pairs of neighbours, and
given the data the tags are a Markov chain, so the probability is a product along the span.

Letters in shapes: r: rows (tokens) packed by `Steps`; q: rows with a row before them; s: states;
k: spans; c: chunk labels; m: assignments.

A masked score makes every sum and every search exact over the sequences that remain, so decoding,
n best, sampling and probabilities all obey the same constraints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.io.spans import Scheme, check_scheme, split_tag
from mrflearn.kernels import chain_sums
from mrflearn.kernels.chain_sums import Rows, Steps, Tables

# The exact probability that a span is a chunk under a chain of chunk tags.


LARGEST_BLOCK = 2**24  # pair probabilities held at once


@dataclass(frozen=True, eq=False)
class ChunkReading:
    """What tags mean: which belong to each chunk label, and which continue which."""

    names: tuple[str, ...]
    members: Bool[Tensor, "c s"]
    joined: Bool[Tensor, "s s"]  # the second tag continues the first one's chunk

    @classmethod
    def of(cls, tags: Sequence[str]) -> ChunkReading:
        """The reading of a model's tags, in their order."""
        parts = [split_tag(tag) for tag in tags]
        names = tuple(sorted({label for letter, label in parts if letter != "O"}))
        members = [[letter != "O" and label == name for letter, label in parts] for name in names]
        joined = [[_continues(first, second) for second in parts] for first in parts]
        return cls(
            names,
            torch.tensor(members, dtype=torch.bool).reshape(len(names), len(parts)),
            torch.tensor(joined, dtype=torch.bool).reshape(len(parts), len(parts)),
        )

    def lifted(self, label: Int[Tensor, " p"]) -> ChunkReading:
        """The same for states that each stand for a tag (pairs, in a second-order chain)."""
        return ChunkReading(self.names, self.members[:, label], self.joined[label][:, label])


@dataclass(frozen=True, eq=False)
class SegmentTable:
    """Spans by their sequence, first token, token after the last, and number of their label."""

    sequence: Int[Tensor, " k"]
    start: Int[Tensor, " k"]
    end: Int[Tensor, " k"]
    label: Int[Tensor, " k"]

    def __len__(self) -> int:
        return len(self.sequence)


def chunks_of(paths: Int[Tensor, "r m"], steps: Steps, reading: ChunkReading) -> SegmentTable:
    """Every chunk that one of m assignments has, once, sorted by sequence and start."""
    found = [_chunks(states, steps, reading) for states in paths.unbind(1)]
    table = torch.cat(found) if found else paths.new_zeros(0, 4)
    return SegmentTable(*torch.unique(table, dim=0).unbind(1))


def span_probabilities(
    unary: Rows, transition: Tables, steps: Steps, spans: SegmentTable, reading: ChunkReading
) -> Float[Tensor, " k"]:
    """The probability of each span, worked out for some sequences at a time."""
    chance = unary.new_zeros(len(spans))
    for rows, own, chosen, local in _blocks(unary, steps, spans):
        table = transition
        if transition.ndim == 3:
            table = transition[rows[own.starting :] - steps.starting]
        _, single, pair = chain_sums.marginals(unary[rows], table, own)
        chance[chosen] = _probabilities(single, pair, own, local, reading)
    return chance


def _blocks(
    unary: Tensor, steps: Steps, spans: SegmentTable
) -> Iterator[tuple[Tensor, Steps, Tensor, SegmentTable]]:
    """Sequences with few enough tokens: their rows and layout, and which spans are theirs."""
    ordered = steps.lengths[steps.order]
    block = (ordered.cumsum(0) - 1).clamp(min=0) * unary.shape[1] ** 2 // LARGEST_BLOCK
    for number in block.unique().tolist():
        first, last = (block == number).nonzero()[[0, -1], 0].tolist()
        # Ranks go by length, so rows of neighbouring ranks are a layout in themselves.
        rows = ((steps.rank >= first) & (steps.rank <= last)).nonzero().squeeze(1)
        place = steps.ranks[spans.sequence] - first
        chosen = ((place >= 0) & (place <= last - first)).nonzero().squeeze(1)
        if len(chosen):
            columns = (place, spans.start, spans.end, spans.label)
            local = SegmentTable(*(column[chosen] for column in columns))
            yield rows, Steps.of(ordered[first : last + 1]), chosen, local


def _probabilities(
    single: Rows, pair: Tables, steps: Steps, spans: SegmentTable, reading: ChunkReading
) -> Float[Tensor, " k"]:
    """The probability of each span, whose sequences are numbered in the order of their ranks."""
    first = torch.tensor([rows.start for rows in steps.slices], device=single.device)

    def moves(chosen: Int[Tensor, " k"], place: Int[Tensor, " k"]) -> Float[Tensor, "k s s"]:
        """P(tag at a place | tag before it); 0 after a tag that is impossible."""
        step = first[place] + spans.sequence[chosen] - steps.starting
        before = single[steps.previous[step]].unsqueeze(2)
        return torch.where(before > 0, pair[step] / before, 0.0)

    row, length = first[spans.start] + spans.sequence, spans.end - spans.start
    mass, later = single[row], (spans.start > 0).nonzero().squeeze(1)
    starts = pair[row[later] - steps.starting].masked_fill(reading.joined, 0.0)
    mass[later] = starts.sum(dim=1)  # the tag does not continue what stands before
    mass *= reading.members[spans.label]
    for offset in range(1, int(length.max())):
        going = (length > offset).nonzero().squeeze(1)
        onward = moves(going, spans.start[going] + offset).where(reading.joined, 0.0)
        mass[going] = (mass[going, None] @ onward).squeeze(1)
    followed = (spans.end < steps.lengths[spans.sequence]).nonzero().squeeze(1)
    over = moves(followed, spans.end[followed]).masked_fill(reading.joined, 0.0)
    mass[followed] *= over.sum(dim=2)
    return mass.sum(dim=1).clamp(max=1.0)


def _chunks(states: Int[Tensor, " r"], steps: Steps, reading: ChunkReading) -> Int[Tensor, "k 4"]:
    place = steps.position
    inside = reading.members.any(dim=0)[states]
    before = steps.previous
    continues = torch.zeros_like(inside)
    continues[steps.starting :] = reading.joined[states[before], states[steps.starting :]]
    continued = torch.zeros_like(inside)
    continued[before] = continues[steps.starting :]
    # Chunks of one sequence do not overlap: the first beginning belongs to the first ending.
    first, last = [
        rows[torch.argsort(steps.sequence[rows] * len(steps.sizes) + place[rows])]
        for rows in ((inside & ~continues).nonzero()[:, 0], (inside & ~continued).nonzero()[:, 0])
    ]
    label = reading.members.int().argmax(dim=0)[states[first]] if len(reading.names) else first
    return torch.stack([steps.sequence[first], place[first], place[last] + 1, label], dim=1)


def _continues(first: tuple[str, str], second: tuple[str, str]) -> bool:
    return first[0] in "BI" and second[0] in "IE" and first[1] == second[1]


# Which labels may begin, follow and end: masks of -inf on the scores of chains.


@dataclass(frozen=True, eq=False)
class TransitionMask:
    """True where a label may begin a sequence, where the second may follow the first, may end."""

    start: Bool[Tensor, " s"]
    move: Bool[Tensor, "s s"]
    end: Bool[Tensor, " s"]

    def __and__(self, other: TransitionMask) -> TransitionMask:
        """What both allow."""
        start, move, end = self.start & other.start, self.move & other.move, self.end & other.end
        return TransitionMask(start, move, end)

    def lifted(self, label: Int[Tensor, " p"]) -> TransitionMask:
        """The same for states that each stand for a label (pairs, in a second-order chain)."""
        return TransitionMask(self.start[label], self.move[label][:, label], self.end[label])

    def apply(self, unary: Rows, transition: Tables, steps: Steps) -> tuple[Rows, Tables]:
        """The scores of chains with -inf wherever something is not allowed."""
        ending = torch.ones(len(unary), dtype=torch.bool, device=unary.device)
        ending[steps.previous] = False
        barred = ending[:, None] & ~self.end.to(unary.device)
        barred[: steps.starting] |= ~self.start.to(unary.device)
        move = self.move.to(unary.device)
        return unary.masked_fill(barred, -torch.inf), transition.masked_fill(~move, -torch.inf)


def legal_chunks(labels: Sequence[str], scheme: Scheme) -> TransitionMask:
    """Only what is well-formed in a scheme: in IOB2, for one, I-NP after B-NP or I-NP alone."""
    check_scheme(scheme)
    tags = [split_tag(label) for label in labels]
    letters = {letter for letter, _ in tags}
    if scheme != "BIOES" and letters & {"E", "S"}:
        odd = next(label for label, tag in zip(labels, tags, strict=True) if tag[0] in "ES")
        raise DataError(f"'{odd}' is no tag of {scheme}. Is the scheme BIOES?")
    if scheme == "BIOES" and letters & {"B", "I"} and not letters & {"E", "S"}:
        raise DataError(
            "in BIOES a chunk ends in an E- or S- tag, and the model has none: no chunk could be "
            "found. Its tags are those of IOB1 or IOB2; ask for that scheme, or train on BIOES."
        )
    ends = [("O", ""), *tags]  # what stands before and after a sequence, then the tags
    follows = torch.tensor([[_follows(a, b, scheme) for b in ends] for a in ends])
    return TransitionMask(follows[0, 1:], follows[1:, 1:], follows[1:, 0])


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
    return replace(only, move=~only.move)


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
        known = ", ".join(map(str, labels[:12])) + (", ..." if len(labels) > 12 else "")
        raise DataError(f"the model knows no label '{label}'; it knows {known}.")
    return labels.index(label)
