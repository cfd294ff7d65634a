"""Upper bounds on log Z of the joint tagger, and exact inference of its sentences.

By convexity log Z <= sum_f rho_f log Z_f for weights rho of sum 1.  Every subfield keeps the whole
chain of tags and some of the places at which tags see words; a place that is in several subfields
is divided by the sum of their weights.  Given the tags, words are independent, so they are summed
out first; what remains is a chain of tags in which three in a row meet:

    table_f(a, b, c) = log sum_w exp( right(a, w) + centre(b, w) + left(c, w) )
                       + transition_1(b, c) + transition_2(a, c)

A ring of N tags has the partition function trace(M^N) <= states * lambda^N.  With all places in
one subfield nothing is divided, and the bound is exact up to log(states) / N.

A table scores three tags in a row.  Pairs of tags are then the states of a chain of the first
order, whose matrix leads from (a, b) to (b, c) alone; its largest eigenvalue lambda says how much
a ring's partition function grows with each position, and its Perron vectors how often each triple
occurs.  The matrix is never held: a step costs T^3.

[Jernite, Rush, Sontag 2015, section 6, Figure 7]  A star is a tag with its K right tags and its L
words.  Centres stand s = max(K + 1, L) apart, so that s forests hold every edge once; the tags and
words between two stars are isolated nodes of the forest, and count.

Given the words a joint field is a chain of tags.  Separators around a sentence are known, so what
they say becomes part of the scores of its first and last tags.
Letters in shapes: n: tokens, sentences end to end; t: tags with the separator; s: tags without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.lifted_scores import CENTRE, LEFT, RIGHT, SEPARATOR, TagScores
from mrflearn.kernels import chain_search, chain_sums, second_order
from mrflearn.kernels import second_order as second_order_sums
from mrflearn.kernels.chain_sums import Steps
from mrflearn.kernels.word_sums import sum_out_words

# An upper bound on log Z of the field of a tagged text, from subfields that are chains of tags.


ChainName = Literal["exact", "chains"]
MOST_DISTANCES = 2


class Subfield(NamedTuple):
    """A chain of tags with the words at some places, and its weight in the mixture."""

    places: tuple[int, ...]
    weight: float


def subfields(bound: ChainName, places: Sequence[int]) -> tuple[Subfield, ...]:
    """The mixture: all places in one subfield, or the centre with each of the others in turn."""
    others = [place for place in places if place != CENTRE]
    if bound == "exact" or len(others) < 2:
        return (Subfield(tuple(places), 1.0),)
    return tuple(Subfield((CENTRE, place), 1 / len(others)) for place in others)


def shares(parts: Sequence[Subfield]) -> dict[int, float]:
    """For each place the weight of all subfields that have it."""
    places = {place for part in parts for place in part.places}
    return {p: sum(part.weight for part in parts if p in part.places) for p in places}


def chain_table(
    scores: TagScores,
    part: Subfield,
    share: dict[int, float],
    tag_dual: Float[Tensor, " t"],
    word_dual: Float[Tensor, " w"],
) -> Float[Tensor, "#t t t"]:
    """Scores of three tags in a row, words summed out; the first is not there if nothing asks."""
    if len(scores.transitions) > MOST_DISTANCES:
        raise InferenceError(
            f"chains bind tags up to {MOST_DISTANCES} apart, not {len(scores.transitions)}; "
            "stars take any distance."
        )
    nothing = scores.words[CENTRE].new_zeros(scores.vocabulary, 1)
    seen = {p: scores.words[p] / share[p] if p in part.places else nothing for p in share}
    # The tag before a word sees it at its right.
    before, at, after = seen.get(RIGHT, nothing), seen[CENTRE], seen.get(LEFT, nothing)
    table = sum_out_words(before, at + word_dual.to(at).unsqueeze(1), after).double()
    table = table + tag_dual.double().unsqueeze(1) + scores.transitions[0].double()
    if len(scores.transitions) > 1:
        table = table + scores.transitions[1].double().unsqueeze(1)
    return table


def ring_excess(table: Float[Tensor, "#t t t"]) -> float:
    """What a ring adds to N log lambda, at most: the log of the number of the chain's states."""
    tags = table.shape[1]
    return math.log(tags) if table.shape[0] == 1 else 2 * math.log(tags)


def widened(table: Float[Tensor, "#t t t"]) -> Float[Tensor, "t t t"]:
    """The same table with its first tag, whether it matters or not."""
    return table.expand(table.shape[1], -1, -1)


def balanced(free: Float[Tensor, "f x"], multiplicity: Sequence[float]) -> Float[Tensor, "f+1 x"]:
    """Duals of all copies of a node: the last is such that their weighted sum is 0."""
    weights = torch.tensor(multiplicity, dtype=free.dtype, device=free.device)
    last = -(weights[:-1] @ free) / weights[-1]
    return torch.cat([free, last.unsqueeze(0)])


# The growth of a chain of tags in which each position is bound to the next two.


MOST_STEPS = 200
TOLERANCE = 1e-10  # of a vector of sum 1; the quotient errs by its square
SMALLEST = 1e-200


@final
@dataclass(frozen=True, eq=False)
class PairVectors:
    """Left and right Perron vectors over pairs of tags, or what power steps have for them."""

    left: Float[Tensor, "t t"]
    right: Float[Tensor, "t t"]

    @classmethod
    def even(cls, tags: int, device: torch.device) -> PairVectors:
        same = torch.full((tags, tags), tags**-2.0, dtype=torch.float64, device=device)
        return cls(same, same)


@torch.no_grad()
def power_steps(table: Float[Tensor, "t t t"], start: PairVectors) -> PairVectors:
    """Vectors after as many steps as they still move by."""
    weights = (table - table.amax()).exp()
    left, right = start.left, start.right
    for step in range(MOST_STEPS):
        before = left, right
        right = _normalised(_onward(weights, right))
        left = _normalised(torch.einsum("abc,ab->bc", weights, left))
        if float((right - before[1]).abs().amax()) <= TOLERANCE:
            break
        if step % 2:  # with M + lambda: no matrix goes round in circles
            left, right = (left + before[0]) / 2, (right + before[1]) / 2
    return PairVectors(left, right)


def log_growth(table: Float[Tensor, "t t t"], vectors: PairVectors) -> Float[Tensor, ""]:
    """log lambda as log (u' M v / u' v); its gradient is how often each triple occurs."""
    ends = vectors.left.log().unsqueeze(2) + vectors.right.log()
    return torch.logsumexp((table + ends).flatten(), 0) - (vectors.left * vectors.right).sum().log()


@torch.no_grad()
def growth_limits(
    table: Float[Tensor, "t t t"], start: PairVectors, tolerance: float = 1e-9, most: int = 500
) -> tuple[float, float]:
    """Proven limits of log lambda.

    [Collatz, Wielandt] lambda <= max (M v) / v for any positive v, and min (M v) / v below it.
    """
    top = table.amax()
    weights = (table - top).exp()
    right, lower, upper = start.right, -math.inf, math.inf
    for step in range(most):
        right = right.clamp_min(SMALLEST)
        after = _onward(weights, right)
        growth = after / right
        lower, upper = max(lower, float(growth.amin())), min(upper, float(growth.amax()))
        if upper <= lower * (1 + tolerance):
            break
        # Every other step is with M + lambda, as in `power_steps`.
        right = _normalised(after + upper * right if step % 2 else after)
    shift = float(top)
    return (math.log(lower) if lower > 0 else -math.inf) + shift, math.log(upper) + shift


def _onward(weights: Tensor, right: Tensor) -> Float[Tensor, "t t"]:
    return torch.einsum("abc,bc->ab", weights, right)


def _normalised(vector: Tensor) -> Tensor:
    return vector / vector.sum()


# An upper bound on log Z of the field of a tagged text from a covering by stars.


def star_spacing(distances: int, places: int) -> int:
    """s: how far apart the centres of stars stand; N must be a multiple of it."""
    return max(distances + 1, places)


def tag_copies(distances: int, places: int) -> list[float]:
    """How many forests a tag is a leaf in, for each distance, isolated (if at all), a centre."""
    return [*_copies(distances, star_spacing(distances, places) - distances - 1), 1.0]


def word_copies(distances: int, places: int) -> list[float]:
    """How many forests a word is a leaf in, for each place, and isolated (if at all)."""
    return _copies(places, star_spacing(distances, places) - places)


def star_log_partition(
    scores: TagScores, tag_duals: Float[Tensor, "f t"], word_duals: Float[Tensor, "g w"]
) -> Float[Tensor, ""]:
    """An upper bound on log Z / N, whatever the duals; jointly convex in all scores."""
    distances, places = len(scores.transitions), len(scores.words)
    spacing = star_spacing(distances, places)
    of_tags = balanced(tag_duals, tag_copies(distances, places))
    of_words = balanced(word_duals, word_copies(distances, places))
    star = of_tags[-1]
    for table, dual in zip(scores.transitions, of_tags, strict=False):
        star = star + torch.logsumexp(spacing * table + dual, dim=1)
    for table, dual in zip(scores.words.values(), of_words, strict=False):
        star = star + torch.logsumexp(spacing * table + dual.unsqueeze(1), dim=0)
    total = torch.logsumexp(star, 0)
    total = total + _isolated(of_tags[distances:-1], spacing - distances - 1)
    total = total + _isolated(of_words[places:], spacing - places)
    return total / spacing


def _copies(leaves: int, isolated: int) -> list[float]:
    return [1.0] * leaves + [float(isolated)] * (isolated > 0)


def _isolated(duals: Sequence[Tensor] | Tensor, number: int) -> Tensor | float:
    return number * torch.logsumexp(duals[0], 0) if number else 0.0


# The tags of sentences given their words: chains whose ends meet separators.


@final
@dataclass(frozen=True, eq=False)
class SentenceTags:
    """Scores of the tags of every token, laid out by `steps`, and of tags near each other."""

    unary: Float[Tensor, "r s"]
    transitions: Float[Tensor, "k s s"]
    steps: Steps

    @classmethod
    def of(
        cls,
        scores: TagScores,
        words: Int[Tensor, " n"],
        lengths: Int[Tensor, " b"],
        allowed: Bool[Tensor, "n s"] | None = None,
    ) -> SentenceTags:
        """The chains of sentences, among tags that are allowed."""
        unary = _word_scores(scores, words, lengths)
        _add_edges(unary, scores.transitions, lengths)
        own = unary[:, SEPARATOR + 1 :]
        if allowed is not None:
            own = own.masked_fill(~allowed, -torch.inf)
        steps = Steps.of(lengths)
        inner = scores.transitions[:, SEPARATOR + 1 :, SEPARATOR + 1 :]
        return cls(steps.pack(own), inner.contiguous(), steps)

    def best(self) -> Int[Tensor, " n"]:
        """A most probable tag sequence of each sentence."""
        if self._first_order:
            states, _ = chain_search.viterbi(self.unary, self.transitions[0], self.steps)
        else:
            states, _ = second_order.viterbi(self.unary, *self._tables, self.steps)
        return self.steps.unpack(states, len(self.steps))

    def probabilities(self) -> Float[Tensor, "n s"]:
        """The probability of every tag at every token."""
        if self._first_order:
            found = chain_sums.expectations(self.unary, self.transitions[0], self.steps).single
        else:
            leaf = self.unary.detach().double().requires_grad_(True)
            with torch.enable_grad():
                other = replace(self, unary=leaf, transitions=self.transitions.detach().double())
                (found,) = torch.autograd.grad(other.log_partition().sum(), leaf)
        return self.steps.unpack(found, len(self.steps))

    def log_partition(self) -> Float[Tensor, " b"]:
        """The log-sum of the scores of all tag sequences of each sentence."""
        if self._first_order:
            return chain_sums.log_partition(self.unary, self.transitions[0], self.steps)
        return second_order_sums.log_partition(self.unary, *self._tables, self.steps)

    def n_best(self, count: int) -> tuple[Int[Tensor, "n m"], Float[Tensor, "b m"]]:
        """The best tag sequences of each sentence and their scores, -inf where there are fewer."""
        if self._first_order:
            found = chain_search.n_best(self.unary, self.transitions[0], self.steps, count)
        else:
            found = second_order.n_best(self.unary, *self._tables, self.steps, count)
        return self.steps.unpack(found[0], len(self.steps)), found[1]

    @property
    def _first_order(self) -> bool:
        return len(self.transitions) == 1

    @property
    def _tables(self) -> tuple[Tensor, Tensor]:
        return self.transitions[0], self.transitions[1]


def _word_scores(
    scores: TagScores, words: Int[Tensor, " n"], lengths: Int[Tensor, " b"]
) -> Float[Tensor, "n t"]:
    unary = scores.words[CENTRE][words]
    ends = lengths[lengths > 0].cumsum(0)
    if LEFT in scores.words:
        before = words.roll(1)
        before[ends.roll(1) % max(len(words), 1)] = SEPARATOR  # the first token of each sentence
        unary += scores.words[LEFT][before]
    if RIGHT in scores.words:
        after = words.roll(-1)
        after[ends - 1] = SEPARATOR
        unary += scores.words[RIGHT][after]
    return unary


def _add_edges(
    unary: Float[Tensor, "n t"], transitions: Float[Tensor, "k t t"], lengths: Int[Tensor, " b"]
) -> None:
    """Adds what the separators before and after each sentence say of the tags they reach."""
    place = torch.arange(len(unary), device=unary.device)
    last = lengths.cumsum(0).repeat_interleave(lengths) - 1 - place  # tokens still to come
    first = lengths.repeat_interleave(lengths) - 1 - last  # tokens before
    for distance, table in enumerate(transitions, start=1):
        # A separator stands at every place within K tokens before and after a sentence.
        unary += torch.where((first < distance).unsqueeze(1), table[SEPARATOR], 0.0)
        unary += torch.where((last < distance).unsqueeze(1), table[:, SEPARATOR], 0.0)
