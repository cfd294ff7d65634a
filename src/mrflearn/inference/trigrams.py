"""The transfer matrix of the trigram field: log Z, marginals and the bound's certificate.

    T(xy, yz) = exp( score(x, y, z) ) = far~(x, z) near~(y, z) e^triple(x, y, z)

near~ = exp(unary + near) and far~ = exp(far) are C x C tables; triples are sparse.  So T times a
vector over windows is one product of matrices, and a sum over the triples:

    (T v)(x, y) = sum_z far~(x, z) [near~ * v](y, z) + sum_seen far~ near~ (e^triple - 1) v(y, z)

u^T T likewise.  At Perron vectors u and v the triples occur as u(x, y) T(xy, yz) v(y, z) / u^T T v:
their sums over x and over y are all that a gradient needs, for one more product.

Longer n-grams with scores of their own make T a matrix over more states: a window, or the longest
listed n-gram (of order 3 and up, but for the highest) that a text ends with.  A vector over them
is flat: first C x C windows, then the n-grams of order 3, and so on.  After an n-gram e and after
its last words s a word z differs only where e z is listed:

    (T v)(e) = (T v)(s) + sum_listed w(e z) v(e z) - w(s z) v(s z)

for the products w of all factors of z.  A left vector u has at each state all that ends with its
words, longer states included, so that no window is a difference of large sums.  What is dense is
the same three products; all else goes over lists of n-grams.

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
from mrflearn.graph.trigrams import SparseScores, TrigramPotentials
from mrflearn.inference.lifted import LogPartitionBound
from mrflearn.inference.perron import certify

Table = Float[Tensor, "c c"]  # one number for each window of two words, or each pair
States = Float[Tensor, " w"]  # one for each state: windows, then listed n-grams by order
FEW = 1e-3  # of the texts that end with a window: how many do so with a listed n-gram
TOLERANCE = 1e-6  # of certificates
MOST_STEPS = 100
CHECKED = 64  # windows whose row of T is compared with the scores of text


def product(left: Table, right: Table, *, rounded: bool = False) -> Table:
    """left right^T; on a GPU in float32 by its tensor cores, with factors of 11 bits.

    These read rows of both fastest, and to turn a table costs little beside a product.  Rounded,
    factors and sums have 8 bits on a CPU, whose own instructions for that take a quarter of the
    time.
    """
    if not left.is_cuda and rounded:
        return (left.bfloat16() @ right.bfloat16().T).to(left.dtype)
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
    """How often things occur per position: pairs at both distances, and what has scores.

    Words that follow from the two before, which are separators, are not counted.
    """

    near: Table
    far: Table
    triples: Float[Tensor, " p"]
    longer: tuple[Float[Tensor, " q"], ...] = ()

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """One after the other."""
        return (self.near, self.far, self.triples, *self.longer)


class Quotient(NamedTuple):
    """What two vectors say of T: log u^T T v / u^T v, and the vectors one power step on."""

    value: Float[Tensor, ""]
    marginals: TrigramMarginals
    left: States
    right: States


class Listed(NamedTuple):
    """Longer n-grams of one order: where their first and last words stand in the order below.

    `base` is what their last words have as factors, `extra` = base (e^score - 1) what they add.
    """

    context: Int[Tensor, " p"]
    suffix: Int[Tensor, " p"]
    base: Float[Tensor, " p"]
    extra: Float[Tensor, " p"]

    def sums(self, amounts: Float[Tensor, " p"], below: int) -> Float[Tensor, " q"]:
        """Amounts added up over the n-grams with the same last words."""
        return _added(amounts.new_zeros(below), self.suffix, amounts)


def first_vectors(scores: TrigramPotentials) -> tuple[States, States]:
    """Where power steps from both sides begin; few texts end with an n-gram, all with a window."""
    windows, lists = scores.states**2, _state_counts(scores)
    left = scores.unary.new_full((windows + sum(lists),), FEW)
    left[:windows] = 1.0
    return left, torch.ones_like(left)


def _state_counts(scores: TrigramPotentials) -> list[int]:
    """How many n-grams of each order are states."""
    if not scores.longer:
        return []
    inner = scores.triples.codes // scores.states % scores.states != scores.separator
    return [int(inner.sum()), *(len(own.codes) for own in scores.longer[:-1])]


@final
@dataclass(frozen=True, eq=False)
class TrigramMatrix:
    """T by its tables; the row of `near` for the separator is 0, as windows (x, S) stand apart.

    From (S, S) a sentence begins: `begin` has T(SS, Sz), and `opened` the last words of the triples
    that begin so.  `codes` of the others have (x, y), (y, z) and (x, z) each as one number, `base`
    is far~ near~ and `extra` is base (e^triple - 1); `inner` says which of the triples they are.
    """

    near: Table
    far: Table
    begin: Float[Tensor, " c"]
    opened: Int[Tensor, " q"]
    codes: Int[Tensor, "3 p"]
    base: Float[Tensor, " p"]
    extra: Float[Tensor, " p"]
    inner: Bool[Tensor, " t"]
    separator: int
    longer: tuple[Listed, ...] = ()
    rounded: bool = False

    @classmethod
    def of(cls, scores: TrigramPotentials) -> TrigramMatrix:
        """The matrix of these scores."""
        return cls.of_tables(scores, scores.near.table().add_(scores.unary), scores.far.table())

    @classmethod
    def of_tables(
        cls, scores: TrigramPotentials, near: Table, far: Table, *, rounded: bool = False
    ) -> TrigramMatrix:
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
        longer, place, below = [], inner.cumsum(0) - 1, base + extra
        for own in scores.longer:
            context, suffix = place[own.codes // size], place[own.suffix]
            more = below[suffix] * torch.expm1(own.weights)
            longer.append(Listed(context, suffix, below[suffix], more))
            place, below = torch.arange(len(more), device=more.device), below[suffix] + more
        lists = tuple(longer)
        rows = near, far, begin.exp_()
        return cls(*rows, opened, codes, base, extra, inner, edge, lists, rounded)

    @property
    def weights(self) -> Float[Tensor, " 1"]:
        """There is one matrix."""
        return self.begin.new_ones(1)

    def parts(self, vector: States) -> list[Tensor]:
        """The windows of a vector as a table, and its n-grams by order."""
        size = len(self.begin)
        if not self.longer:
            return [vector.view(size, size)]
        sizes = [len(self.base), *(len(own.base) for own in self.longer[:-1])]
        table, *states = vector.split([size**2, *sizes])
        return [table.view(size, size), *states]

    def _product(self, left: Table, right: Table) -> Table:
        return product(left, right, rounded=self.rounded)

    def after(self, right: States) -> States:
        """T v."""
        table, *_ = self.parts(right)
        return self._finish_right(self._product(self.far, self.near * table), right)

    def before(self, left: States) -> States:
        """T^T u."""
        table, *_ = self.parts(left)
        return self._finish_left(self._product(table.T, self.far.T), left, *self._flows(left))

    def _ahead(self, right: States) -> list[Tensor]:
        """What comes after each listed n-gram, by order."""
        table, *states = self.parts(right)
        last = self.longer[-1].suffix if self.longer else self.codes[1]
        return [*states, (states[-1] if states else table.view(-1))[last]]

    def _finish_right(self, further: Table, right: States) -> States:
        (window, shorter, _), edge = self.codes, self.separator
        table, *_ = self.parts(right)
        ahead = self._ahead(right)
        gain = self.extra * ahead[0]
        if self.longer:
            gain += self.base * (ahead[0] - table.view(-1)[shorter])
        _added(further, window, gain)
        further[:, edge] = table[edge, edge]
        further[edge, edge] = self.begin @ table[edge]
        found, own = [further.view(-1)], further.view(-1)
        for k, listed in enumerate(self.longer):
            gain = listed.extra * ahead[k + 1]
            gain += listed.base * (ahead[k + 1] - ahead[k][listed.suffix])
            own = _added(own[shorter], listed.context, gain)
            found.append(own)
            shorter = listed.suffix
        return torch.cat(found) if self.longer else found[0]

    def _flows(self, left: States) -> tuple[list[Tensor], list[Tensor]]:
        """By order: the flow through each listed n-gram, and what lists add to that of its words.

        The latter is relative to what its first words would give it without longer ones.
        """
        table, *states = self.parts(left)
        masses = [table.view(-1)[self.codes[0]]]
        masses += [own[listed.context] for own, listed in zip(states, self.longer, strict=True)]
        whole, gains = [], []
        more = torch.zeros_like(masses[-1])
        for k in range(len(self.longer), -1, -1):
            listed = self.longer[k - 1] if k else self
            gain = masses[k] * listed.extra + more
            whole.append(masses[k] * listed.base + gain)
            gains.append(gain)
            if k:
                more = self.longer[k - 1].sums(gain, len(masses[k - 1]))
        return whole[::-1], gains[::-1]

    def _finish_left(
        self, sums: Table, left: States, flows: list[Tensor], gains: list[Tensor]
    ) -> States:
        table, *_ = self.parts(left)
        further = _added(sums.mul_(self.near), self.codes[1], gains[0])
        edge = self.separator
        further[edge] = table[edge, edge] * self.begin
        further[edge, edge] = table[:, edge].sum() - table[edge, edge]
        return torch.cat([further.view(-1), *flows[:-1]]) if self.longer else further.view(-1)

    def right_step(self, right: Float[Tensor, "1 w"]) -> tuple[Tensor, Tensor]:
        """log (T v), for `certify`; from below -inf where a sum is out of range."""
        top = right.amax()
        further = self.after((right - top).exp_().view(-1)).view(1, -1)
        if float(further.amin()) > 0:
            onward = further.log_().add_(top)
            return onward, onward
        below = further.log().add_(top)
        return further.clamp_min_(torch.finfo(further.dtype).tiny).log_().add_(top), below

    def quotient(self, left: States, right: States) -> Quotient:
        """The value at two positive vectors with the marginals, which are its gradient."""
        (_, shorter, across), edge = self.codes, self.separator
        (before, *masses), (after, *states) = self.parts(left), self.parts(right)
        weighted = self.near * after
        onward = self._product(self.far, weighted)
        back = self._product(before.T, self.far.T)
        met = self._product(before, weighted.T)
        flows, gains = self._flows(left)
        listed = self._shares(flows, self._ahead(right))
        # What pairs of words have beyond the products.
        below = after.view(-1)[shorter]
        more = gains[0] * below + (listed[0] - flows[0] * below)
        opening = before[edge, edge] * self.begin * after[edge]
        overlap = (before * after).sum(1).sum(dtype=torch.float64)
        for k, (mass, own) in enumerate(zip(masses, states, strict=True)):
            overlap += (mass * (own - below)).sum(dtype=torch.float64)
            below = own[self.longer[k].suffix]
        near, far = weighted.mul_(back), met.mul_(self.far)
        _added(near, shorter, more)
        _added(far, across, more)
        near[edge] = opening
        far[edge] += opening
        closing = (before[:, edge].sum() - before[edge, edge]) * after[edge, edge]
        total = near.sum(1).sum(dtype=torch.float64) + closing
        share = total.reciprocal().to(near)
        triples = self.begin.new_empty(len(self.inner))
        triples[self.inner] = listed[0] * share
        triples[~self.inner] = opening[self.opened] * share
        longer = tuple(own * share for own in listed[1:])
        marginals = TrigramMarginals(near.mul_(share), far.mul_(share), triples, longer)
        onward = self._finish_right(onward, right)
        back = self._finish_left(back, left, flows, gains)
        return Quotient(total.log() - overlap.log(), marginals, scaled(back), scaled(onward))

    def _shares(self, flows: list[Tensor], ahead: list[Tensor]) -> list[Tensor]:
        """By order: how much goes through each listed n-gram and on from there."""
        found, more = [], torch.zeros_like(flows[-1])
        for k in range(len(flows) - 1, -1, -1):
            found.append(flows[k] * ahead[k] + more)
            if k:
                listed = self.longer[k - 1]
                more = more + flows[k] * (ahead[k] - ahead[k - 1][listed.suffix])
                more = listed.sums(more, len(flows[k - 1]))
        return found[::-1]

    def follow(
        self, left: States, right: States, most: int, tolerance: float
    ) -> tuple[States, States]:
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


def _added(sums: Tensor, places: Int[Tensor, " p"], amounts: Float[Tensor, " p"]) -> Tensor:
    """Adds at places that may repeat, in an order that is always the same."""
    sums.view(-1).index_put_((places,), amounts, accumulate=True)
    return sums


def scaled(vector: States) -> States:
    """The same direction with a largest entry of 1; it stays positive."""
    return vector.div_(vector.amax()).clamp_min_(torch.finfo(vector.dtype).tiny)


MANY_STEPS, STILL = 60, 1e-5  # of vectors that are found from scratch


@torch.no_grad()
def trigram_marginals(scores: TrigramPotentials) -> TrigramMarginals:
    """How often the field has each pair and each triple with a score of its own."""
    matrix = TrigramMatrix.of(scores)
    start = first_vectors(scores)
    return matrix.quotient(*matrix.follow(*start, MANY_STEPS, STILL)).marginals


# Proof.


class Proven(NamedTuple):
    """The bound on log Z / N, and the positive vector that proves it."""

    bound: LogPartitionBound
    right: States


@torch.no_grad()
def certified(scores: TrigramPotentials, start: States | None = None) -> Proven:
    """A bound on log Z / N of texts between sentence boundaries, in double precision."""
    scores = scores.double()
    matrix = TrigramMatrix.of(scores)
    begin = first_vectors(scores)[1] if start is None else start.to(matrix.near)
    check_rows(scores, matrix, begin)
    found = certify(matrix, begin.log().view(1, -1), tolerance=TOLERANCE, most=MOST_STEPS)
    bound = LogPartitionBound(found.upper, found.upper - found.lower)
    return Proven(bound, (found.right - found.right.amax()).exp_().view(-1))


def check_rows(scores: TrigramPotentials, matrix: TrigramMatrix, right: States) -> None:
    """Raises `InferenceError` unless some rows of T are those that text is scored by."""
    size, edge = scores.states, scores.separator
    generator = torch.Generator().manual_seed(0)

    def some(count: int) -> Tensor:
        return torch.randint(count, (CHECKED,), generator=generator).to(right.device)

    windows = [some(size**2), torch.tensor([edge * (size + 1)], device=right.device)]
    if len(scores.triples.codes):
        windows.append(scores.triples.codes[some(len(scores.triples.codes))] // size)
    window = torch.cat(windows)
    rows = [(torch.stack((window // size, window % size), 1), window)]
    first, inner = size**2, matrix.inner.nonzero().squeeze(1)
    words = scores.triples.codes[inner]
    words = torch.stack((words // size**2, words // size % size, words % size), 1)
    for own, listed in zip(scores.longer, matrix.longer, strict=True):
        if not len(own.codes):
            break
        # Contexts of n-grams, which are states themselves.
        chosen = listed.context[some(len(listed.context))]
        rows.append((words[chosen], first + chosen))
        first += len(words)
        words = torch.cat((words[listed.context], (own.codes % size).unsqueeze(1)), 1)
    after, apart = matrix.after(right), 0.0
    for history, place in rows:
        values = values_after(scores, right, history)
        sums = (scores.next_scores(history).exp() * values).sum(1)
        apart = max(apart, float((after[place] / sums - 1).abs().amax()))
    if not apart <= math.sqrt(torch.finfo(right.dtype).eps):
        raise InferenceError(
            f"the matrix of the bound and the scores of text differ by {apart:.1e}, relative: the "
            "bound would not hold. Are the scores finite?"
        )


# Text from left to right.


@torch.no_grad()
def perron_vector(scores: TrigramPotentials) -> States:
    """The right Perron vector: what the text after each state weighs, relative to the largest."""
    matrix, right = TrigramMatrix.of(scores), first_vectors(scores)[1]
    for step in range(MANY_STEPS):
        onward = scaled(matrix.after(right))
        moved = float((onward - right).abs().amax())
        right = (onward + right) / 2 if step % 2 else onward
        if moved <= STILL:
            break
    return right


def values_after(
    scores: TrigramPotentials, right: States, history: Int[Tensor, "n k"]
) -> Float[Tensor, "n c"]:
    """The entries of a vector at the states that each next word leads to."""
    size = scores.states
    windows, *lists = right.split([size**2, *_state_counts(scores)])
    values: Tensor = windows.view(size, size)[history[:, -1]]
    if not lists:
        return values
    triples = scores.triples.codes
    listed = torch.zeros_like(triples, dtype=right.dtype)
    inner = triples // size % size != scores.separator
    listed[inner] = lists[0]
    # Those that begin a sentence are no states of their own.
    listed[~inner] = windows[triples[~inner] % size**2]
    SparseScores(triples, listed).put_into(values, history[:, -2] * size + history[:, -1])
    for own, entries, places in zip(scores.longer, lists[1:], scores.places(history), strict=False):
        if places.shape[1]:
            SparseScores(own.codes, entries).put_into(values, places[:, -1])
    return values


def next_log_probabilities(
    scores: TrigramPotentials, right: States, history: Int[Tensor, "n k"]
) -> Float[Tensor, "n c"]:
    """log p(z | history) of every word after each history, what may come later summed out."""
    later = values_after(scores, right, history).log()
    found: Tensor = (scores.next_scores(history) + later).log_softmax(1)
    return found


@torch.no_grad()
def draw_sentences(
    scores: TrigramPotentials, right: States, n: int, longest: int, generator: torch.Generator
) -> list[list[int]]:
    """Independent sentences, word by word; those longer than `longest` are cut there."""
    edge, device = scores.separator, right.device
    lines = torch.full((n, scores.offsets), edge, device=device)
    going = torch.arange(n, device=device)
    drawn: list[list[int]] = [[] for _ in range(n)]
    for _ in range(longest):
        chances = next_log_probabilities(scores, right, lines[going]).exp()
        word = torch.multinomial(chances, 1, generator=generator)
        lines[going] = torch.cat((lines[going, 1:], word), 1)
        word = word.squeeze(1)
        kept = word != edge
        going, word = going[kept], word[kept]
        for line, own in zip(going.tolist(), word.tolist(), strict=True):
            drawn[line].append(own)
        if not len(going):
            break
    return drawn
