"""What a chain CRF says of sequences, as plain lists: labels, probabilities, n best, samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.features.labels import CompiledLabels
from mrflearn.kernels import chain_sampling, chain_search, chain_sums
from mrflearn.kernels.chain_steps import scores_along
from mrflearn.models.chain_crf import ChainScores

Labels = Sequence[str]
T = TypeVar("T")


def best_labels(chains: ChainScores, labels: Labels) -> list[list[str]]:
    """The most probable labels of each sequence."""
    states, _ = chain_search.viterbi(chains.unary, chains.table, chains.steps)
    return _named(chains.chain.label(states), chains, labels)


def best_lists(
    chains: ChainScores, labels: Labels, count: int
) -> list[list[tuple[list[str], float]]]:
    """The `count` best (labels, probability) of each sequence; fewer where there are fewer."""
    paths, scores = chain_search.n_best(chains.unary, chains.table, chains.steps, count)
    total = chain_sums.log_partition(chains.unary, chains.table, chains.steps)
    probability = (scores - total[:, None]).double().exp().tolist()
    named = [_named(chains.chain.label(path), chains, labels) for path in paths.unbind(dim=1)]
    possible = scores.isfinite().sum(dim=1).tolist()
    return [
        [(named[rank][i], probability[i][rank]) for rank in range(possible[i])]
        for i in range(len(possible))
    ]


def marginals(chains: ChainScores) -> Float[Tensor, "k s"]:
    """The probability of every label at every token, all sequences end to end."""
    if chains.table.ndim == 2:
        single = chain_sums.expectations(chains.unary, chains.table, chains.steps).single
    else:
        _, single, _ = chain_sums.marginals(chains.unary, chains.table, chains.steps)
    return _in_order(chains.chain.of_labels(single), chains)


def marginal_dicts(chains: ChainScores, labels: Labels) -> list[list[dict[str, float]]]:
    """The probability of every label at every token of each sequence."""
    rows = marginals(chains).double().cpu().tolist()
    named = [dict(zip(labels, row, strict=True)) for row in rows]
    return _cut(named, chains)


def marginal_arrays(chains: ChainScores) -> list[NDArray[np.float64]]:
    """The same as one array a sequence, tokens x labels."""
    rows = marginals(chains).double().cpu().numpy()
    return np.split(rows, chains.steps.lengths.cumsum(0).cpu().numpy()[:-1])


def log_probabilities(chains: ChainScores, labels: CompiledLabels) -> Float[Tensor, "b"]:
    """log p of each sequence's labels, or of their being among those allowed where uncertain."""
    total = chain_sums.log_partition(chains.unary, chains.table, chains.steps).double()
    if not len(labels.uncertain):
        return path_scores(chains, labels.states) - total
    allowed = labels.allowed_states().to(chains.unary.device)
    states = chains.chain.allowed(chains.steps.pack(allowed))
    bound = chains.unary.masked_fill(~states, -torch.inf)
    return chain_sums.log_partition(bound, chains.table, chains.steps).double() - total


def path_scores(chains: ChainScores, states: Int64[Tensor, "k"]) -> Float[Tensor, "b"]:
    """The score of each labelled sequence; -inf where the chain has no such path."""
    steps, table = chains.steps, chains.table
    path = chains.chain.path(steps.pack(states.to(steps.source.device)), steps)
    possible = path >= 0
    path = path.clamp(min=0)
    score = chains.unary.gather(1, path[:, None]).squeeze(1).double()
    score[steps.starting :] += scores_along(table, path[steps.previous], path[steps.starting :])
    score = score.masked_fill(~possible, -torch.inf)
    return steps.totals(score)


def entropies(chains: ChainScores) -> list[float]:
    """The entropy of each sequence's distribution over label sequences, in nats."""
    values = chain_sums.entropy(chains.unary, chains.table, chains.steps)
    return [float(value) for value in values.double().cpu()]


def samples(
    chains: ChainScores, labels: Labels, count: int, generator: torch.Generator
) -> list[list[list[str]]]:
    """`count` draws for each sequence."""
    drawn = chain_sampling.sample(chains.unary, chains.table, chains.steps, count, generator)
    draws = [_named(chains.chain.label(states), chains, labels) for states in drawn]
    return [list(own) for own in zip(*draws, strict=True)]


def _named(rows: Int64[Tensor, "r"], chains: ChainScores, labels: Labels) -> list[list[str]]:
    numbers = _in_order(rows, chains).tolist()
    return _cut([labels[number] for number in numbers], chains)


def _in_order(rows: Shaped[Tensor, "r *n"], chains: ChainScores) -> Shaped[Tensor, "r *n"]:
    return chains.steps.unpack(rows, len(rows))


def _cut(tokens: list[T], chains: ChainScores) -> list[list[T]]:
    return list(_runs(tokens, chains.steps.lengths.tolist()))


def _runs(tokens: list[T], lengths: list[int]) -> Iterator[list[T]]:
    begin = 0
    for length in lengths:
        yield tokens[begin : begin + length]
        begin += length
