"""What modules share: precision, reductions, and the chains of a batch, packed by a mask.

Tokens that a mask takes out are left out of their sequences, wherever they stand; the others are
packed as everywhere in the library (`kernels.chain_sums`), and sums, searches and samples are those
of the other chain models.

Letters in shapes: b: sequences; n: positions; s: tags; r: rows (tokens that a mask keeps), packed
by `Steps`; q: rows that have a row before them; m: assignments kept; d: draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mrflearn.errors import DataError, SettingsError
from mrflearn.kernels import chain_pieces, chain_search, chain_sums, second_order
from mrflearn.kernels.chain_sums import PerSequence, Rows, Steps, Tables
from mrflearn.kernels.gradients import once

Reduction = Literal["none", "sum", "mean", "token_mean"]
P = ParamSpec("P")
R = TypeVar("R")


def precise(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a module in single precision at least, whatever autocast says.

    Compilers leave it as it is: its loops are over lengths that are known at run time.
    """

    @wraps(method)
    def eager(*given: P.args, **named: P.kwargs) -> R:
        device = next(given[0].parameters()).device.type  # type: ignore[attr-defined]
        with torch.autocast(device, enabled=False):
            return method(*given, **named)

    found: Callable[P, R] = torch.compiler.disable(eager)
    return found


def reduced(
    lost: Float[Tensor, "*b"], reduction: Reduction, tokens: int, sequences: int | None = None
) -> Tensor:
    """What is lost on each sequence (or in all of them) as a loss."""
    if reduction == "none":
        return lost
    total = lost.sum()
    if reduction == "sum":
        return total
    if reduction == "mean":
        return total / max(len(lost) if sequences is None else sequences, 1)
    if reduction == "token_mean":
        return total / max(tokens, 1)
    raise SettingsError(
        f"reduction='{reduction}' is not one of 'none', 'sum', 'mean', 'token_mean'."
    )


# Scores of a batch, packed.


@dataclass(frozen=True, eq=False)
class PackedChains:
    """Scores of the tags of every row and of the steps between rows: (near,) or (near, far)."""

    unary: Rows
    tables: tuple[Tables, ...]
    steps: Steps
    shape: tuple[int, int]  # sequences, positions
    time_first: bool

    @property
    def _sums(self) -> Any:
        return chain_sums if len(self.tables) == 1 else second_order

    @property
    def _search(self) -> Any:
        return chain_search if len(self.tables) == 1 else second_order

    def log_partition(self, path: Int[Tensor, " r"] | None = None) -> PerSequence:
        """log Z of each sequence; with a path, less its score."""
        found: Tensor = self._sums.log_partition(self.unary, *self.tables, self.steps, path)
        return found

    def restricted(self, allowed: Bool[Tensor, "r s"]) -> PackedChains:
        """The same where each row has allowed tags only."""
        return replace(self, unary=self.unary.masked_fill(~allowed, -torch.inf))

    def detached(self) -> PackedChains:
        """The same without a history."""
        tables = tuple(table.detach() for table in self.tables)
        return replace(self, unary=self.unary.detach(), tables=tables)

    def entropy(self) -> PerSequence:
        """The entropy of each sequence, in nats."""
        found: Tensor = self._sums.entropy(self.unary, *self.tables, self.steps)
        return found

    def probabilities(self) -> Rows:
        """The probability of every tag at every row: the gradient of log Z."""
        own = self.detached()
        leaf = own.unary.requires_grad_(True)
        with torch.enable_grad():
            total = replace(own, unary=leaf).log_partition().sum()
        return torch.autograd.grad(total, leaf)[0]

    def best(self) -> Int[Tensor, " r"]:
        """A best tag of every row."""
        found: Tensor = self._search.viterbi(self.unary, *self.tables, self.steps)[0]
        return found

    def n_best(self, count: int) -> tuple[Int[Tensor, "r m"], Float[Tensor, "b m"]]:
        """The best assignments and their scores."""
        found: tuple[Tensor, Tensor] = self._search.n_best(
            self.unary, *self.tables, self.steps, count
        )
        return found

    def sample(self, count: int, generator: torch.Generator) -> Int[Tensor, "d r"]:
        """Independent draws."""
        scores = self.unary.double(), *(table.double() for table in self.tables)
        found: Tensor = self._search.sample(*scores, self.steps, count, generator)
        return found

    def padded(self, rows: Tensor, filler: float = 0) -> Tensor:
        """Values of rows in the shape of the batch, `filler` where there are none."""
        b, n = self.shape
        flat = rows.new_full((b * n, *rows.shape[1:]), filler)
        flat = flat.index_copy(0, self.steps.source, rows)
        return (
            flat.view(n, b, *rows.shape[1:])
            if self.time_first
            else flat.view(b, n, *rows.shape[1:])
        )


def with_ends(unary: Tensor, steps: Steps, start: Tensor, end: Tensor) -> Tensor:
    """Scores of rows with those of starting and ending added at both ends of each sequence."""
    ending = torch.ones(len(steps), dtype=torch.bool, device=unary.device)
    ending[steps.previous] = False
    last = ending.nonzero().squeeze(1)
    unary = unary.index_add(0, last, end.expand(len(last), -1))
    first = torch.arange(steps.starting, device=unary.device)
    return unary.index_add_(0, first, start.expand(len(first), -1))


def packed_steps(emissions: Tensor, mask: Tensor | None, batch_first: bool) -> Steps:
    """Where the positions that a mask keeps stand among all."""
    first, second = emissions.shape[:2]
    b, n = (first, second) if batch_first else (second, first)
    place = torch.arange(b * n, device=emissions.device)
    by_sequence = place.view(b, n) if batch_first else place.view(n, b).t()
    if mask is None:
        lengths = torch.full((b,), n, device=emissions.device)
        kept = by_sequence.flatten()
    else:
        inside = mask.bool() if batch_first else mask.bool().t()
        lengths, kept = inside.sum(dim=1), by_sequence[inside]
    steps = Steps.of(lengths)
    return replace(steps, source=kept[steps.source])


# What is lost: minus the log-likelihood, or a sum of local ones.


def minus_log_probability(packed: PackedChains, labels: Tensor) -> PerSequence:
    """Minus the log-probability of the labels of each sequence."""
    if labels.ndim == 1:
        return packed.log_partition(labels)
    bound = packed.restricted(labels).log_partition()
    if not bool((bound > -torch.inf).all()):
        sequence = int((bound == -torch.inf).int().argmax())
        raise DataError(f"sequence {sequence} has no tagging that labels and constraints allow.")
    return packed.log_partition() - bound


def lost_given_neighbours(packed: PackedChains, labels: Int[Tensor, " r"]) -> PerSequence:
    """Minus the sum of log P(tag | tags beside it)."""
    steps, table = packed.steps, packed.tables[0]
    later = torch.arange(steps.starting, len(steps), device=labels.device)
    scores = packed.unary.index_add(0, later, table[labels[steps.previous]])
    scores = scores.index_add_(0, steps.previous, table.t()[labels[steps.starting :]])
    return steps.totals(nn.functional.cross_entropy(scores, labels, reduction="none").double())


class PieceLoss(torch.autograd.Function):
    """Piecewise losses of chains, with the gradient that their kernels find beside the value."""

    @staticmethod
    def forward(
        ctx: Any, unary: Tensor, table: Tensor, labels: Tensor, steps: Steps, estimator: str
    ) -> Tensor:
        amount = torch.ones(len(steps), dtype=unary.dtype, device=unary.device)
        if estimator == "pw":
            found = chain_pieces.whole_pieces(unary, table, labels, steps, amount)
        else:
            sides = chain_pieces.sides(labels, steps, amount, unary.shape[1])
            found = chain_pieces.given_neighbours(unary, table, labels, *sides)
        ctx.single, ctx.pair = found.single, found.pair.to(unary.dtype)
        return found.value

    @staticmethod
    @once
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        weight = outputs[0].to(ctx.single.dtype)
        return ctx.single * weight, ctx.pair * weight, None, None, None
