"""Masks against the list of all sequences: what is allowed stays, what is not is impossible."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.inference.spans import (
    TransitionMask,
    allowed_moves,
    allowed_states,
    forbidden_moves,
    legal_chunks,
)
from mrflearn.io.spans import SCHEMES, Scheme, tags_to_spans
from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import Steps
from support.chains import ChainBatch, every_path, random_chains

LABELS = {
    "IOB1": ["I-X", "O", "B-X", "I-Y", "B-Y"],
    "IOB2": ["B-X", "I-X", "O", "B-Y", "I-Y"],
    "BIOES": ["O", "B-X", "I-X", "E-X", "S-X", "S-Y"],
}


def well_formed(tags: tuple[str, ...], scheme: Scheme) -> bool:
    try:
        tags_to_spans(tags, scheme)
    except DataError:
        return False
    return True


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_exactly_the_well_formed_sequences_are_legal(scheme: Scheme, length: int) -> None:
    labels = LABELS[scheme]
    rules = legal_chunks(labels, scheme)
    for states in itertools.product(range(len(labels)), repeat=length):
        moves = all(bool(rules.move[a, b]) for a, b in itertools.pairwise(states))
        legal = moves and bool(rules.start[states[0]]) and bool(rules.end[states[-1]])
        assert legal == well_formed(tuple(labels[s] for s in states), scheme)


def rows_of(chains: ChainBatch) -> tuple[torch.Tensor, torch.Tensor, Steps]:
    steps = Steps.of(chains.lengths, width=chains.unary.shape[1])
    return steps.pack(chains.unary.flatten(0, 1)), chains.transition, steps


def random_rules(seed: int, states: int) -> TransitionMask:
    generator = torch.Generator().manual_seed(seed)
    start, end = torch.rand(2, states, generator=generator) < 0.7
    return TransitionMask(start, torch.rand(states, states, generator=generator) < 0.7, end)


@given(
    st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 4)
)
def test_sums_and_searches_see_only_what_is_allowed(
    seed: int, lengths: list[int], states: int
) -> None:
    chains, rules = random_chains(seed, lengths, states), random_rules(seed, states)
    unary, transition, steps = rows_of(chains)
    masked = rules.apply(unary, transition, steps)
    value = chain_sums.log_partition(*masked, steps)
    _, best = chain_search.viterbi(*masked, steps)
    for i in range(len(lengths)):
        paths, scores = every_path(chains, i)
        kept = rules.start[paths[:, 0]] & rules.end[paths[:, -1]]
        for t in range(1, lengths[i]):
            kept &= rules.move[paths[:, t - 1], paths[:, t]]
        scores = scores.masked_fill(~kept, -torch.inf)
        torch.testing.assert_close(value[i], scores.logsumexp(0))
        torch.testing.assert_close(best[i], scores.max())


def test_tables_of_single_steps_are_masked_too() -> None:
    chains, rules = random_chains(0, [3, 2], 3, shared=False), random_rules(5, 3)
    steps = Steps.of(chains.lengths)
    table = torch.zeros(len(steps) - steps.starting, 3, 3)
    _, masked = rules.apply(torch.zeros(len(steps), 3), table, steps)
    assert bool(((masked == 0) == rules.move).all())


def test_rules_join() -> None:
    first, second = random_rules(1, 4), random_rules(2, 4)
    both = first & second
    assert bool((both.move == (first.move & second.move)).all())
    assert bool((both.start == (first.start & second.start)).all())
    assert bool((both.end == (first.end & second.end)).all())


def test_states_that_stand_for_labels_obey_their_labels_rules() -> None:
    rules, label = random_rules(3, 3), torch.tensor([2, 0, 0, 1])
    lifted = rules.lifted(label)
    for p, a in enumerate(label):
        assert (lifted.start[p], lifted.end[p]) == (rules.start[a], rules.end[a])
        assert lifted.move[p].tolist() == [bool(rules.move[a, b]) for b in label]


def test_moves_and_states_by_name() -> None:
    labels = ["a", "b"]
    only, but = allowed_moves(labels, [("a", "b")]), forbidden_moves(labels, [("a", "b")])
    assert only.move.tolist() == [[False, True], [False, False]]
    assert but.move.tolist() == [[True, False], [True, True]]
    assert bool(only.start.all() & but.end.all())
    allowed = allowed_states(labels, ["b", None, {"a"}, ["a", "b"], []])
    assert allowed.tolist() == [[0, 1], [1, 1], [1, 0], [1, 1], [0, 0]]


def test_complaints() -> None:
    with pytest.raises(DataError, match="knows no label 'c'"):
        allowed_states(["a", "b"], ["c"])
    with pytest.raises(DataError, match="no tag of IOB2"):
        legal_chunks(["O", "S-X"], "IOB2")
    with pytest.raises(DataError, match="no chunk could be found"):
        legal_chunks(["O", "B-X", "I-X"], "BIOES")
    with pytest.raises(DataError, match="no chunk tag"):
        legal_chunks(["NN"], "IOB2")
    with pytest.raises(DataError, match=r"no tagging scheme .* BIO is IOB2"):
        legal_chunks(["O"], "IOB9")  # type: ignore[arg-type]
