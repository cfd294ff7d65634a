"""Topic shares for unseen documents under the composite model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.models.composite_lm import CompositeModel
from mrflearn.models.hidden_backoff import Tokens
from mrflearn.models.topic_shares import shares_before_each
from mrflearn.objectives.expected_counts import Batch, explain_tokens
from mrflearn.statistics.document_stream import DocumentStream
from mrflearn.statistics.ngrams import Counts

Figures: TypeAlias = NDArray[np.float64]
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)


@torch.no_grad()
def by_topic(
    model: CompositeModel, tokens: Tokens
) -> tuple[Float[Tensor, "t h"], Float[Tensor, "t"]]:
    """What each topic gives each token, and what it has without any: preterminals by their shares.

    Derivations are left aside, since the shares of a sentence need only be a function of the
    words before it.
    """
    kind, device = model.weights.dtype, model.weights.device
    tokens = tokens.to(device, kind)
    topics = torch.ones(len(tokens), model.shape.topics, dtype=kind, device=device)
    explained = explain_tokens(model, tokens, topics)
    weighed = explained.weights * model.tags.unsqueeze(1)
    gained = torch.zeros_like(topics)
    otherwise = (weighed[:, :, -2:] * explained.means[:, :, -2:]).sum(dim=(1, 2))
    for place, level in enumerate(model.shape.levels):
        used = weighed[:, :, place]
        if level.topic:
            used = used if level.tag else used.sum(dim=1, keepdim=True)
            gained += (used.unsqueeze(2) * explained.values[place]).sum(dim=1)
        else:
            otherwise = otherwise + (used * explained.means[:, :, place]).sum(dim=1)
    return gained, otherwise


def fold_in(
    model: CompositeModel,
    text: DocumentStream,
    batches: Iterable[tuple[Counts, Batch]],
    prior: Figures,
    strength: float,
) -> tuple[Figures, float]:
    """(shares before each sentence, log p of all words by shares of preterminals alone).

    The documents of the text must stand one after the other.
    """
    size = len(text.stream) - 1
    gained, otherwise = np.zeros((size, model.shape.topics)), np.ones(size)
    ends = model.shape.grammar is None
    for sentences, batch in batches:
        places = text.places(sentences, ends=ends)
        found = by_topic(model, batch.tokens)
        gained[places], otherwise[places] = (x.cpu().numpy() for x in found)
    shares = np.empty((len(text), model.shape.topics))
    value = 0.0
    for document in np.unique(text.document):
        mine = np.flatnonzero(text.document == document)
        places = text.places(mine, ends=ends)
        sizes = text.length[mine] + ends
        own = gained[places], otherwise[places]
        rows = shares_before_each(*own, np.cumsum(sizes)[:-1], prior, strength)
        shares[mine] = list(rows)
        mixed = (own[0] * np.repeat(shares[mine], sizes, axis=0)).sum(axis=1) + own[1]
        value += float(np.log(np.maximum(mixed, np.finfo(np.float64).tiny)).sum())
    return shares, value


def best_strength(
    model: CompositeModel,
    text: DocumentStream,
    batches: list[tuple[Counts, Batch]],
    prior: Figures,
) -> tuple[float, Figures]:
    """(the prior's strength that suits held-out text best, its shares before each sentence)."""
    found = [(*fold_in(model, text, batches, prior, s), s) for s in STRENGTHS]
    shares, _, strength = max(found, key=lambda entry: entry[1])
    return strength, shares
