"""Gaps filled and sentences drawn by a learned language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.language_model_file import Learned
from mrflearn.inference.sentence_sampling import gibbs_sentences
from mrflearn.inference.transfer import exact_sentences

MOST_FOR_EXACT_SAMPLES = 1 << 20  # windows times words


def fill_gap(
    learned: Learned, words: Sequence[str | None], n: int, gap: str
) -> list[tuple[str, float]]:
    """The most probable words for the one gap (`None` or `gap`) of a sentence."""
    gaps = [at for at, word in enumerate(words) if word is None or word == gap]
    if len(gaps) != 1:
        raise DataError(f"the sentence has {len(gaps)} gaps; mark exactly one word as {gap!r}.")
    vocabulary, context = learned.vocabulary, learned.model.offsets
    edge = [vocabulary.separator] * context
    known = vocabulary.encode(gap if word is None else word for word in words)
    line = torch.tensor([*edge, *known.tolist(), *edge])
    at = gaps[0] + context
    before = line[at - context : at].flip(0)
    after = line[at + 1 : at + 1 + context]
    scores = learned.model.to(torch.float64, torch.device("cpu")).scores()
    figures = scores.conditional(before[None], after[None])[0]
    figures[vocabulary.separator] = -torch.inf
    chances, best = figures.softmax(0).topk(min(n, len(figures) - 1))
    return list(zip(vocabulary.decode(best.tolist()), chances.tolist(), strict=True))


def draw_sentences(
    learned: Learned, n: int, generator: np.random.Generator, sweeps: int
) -> list[list[str]]:
    """New sentences: a length as often as the text had it, then its words."""
    seen, counts = learned.lengths
    if not len(seen):
        raise SettingsError("the moments this model was learned from have no lengths.")
    drawn = generator.choice(seen, size=n, p=counts / counts.sum())
    device = learned.model.unary.device
    own = torch.Generator(device=device).manual_seed(int(generator.integers(1 << 62)))
    separator, scores = learned.vocabulary.separator, learned.model.scores()
    if scores.states ** (scores.offsets + 1) <= MOST_FOR_EXACT_SAMPLES:
        wide = scores.double()
        sentences = exact_sentences(
            wide.unary, wide.tables(), separator, drawn.tolist(), own, wide.triples
        )
    else:
        lengths = torch.from_numpy(drawn)
        sentences = gibbs_sentences(scores, separator, lengths, sweeps, own)
    return [learned.vocabulary.decode(ids.tolist()) for ids in sentences]
