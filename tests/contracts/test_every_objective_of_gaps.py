"""What every objective of a labelled field must be where labels are missing or uncertain."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.errors import TrainingError
from mrflearn.models.field_batch import FieldBatch
from mrflearn.objectives.field_objectives import Criterion, Principle
from support.labelled_fields import (
    Labelled,
    assert_gradient,
    function,
    labelled,
    labelled_fields,
    log_conditional,
    tables_of,
)

LOCAL: tuple[Criterion, ...] = ("pl", "edge-pl", "pw", "pwpl")


def hide(batch: FieldBatch, draw: int) -> FieldBatch:
    """The same with two labels uncertain: one wholly unknown, one of two."""
    chosen = torch.randperm(batch.graph.variables, generator=torch.Generator().manual_seed(draw))
    hidden, states = chosen[:2].sort().values, batch.states.clone()
    allowed = torch.ones(2, batch.graph.most_states, dtype=torch.bool)
    allowed[1, 2:] = False
    allowed[1, states[hidden[1]]] = True
    states[hidden] = -1
    return replace(batch, states=states, uncertain=hidden, allowed=allowed)


def completions(batch: FieldBatch) -> list[FieldBatch]:
    choices = [row.nonzero().flatten().tolist() for row in batch.allowed]
    found = []
    for choice in itertools.product(*choices):
        states = batch.states.clone()
        states[batch.uncertain] = torch.tensor(choice)
        none = batch.uncertain[:0]
        found.append(replace(batch, states=states, uncertain=none, allowed=batch.allowed[:0]))
    return found


@settings(max_examples=6)
@given(labelled_fields(), st.integers(0, 100))
def test_partial_likelihood_sums_over_completions(found: Labelled, draw: int) -> None:
    batch = hide(found.batch.examples(torch.tensor([0])), draw)
    wholes = [function(found, Principle("ml"), own)(found.vector)[0] for own in completions(batch)]
    expected = -torch.stack([-own for own in wholes]).logsumexp(0)
    mine = function(found, Principle("ml"), batch)
    torch.testing.assert_close(mine(found.vector)[0], expected)
    assert_gradient(mine, found.vector)


@pytest.mark.parametrize("estimator", LOCAL)
@settings(max_examples=6)
@given(found=labelled_fields(triples=False), draw=st.integers(0, 100))
def test_partial_local_estimators_sum_over_completions(
    estimator: Criterion, found: Labelled, draw: int
) -> None:
    batch = hide(found.batch, draw)
    mine = function(found, Principle(estimator), batch)
    assert_gradient(mine, found.vector)
    if estimator in ("pw", "pwpl"):
        assert float(mine(found.vector)[0]) == pytest.approx(
            partial_by_hand(found, batch, estimator), rel=1e-9
        )


def partial_by_hand(found: Labelled, batch: FieldBatch, estimator: str) -> float:
    """Pieces of one factor: log p(free allowed | given allowed), every completion written out."""
    allowed = [row.nonzero().flatten().tolist() for row in batch.allowed_states()]
    total = 0.0
    for scope, table in tables_of(found):
        frees = [scope] if estimator == "pw" else [[v] for v in scope]
        for free in frees:
            sums = []
            for opened in (free, []):
                choices = [
                    range(table.shape[k]) if v in opened else allowed[v]
                    for k, v in enumerate(scope)
                ]
                cells = [float(table[cell]) for cell in itertools.product(*choices)]
                sums.append(float(torch.tensor(cells, dtype=torch.float64).logsumexp(0)))
            total += sums[0] - sums[1]
    return total


def test_pl_with_a_missing_neighbour_sums_over_it() -> None:
    """On a chain every missing neighbour belongs to one factor: the sum is over all completions."""
    found = labelled(4, [(3, {"pair": [(0, 1), (1, 2)]})], states=3)
    batch = replace(
        found.batch,
        states=torch.tensor([int(found.batch.states[0]), int(found.batch.states[1]), -1]),
        uncertain=torch.tensor([2]),
        allowed=torch.ones(1, 3, dtype=torch.bool),
    )
    factors = list(tables_of(found))
    first = log_conditional(factors[:1], found.batch.states, [0], 3)
    before, middle = batch.states[:2].tolist()
    scores = factors[0][1][before] + factors[1][1].logsumexp(dim=1)
    expected = -(first + float(scores.log_softmax(0)[middle]))  # the last variable may be anything
    mine = function(found, Principle("pl"), batch)(found.vector)[0]
    assert float(mine) == pytest.approx(expected, rel=1e-9)


def test_reweighted_pieces_need_every_label() -> None:
    found = labelled(1, [(3, {"pair": [(0, 1), (1, 2)]})])
    with pytest.raises(TrainingError, match="needs every label"):
        function(found, Principle("pw-reweighted"), hide(found.batch, 0))
