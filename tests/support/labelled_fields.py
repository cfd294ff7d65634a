"""Tiny labelled fields with features, and the estimators of piecewise training written out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.execution.resources import Threads
from mrflearn.features.features import compile_features
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.models.field_batch import FieldBatch, find_templates
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Layout, Objective
from mrflearn.objectives.distributed import Distributed
from mrflearn.objectives.field_objectives import Criterion, Principle, field_objective

Scopes = Sequence[tuple[int, ...]]
PRECISE = BeliefPropagation(max_sweeps=3000, tolerance=1e-12, damping=0.3)


@dataclass(frozen=True, eq=False)
class Labelled:
    """A batch, a field for it, and a vector of weights to try."""

    batch: FieldBatch
    field: LogLinearField
    vector: Tensor

    @property
    def potentials(self) -> Potentials:
        layout = Layout.of(self.field.parameters())
        return self.field.with_parameters(layout.unflatten(self.vector)).potentials(self.batch)


def labelled(
    seed: int,
    examples: Sequence[tuple[int, dict[str, Scopes]]],
    *,
    states: int = 2,
    dense: bool = False,
    everything: bool = False,
    weight: Tensor | None = None,
) -> Labelled:
    """Examples of (variables, {template: scopes}) with random features, labels and weights."""
    draw = torch.Generator().manual_seed(seed)
    names = list(examples[0][1])
    starts = [0, *itertools.accumulate(count for count, _ in examples)]
    groups, features = [], []
    for name in names:
        scopes = [
            [v + start for v in scope]
            for (_, own), start in zip(examples, starts, strict=False)
            for scope in own[name]
        ]
        arity = len(next(scope for _, own in examples for scope in own[name]))
        scope = torch.tensor(scopes, dtype=torch.int64).reshape(-1, arity)
        rows = max(1, len(scopes) - 1)  # so that some factors share their features
        table = torch.randint(rows, (len(scopes),), generator=draw)
        groups.append(FactorGroup(name, scope, table))
        features.append(compile_features([[_item(draw, dense) for _ in range(rows)]]))
    owner = torch.arange(len(examples)).repeat_interleave(
        torch.tensor([count for count, _ in examples])
    )
    counts = torch.full((starts[-1],), states)
    graph = FactorGraph(counts, tuple(groups), owner, components=len(examples))  # type: ignore[arg-type]
    gold = torch.randint(states, (graph.variables,), generator=draw)
    batch = FieldBatch(graph, tuple(features), gold, weight=weight)
    field = LogLinearField.zeros(find_templates(batch, everything=everything), torch.float64)
    size = Layout.of(field.parameters()).size
    return Labelled(batch, field, torch.randn(size, generator=draw, dtype=torch.float64))


def assert_partitions_add_up(found: Labelled, estimator: Criterion, place: Executor) -> None:
    """Value and gradient, of two vectors in turn, are those of the whole batch in one place."""
    principle = Principle(estimator, bp=PRECISE)
    whole = field_objective(found.field, found.batch, principle, Threads(1))
    with place.hold([(str(k), own) for k, own in enumerate(found.batch.parts(3))]) as held:
        parts = Distributed(found.field, principle, held)
        for vector in (found.vector, 0.7 * found.vector):  # workers keep what they compiled
            summed, wanted = answers(parts)(vector), answers(whole)(vector)
            torch.testing.assert_close(summed[0], wanted[0], rtol=1e-8, atol=0)
            torch.testing.assert_close(summed[1], wanted[1], rtol=1e-8, atol=1e-8)


def _item(draw: torch.Generator, dense: bool) -> dict[str, object]:
    chosen = torch.randint(4, (2,), generator=draw).tolist()
    values = torch.rand(2, generator=draw).tolist()
    item: dict[str, object] = {f"a{k}": round(v, 3) for k, v in zip(chosen, values, strict=True)}
    if dense:
        item["d"] = torch.randn(2, generator=draw).numpy()
    return item


@st.composite
def labelled_fields(draw: st.DrawFn, *, most: int = 4, triples: bool = True) -> Labelled:
    """One or two examples of random graphs with factors of one, two and three variables."""
    examples = []
    for _ in range(draw(st.integers(1, 2))):
        count = draw(st.integers(3, most))
        pairs = list(itertools.combinations(range(count), 2))
        edges = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=4))
        own: dict[str, Scopes] = {
            "unary": [(v,) for v in range(count) if draw(st.booleans())] or [(0,)],
            "pair": edges,
        }
        if triples:
            cubes = list(itertools.permutations(range(count), 3))
            own["triple"] = draw(st.lists(st.sampled_from(cubes), min_size=1, max_size=2))
        examples.append((count, own))
    return labelled(
        draw(st.integers(0, 10_000)),
        examples,
        states=draw(st.integers(2, 3)),
        dense=draw(st.booleans()),
        everything=draw(st.booleans()),
    )


def tables_of(found: Labelled) -> Iterator[tuple[list[int], Tensor]]:
    """The scope and the table of every factor."""
    potentials = found.potentials
    for index, group in enumerate(potentials.graph.groups):
        scores = potentials.factor_scores(index).detach()
        yield from zip(group.scope.tolist(), scores, strict=True)


def log_conditional(
    factors: Sequence[tuple[list[int], Tensor]], states: Tensor, free: Sequence[int], sizes: int
) -> float:
    """log p(free | others) by the product of these factors alone, every state written out."""
    totals = []
    for choice in itertools.product(range(sizes), repeat=len(free)):
        trial = states.clone()
        trial[list(free)] = torch.tensor(choice)
        totals.append(sum(float(table[tuple(trial[scope])]) for scope, table in factors))
    gold = sum(float(table[tuple(states[scope])]) for scope, table in factors)
    return gold - float(torch.tensor(totals, dtype=torch.float64).logsumexp(0))


def by_hand(found: Labelled, estimator: str, *, edges: bool = False) -> float:
    """Minus the local log-likelihoods of an estimator, term by term."""
    states, factors = found.batch.states, list(tables_of(found))
    everyone, sizes = range(found.batch.graph.variables), found.batch.graph.most_states
    joined = {v for scope, _ in factors if len(scope) > 1 for v in scope}
    total = 0.0
    if estimator == "pl":
        total = sum(log_conditional(factors, states, [v], sizes) for v in everyone)
    if estimator == "edge-pl":
        scopes = {tuple(sorted(scope)) for scope, _ in factors if len(scope) > 1}
        alone = [(v,) for v in everyone if v not in joined]
        total = sum(log_conditional(factors, states, scope, sizes) for scope in [*scopes, *alone])
    if estimator in ("pw", "pwpl"):
        for scope, table in factors:
            if edges and len(scope) == 1:
                continue
            piece = [(scope, table)]
            if edges:
                piece += [own for own in factors if len(own[0]) == 1 and own[0][0] in scope]
            frees = [scope] if estimator == "pw" else [[v] for v in scope]
            total += sum(log_conditional(piece, states, free, sizes) for free in frees)
        for v in everyone:
            if edges and v not in joined:
                piece = [own for own in factors if v in own[0]]
                total += log_conditional(piece, states, [v], sizes)
    return -total


def function(
    found: Labelled, principle: Principle, batch: FieldBatch | None = None
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Value and gradient of an objective on the batch, or on another one."""
    return answers(field_objective(found.field, batch or found.batch, principle, Threads(1)))


def answers(objective: Objective[Any]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Value and gradient of any objective."""

    def call(vector: Tensor) -> tuple[Tensor, Tensor]:
        found = objective(vector)
        return found.value, found.gradient

    return call


def assert_gradient(call: Callable[[Tensor], tuple[Tensor, Tensor]], vector: Tensor) -> None:
    """The gradient agrees with differences of the value along a few directions."""
    gradient = call(vector)[1]
    draw = torch.Generator().manual_seed(1)
    for _ in range(2):
        way = torch.randn(len(vector), generator=draw, dtype=torch.float64)
        step = 1e-5 * way
        slope = (call(vector + step)[0] - call(vector - step)[0]) / 2e-5
        torch.testing.assert_close(slope, gradient @ way, rtol=1e-5, atol=1e-6)
