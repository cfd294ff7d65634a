"""The likelihood of a text under the trigram field, as a function of one vector.

    value = log lambda - <frequencies, scores>,   lambda = u^T T v / u^T v

with the vectors of the last accepted point, one power step on: when steps are short they follow
Perron's closely enough, and the value is the log-likelihood per position but for the product of
their errors.  The gradient is the difference of two tables of pairs, and of two lists of triples:
how often the field has them, and how often the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.execution.resources import multiplies_bfloat16
from mrflearn.features.moments import Moments
from mrflearn.graph.trigrams import TrigramPotentials, find_places
from mrflearn.inference.trigrams import TrigramMatrix, first_vectors
from mrflearn.models.trigrams import LONGER, SeenTriples, TrigramModel, longer_counts
from mrflearn.objectives.base import Evaluation, Layout, Objective, Vector
from mrflearn.objectives.problem import Diagonal, Penalty

FEW_WORDS = 256  # whose power steps cost next to nothing
FEW_STEPS, FEW_TOLERANCE = 60, 1e-7


@final
@dataclass(frozen=True, eq=False)
class TrigramFrequencies:
    """How often each triple of a text occurs, per position; what is certain is left out."""

    first: Int[Tensor, " p"]
    second: Int[Tensor, " p"]
    third: Int[Tensor, " p"]
    shares: Float[Tensor, " p"]
    longer: tuple[Float[Tensor, " q"], ...] = ()  # of the potentials' longer n-grams

    @classmethod
    def of(
        cls, moments: Moments, like: Tensor, scores: TrigramPotentials | None = None
    ) -> TrigramFrequencies:
        """Those of moments; and of the longer n-grams that potentials have scores of."""
        seen, size = SeenTriples.of(moments), moments.states
        x, y, z = (torch.from_numpy(own).to(like.device) for own in seen.ends(size))
        longer = []
        if scores is not None and scores.longer:
            counts = longer_counts(moments, seen.codes, scores.offsets + 1)
            place = find_places(scores.triples.codes, torch.from_numpy(seen.codes).to(like.device))
            for own, (codes, count) in zip(scores.longer, counts, strict=True):
                code = torch.from_numpy(codes).to(like.device)
                below = place[code // size]
                wanted = torch.where(below < 0, -1, below * size + code % size)
                place = find_places(own.codes, wanted)
                share = torch.from_numpy(count / seen.positions).to(like)
                found = like.new_zeros(len(own.codes))
                longer.append(found.index_add_(0, place[place >= 0], share[place >= 0]))
        shares = torch.from_numpy(seen.count / seen.positions).to(like)
        return cls(x, y, z, shares, tuple(longer))

    def mean_score(self, potentials: TrigramPotentials) -> Float[Tensor, ""]:
        """The mean over positions of all scores."""
        scores = potentials.scores(self.first, self.second, self.third)
        total = (self.shares * scores).sum(dtype=torch.float64)
        for own, longer in zip(self.longer, potentials.longer, strict=True):
            total += (own * longer.weights).sum(dtype=torch.float64)
        return total


@final
class TrigramLikelihood(Objective[TrigramModel]):
    """Minus the log-likelihood per position of the text that a model's sparse scores are from."""

    def __init__(self, model: TrigramModel, frequencies: TrigramFrequencies) -> None:
        self.model = model
        size, own, shares = model.states, frequencies, frequencies.shares
        counted = {}
        for name, code in (("pairs", own.second * size + own.third),
                           ("skips", own.first * size + own.third)):  # fmt: skip
            sums = shares.new_zeros(len(model.codes[name]), dtype=torch.float64)
            place = torch.searchsorted(model.codes[name], code)
            sums.index_put_((place,), shares.double(), accumulate=True)
            counted[name] = sums.to(shares)
        longer = dict(zip(LONGER, own.longer, strict=False))
        self.shares = {**counted, "triples": shares, **longer}
        self.committed = self.warm = first_vectors(model.potentials())
        self.latest: Tensor | None = None
        self.rounded = (
            model.unary.dtype == torch.float32 and size > FEW_WORDS and multiplies_bfloat16()
        )
        self.log_partition = torch.tensor(torch.nan, dtype=torch.float64)

    def __call__(self, vector: Vector) -> Evaluation:
        with torch.no_grad():
            return self._evaluate(vector)

    def _evaluate(self, vector: Vector) -> Evaluation:
        model = self.at(vector)
        scores = model.potentials()
        near, far = scores.near.table().add_(scores.unary), scores.far.table()
        means = {
            "pairs": near.view(-1)[model.codes["pairs"]],
            "skips": far.view(-1)[model.codes["skips"]],
            "triples": scores.triples.weights,
            **dict(zip(LONGER, (own.weights for own in scores.longer), strict=False)),
        }
        text = sum(self.shares[name].double() @ own.double() for name, own in means.items())
        matrix = TrigramMatrix.of_tables(scores, near, far, rounded=self.rounded)
        left, right = self.committed
        if model.states <= FEW_WORDS:
            left, right = matrix.follow(left, right, FEW_STEPS, FEW_TOLERANCE)
        found = matrix.quotient(left, right)
        self.warm = found.left, found.right
        near, far, triples, *longer = found.marginals.parts
        near.view(-1)[model.codes["pairs"]] -= self.shares["pairs"]
        far.view(-1)[model.codes["skips"]] -= self.shares["skips"]
        apart = [own - self.shares[name] for name, own in zip(LONGER, longer, strict=False)]
        gradients = model.pull_back(near, far, triples - self.shares["triples"], apart)
        self.latest, self.log_partition = vector.clone(), found.value
        return Evaluation(found.value - text, self.layout.flatten(gradients))

    def commit(self) -> None:
        """Keep the vectors that the last evaluation ended with."""
        self.committed = self.warm

    def state(self) -> dict[str, Tensor]:
        """The committed vectors."""
        return dict(zip(("left", "right"), self.committed, strict=True))

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        like = self.model.unary
        self.committed = (state["left"].to(like), state["right"].to(like))

    @torch.no_grad()
    def validation_bound(self, model: TrigramModel, valid: TrigramFrequencies) -> float:
        """The log-likelihood per position of another text, as far as power steps have come."""
        vector = self.layout.flatten(model.parameters())
        if self.latest is None or not torch.equal(self.latest, vector):
            self(vector)
        return float(valid.mean_score(model.potentials()) - self.log_partition)


# Strengths of penalties, and the units that parameters move in.


PRIOR, EXPONENT, RARE = 5.2, 0.6, 0.1  # L2 of vectors in nats per text, by (C frequency + RARE)
# L1 of sparse scores, nats per text, and L2
DISCOUNTS = {"pairs": 0.62, "skips": 0.78, "triples": 0.58, "order4": 0.6, "order5": 0.6}
RIDGES = {"pairs": 0.19, "skips": 0.29, "triples": 0.1, "order4": 0.1, "order5": 0.1}
MORE = 1.3  # times that much where longer n-grams have scores: more of them say the same
SPARSE_STEP, UNSEEN_STEP = 16 / 3, 1e-6  # of sparse scores and unseen words' relative to others


def trigram_penalty(
    model: TrigramModel, moments: Moments, l1: float | None = None, l2: float | None = None
) -> Penalty:
    """L2 of vectors, more of frequent words', and L1 and a little L2 of sparse scores.

    `l1` and `l2` are in nats per position, of triples and of the vector of a word of mean
    frequency; by None a text costs as many nats however long it is.  L1 takes from the count of
    each pair and triple what a Kneser-Ney model calls its discount.
    """
    positions = moments.positions
    frequency = torch.from_numpy(moments.unary / positions) * moments.states
    each = (PRIOR / positions if l2 is None else l2) * (frequency + RARE) ** EXPONENT
    usual = (MORE if model.suffixes else 1.0) / positions
    factor = usual if l1 is None else l1 / DISCOUNTS["triples"]
    strengths: dict[str, float | Tensor] = {name: factor * RIDGES[name] for name in model.sparse}
    strengths |= dict.fromkeys(model.vectors, each.unsqueeze(1))
    return Penalty({name: factor * DISCOUNTS[name] for name in model.sparse}, strengths)


def trigram_scaling(model: TrigramModel, moments: Moments) -> Diagonal:
    """Sparse scores go in longer steps, and words that the text has not stay where they are.

    Nothing would end the fall of their scores, and with it of any text that has them.
    """
    sizes = {
        name: torch.full_like(own, SPARSE_STEP if name in model.sparse else 1.0)
        for name, own in model.parameters().items()
    }
    sizes["unary"][torch.from_numpy(moments.unary == 0)] = UNSEEN_STEP
    return Diagonal(Layout.of(sizes).flatten(sizes))
