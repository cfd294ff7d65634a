"""Viterbi's algorithm as a graph that can be exported: `ViterbiDecoder`.

Letters in shapes: b: sequences; n: positions; s: tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn

from mrflearn.errors import SettingsError
from mrflearn.nn.chain import ChainCRF


@final
class ViterbiDecoder(nn.Module):
    """The decoding of a `ChainCRF` for `torch.export`, ONNX and `torch.compile`.

    `ChainCRF.decode` gives lists and plans with the lengths at hand; this is the same search as a
    graph of tensors, for batches and sequences of any size.

    Parameters
    ----------
    crf
        A chain of order 1, whose parameters are shared, with its constraints.

    Examples
    --------
    >>> import torch
    >>> from mrflearn.nn import ChainCRF, ViterbiDecoder
    >>> decoder = ViterbiDecoder(ChainCRF(3, batch_first=True))
    >>> emissions, mask = torch.zeros(2, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    >>> tags, scores = decoder(emissions, mask)
    >>> tags.shape
    torch.Size([2, 4])

    """

    def __init__(self, crf: ChainCRF) -> None:
        if crf.order > 1:
            raise SettingsError(f"order={crf.order}: chains of order 1 can be exported.")
        super().__init__()
        self.crf = crf

    def forward(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best tags, -1 where the mask is, in the shape of the mask; and their scores (batch).

        Parameters
        ----------
        emissions
            Scores, as `ChainCRF.decode` takes them.
        mask
            Booleans: which positions belong to the sequences.

        Returns
        -------
        tuple of Tensor
            Tags and scores; of a sequence without any position the score is 0.

        """
        crf = self.crf
        start, table, end = (own.detach() for own in crf.legal_scores())
        if crf.batch_first:
            emissions, mask = emissions.transpose(0, 1), mask.transpose(0, 1)
        emissions = emissions.detach().to(table.dtype)
        states = torch.arange(crf.num_tags, device=emissions.device)

        def step(carry: tuple[Tensor, Tensor], here: tuple[Tensor, Tensor]) -> Any:
            (score, begun), (own, inside) = carry, here
            moved, came = (score[:, :, None] + table).max(dim=1)
            moved = torch.where(begun[:, None], moved, start) + own
            came = torch.where((inside & begun)[:, None], came, states)
            score = torch.where(inside[:, None], moved, score)
            return (score, begun | inside), came

        def back(tag: Tensor, here: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            came, inside = here
            # A position gives its tag on: that of the position before it, or of a masked one.
            return came.gather(1, tag[:, None])[:, 0], torch.where(inside, tag, -1)

        zeros = emissions.sum(dim=0) * 0.0
        begun = mask[:1].any(dim=0) & False
        (score, begun), came = _scan(step, (zeros, begun), (emissions, mask))
        score, last = (score + end).max(dim=1)
        _, tags = _scan(back, last, (came, mask), reverse=True)
        score = torch.where(begun, score, 0.0)
        return (tags.transpose(0, 1) if crf.batch_first else tags), score


def _scan(
    step: Callable[[Any, Any], tuple[Any, Tensor]],
    carry: Any,
    given: tuple[Tensor, Tensor],
    reverse: bool = False,
) -> tuple[Any, Tensor]:
    """A loop over the first axis: what is carried in the end, and what each step gave, stacked."""
    if torch.compiler.is_compiling():
        from torch._higher_order_ops.scan import scan

        found: tuple[Any, Tensor] = scan(step, carry, given, dim=0, reverse=reverse)
        return found
    kept = []
    for here in zip(*(own.flip(0) if reverse else own for own in given), strict=True):
        carry, own = step(carry, here)
        kept.append(own)
    stacked = torch.stack(kept) if kept else given[0][..., 0].long()
    return carry, stacked.flip(0) if reverse else stacked
