"""Chain CRFs small enough to list every labelling of, with random weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch

from mrflearn.estimators.crf_answers import path_scores
from mrflearn.features.features import Numbering, compile_features
from mrflearn.features.labels import compile_labels
from mrflearn.features.support import find_support
from mrflearn.models.chain_crf import ChainCRF, ChainScores


def random_label_chains(
    seed: int, labels: list[str], lengths: list[int], order: int = 1
) -> ChainScores:
    """Sequences of these lengths under normal weights for every attribute, pair and triple."""
    draw = torch.Generator().manual_seed(seed)
    items = compile_features([[[f"a{i}"] for i in range(len(labels))]])
    truth = compile_labels([labels], items.lengths, Numbering())
    support, items = find_support(items, truth, order=order, all_states=True, all_transitions=True)
    model = ChainCRF.zeros(support, torch.float64, torch.device("cpu"))
    model = model.with_parameters(
        {
            name: torch.randn(value.shape, generator=draw, dtype=value.dtype)
            for name, value in model.parameters().items()
        }
    )
    drawn = torch.randint(len(labels), (sum(lengths),), generator=draw).tolist()
    tokens = iter(drawn)
    sequences = [[[f"a{next(tokens)}"] for _ in range(n)] for n in lengths]
    return model.chains(compile_features(sequences, support.attributes, support.columns))


def every_labelling(
    chains: ChainScores,
    labels: list[str],
    i: int,
    allows: Callable[[tuple[str, ...]], bool] = lambda _: True,
) -> dict[tuple[str, ...], float]:
    """The probability of each labelling of sequence i, given that it is one that is allowed."""
    lengths = chains.steps.lengths.tolist()
    begin, size = sum(lengths[:i]), lengths[i]
    weights = {}
    for choice in itertools.product(range(len(labels)), repeat=size):
        states = torch.zeros(sum(lengths), dtype=torch.int64)
        states[begin : begin + size] = torch.tensor(choice, dtype=torch.int64)
        named = tuple(labels[c] for c in choice)
        chance = float(path_scores(chains, states)[i].exp())
        weights[named] = chance if allows(named) else 0.0
    total = sum(weights.values())
    return {named: chance / total if total else 0.0 for named, chance in weights.items()}
