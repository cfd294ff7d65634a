"""Networks of names and labels, beside enumeration of all joint states."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mrflearn import Network
from mrflearn.errors import GraphError, InferenceError

LABELS = {"cloudy": ["no", "yes"], "sprinkler": ["off", "on"], "wet": ["dry", "damp", "wet"]}


def lawn() -> Network:
    network = Network(LABELS)
    network.add_conditional("cloudy", [], [0.4, 0.6])
    network.add_conditional("sprinkler", ["cloudy"], [[0.5, 0.5], [0.9, 0.1]])
    table = [[[0.8, 0.1, 0.1], [0.0, 0.2, 0.8]], [[0.3, 0.3, 0.4], [0.0, 0.5, 0.5]]]
    return network.add_conditional("wet", ["cloudy", "sprinkler"], table)


def field() -> Network:
    draw = np.random.default_rng(0)
    network = Network({**LABELS, "tail": 2})
    network.add_factor(["wet", "cloudy"], draw.uniform(0, 1, (3, 2)))
    network.add_factor(["cloudy", "sprinkler", "tail"], draw.uniform(0, 1, (2, 2, 2)))
    return network.add_factor(["tail", "wet"], draw.uniform(0, 1, (2, 3)))


def joint(network: Network, evidence: dict[str, str]) -> dict[tuple[str, ...], float]:
    """The product of all tables at every joint state that agrees with the evidence."""
    record = network.to_uai()
    found = {}
    for place in itertools.product(*map(range, record.states)):
        labels = tuple(own[i] for own, i in zip(record.labels, place, strict=True))
        if all(labels[record.names.index(name)] == label for name, label in evidence.items()):
            values = (
                table[tuple(place[v] for v in scope)]
                for scope, table in zip(record.scopes, record.tables, strict=True)
            )
            found[labels] = math.prod(values)
    return found


@pytest.mark.parametrize("make", [lawn, field])
@pytest.mark.parametrize("evidence", [{}, {"wet": "damp"}, {"wet": "wet", "cloudy": "yes"}])
def test_answers_are_those_of_enumeration(make: Any, evidence: dict[str, str]) -> None:
    network = make()
    names = list(network.variables)
    every = joint(network, evidence)
    total = sum(every.values())
    assert float(network.log_partition(evidence)) == pytest.approx(math.log(total))
    pair = network.query(["sprinkler", "cloudy"], evidence)
    assert (pair.kind, pair.probabilities.sum()) == ("exact", pytest.approx(1))
    for (sprinkler, cloudy), value in pair.to_dict().items():
        here = [p for k, p in every.items() if (k[1], k[0]) == (sprinkler, cloudy)]
        assert value == pytest.approx(sum(here) / total)
        assert pair[sprinkler, cloudy] == value
    for name, own in network.marginals(evidence).items():
        assert own.to_dict() == pytest.approx(network.query(name, evidence).to_dict())
    best = network.map(evidence)
    assert every[tuple(best.states.values())] == pytest.approx(max(every.values()))
    assert best.log_score == pytest.approx(math.log(max(every.values())))
    few = network.map(evidence, ["cloudy"])
    sums = {c: sum(p for k, p in every.items() if k[0] == c) for c in LABELS["cloudy"]}
    assert few.log_score == pytest.approx(math.log(max(sums.values())))
    assert sums[few["cloudy"]] == pytest.approx(max(sums.values()))
    drawn = network.sample(200, evidence, seed=1)
    assert list(drawn) == names
    assert all(every[states] > 0 for states in zip(*drawn.values(), strict=True))


def test_a_bayesian_network_has_the_probability_of_its_evidence() -> None:
    assert float(lawn().log_partition()) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("suffix", ["uai", "bif", "xmlbif", "xml"])
def test_files_hold_the_same_network(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"lawn.{suffix}"
    lawn().write(path)
    again = Network.read(path)
    cloudy, _, wet = again.variables
    found = again.query(cloudy, {wet: again.variables[wet][2]}).probabilities
    assert found.tolist() == lawn().query("cloudy", {"wet": "wet"}).probabilities.tolist()
    if suffix != "uai":
        assert again.variables == {name: tuple(own) for name, own in LABELS.items()}


def test_a_markov_network_goes_to_uai_alone(tmp_path: Path) -> None:
    field().write(tmp_path / "field.uai")
    total = float(Network.read(tmp_path / "field.uai").log_partition())
    assert total == pytest.approx(float(field().log_partition()))
    with pytest.raises(ValueError, match="UAI"):
        field().write(tmp_path / "field.bif")


def stand_in(network: Network, *, directed: bool) -> Any:
    """What pgmpy's models show of themselves."""
    record = network.to_uai()
    tables = []
    for scope, values in zip(record.scopes, record.tables, strict=True):
        names = [record.names[v] for v in scope]
        labels = {name: list(network.variables[name]) for name in names}
        if directed:
            names, values = [names[-1], *names[:-1]], np.moveaxis(values, -1, 0)
        tables.append(SimpleNamespace(variables=names, values=values, state_names=labels))
    give = {"get_cpds" if directed else "get_factors": lambda: tables}
    return SimpleNamespace(nodes=lambda: list(record.names), **give)


@pytest.mark.parametrize(("make", "directed"), [(lawn, True), (field, False)])
def test_models_of_pgmpy_are_taken(make: Any, directed: bool) -> None:
    network = make()
    again = Network.from_pgmpy(stand_in(network, directed=directed))
    assert again.variables == network.variables
    assert again.to_uai().kind == ("BAYES" if directed else "MARKOV")
    evidence = {"wet": "damp"}
    assert again.query("cloudy", evidence).to_dict() == pytest.approx(
        network.query("cloudy", evidence).to_dict()
    )


def test_models_without_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="SimpleNamespace"):
        Network.from_pgmpy(SimpleNamespace(get_factors=list))


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda n: n.query("wte"), ["'wte'", "'wet'"]),
        (lambda n: n.query("wet", {"cloudy": "maybe"}), ["'cloudy'", "'maybe'"]),
        (lambda n: n.query("wet", ["cloudy"]), ["evidence"]),
        (lambda n: n.query([]), ["variable"]),
        (lambda n: n.query(["wet", "wet"]), ["twice"]),
        (lambda n: n.query("wet")["no", "yes"], ["wet"]),
        (lambda n: n.add_factor(["wet"], [1, 2]), ["(3,)", "(2,)"]),
        (lambda n: n.add_factor(["cloudy"], [-1, 2]), ["-1"]),
        (lambda n: n.add_factor(["cloudy"], ["a", 2]), ["numbers"]),
        (lambda n: n.add_conditional("wet", [], [0.2, 0.3, 0.5]), ["'wet'"]),
        (lambda n: Network({"a": 2}).add_conditional("a", [], [0.2, 0.3]), ["0.5"]),
        (lambda n: Network({"a": "no"}), ["'a'"]),
        (lambda n: Network({"a": ["x", "x"]}), ["'a'"]),
        (lambda n: Network(["a"]), ["list"]),
    ],
)
def test_mistakes_are_named(call: Any, facts: list[str]) -> None:
    with pytest.raises(GraphError) as caught:
        call(lawn())
    assert all(fact in str(caught.value) for fact in facts)


def test_impossible_evidence_is_said_to_be() -> None:
    evidence = {"sprinkler": "on", "wet": "dry"}
    for ask in (lawn().marginals, lawn().map, lambda e: lawn().query("cloudy", e)):
        with pytest.raises(InferenceError, match="evidence"):
            ask(evidence)
    assert float(lawn().log_partition(evidence)) == -math.inf


def test_a_picture_has_a_box_a_variable_and_what_joins_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need the extra plots")
    (axis,) = lawn().draw({"wet": "wet"}, tmp_path / "lawn.png").axes
    boxes = [text.get_text().split("\n") for text in axis.texts if text.get_text()]
    assert [lines[0] for lines in boxes] == list(LABELS)
    assert boxes[2] == ["wet", "dry  0.000", "damp  0.000", "wet  1.000"]
    assert len([text for text in axis.texts if not text.get_text()]) == 3  # arrows
    assert (tmp_path / "lawn.png").read_bytes().startswith(b"\x89PNG")
    (axis,) = field().draw().axes
    assert len(axis.collections) == 3  # squares
