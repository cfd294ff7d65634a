"""A linear-chain CRF as the last layer of a network: `ChainCRF`.

Gradients are marginals, from a forward and a backward recursion over packed chains.

Letters in shapes: b: sequences; n: positions; s: tags; r: rows (tokens that a mask keeps).
"""

from __future__ import annotations

from typing import Literal, final

import torch
from torch import Tensor, nn

from mrflearn.errors import DataError, SettingsError
from mrflearn.inference.spans import TransitionMask
from mrflearn.kernels.chain_sums import Steps
from mrflearn.nn.batches import (
    PackedChains,
    PieceLoss,
    Reduction,
    lost_given_neighbours,
    minus_log_probability,
    packed_steps,
    precise,
    reduced,
    with_ends,
)

ChainEstimator = Literal["ml", "pl", "pw", "pwpl"]


@final
class ChainCRF(nn.Module):
    """A linear-chain conditional random field over the tags of sequences.

    A drop-in for `torchcrf.CRF`: the same arguments, parameters and values, and `forward` is the
    log-likelihood, to be maximised.  Faster, and with any mask, partial labels, constraints,
    marginals, n best, samples, entropy, scores of single transitions, and second order.

    Parameters
    ----------
    num_tags
        The number of tags.
    batch_first
        Whether emissions are (batch, positions, tags) and not (positions, batch, tags).
    order
        1, or 2: each tag also meets the one two places before it.
    constraints
        Which tags may begin, follow each other and end, as `legal_chunks(tags, "IOB2")` gives
        them; all sums and searches are over what is legal.  None: anything is.

    Attributes
    ----------
    start_transitions, end_transitions
        Scores of the first and of the last tag of a sequence (tags).
    transitions
        Scores of a tag (row) followed by another (column) (tags, tags).
    second_transitions
        Of order 2: scores of a tag followed, two places later, by another (tags, tags).

    Notes
    -----
    Computations are in single precision at least, whatever autocast says.  Gradients are marginals,
    found by a recursion back; they cannot be differentiated again, and saying so raises.

    Examples
    --------
    >>> import torch
    >>> from mrflearn.nn import ChainCRF
    >>> crf = ChainCRF(5, batch_first=True)
    >>> emissions = torch.zeros(2, 3, 5, requires_grad=True)
    >>> tags = torch.tensor([[0, 1, 4], [2, 2, 0]])
    >>> mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    >>> loss = crf.loss(emissions, tags, mask, reduction="mean")
    >>> loss.backward()
    >>> [len(path) for path in crf.decode(emissions, mask)]
    [3, 2]

    """

    start_transitions: nn.Parameter
    end_transitions: nn.Parameter
    transitions: nn.Parameter
    _may_start: Tensor | None
    _may_move: Tensor
    _may_end: Tensor

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        order: int = 1,
        constraints: TransitionMask | None = None,
    ) -> None:
        if num_tags < 1:
            raise SettingsError(f"num_tags={num_tags}: a chain needs at least one tag.")
        if order not in (1, 2):
            raise SettingsError(f"order={order}: chains are of order 1 or 2.")
        super().__init__()
        self.num_tags, self.batch_first, self.order = num_tags, batch_first, order
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        if order == 2:
            self.second_transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        if constraints is not None and len(constraints.start) != num_tags:
            raise SettingsError(
                f"the constraints are for {len(constraints.start)} tags, and num_tags={num_tags}."
            )
        masks: tuple[Tensor | None, ...] = (None,) * 3
        if constraints is not None:
            masks = constraints.start, constraints.move, constraints.end
        for name, own in zip(("start", "move", "end"), masks, strict=True):
            self.register_buffer(f"_may_{name}", own, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters uniformly between -0.1 and 0.1."""
        for own in self.parameters():
            nn.init.uniform_(own, -0.1, 0.1)

    def legal_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of first tags, of steps and of last tags: -inf where constraints forbid them."""
        scores = self.start_transitions, self.transitions, self.end_transitions
        start, table, end = (
            own.to(torch.promote_types(own.dtype, torch.float32)) for own in scores
        )
        if self._may_start is None:
            return start, table, end
        return (
            start.masked_fill(~self._may_start, -torch.inf),
            table.masked_fill(~self._may_move, -torch.inf),
            end.masked_fill(~self._may_end, -torch.inf),
        )

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}, batch_first={self.batch_first}, order={self.order}"

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        transition_scores: Tensor | None = None,
    ) -> Tensor:
        """The log-likelihood of tags.

        Parameters
        ----------
        emissions
            Scores (positions, batch, tags), or (batch, positions, tags) if `batch_first`.
        tags
            The right tags (positions, batch); a negative one is unknown, and summed over.  Or, for
            ambiguous labels, booleans (positions, batch, tags): which tags each may be.
        mask
            Which positions belong to the sequences (positions, batch); None: all of them.
        reduction
            `"none"` (a number for each sequence), `"sum"`, `"mean"` (over sequences) or
            `"token_mean"`.
        transition_scores
            What the step from the position before into each position adds to `transitions`
            (positions, batch, tags, tags); those into first positions are not looked at.

        Returns
        -------
        Tensor
            In nats, of type float32, or float64 if the emissions are.

        """
        return -self._reduced("ml", emissions, tags, mask, reduction, transition_scores)

    def loss(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        transition_scores: Tensor | None = None,
        estimator: ChainEstimator = "ml",
    ) -> Tensor:
        """Minus the log-likelihood, or a local loss that is cheaper where tags are many.

        Parameters
        ----------
        emissions, tags, mask, reduction, transition_scores
            As in `forward`.
        estimator
            `"ml"`: exact.  Of all labels known, order 1 and shared transitions: `"pl"`
            (pseudolikelihood), `"pw"` (piecewise) and `"pwpl"` (piecewise pseudolikelihood), which
            costs a position no more than its tags.  Of `"pw"` and `"pwpl"` there are only sums and
            means, not `"none"`.

        Returns
        -------
        Tensor
            In nats.

        """
        return self._reduced(estimator, emissions, tags, mask, reduction, transition_scores)

    def log_prob(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        transition_scores: Tensor | None = None,
    ) -> Tensor:
        """The log-probability of the tags of each sequence (batch)."""
        return self.forward(emissions, tags, mask, "none", transition_scores)

    @precise
    @torch.no_grad()
    def decode(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        transition_scores: Tensor | None = None,
    ) -> list[list[int]]:
        """The best tags of each sequence, by Viterbi's algorithm, as lists."""
        packed = self._packed(emissions, mask, transition_scores)
        # Rows in the order of their sequences and positions.
        order = packed.steps.sequence * packed.shape[1] + packed.steps.position
        found = packed.best()[order.argsort()]
        return [own.tolist() for own in found.split(packed.steps.lengths.tolist())]

    @precise
    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        transition_scores: Tensor | None = None,
    ) -> Tensor:
        """The probability of each tag at each position, in the shape of the emissions.

        They are 0 where the mask is, and have no gradient.
        """
        packed = self._packed(emissions, mask, transition_scores)
        return packed.padded(packed.probabilities())

    @precise
    @torch.no_grad()
    def n_best(
        self,
        emissions: Tensor,
        n: int,
        mask: Tensor | None = None,
        transition_scores: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The `n` best taggings of each sequence, best first.

        Returns
        -------
        tuple of Tensor
            The tags (n, positions, batch), or (n, batch, positions) if `batch_first`, -1 where the
            mask is; and their log-probabilities (n, batch), -inf where a sequence has fewer.

        """
        if n < 1:
            raise SettingsError(f"n={n}: at least one tagging must be asked for.")
        packed = self._packed(emissions, mask, transition_scores)
        paths, scores = packed.n_best(n)
        share = scores - packed.log_partition()[:, None]
        # A sequence without any position has one tagging, the empty one.
        return packed.padded(paths, -1).movedim(-1, 0), share.t().to(packed.unary.dtype)

    @precise
    @torch.no_grad()
    def sample(
        self,
        emissions: Tensor,
        n: int = 1,
        mask: Tensor | None = None,
        transition_scores: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Independent draws of tags: (n, positions, batch), batch first if asked; -1 at masks."""
        packed = self._packed(emissions, mask, transition_scores)
        if generator is None:
            generator = torch.Generator(emissions.device)
            generator.manual_seed(int(torch.randint(2**62, ())))
        return packed.padded(packed.sample(n, generator).t(), -1).movedim(-1, 0)

    @precise
    @torch.no_grad()
    def entropy(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        transition_scores: Tensor | None = None,
    ) -> Tensor:
        """The entropy of the taggings of each sequence, in nats (batch); it has no gradient."""
        return self._packed(emissions, mask, transition_scores).entropy()

    @precise
    def log_partition(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        transition_scores: Tensor | None = None,
    ) -> Tensor:
        """log Z of each sequence (batch); differentiable."""
        packed = self._packed(emissions, mask, transition_scores)
        return packed.log_partition().to(packed.unary.dtype)

    def _packed(
        self, emissions: Tensor, mask: Tensor | None, transition_scores: Tensor | None
    ) -> PackedChains:
        """The scores of the positions that a mask keeps, with those of both ends."""
        self._check(emissions, mask, transition_scores)
        dtype = torch.promote_types(emissions.dtype, torch.float32)
        steps = packed_steps(emissions, mask, self.batch_first)
        unary = emissions.reshape(-1, self.num_tags).index_select(0, steps.source).to(dtype)
        start, end = self.start_transitions.to(dtype), self.end_transitions.to(dtype)
        table: Tensor = self.transitions.to(dtype)
        unary = with_ends(unary, steps, start, end)
        if transition_scores is not None:
            flat = transition_scores.reshape(-1, self.num_tags, self.num_tags)
            table = table + flat.index_select(0, steps.source[steps.starting :]).to(dtype)
        if self._may_start is not None:
            legal = TransitionMask(self._may_start, self._may_move, self._may_end)
            unary, table = legal.apply(unary, table, steps)
        tables: tuple[Tensor, ...] = (table,)
        if self.order == 2:
            tables = table, self.second_transitions.to(dtype)
        n, b = emissions.shape[:2]
        shape = (n, b) if self.batch_first else (b, n)
        return PackedChains(unary, tables, steps, shape, not self.batch_first)

    @precise
    def _reduced(
        self,
        estimator: ChainEstimator,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None,
        reduction: Reduction,
        transition_scores: Tensor | None,
    ) -> Tensor:
        packed = self._packed(emissions, mask, transition_scores)
        labels = self._labels(tags, emissions, packed.steps)
        if estimator == "ml":
            lost = minus_log_probability(packed, labels)
        else:
            lost = self._lost_locally(estimator, packed, labels, reduction)
        return reduced(
            lost.to(packed.unary.dtype), reduction, len(packed.steps), sequences=packed.shape[0]
        )

    def _lost_locally(
        self, estimator: str, packed: PackedChains, labels: Tensor, reduction: Reduction
    ) -> Tensor:
        """Local losses of known labels: of each sequence, or of pieces their sum."""
        if estimator not in ("pl", "pw", "pwpl"):
            raise SettingsError(
                f"estimator='{estimator}' is not one of 'ml', 'pl', 'pw', 'pwpl'. FactorGraphCRF "
                "has others."
            )
        if self.order > 1 or packed.tables[0].ndim > 2 or labels.ndim > 1:
            raise SettingsError(
                f"estimator='{estimator}' is for chains of order 1 with one table of transitions "
                "and all tags known; others are trained by 'ml'."
            )
        if estimator == "pl":
            return lost_given_neighbours(packed, labels)
        if reduction == "none":
            raise SettingsError(f"estimator='{estimator}' has sums and means alone, not 'none'.")
        table = packed.tables[0]
        given = packed.unary, table, labels, packed.steps, estimator
        value: Tensor = PieceLoss.apply(*given)  # type: ignore[no-untyped-call]
        return value

    def _labels(self, tags: Tensor, emissions: Tensor, steps: Steps) -> Tensor:
        """Known states of rows (r), or where some are not known those allowed (r s)."""
        wanted = emissions.shape if tags.dtype == torch.bool else emissions.shape[:2]
        if tags.shape != wanted:
            raise DataError(
                f"emissions of shape {tuple(emissions.shape)} need tags of shape "
                f"{tuple(emissions.shape[:2])} (or booleans of that of the emissions); these have "
                f"{tuple(tags.shape)}. Is batch_first={self.batch_first} right?"
            )
        if tags.dtype == torch.bool:
            rows = tags.reshape(-1, self.num_tags).index_select(0, steps.source)
            if not bool(rows.any(dim=1).all()):
                raise DataError("a position has no tag that it may have; mask it, or allow all.")
            return rows
        rows = tags.reshape(-1).index_select(0, steps.source).long()
        low, high = (int(own) for own in rows.aminmax()) if len(rows) else (0, 0)
        if high >= self.num_tags:
            raise DataError(f"tag {high} was given, and num_tags={self.num_tags}.")
        if low < 0:
            every = torch.arange(self.num_tags, device=rows.device)
            return (rows[:, None] == every) | (rows[:, None] < 0)
        if self._may_start is not None:
            self._check_legal(self._may_start, rows, steps)
        return rows

    def _check_legal(self, start: Tensor, rows: Tensor, steps: Steps) -> None:
        legal = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        legal[: steps.starting] = start[rows[: steps.starting]]
        legal[steps.starting :] = self._may_move[rows[steps.previous], rows[steps.starting :]]
        ending = torch.ones_like(legal)
        ending[steps.previous] = False
        legal &= ~ending | self._may_end[rows]
        if not bool(legal.all()):
            row = int((~legal).int().argmax())
            raise DataError(
                f"the tag {int(rows[row])} at position {int(steps.position[row])} (counted without "
                f"masked ones) of sequence {int(steps.sequence[row])} violates the constraints."
            )

    def _check(
        self, emissions: Tensor, mask: Tensor | None, transition_scores: Tensor | None
    ) -> None:
        shape = tuple(emissions.shape)
        if len(shape) != 3 or shape[2] != self.num_tags:
            raise DataError(
                f"emissions have three axes, the last of num_tags={self.num_tags} entries, not "
                f"shape {shape}."
            )
        if not emissions.is_floating_point():
            raise DataError(f"emissions are floating-point numbers, not {emissions.dtype}.")
        if mask is not None and tuple(mask.shape) != shape[:2]:
            raise DataError(
                f"emissions of shape {shape} need a mask of shape {shape[:2]}; this has "
                f"{tuple(mask.shape)}."
            )
        if transition_scores is not None:
            if tuple(transition_scores.shape) != (*shape, shape[2]):
                raise DataError(
                    f"transition_scores have shape {(*shape, shape[2])}, not "
                    f"{tuple(transition_scores.shape)}."
                )
            if self.order == 2:
                raise SettingsError("transition_scores are for order=1.")
