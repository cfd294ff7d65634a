"""A semi-Markov CRF as the last layer of a network: `SemiMarkovCRF`.

Letters in shapes: b: sequences; n: positions; s: labels; k: lengths of segments; m: segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mrflearn.errors import DataError, SettingsError
from mrflearn.kernels import segments as kernel
from mrflearn.nn.batches import Reduction, precise, reduced

Segment = tuple[int, int, int]  # first position, position after the last, label


class _Scores(NamedTuple):
    """What the kernel takes, positions of each sequence from the left, ends folded in."""

    begin: Float[Tensor, "b n s"]
    ending: Float[Tensor, "b n s"]
    duration: Float[Tensor, "k s"]
    table: Float[Tensor, "s s"]
    lengths: Int[Tensor, " b"]


@final
class SemiMarkovCRF(nn.Module):
    """A conditional random field over the ways to cut a sequence into labelled segments.

    A segment scores the sum of its positions' emissions for its label, the duration score of its
    length, and the transition from the label before.  Time is positions x lengths x labels, and
    memory positions x labels.

    Parameters
    ----------
    num_labels
        The number of labels.
    max_length
        The most positions that a segment has.
    batch_first
        Whether emissions are (batch, positions, labels) and not (positions, batch, labels).

    Attributes
    ----------
    durations
        Scores of segments of 1, 2, ... positions (max_length, labels).
    transitions
        Scores of a label (row) followed by another (column).
    start_transitions, end_transitions
        Scores of the labels of the first and of the last segment.

    Examples
    --------
    >>> import torch
    >>> from mrflearn.nn import SemiMarkovCRF
    >>> crf = SemiMarkovCRF(3, max_length=4, batch_first=True)
    >>> emissions = torch.zeros(1, 6, 3, requires_grad=True)
    >>> loss = crf.loss(emissions, [[(0, 2, 1), (2, 6, 0)]])
    >>> loss.backward()
    >>> crf.decode(emissions)[0][-1][1]
    6

    """

    def __init__(self, num_labels: int, max_length: int, batch_first: bool = False) -> None:
        if num_labels < 1 or max_length < 1:
            raise SettingsError(
                f"num_labels={num_labels}, max_length={max_length}: both are at least 1."
            )
        super().__init__()
        self.num_labels, self.max_length, self.batch_first = num_labels, max_length, batch_first
        self.start_transitions = nn.Parameter(torch.empty(num_labels))
        self.end_transitions = nn.Parameter(torch.empty(num_labels))
        self.transitions = nn.Parameter(torch.empty(num_labels, num_labels))
        self.durations = nn.Parameter(torch.empty(max_length, num_labels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters uniformly between -0.1 and 0.1."""
        for own in self.parameters():
            nn.init.uniform_(own, -0.1, 0.1)

    def extra_repr(self) -> str:
        return (
            f"num_labels={self.num_labels}, max_length={self.max_length}, "
            f"batch_first={self.batch_first}"
        )

    def forward(
        self,
        emissions: Tensor,
        segments: Sequence[Sequence[Segment]],
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        boundaries: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """The log-likelihood of segments: minus `loss`."""
        return -self.loss(emissions, segments, mask, reduction, boundaries)

    @precise
    def loss(
        self,
        emissions: Tensor,
        segments: Sequence[Sequence[Segment]],
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        boundaries: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Minus the log-likelihood of segments, in nats.

        Parameters
        ----------
        emissions
            Scores (positions, batch, labels), or (batch, positions, labels) if `batch_first`.
        segments
            For each sequence its segments (first position, position after the last, label), in
            order and without gaps; positions are counted without those that the mask takes out.
        mask
            Which positions belong to the sequences; None: all of them.
        reduction
            `"none"` (a number for each sequence), `"sum"`, `"mean"` (over sequences) or
            `"token_mean"`.
        boundaries
            Scores of a segment that begins at a position, and of one that ends there, each of the
            shape of the emissions.

        Returns
        -------
        Tensor
            In nats.

        """
        scores = self._scores(emissions, mask, boundaries)
        gold = self._gold(segments, scores)
        lost = (kernel.log_partition(*scores) - gold).to(_dtype(emissions))
        return reduced(lost, reduction, int(scores.lengths.sum()))

    @precise
    def log_partition(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        boundaries: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """log Z of each sequence (batch); differentiable."""
        found = kernel.log_partition(*self._scores(emissions, mask, boundaries))
        return found.to(_dtype(emissions))

    @precise
    @torch.no_grad()
    def decode(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        boundaries: tuple[Tensor, Tensor] | None = None,
    ) -> list[list[Segment]]:
        """The best segments of each sequence, in the form that `loss` takes."""
        return kernel.viterbi(*self._scores(emissions, mask, boundaries))

    @precise
    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        boundaries: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """The probability that a position is in a segment of each label, shaped as emissions.

        They are 0 where the mask is, and have no gradient.
        """
        leaf = emissions.detach().to(_dtype(emissions)).requires_grad_(True)
        with torch.enable_grad():
            total = self.log_partition(leaf, mask, boundaries).sum()
        return torch.autograd.grad(total, leaf)[0]

    def _scores(
        self, emissions: Tensor, mask: Tensor | None, boundaries: tuple[Tensor, Tensor] | None
    ) -> _Scores:
        shape = tuple(emissions.shape)
        if len(shape) != 3 or shape[2] != self.num_labels:
            raise DataError(
                f"emissions have three axes, the last of num_labels={self.num_labels} entries, not "
                f"shape {shape}."
            )
        given = [emissions, *(() if boundaries is None else boundaries)]
        for own in given[1:]:
            if own.shape != emissions.shape:
                raise DataError(f"boundaries have shape {tuple(own.shape)}, emissions {shape}.")
        if mask is not None and tuple(mask.shape) != shape[:2]:
            raise DataError(f"the mask has shape {tuple(mask.shape)}, not {shape[:2]}.")
        if not self.batch_first:
            given = [own.transpose(0, 1) for own in given]
        (b, n, s), device = given[0].shape, emissions.device
        inside = torch.ones(b, n, dtype=torch.bool, device=device)
        if mask is not None:
            inside = mask.bool() if self.batch_first else mask.bool().t()
        # Kept positions first; what comes after them adds nothing to what comes before.
        order = inside.int().argsort(dim=1, descending=True, stable=True)
        lengths = inside.sum(dim=1)
        index = order[:, :, None].expand(-1, -1, s)
        own, *others = (part.double().gather(1, index) for part in given)
        sums = own.cumsum(dim=1)
        begin, ending = own - sums, sums
        if others:
            begin, ending = begin + others[0], ending + others[1]
        place = torch.arange(n, device=device)
        first, last = place == 0, place == lengths[:, None] - 1
        begin = begin + torch.where(first[:, None], self.start_transitions.double(), 0.0)
        ending = ending + torch.where(last[:, :, None], self.end_transitions.double(), 0.0)
        return _Scores(begin, ending, self.durations.double(), self.transitions.double(), lengths)

    def _gold(self, segments: Sequence[Sequence[Segment]], scores: _Scores) -> Float[Tensor, " b"]:
        """The scores of known segments."""
        lengths = scores.lengths.tolist()
        if len(segments) != len(lengths):
            raise DataError(f"segments of {len(segments)} sequences, but {len(lengths)} emissions.")
        rows = []
        for sequence, (own, length) in enumerate(zip(segments, lengths, strict=True)):
            reached = 0
            for start, stop, label in own:
                fits = start == reached < stop <= start + self.max_length
                if not (fits and 0 <= label < self.num_labels):
                    raise DataError(
                        f"sequence {sequence} has the segment {(start, stop, label)} after "
                        f"position {reached}: segments follow each other without gaps, have 1 to "
                        f"{self.max_length} positions, and labels 0 to {self.num_labels - 1}."
                    )
                rows.append((sequence, start, stop, label))
                reached = stop
            if reached != length:
                raise DataError(
                    f"the segments of sequence {sequence} end at {reached}; it has {length} "
                    "positions."
                )
        table = torch.tensor(rows, dtype=torch.int64, device=scores.begin.device).reshape(-1, 4)
        owner, first, after, state = table.unbind(dim=1)
        total = scores.begin[owner, first, state] + scores.ending[owner, after - 1, state]
        total = total + scores.duration[after - first - 1, state]
        later = (first > 0).nonzero().squeeze(1)
        total = total.index_add(0, later, scores.table[state[later - 1], state[later]])
        return total.new_zeros(len(lengths)).index_add(0, owner, total)


def _dtype(emissions: Tensor) -> torch.dtype:
    return torch.promote_types(emissions.dtype, torch.float32)
