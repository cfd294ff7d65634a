"""Topic shares for unseen documents under the composite model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts
from mrflearn.models.composite_lm import CompositeModel
from mrflearn.models.hidden_backoff import GIVEN, Tokens
from mrflearn.models.topic_shares import shares_before_each
from mrflearn.objectives.expected_counts import Batch, explain_tokens

Figures: TypeAlias = NDArray[np.float64]
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)


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
    otherwise = (weighed[:, :, -GIVEN:] * explained.means[:, :, -GIVEN:]).sum(dim=(1, 2))
    for place, level in enumerate(model.shape.levels):
        used = weighed[:, :, place]
        if level.topic:
            used = used if level.tag else used.sum(dim=1, keepdim=True)
            gained += (used.unsqueeze(2) * explained.values[place]).sum(dim=1)
        else:
            otherwise = otherwise + (used * explained.means[:, :, place]).sum(dim=1)
    return gained, otherwise


@final
@dataclass(frozen=True, eq=False)
class Folded:
    """Topic shares before each sentence and after each document, by number.

    `value` is log p of all words where preterminals are drawn by their shares alone.
    """

    before: Figures
    after: dict[int, Figures]
    value: float


def fold_in(
    model: CompositeModel,
    text: DocumentStream,
    batches: Iterable[tuple[Counts, Batch]],
    prior: Figures,
    strength: float,
) -> Folded:
    """Topic shares of documents, from a prior worth `strength` draws and the words so far."""
    size = len(text.stream) - 1
    gained, otherwise = np.zeros((size, model.shape.topics)), np.ones(size)
    ends = model.shape.grammar is None
    for sentences, batch in batches:
        places = text.places(sentences, ends=ends)
        found = by_topic(model, batch.tokens)
        gained[places], otherwise[places] = (x.cpu().numpy() for x in found)
    shares, after, value = np.empty((len(text), model.shape.topics)), {}, 0.0
    for document in np.unique(text.document).tolist():
        mine = np.flatnonzero(text.document == document)
        places = text.places(mine, ends=ends)
        sizes = text.length[mine] + ends
        own = gained[places], otherwise[places]
        *rows, after[document] = shares_before_each(*own, np.cumsum(sizes), prior, strength)
        shares[mine] = rows
        mixed = (own[0] * np.repeat(shares[mine], sizes, axis=0)).sum(axis=1) + own[1]
        value += float(np.log(np.maximum(mixed, np.finfo(np.float64).tiny)).sum())
    return Folded(shares, after, value)


def best_strength(
    models: Sequence[CompositeModel],
    texts: Sequence[DocumentStream],
    batches: Sequence[list[tuple[Counts, Batch]]],
    prior: Figures,
) -> tuple[float, list[Figures]]:
    """(the prior's strength that suits texts under their models best, shares before sentences)."""
    if models[0].shape.topics == 1:
        return STRENGTHS[0], [np.ones((len(text), 1)) for text in texts]
    folded = [
        [fold_in(*each, prior, strength) for each in zip(models, texts, batches, strict=True)]
        for strength in STRENGTHS
    ]
    best = int(np.argmax([sum(each.value for each in found) for found in folded]))
    return STRENGTHS[best], [each.before for each in folded[best]]
