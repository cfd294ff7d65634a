"""Sequences of different lengths laid out step by step, so that no row is padding.

The longest sequence comes first: step t is then one slice of rows, and it continues the first
rows of the slice before it.  A recursion over such slices is plain matrix products.

Letters in shapes: b: sequences; n: positions; r: rows, one a token; q: rows that have a row before
them (all rows but those of step 0); s: states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Steps:
    """The layout: `source[row]` is where a row stands among the tokens of the caller.

    `rank[row]` is the place of its sequence in `order` (longest first), `sizes[t]` the number of
    rows of step t.
    """

    lengths: Int[Tensor, "b"]
    order: Int[Tensor, "b"]
    rank: Int[Tensor, "r"]
    source: Int[Tensor, "r"]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, lengths: Int[Tensor, "b"], width: int | None = None) -> Steps:
        """The layout of sequences laid end to end, or padded to `width` tokens each."""
        first = lengths.cumsum(0) - lengths
        if width is not None:
            first = torch.arange(len(lengths), device=lengths.device) * width
        return cls._of(lengths, first)

    @classmethod
    def _of(cls, lengths: Int[Tensor, "b"], first: Int[Tensor, "b"]) -> Steps:
        order = lengths.argsort(descending=True, stable=True)
        ordered = lengths[order]
        longest = int(ordered[0]) if len(ordered) else 0
        places = torch.arange(longest, device=lengths.device)
        # How many lengths exceed each place: the lengths are sorted, so this is a search.
        sizes = torch.searchsorted(ordered.flip(0), places, right=True)
        sizes = len(ordered) - sizes
        place = places.repeat_interleave(sizes)
        begin = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        rank = torch.arange(len(place), device=lengths.device) - begin
        return cls(lengths, order, rank, first[order[rank]] + place, tuple(sizes.tolist()))

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The rows of each step."""
        ends = torch.tensor([0, *self.sizes]).cumsum(0).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @property
    def starting(self) -> int:
        """How many rows have no row before them."""
        return self.sizes[0] if self.sizes else 0

    @cached_property
    def sequence(self) -> Int[Tensor, "r"]:
        """Which sequence each row belongs to."""
        return self.order[self.rank]

    @cached_property
    def previous(self) -> Int[Tensor, "q"]:
        """The row before each row that has one."""
        sizes = torch.tensor(self.sizes, dtype=torch.int64, device=self.rank.device)
        back = sizes[:-1].repeat_interleave(sizes[1:])
        return torch.arange(self.starting, len(self), device=self.rank.device) - back

    def tables(self, transition: Float[Tensor, "*q s s"], t: int) -> Float[Tensor, "*k s s"]:
        """The transition tables of the step to t: the shared one, or one for each of its rows."""
        if transition.ndim == 2:
            return transition
        rows = self.slices[t]
        return transition[rows.start - self.starting : rows.stop - self.starting]

    def to(self, device: torch.device | str) -> Steps:
        """The same layout on another device."""
        return Steps(
            self.lengths.to(device),
            self.order.to(device),
            self.rank.to(device),
            self.source.to(device),
            self.sizes,
        )

    def pack(self, tokens: Shaped[Tensor, "k *rest"]) -> Shaped[Tensor, "r *rest"]:
        """The rows of this layout from values in the caller's order."""
        return tokens.index_select(0, self.source)

    def unpack(self, rows: Shaped[Tensor, "r *rest"], tokens: int) -> Shaped[Tensor, "k *rest"]:
        """Values in the caller's order; zero where no row stands."""
        return rows.new_zeros(tokens, *rows.shape[1:]).index_copy(0, self.source, rows)

    def totals(self, values: Shaped[Tensor, "r"]) -> Shaped[Tensor, "b"]:
        """The sum of the rows' values over each sequence."""
        return values.new_zeros(len(self.lengths)).index_add(0, self.sequence, values)


def scores_along(
    table: Float[Tensor, "*q s s"], before: Int[Tensor, "q"], after: Int[Tensor, "q"]
) -> Float[Tensor, "q"]:
    """The score of moving from one given state to another, row by row."""
    if table.ndim == 2:
        return table[before, after]
    return table[torch.arange(len(table), device=table.device), before, after]


def scores_into(
    table: Float[Tensor, "*k s s"], state: Int[Tensor, "*d k"]
) -> Float[Tensor, "*d k s"]:
    """The scores of moving from each state to the given one of each row."""
    if table.ndim == 2:
        return table.t()[state]
    return table.transpose(1, 2)[torch.arange(len(table), device=table.device), state]
