"""What every objective of a labelled field must be, against sums written out."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from mrflearn.errors import GraphError, SettingsError, TrainingError
from mrflearn.execution.executor import Processes, Serial
from mrflearn.execution.resources import Threads
from mrflearn.inference.belief_propagation import FixedPoint, beliefs_at
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.messages import Field
from mrflearn.objectives import distributed
from mrflearn.objectives.distributed import Distributed
from mrflearn.objectives.field_objectives import Criterion, Principle, field_objective
from mrflearn.objectives.likelihood import FieldLikelihood
from mrflearn.objectives.local_problems import named_pieces, split_batch
from mrflearn.objectives.reweighted import with_shares
from support.labelled_fields import (
    PRECISE,
    Labelled,
    answers,
    assert_gradient,
    assert_partitions_add_up,
    by_hand,
    function,
    labelled,
    labelled_fields,
    log_conditional,
    tables_of,
)

LOCAL: tuple[Criterion, ...] = ("pl", "edge-pl", "pw", "pwpl")
EVERY: tuple[Criterion, ...] = (*LOCAL, "ml", "bp", "pw-reweighted")
CHAIN = (4, {"unary": [(v,) for v in range(4)], "pair": [(0, 1), (1, 2), (2, 3)]})
RING = (4, {"unary": [(0,)], "pair": [(0, 1), (1, 2), (2, 3), (3, 0)]})


def value(found: Labelled, estimator: Criterion, **options: object) -> float:
    principle = Principle(estimator, bp=PRECISE, **options)  # type: ignore[arg-type]
    return float(function(found, principle)(found.vector)[0])


def log_partition(found: Labelled) -> float:
    return float(Enumeration()(found.potentials).log_partition.sum())


def gold_score(found: Labelled) -> float:
    return float(found.potentials.score(found.batch.states).sum())


@settings(max_examples=8)
@given(labelled_fields())
def test_potentials_are_sums_of_weights(found: Labelled) -> None:
    names = found.field.parameters()
    at = dict(zip(names, found.vector.split([w.numel() for w in names.values()]), strict=True))
    potentials = found.potentials
    for index, template in enumerate(found.field.templates):
        features = found.batch.features[index]
        for row in range(features.tokens):
            table = torch.zeros(template.cells, dtype=torch.float64)
            begin = int(features.ends[row - 1]) if row else 0
            for z in range(begin, int(features.ends[row])):
                number = 1.0 if features.values is None else float(features.values[z])
                for k in (template.attribute == features.attributes[z]).nonzero().flatten():
                    table[template.cell[k]] += number * at[template.name][k]
            if features.dense is not None:
                weights = at[f"{template.name} dense"].view(len(template.columns), -1)
                table += features.dense[row].double() @ weights
            mine = potentials.tables[index].dense()[row].flatten()
            torch.testing.assert_close(mine, table)


@pytest.mark.parametrize(
    ("estimator", "edges"),
    [*((own, False) for own in LOCAL), ("pw", True), ("pwpl", True)],
)
@settings(max_examples=9)
@given(found=labelled_fields())
def test_local_estimators_are_sums_of_conditionals(
    estimator: Criterion, edges: bool, found: Labelled
) -> None:
    pieces = "edges" if edges else "factors"
    expected = by_hand(found, estimator, edges=edges)
    assert value(found, estimator, pieces=pieces) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=9)
@given(labelled_fields())
def test_ml_is_the_likelihood(found: Labelled) -> None:
    assert value(found, "ml") == pytest.approx(log_partition(found) - gold_score(found), rel=1e-9)


@pytest.mark.parametrize("estimator", EVERY)
@settings(max_examples=4)
@given(found=labelled_fields(most=3))
def test_gradients_are_slopes(estimator: Criterion, found: Labelled) -> None:
    vector = 0.3 * found.vector  # weak fields, on which belief propagation comes to rest
    assert_gradient(function(found, Principle(estimator, bp=PRECISE)), vector)


@settings(max_examples=6)
@given(labelled_fields(most=3))
def test_gradients_of_optimised_shares_are_slopes(found: Labelled) -> None:
    field = with_shares(found.field)
    principle = Principle("pw-reweighted", shares="optimised")
    call = answers(field_objective(field, found.batch, principle, Threads(1)))
    count = len(field.templates)
    assert_gradient(call, torch.cat([found.vector, torch.linspace(-0.5, 0.5, count).double()]))


@pytest.mark.parametrize(
    "principle",
    [
        *(Principle(estimator, bp=PRECISE) for estimator in EVERY),
        Principle("pw-reweighted", shares="optimised"),
    ],
    ids=[*EVERY, "optimised"],
)
def test_examples_without_variables_add_nothing(principle: Principle) -> None:
    empty = (0, dict.fromkeys(RING[1], ()))
    found = labelled(3, [RING, empty, RING, empty])
    field = with_shares(found.field) if principle.shares == "optimised" else found.field
    vector = torch.cat([found.vector, torch.zeros(0 if field.shares is None else 2)])
    full = found.batch.examples(torch.tensor([0, 2]))
    batches = (found.batch, full)
    calls = [answers(field_objective(field, own, principle, Threads(1))) for own in batches]
    for own, wanted in zip(*(call(vector) for call in calls), strict=True):
        torch.testing.assert_close(own, wanted)


@pytest.mark.parametrize("estimator", EVERY)
def test_examples_count_by_their_weight(estimator: Criterion) -> None:
    once = labelled(3, [RING, RING])
    batch = replace(once.batch, weight=torch.tensor([2.0, 0.5]))
    parts = [once.batch.examples(torch.tensor([k])) for k in range(2)]
    principle = Principle(estimator, bp=PRECISE)
    alone = [function(once, principle, part)(once.vector) for part in parts]
    together = function(once, principle, batch)(once.vector)
    torch.testing.assert_close(together[0], 2 * alone[0][0] + 0.5 * alone[1][0])
    torch.testing.assert_close(together[1], 2 * alone[0][1] + 0.5 * alone[1][1])


@settings(max_examples=9)
@given(labelled_fields())
def test_piecewise_is_likelihood_on_the_node_split_graph(found: Labelled) -> None:
    numbers, begin = [], 0
    for group in found.batch.graph.groups:
        numbers.append(torch.arange(begin, begin + len(group)))
        begin += len(group)
    split = split_batch(found.batch, numbers)
    likelihood = FieldLikelihood(found.field, split, Enumeration(), Threads(1))
    exact = answers(likelihood)(found.vector)
    mine = function(found, Principle("pw"))(found.vector)
    torch.testing.assert_close(mine[0], exact[0])
    torch.testing.assert_close(mine[1], exact[1])


@settings(max_examples=9)
@given(labelled_fields())
def test_pieces_bound_the_likelihood(found: Labelled) -> None:
    """[Sutton and McCallum 2009, Proposition 1 and eq. 34]"""
    likelihood = value(found, "ml")
    assert value(found, "pw") >= likelihood - 1e-9
    assert value(found, "pw-reweighted") >= likelihood - 1e-9
    shares = {t.name: 1.0 + k for k, t in enumerate(found.field.templates)}
    assert value(found, "pw-reweighted", shares=shares) >= likelihood - 1e-9
    names = [t.name for t in found.field.templates]
    assert value(found, "pw", pieces=[names[:2], names[2:]]) >= likelihood - 1e-9


@settings(max_examples=8)
@given(labelled_fields(most=3))
def test_reweighted_pieces_written_out(found: Labelled) -> None:
    """[Sutton and McCallum 2009, eq. 35, with the constant of eq. 34]"""
    graph, total = found.batch.graph, 0.0
    counts = torch.zeros(graph.components)
    for group in graph.groups:
        counts += torch.bincount(graph.component_of(group), minlength=graph.components)
    for scope, table in tables_of(found):
        example = int(graph.component[scope[0]])
        share = 1 / float(counts[example])
        inside = graph.component == example
        inside[scope] = False
        outside = float(graph.states[inside].double().log().sum())
        total += share * (float((table / share).flatten().logsumexp(0)) + outside)
    expected = total - gold_score(found)
    assert value(found, "pw-reweighted") == pytest.approx(expected, rel=1e-9)


def test_all_factors_in_one_piece_are_the_likelihood() -> None:
    found = labelled(5, [RING, CHAIN])
    whole = value(found, "pw", pieces=[["unary", "pair"]])
    assert whole == pytest.approx(value(found, "ml"), rel=1e-9)


@settings(max_examples=8)
@given(labelled_fields())
def test_variables_of_larger_pieces_one_by_one(found: Labelled) -> None:
    """[Sutton and McCallum 2009, section 4.1]"""
    names, graph = [t.name for t in found.field.templates], found.batch.graph
    pieces = [[names[0]], names[1:]]
    expected, tables = 0.0, iter(tables_of(found))
    scored = {group.name: [next(tables) for _ in range(len(group))] for group in graph.groups}
    for piece in pieces:
        factors = [own for name in piece for own in scored[name]]
        for v in sorted({v for scope, _ in factors for v in scope}):
            expected -= log_conditional(factors, found.batch.states, [v], graph.most_states)
    assert value(found, "pwpl", pieces=pieces) == pytest.approx(expected, rel=1e-9)
    assert_gradient(function(found, Principle("pwpl", pieces=pieces)), found.vector)


def test_belief_propagation_before_the_first_message_is_piecewise() -> None:
    """[Sutton and McCallum 2009, eq. 27]"""
    found = labelled(7, [(4, {"pair": [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]})], states=3)
    potentials = found.potentials
    field = Field.of(potentials)
    rest = FixedPoint(field.start(None), 0, 0.0, True)
    bethe = float(beliefs_at(potentials, field, rest, "approximation").log_partition.sum())
    degrees = torch.tensor([3.0, 2.0, 3.0, 2.0], dtype=torch.float64)
    constant = float(((1 - degrees) * torch.tensor(3.0).double().log()).sum())
    assert value(found, "pw") == pytest.approx(bethe - constant - gold_score(found), rel=1e-9)


def test_bp_is_exact_on_trees_and_bethe_elsewhere() -> None:
    tree = labelled(2, [(4, {"pair": [(0, 1), (1, 2), (1, 3)]})])
    assert value(tree, "bp") == pytest.approx(value(tree, "ml"), rel=1e-8)
    ring = labelled(2, [RING])
    bethe = float(PRECISE(ring.potentials).log_partition.sum()) - gold_score(ring)
    assert value(ring, "bp") == pytest.approx(bethe, rel=1e-9)
    assert value(ring, "bp") != pytest.approx(value(ring, "ml"), rel=1e-6)


def test_piecewise_pseudolikelihood_of_a_chain_is_two_local_models() -> None:
    """[Sutton and McCallum 2009, eq. 45]"""
    found = labelled(11, [(5, {"pair": [(t, t + 1) for t in range(4)]})], states=3)
    states, total = found.batch.states, 0.0
    for scope, table in tables_of(found):
        before, after = states[scope].tolist()
        total += float(table[before].log_softmax(0)[after])
        total += float(table[:, after].log_softmax(0)[before])
    assert value(found, "pwpl") == pytest.approx(-total, rel=1e-9)


@pytest.mark.parametrize("estimator", EVERY)
@pytest.mark.parametrize("place", ["serial", "processes"])
def test_partitions_add_up_to_the_whole(
    estimator: Criterion, place: str, processes: Processes
) -> None:
    found = labelled(9, [RING, CHAIN, RING, CHAIN, RING], states=3, dense=True)
    assert_partitions_add_up(found, estimator, Serial() if place == "serial" else processes)


def test_parts_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, compiled = labelled(9, [RING, CHAIN, RING], states=3), []

    def counted(*given: Any) -> Any:
        compiled.append(given[1])
        return field_objective(*given)

    monkeypatch.setattr(distributed, "field_objective", counted)
    held = Serial().hold([(str(k), own) for k, own in enumerate(found.batch.parts(3))])
    parts = Distributed(found.field, Principle("pw"), held)
    first, again = parts(found.vector), parts(found.vector)
    assert len(compiled) == 3
    assert torch.equal(again.gradient, first.gradient)


@pytest.mark.parametrize("estimator", EVERY)
def test_threads_change_no_answer(estimator: Criterion) -> None:
    found = labelled(9, [RING, CHAIN, RING], states=3)
    principle = Principle(estimator, bp=PRECISE)
    alone = function(found, principle)(found.vector)
    with Threads(2) as threads:
        call = answers(field_objective(found.field, found.batch, principle, threads))
        mine = call(found.vector)
    torch.testing.assert_close(mine, alone)


def test_impossible_wishes_are_refused() -> None:
    found = labelled(1, [RING])
    with pytest.raises(SettingsError, match="not one of ml, bp"):
        Principle("mle")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="'factors', 'edges' or lists"):
        Principle("pw", pieces="cliques")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="'edges' are for estimator='pw' and 'pwpl'"):
        Principle("pl", pieces="edges")
    with pytest.raises(SettingsError, match="for estimator='pw'"):
        Principle("pl", pieces=[["unary"], ["pair"]])
    with pytest.raises(SettingsError, match="for estimator='pw-reweighted'"):
        Principle("pw", shares="optimised")
    with pytest.raises(GraphError, match="must name each of the factors"):
        named_pieces(found.batch, [["unary"]])
    with pytest.raises(TrainingError, match="a weight above 0"):
        function(found, Principle("pw-reweighted", shares={"unary": 1.0}))


def test_a_cyclic_piece_that_is_too_wide_is_refused() -> None:
    count = 40
    found = labelled(
        1, [(count, {"pair": list(itertools.combinations(range(count), 2))})], states=3
    )
    with pytest.raises(TrainingError, match="a piece has cycles and is too wide"):
        function(found, Principle("pw", pieces=[["pair"]]))


def test_a_field_refuses_other_factors() -> None:
    found, other = labelled(1, [RING]), labelled(1, [(3, {"skip": [(0, 1)]})])
    with pytest.raises(GraphError, match=r"the graph has the factors \['skip'\]"):
        function(found, Principle("pw"), other.batch)
    with pytest.raises(GraphError, match="reads row"):
        replace(
            other.batch,
            features=(other.batch.features[0].taken(torch.tensor([], dtype=torch.int64)),),
        )
