"""Several gaps of a sentence at once, and text to come, under the trigram field.

Messages go over windows of two positions; a position holds one word, or any word where it is a gap:

    backward(x, y) = sum_z T(xy, yz) backward(y, z)

so that gaps next to each other cost C^2 operations, and three in a row C^3.  Given what is known
to its right, a sentence is then read from left to right: p(z | x, y) is T(xy, yz) backward(y, z)
over backward(x, y), and the product of these is the probability of a filling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.trigrams import PairScores, TrigramPotentials
from mrflearn.inference.trigrams import States, next_log_probabilities

BEAM = 64  # beginnings that are kept


class Place(NamedTuple):
    """The words that a position may hold: one, or all of them (None)."""

    word: int | None

    def among(self, words: Int[Tensor, " p"]) -> Tensor:
        """Which of these words it may hold."""
        return torch.ones_like(words, dtype=torch.bool) if self.word is None else words == self.word

    def number(self, words: Int[Tensor, " p"]) -> Int[Tensor, " p"]:
        """Where among its own words these are."""
        return words if self.word is None else torch.zeros_like(words)

    def rows(self, vectors: Tensor) -> Tensor:
        """The entries of its words."""
        return vectors if self.word is None else vectors[self.word : self.word + 1]


def _block(pairs: PairScores, left: Place, right: Place) -> Float[Tensor, "x y"]:
    """Scores of the pairs that two positions may hold."""
    table = left.rows(pairs.left) @ right.rows(pairs.right).T
    first, second = pairs.sparse.codes // len(pairs.left), pairs.sparse.codes % len(pairs.left)
    here = left.among(first) & right.among(second)
    table[left.number(first[here]), right.number(second[here])] += pairs.sparse.weights[here]
    return table


@final
@dataclass(frozen=True, eq=False)
class Moves:
    """T from the words of two positions to those of the next: near~, far~, and what triples add."""

    near: Float[Tensor, "y z"]
    far: Float[Tensor, "x z"]
    places: tuple[Int[Tensor, " p"], ...]  # x, y and z of the triples
    extra: Float[Tensor, " p"]

    @classmethod
    def of(cls, scores: TrigramPotentials, first: Place, second: Place, third: Place) -> Moves:
        """Each table relative to its largest entry: a common factor has no say."""
        near = _block(scores.near, second, third) + third.rows(scores.unary)
        far, size, (codes, weights) = (
            _block(scores.far, first, third),
            scores.states,
            scores.triples,
        )
        near, far = (near - near.amax()).exp_(), (far - far.amax()).exp_()
        words = codes // size**2, codes // size % size, codes % size
        each = list(zip((first, second, third), words, strict=True))
        here = torch.stack([place.among(own) for place, own in each]).all(0)
        x, y, z = (place.number(own[here]) for place, own in each)
        return cls(near, far, (x, y, z), near[y, z] * far[x, z] * torch.expm1(weights[here]))

    def backward(self, message: Float[Tensor, "y z"]) -> Float[Tensor, "x y"]:
        x, y, z = self.places
        found = self.far @ (self.near * message).T
        return found.index_put_((x, y), self.extra * message[y, z], accumulate=True)


class Filling(NamedTuple):
    """The words of all gaps from left to right, and log of their probability together."""

    words: list[int]
    log_probability: float


@torch.no_grad()
def best_fillings(
    scores: TrigramPotentials, line: list[int | None], n: int, beam: int = BEAM
) -> list[Filling]:
    """The most probable words for the gaps (None) of a sentence, all of them together.

    Probabilities are exact; those of which the beginning is not among the `beam` best are missed.
    """
    edge = scores.separator
    places = [Place(word) for word in (edge, edge, *line, edge)]
    message = scores.unary.new_ones(len(places[-2].rows(scores.unary)), 1)
    messages = []
    for k in range(len(line), 0, -1):
        message = Moves.of(scores, *places[k : k + 3]).backward(message)
        message = message / message.amax()
        if places[k + 1].word is None:
            message[:, edge] = 0.0
        messages.append(message)
    begun = torch.full((1, 2), edge, device=scores.unary.device)
    total = scores.unary.new_zeros(1)
    for place, message in zip(places[2:-1], reversed(messages), strict=True):
        second = begun[:, -1]
        if place.word is not None:
            after = torch.full_like(second, place.word)
            begun = torch.cat((begun, after.unsqueeze(1)), 1)
            continue
        row = message if len(message) == 1 else message[second]
        chances = (scores.next_scores(begun[:, -2:]) + row.log()).log_softmax(1)
        total, begun = _extended(total, begun, chances, max(n, beam))
    gaps = [k + 2 for k, word in enumerate(line) if word is None]
    order = total.argsort(descending=True, stable=True)[:n].tolist()
    return [Filling(begun[k, gaps].tolist(), float(total[k])) for k in order]


@torch.no_grad()
def best_continuations(
    scores: TrigramPotentials, right: States, line: list[int], length: int, n: int, beam: int = BEAM
) -> list[Filling]:
    """The most probable next words of a sentence, so many at once or up to its end (`<S>`)."""
    edge = scores.separator
    begun = torch.tensor([[edge, edge, *line]], device=right.device)
    total = right.new_zeros(1)
    start = begun.shape[1]
    for _ in range(length):
        ended = (begun[:, -1] == edge) & (begun.shape[1] > start)
        chances = next_log_probabilities(scores, right, begun[:, -scores.offsets :])
        # After its end a sentence stays as it is.
        chances[ended] = -torch.inf
        chances[ended, edge] = 0.0
        total, begun = _extended(total, begun, chances, max(n, beam))
    order = total.argsort(descending=True, stable=True)[:n].tolist()
    return [Filling(_until(begun[k, start:].tolist(), edge), float(total[k])) for k in order]


def _extended(
    total: Float[Tensor, " b"], begun: Int[Tensor, "b l"], chances: Float[Tensor, "b c"], beam: int
) -> tuple[Tensor, Tensor]:
    """The best beginnings that are one word longer."""
    sums = (total.unsqueeze(1) + chances).flatten()
    total, place = sums.topk(min(beam, int((sums > -torch.inf).sum())))
    row, word = place // chances.shape[1], place % chances.shape[1]
    return total, torch.cat((begun[row], word.unsqueeze(1)), 1)


def _until(words: list[int], edge: int) -> list[int]:
    """The words up to the first separator, and that one."""
    return words[: words.index(edge) + 1] if edge in words else words
