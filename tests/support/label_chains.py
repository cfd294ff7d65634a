"""Chain CRFs small enough to list every labelling of, with random weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch

from mrflearn.estimators.crf_answers import path_scores
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import chain_templates
from mrflearn.models.loglinear import ChainPotentials, LogLinearField


def random_label_chains(
    seed: int, labels: list[str], lengths: list[int], order: int = 1
) -> ChainPotentials:
    """Sequences of these lengths under normal weights for every attribute, pair and triple."""
    draw = torch.Generator().manual_seed(seed)
    items = compile_features([[[f"a{i}"] for i in range(len(labels))]])
    truth = compile_labels([labels], items.lengths, Numbering())
    every = {"all_states": True, "all_transitions": True}
    templates, items = chain_templates(items, truth, order=order, **every)
    model = LogLinearField.zeros(templates, torch.float64)
    model = model.with_parameters(
        {
            name: torch.randn(value.shape, generator=draw, dtype=value.dtype)
            for name, value in model.parameters().items()
        }
    )
    drawn = torch.randint(len(labels), (sum(lengths),), generator=draw).tolist()
    tokens = iter(drawn)
    sequences = [[[f"a{next(tokens)}"] for _ in range(n)] for n in lengths]
    return model.chains(compile_features(sequences, templates[0].names, templates[0].columns))


def every_labelling(
    chains: ChainPotentials,
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
