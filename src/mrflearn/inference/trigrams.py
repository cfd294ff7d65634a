"""The transfer matrix of the trigram field: log Z, marginals and the bound's certificate.

    T(xy, yz) = exp( score(x, y, z) ) = far~(x, z) near~(y, z) e^triple(x, y, z)

near~ = exp(unary + near) and far~ = exp(far) are C x C tables; triples are sparse.  So T times a
vector over windows is one product of matrices, and a sum over the triples:

    (T v)(x, y) = sum_z far~(x, z) [near~ * v](y, z) + sum_seen far~ near~ (e^triple - 1) v(y, z)

u^T T likewise.  At Perron vectors u and v the triples occur as u(x, y) T(xy, yz) v(y, z) / u^T T v:
their sums over x and over y are all that a gradient needs, for one more product.

A text that begins at a sentence boundary and ends there has Z = (T^N)(SS, SS), which is at most
hi^N for hi = max T v / v, whatever the positive vector v: from T v <= hi v follows T^N v <= hi^N v
[Collatz, Wielandt].  What comes after a word is not left open by it, either: the chain of windows

    p(z | x, y) = T(xy, yz) v(y, z) / (T v)(x, y)

is normalised for every v, and for Perron's it is the ring read from left to right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.trigrams import TrigramPotentials
from mrflearn.inference.lifted import LogPartitionBound
from mrflearn.inference.perron import certify

Table = Float[Tensor, "c c"]  # one number for each window of two words, or each pair
TOLERANCE = 1e-6  # of certificates
MOST_STEPS = 100
CHECKED = 64  # windows whose row of T is compared with the scores of text


def product(left: Table, right: Table) -> Table:
    """left right^T; on a GPU in float32 by its tensor cores, with factors of 11 bits.

    These read rows of both fastest, and to turn a table costs little beside a product.
    """
    if not left.is_cuda or left.dtype != torch.float32:
        return left @ right.T
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32
    flags.allow_tf32 = True
    try:
        return left.contiguous() @ right.contiguous().T
    finally:
        flags.allow_tf32 = before


class TrigramMarginals(NamedTuple):
    """How often things occur per position: pairs at both distances, and the triples with scores.

    Words that follow from the two before, which are separators, are not counted.
    """

    near: Table
    far: Table
    triples: Float[Tensor, " p"]


class Quotient(NamedTuple):
    """What two vectors say of T: log u^T T v / u^T v, and the vectors one power step on."""

    value: Float[Tensor, ""]
    marginals: TrigramMarginals
    left: Table
    right: Table


@final
@dataclass(frozen=True, eq=False)
class TrigramMatrix:
    """T by its tables; the row of `near` for the separator is 0, as windows (x, S) stand apart.

    From (S, S) a sentence begins: `begin` has T(SS, Sz), and `opened` the last words of the triples
    that begin so.  `codes` of the others have (x, y), (y, z) and (x, z) each as one number, and
    `extra` is far~ near~ (e^triple - 1); `inner` says which of the triples they are.
    """

    near: Table
    far: Table
    begin: Float[Tensor, " c"]
    opened: Int[Tensor, " q"]
    codes: Int[Tensor, "3 p"]
    extra: Float[Tensor, " p"]
    inner: Bool[Tensor, " t"]
    separator: int

    @classmethod
    def of(cls, scores: TrigramPotentials) -> TrigramMatrix:
        """The matrix of these scores."""
        return cls.of_tables(scores, scores.near.table().add_(scores.unary), scores.far.table())

    @classmethod
    def of_tables(cls, scores: TrigramPotentials, near: Table, far: Table) -> TrigramMatrix:
        """From the scores of pairs (near ones with those of words), which are overwritten."""
        size, edge, (triples, weights) = scores.states, scores.separator, scores.triples
        third, window = triples % size, triples // size
        first, second = window // size, window % size
        inner = second != edge
        opened = third[~inner]
        begin = near[edge] + far[edge]
        begin[opened] += weights[~inner]
        begin[edge] = -torch.inf
        near, far = near.exp_(), far.exp_()
        near[edge] = 0.0
        codes = torch.stack((window, second * size + third, first * size + third))[:, inner]
        base = near.view(-1)[codes[1]] * far.view(-1)[codes[2]]
        extra = base * torch.expm1(weights[inner])
        return cls(near, far, begin.exp_(), opened, codes, extra, inner, edge)

    @property
    def weights(self) -> Float[Tensor, " 1"]:
        """There is one matrix."""
        return self.begin.new_ones(1)

    def after(self, right: Table) -> Table:
        """T v."""
        return self._finish_right(product(self.far, self.near * right), right)

    def before(self, left: Table) -> Table:
        """T^T u."""
        return self._finish_left(product(left.T, self.far.T), left)

    def _finish_right(self, further: Table, right: Table) -> Table:
        window, ahead, _ = self.codes
        _add(further, window, self.extra * right.view(-1)[ahead])
        edge = self.separator
        further[:, edge] = right[edge, edge]
        further[edge, edge] = self.begin @ right[edge]
        return further

    def _finish_left(self, sums: Table, left: Table) -> Table:
        window, ahead, _ = self.codes
        further = sums.mul_(self.near)
        _add(further, ahead, self.extra * left.view(-1)[window])
        edge = self.separator
        further[edge] = left[edge, edge] * self.begin
        further[edge, edge] = left[:, edge].sum() - left[edge, edge]
        return further

    def right_step(self, right: Float[Tensor, "1 w"]) -> tuple[Tensor, Tensor]:
        """log (T v), for `certify`; from below -inf where a sum is out of range."""
        top = right.amax()
        vector = (right - top).exp_().view(len(self.begin), -1)
        further = self.after(vector).view(1, -1)
        if float(further.amin()) > 0:
            onward = further.log_().add_(top)
            return onward, onward
        below = further.log().add_(top)
        return further.clamp_min_(torch.finfo(further.dtype).tiny).log_().add_(top), below

    def quotient(self, left: Table, right: Table) -> Quotient:
        """The value at two positive vectors with the marginals, which are its gradient."""
        window, ahead, across = self.codes
        edge = self.separator
        weighted = self.near * right
        onward = product(self.far, weighted)
        back = product(left.T, self.far.T)
        met = product(left, weighted.T)
        ends = left.view(-1)[window] * right.view(-1)[ahead]
        more = self.extra * ends
        base = self.near.view(-1)[ahead] * self.far.view(-1)[across] * ends
        opening = left[edge, edge] * self.begin * right[edge]
        near, far = weighted.mul_(back), met.mul_(self.far)
        _add(near, ahead, more)
        _add(far, across, more)
        near[edge] = opening
        far[edge] += opening
        closing = (left[:, edge].sum() - left[edge, edge]) * right[edge, edge]
        total = near.sum(1).sum(dtype=torch.float64) + closing
        share = total.reciprocal().to(near)
        triples = self.begin.new_empty(len(self.inner))
        triples[self.inner] = (base + more) * share
        triples[~self.inner] = opening[self.opened] * share
        marginals = TrigramMarginals(near.mul_(share), far.mul_(share), triples)
        value = total.log() - (left * right).sum(1).sum(dtype=torch.float64).log()
        onward, back = self._finish_right(onward, right), self._finish_left(back, left)
        return Quotient(value, marginals, scaled(back), scaled(onward))

    def follow(self, left: Table, right: Table, most: int, tolerance: float) -> tuple[Table, Table]:
        """Vectors after as many power steps as they still move by, at most so many.

        Every other step is with T + lambda: texts of equally long sentences go round in circles.
        """
        for step in range(most):
            onward, back = scaled(self.after(right)), scaled(self.before(left))
            moved = float((onward - right).abs().amax()) + float((back - left).abs().amax())
            if step % 2:
                onward, back = (onward + right) / 2, (back + left) / 2
            left, right = back, onward
            if moved <= tolerance:
                break
        return left, right


def _add(table: Table, places: Int[Tensor, " p"], amounts: Float[Tensor, " p"]) -> None:
    """Adds to a table at places that may repeat, in an order that is always the same."""
    table.view(-1).index_put_((places,), amounts, accumulate=True)


def scaled(vector: Table) -> Table:
    """The same direction with a largest entry of 1; it stays positive."""
    return vector.div_(vector.amax()).clamp_min_(torch.finfo(vector.dtype).tiny)


MANY_STEPS, STILL = 60, 1e-5  # of vectors that are found from scratch


@torch.no_grad()
def trigram_marginals(scores: TrigramPotentials) -> TrigramMarginals:
    """How often the field has each pair and each triple with a score of its own."""
    matrix = TrigramMatrix.of(scores)
    ones = torch.ones_like(matrix.near)
    return matrix.quotient(*matrix.follow(ones, ones, MANY_STEPS, STILL)).marginals


# Proof.


class Proven(NamedTuple):
    """The bound on log Z / N, and the positive vector that proves it."""

    bound: LogPartitionBound
    right: Table


@torch.no_grad()
def certified(scores: TrigramPotentials, start: Table | None = None) -> Proven:
    """A bound on log Z / N of texts between sentence boundaries, in double precision."""
    scores = scores.double()
    matrix = TrigramMatrix.of(scores)
    begin = torch.ones_like(matrix.near) if start is None else start.to(matrix.near)
    check_rows(scores, matrix, begin)
    found = certify(matrix, begin.log().view(1, -1), tolerance=TOLERANCE, most=MOST_STEPS)
    bound = LogPartitionBound(found.upper, found.upper - found.lower)
    return Proven(bound, (found.right - found.right.amax()).exp_().view_as(begin))


def check_rows(scores: TrigramPotentials, matrix: TrigramMatrix, right: Table) -> None:
    """Raises `InferenceError` unless some rows of T are those that text is scored by."""
    size, edge = scores.states, scores.separator
    seen = scores.triples.codes // size
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randint(size**2, (CHECKED,), generator=generator)]
    if len(seen):
        parts.append(seen[torch.randint(len(seen), (CHECKED,), generator=generator)].cpu())
    window = torch.cat([*parts, torch.tensor([edge * (size + 1)])]).to(right.device)
    first, second = window // size, window % size
    sums = (scores.next_scores(first, second).exp() * right[second]).sum(1)
    apart = float((matrix.after(right)[first, second] / sums - 1).abs().amax())
    if not apart <= math.sqrt(torch.finfo(right.dtype).eps):
        raise InferenceError(
            f"the matrix of the bound and the scores of text differ by {apart:.1e}, relative: the "
            "bound would not hold. Are the scores finite?"
        )


# Text from left to right.


@torch.no_grad()
def perron_vector(scores: TrigramPotentials) -> Table:
    """The right Perron vector: what the text after each window weighs, relative to the largest."""
    matrix = TrigramMatrix.of(scores)
    right = torch.ones_like(matrix.near)
    for step in range(MANY_STEPS):
        onward = scaled(matrix.after(right))
        moved = float((onward - right).abs().amax())
        right = (onward + right) / 2 if step % 2 else onward
        if moved <= STILL:
            break
    return right


def next_log_probabilities(
    scores: TrigramPotentials, right: Table, first: Int[Tensor, " n"], second: Int[Tensor, " n"]
) -> Float[Tensor, "n c"]:
    """log p(z | x, y) of every word after each window, what may come later summed out."""
    return (scores.next_scores(first, second) + right[second].log()).log_softmax(1)


@torch.no_grad()
def draw_sentences(
    scores: TrigramPotentials, right: Table, n: int, longest: int, generator: torch.Generator
) -> list[list[int]]:
    """Independent sentences, word by word; those longer than `longest` are cut there."""
    edge, device = scores.separator, right.device
    lines = torch.full((n, 2), edge, device=device)
    going = torch.arange(n, device=device)
    drawn: list[list[int]] = [[] for _ in range(n)]
    for _ in range(longest):
        chances = next_log_probabilities(scores, right, *lines[going].unbind(1)).exp()
        word = torch.multinomial(chances, 1, generator=generator).squeeze(1)
        lines[going] = torch.stack((lines[going, 1], word), 1)
        kept = word != edge
        going, word = going[kept], word[kept]
        for line, own in zip(going.tolist(), word.tolist(), strict=True):
            drawn[line].append(own)
        if not len(going):
            break
    return drawn
