"""Topics of documents: PLSA, and the shares of topics in unseen documents, sentence by sentence.

p(w | d) = sum_h theta(d -> h) theta(h -> w).  Only the non-zero counts are visited: with
r = n(d, w) / p(w | d) there, the expected counts are theta(d -> h) sum_w r theta(h -> w) and
theta(h -> w) sum_d r theta(d -> h), products of a sparse matrix with narrow dense ones.

In an unseen document the shares before each sentence are those that the sentences *before* it make
most probable, after a Dirichlet prior around the shares of the training text.  So no sentence is
scored with the help of its own words, and the scores of a document's sentences multiply to a
probability of the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.features.document_stream import DocumentStream
from mrflearn.models.composite_lm import GIVEN, CompositeModel, Figures, TokenBatch, explain

# Probabilistic latent semantic analysis [Hofmann 2001]: documents as mixtures of topics.


TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False)
class PLSA:
    """theta(h -> w), one row a word, and theta(d -> h), one row a document."""

    words: Figures  # (words, topics); every column sums to 1
    documents: Figures  # (documents, topics); every row sums to 1

    @classmethod
    def random(cls, documents: int, words: int, topics: int, seed: int) -> PLSA:
        """A start without symmetries: uniform numbers, normalised."""
        generator = np.random.default_rng(seed)
        # Far from zero, so that no topic is out of a word's reach from the beginning.
        drawn = generator.uniform(0.5, 1.5, (words, topics))
        shares = generator.uniform(0.5, 1.5, (documents, topics))
        return cls(drawn / drawn.sum(axis=0), shares / shares.sum(axis=1, keepdims=True))

    def step(self, counts: csr_array) -> tuple[float, PLSA]:
        """The log-likelihood, and the parameters after one EM step."""
        ratio, documents, value = _expect(self.documents, self.words, counts)
        words = self.words * (ratio.T @ self.documents)
        return value, PLSA(
            _normalised(words, 0, self.words), _normalised(documents, 1, self.documents)
        )


def document_counts(documents: list[NDArray[np.int64]], words: int) -> csr_array:
    """The sparse (documents, words) matrix of how often each word occurs in each document."""
    ids = np.concatenate([np.zeros(0, np.int64), *documents])
    number = np.repeat(np.arange(len(documents)), [len(own) for own in documents])
    return csr_array((np.ones(len(ids)), (number, ids)), shape=(len(documents), words))


def _expect(
    documents: Figures, words: Figures, counts: csr_array
) -> tuple[csr_array, Figures, float]:
    """(n(d, w) / p(w | d), expected counts of topics in documents, log-likelihood).

    One document at a time: its rows of `words`, gathered once, stay in the cache for both products.
    """
    ratio, topics, value = np.empty(counts.nnz), np.empty_like(documents), 0.0
    starts = counts.indptr.tolist()
    for d, (first, last) in enumerate(pairwise(starts)):
        seen, times = words[counts.indices[first:last]], counts.data[first:last]
        mixed = seen @ documents[d]
        with np.errstate(divide="ignore"):
            value += float(times @ np.log(mixed))
        share = times / np.maximum(mixed, TINY)
        topics[d] = documents[d] * (share @ seen)
        ratio[first:last] = share
    return csr_array((ratio, counts.indices, counts.indptr), shape=counts.shape), topics, value


def _normalised(values: Figures, axis: int, before: Figures) -> Figures:
    """Values that sum to 1 along an axis; where there are none, what was there before."""
    total = values.sum(axis=axis, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1), before)


# Topic shares of unseen documents: folding in, sentence by sentence.


GROWTH = 1 / 32  # of a text, after which all its expected draws are found again


def shares_before_each(
    by_topic: Figures,
    otherwise: Figures,
    ends: NDArray[np.int64],
    prior: Figures,
    strength: float,
    steps: int = 5,
) -> Iterator[Figures]:
    """The topic shares before each sentence of one document, and a last row after all of them.

    by_topic: (tokens, topics), what each topic gives a token; otherwise: what it has from levels
    that look at no topic; ends: where each sentence ends among the tokens.

    Incremental EM [Neal and Hinton 1998]: the expected draws of a sentence are kept once it is
    read, and found again when the text has grown by a 32nd part.  So a short document's steps are
    over all of it, and a long one's take time in proportion to its length.
    """
    shares, kept, begin, whole = prior, np.zeros_like(prior), 0, 0
    yield shares
    for end in ends.tolist():
        if end >= (1 + GROWTH) * whole:
            kept, begin, whole = np.zeros_like(prior), 0, end
        drawn = kept
        for _ in range(steps):
            drawn = kept + expected_draws(by_topic[begin:end], otherwise[begin:end], shares)
            raised = drawn + strength * prior
            total = raised.sum()
            shares = raised / total if total > 0 else prior
        kept, begin = drawn, end
        yield shares


def expected_draws(by_topic: Figures, otherwise: Figures, shares: Figures) -> Figures:
    """How often tokens are expected to have drawn each topic; one that nothing gives draws none."""
    total = otherwise + by_topic @ shares
    inverse = np.divide(1, total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(shares * (inverse @ by_topic))


# Folding in under the composite model.


STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)


@torch.no_grad()
def by_topic(
    model: CompositeModel, tokens: TokenBatch
) -> tuple[Float[Tensor, "t h"], Float[Tensor, " t"]]:
    """What each topic gives each token, and what it has without any: preterminals by their shares.

    Derivations are left aside, since the shares of a sentence need only be a function of the
    words before it.
    """
    tokens = tokens.to(model)
    topics = model.weights.new_ones(len(tokens.bucket), model.shape.topics)
    explained = explain(model, tokens, topics)
    weighed = explained.weights * model.tags.unsqueeze(1)
    gained = torch.zeros_like(topics)
    otherwise = (weighed[:, :, -GIVEN:] * explained.means[:, :, -GIVEN:]).sum(dim=(1, 2))
    for place, level in enumerate(model.shape.levels):
        used = weighed[:, :, place]
        if level.topic:
            used = used if level.tag else used.sum(dim=1, keepdim=True)
            gained += (used.unsqueeze(2) * explained.values[place]).sum(dim=1)
        else:
            otherwise = otherwise + (used * explained.means[:, :, place]).sum(dim=1)
    return gained, otherwise


class Folded(NamedTuple):
    """Topic shares before each sentence and after each document, by number.

    `value` is log p of all words where preterminals are drawn by their shares alone.
    """

    before: Figures
    after: dict[int, Figures]
    value: float


def fold_in(
    model: CompositeModel,
    text: DocumentStream,
    batches: Sequence[TokenBatch],
    prior: Figures,
    strength: float,
) -> Folded:
    """Topic shares of documents, from a prior worth `strength` draws and the words so far."""
    size, shape = len(text.stream) - 1, model.shape
    gained, otherwise = np.zeros((size, shape.topics)), np.ones(size)
    for batch in batches:
        places = text.places(batch.sentences, ends=shape.ends)
        gained[places], otherwise[places] = (x.cpu().numpy() for x in by_topic(model, batch))
    shares, after, value = np.empty((len(text), shape.topics)), {}, 0.0
    for document, mine in enumerate(text.by_document(0)):
        if not len(mine):
            continue
        places, sizes = text.places(mine, ends=shape.ends), text.length[mine] + shape.ends
        own = gained[places], otherwise[places]
        *rows, after[document] = shares_before_each(*own, np.cumsum(sizes), prior, strength)
        shares[mine] = rows
        mixed = (own[0] * np.repeat(shares[mine], sizes, axis=0)).sum(axis=1) + own[1]
        with np.errstate(divide="ignore"):
            value += float(np.log(mixed).sum())
    return Folded(shares, after, value)


def best_strength(
    texts: Sequence[tuple[CompositeModel, DocumentStream, Sequence[TokenBatch]]], prior: Figures
) -> tuple[float, list[Figures]]:
    """(the prior's strength that suits texts under their models best, shares before sentences)."""
    if texts[0][0].shape.topics == 1:
        return STRENGTHS[0], [np.ones((len(text), 1)) for _, text, _ in texts]
    folded = [[fold_in(*each, prior, strength) for each in texts] for strength in STRENGTHS]
    best = int(np.argmax([sum(each.value for each in found) for found in folded]))
    return STRENGTHS[best], [each.before for each in folded[best]]
