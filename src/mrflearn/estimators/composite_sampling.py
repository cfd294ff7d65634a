"""New documents from a composite model: topic shares, derivations, then words left to right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrflearn.estimators.composite_answers import Answers
from mrflearn.models.composite_lm import CompositeModel

Figures: TypeAlias = NDArray[np.float64]


def sample_documents(
    answers: Answers, n: int, sentences: int, seed: int, longest: int
) -> list[list[list[str]]]:
    """`n` documents of new sentences, empty ones left out; each draws its own topic shares."""
    generator = np.random.default_rng(seed)
    documents = []
    for _ in range(n):
        # The prior of folding in: a document's shares, worth that many draws.
        drawn = generator.gamma(np.maximum(answers.fit.strength * answers.fit.prior, 1e-3))
        shares = drawn / drawn.sum() if drawn.sum() > 0 else answers.fit.prior
        document = []
        for _ in range(sentences):
            ids = list(_sentence(answers, shares, generator, longest))
            document.append(answers.vocabulary.decode(ids))
        documents.append([words for words in document if words])
    return documents


def _sentence(
    answers: Answers, shares: Figures, generator: np.random.Generator, longest: int
) -> Iterator[int]:
    context: list[int] = []
    tags = _derivation(answers.model, generator) if answers.grammar else _endless()
    for tag in tags:
        if len(context) >= longest:
            return
        total = np.cumsum(answers.emission(context, shares)[:, tag])
        drawn = int(np.searchsorted(total, generator.uniform(0, total[-1]), side="right"))
        word = min(drawn, len(total) - 1)
        if word == answers.vocabulary.separator:
            return
        context.append(word)
        yield word


def _endless() -> Iterator[int]:
    while True:
        yield 0


def _derivation(model: CompositeModel, generator: np.random.Generator) -> Iterator[int]:
    """The preterminals of a new derivation, from left to right."""
    wiring = model.shape.grammar
    assert wiring is not None  # noqa: S101 - the caller made sure
    parent, left, right = (
        getattr(wiring, name).cpu().numpy() for name in ("parent", "left", "right")
    )
    rules = np.exp(model.rules.double().cpu().numpy())
    start = np.exp(model.start.double().cpu().numpy())
    mine = [np.flatnonzero(parent == phrase) for phrase in range(wiring.phrases)]
    stack = [int(generator.choice(len(start), p=start / start.sum()))]
    while stack:
        symbol = stack.pop()
        if symbol >= wiring.phrases:
            yield symbol - wiring.phrases
            continue
        own = rules[mine[symbol]]
        rule = mine[symbol][generator.choice(len(own), p=own / own.sum())]
        stack += [int(right[rule]), int(left[rule])]
