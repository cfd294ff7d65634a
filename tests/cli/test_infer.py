"""`mrflearn infer` answers in one JSON object, or in one clear line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mrflearn import MarkovField
from mrflearn.graph import grid, random_ising, to_uai
from mrflearn.io import read_samples, write_network
from support.command import run

# p(a) = (.25, .75); p(b | a) = (.1 .9 / .6 .4)
NETWORK = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n.25 .75\n\n4\n.1 .9\n.6 .4\n"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "small.uai"
    path.write_text(NETWORK)
    (tmp_path / "small.uai.evid").write_text("1 1 0\n")
    return path


@pytest.mark.parametrize("method", ["auto", "exact", "bp", "trw", "mean-field"])
def test_json_has_log_partition_kind_marginals_and_seconds(network: Path, method: str) -> None:
    found = run("infer", str(network), "--method", method, "--json")
    assert (found.code, found.err) == (0, "")
    answer = found.json()
    assert answer["kind"] in ("exact", "upper bound", "lower bound", "approximation")
    assert answer["seconds"] > 0
    assert [len(m) for m in answer["marginals"]] == [2, 2]
    if method != "mean-field":
        assert answer["log_partition"] == pytest.approx(0, abs=1e-9)
        assert answer["marginals"][1] == pytest.approx([0.475, 0.525])


def test_evidence_is_put_in(network: Path) -> None:
    answer = run("infer", str(network), "--evidence", f"{network}.evid", "--json").json()
    assert answer["log_partition"] == pytest.approx(math.log(0.475))
    assert answer["marginals"][0] == pytest.approx([0.025 / 0.475, 0.45 / 0.475])
    assert answer["marginals"][1] == [1.0, 0.0]


def test_people_read_a_table_and_the_errors(network: Path) -> None:
    Path(f"{network}.PR").write_text(f"PR\n{math.log10(0.475)}\n")
    Path(f"{network}.MAR").write_text("MAR\n2 2 .0526316 .947368 2 1 0\n")
    found = run("infer", str(network), "--evidence", f"{network}.evid", "--compare")
    assert found.code == 0
    told = found.facts()
    assert (told["log partition"], told["kind"]) == ("-0.744440475 nats", "exact")
    assert told["published log base"] == "10"
    assert float(told["log partition difference"]) < 1e-6
    assert float(told["largest marginal difference"]) < 1e-6
    assert "x1 (observed)  0: 1.0000, 1: 0.0000" in found.out
    assert "bound" not in found.err


def test_a_published_bound_is_no_error_of_an_exact_answer(network: Path) -> None:
    Path(f"{network}.PR").write_text("PR\n8.5\n")
    found = run("infer", str(network), "--compare", "--json")
    assert found.json()["log_partition_difference"] > 1
    assert f"{network.name}.PR is not the exact log Z" in found.err
    approximate = run("infer", str(network), "--compare", "--method", "mean-field")
    assert "exact log Z" not in approximate.err


def test_too_wide_a_network_is_answered_by_propagation_and_says_so(tmp_path: Path) -> None:
    from mrflearn.graph.builders import complete
    from mrflearn.graph.gauges import random_ising
    from mrflearn.graph.networks import to_uai
    from mrflearn.io.uai import write_network

    path = tmp_path / "wide.uai"
    write_network(path, to_uai(random_ising(complete(6), scale=0.1)))
    found = run("infer", str(path), "--memory", "0.05", "--json")
    assert found.json()["kind"] == "exact"
    write_network(path, to_uai(random_ising(complete(24), scale=0.02)))
    found = run("infer", str(path), "--memory", "0.05", "--json")
    assert found.json()["kind"] == "approximation"
    assert "width" in found.err
    assert "belief propagation" in found.err
    refused = run("infer", str(path), "--memory", "0.05", "--method", "exact")
    assert refused.code == 1
    assert "width" in refused.err
    assert refused.out == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("MARKOV\n1\n2\n1\n1 0\n3\n1 2 3\n", "small.uai:"),
        ("hello", "small.uai:1"),
        ("", "small.uai:1"),
    ],
)
def test_a_broken_network_is_one_line(network: Path, content: str, says: str) -> None:
    network.write_text(content)
    found = run("infer", str(network), "--json")
    assert (found.code, found.out) == (1, "")
    assert says in found.err
    assert len(found.err.splitlines()) == 1


def test_evidence_outside_the_network_is_told(network: Path) -> None:
    Path(f"{network}.evid").write_text("1 7 0\n")
    found = run("infer", str(network), "--evidence", f"{network}.evid")
    assert found.code == 1
    assert "variable 7" in found.err


@pytest.mark.parametrize("method", ["auto", "exact", "bp"])
def test_the_best_states(network: Path, method: str) -> None:
    answer = run("infer", str(network), "--best", "--method", method, "--json").json()
    assert answer["states"] == [1, 0]
    assert answer["log_score"] == pytest.approx(math.log(0.75 * 0.6))
    given = run("infer", str(network), "--best", "--evidence", f"{network}.evid")
    assert (given.code, given.out.splitlines()[-1]) == (0, "1 0")


def test_the_best_states_keep_to_the_evidence(network: Path) -> None:
    Path(f"{network}.evid").write_text("1 0 0\n")
    answer = run("infer", str(network), "--best", "--evidence", f"{network}.evid", "--json").json()
    assert answer["states"] == [0, 1]
    assert answer["log_score"] == pytest.approx(math.log(0.25 * 0.9))


@pytest.mark.parametrize("option", [["--compare"], ["--method", "trw"], ["--method", "mean-field"]])
def test_best_states_are_not_asked_of_every_method(network: Path, option: list[str]) -> None:
    found = run("infer", str(network), "--best", *option)
    assert found.code == 2
    assert "--best goes with" in found.err


EQUAL, DIFFERENT = "4\n1 0 0 1\n", "4\n0 1 1 0\n"
IMPOSSIBLE = {
    "no entry": "MARKOV\n2\n2 2\n1\n2 0 1\n4\n0 0 0 0\n",
    "two factors": f"MARKOV\n2\n2 2\n2\n2 0 1\n2 0 1\n{EQUAL}{DIFFERENT}",
    "odd cycle": f"MARKOV\n3\n2 2 2\n3\n2 0 1\n2 1 2\n2 0 2\n{DIFFERENT * 3}",
}


@pytest.mark.parametrize("content", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
@pytest.mark.parametrize(
    "options", ["exact", "bp", "trw", "mean-field", "auto --best", "bp --best"]
)
def test_a_network_without_a_possible_state_fails(
    tmp_path: Path, content: str, options: str
) -> None:
    path = tmp_path / "none.uai"
    path.write_text(content)
    found = run("infer", str(path), "--json", "--method", *options.split())
    assert (found.code, found.out) == (1, "")
    assert str(path) in found.err
    assert "possible" in found.err


@pytest.mark.parametrize(
    "options", ["exact", "bp", "trw", "mean-field", "auto --best", "bp --best"]
)
def test_evidence_that_contradicts_the_network_fails(tmp_path: Path, options: str) -> None:
    path, evidence = tmp_path / "cycle.uai", tmp_path / "cycle.uai.evid"
    path.write_text(f"MARKOV\n3\n2 2 2\n3\n2 0 1\n2 1 2\n2 0 2\n{EQUAL * 3}")
    evidence.write_text("2 0 0 2 1\n")
    question = ("infer", str(path), "--method", *options.split())
    assert run(*question).code == 0
    found = run(*question, "--evidence", str(evidence))
    assert (found.code, found.out) == (1, "")
    assert "evidence" in found.err


@pytest.mark.parametrize("best", [[], ["--best"]], ids=["marginals", "best"])
def test_propagation_that_does_not_converge_says_so(tmp_path: Path, best: list[str]) -> None:
    from mrflearn.graph.networks import to_uai
    from mrflearn.io.uai import write_network
    from support.grids import ising_grid

    path = tmp_path / "grid.uai"
    write_network(path, to_uai(ising_grid(5, 1.0)))
    question = ("infer", str(path), "--method", "bp", "--sweeps", "2", "--json", *best)
    found = run(*question)
    assert found.code == 0
    answer = found.json()
    assert (answer["converged"], answer["sweeps"]) == (False, 2)
    assert answer["residual"] > 1e-3
    assert "NOT converge" in found.err
    assert "--sweeps" in found.err


def test_time_and_width_give_an_interval(tmp_path: Path) -> None:
    path = tmp_path / "grid.uai"
    write_network(path, to_uai(random_ising(grid(4, 4), scale=1.0, seed=0)))
    found = run("infer", str(path), "--time", "300", "--max-width", "2", "--json").json()
    assert found["kind"] == "exact"
    assert found["lower"] == found["upper"] == found["log_partition"]
    assert found["width"] <= 2
    exact = run("infer", str(path), "--json").json()
    assert found["log_partition"] == pytest.approx(exact["log_partition"])


def test_time_goes_with_no_other_method(network: Path) -> None:
    assert run("infer", str(network), "--time", "1", "--method", "bp").code == 2
    assert run("infer", str(network), "--max-width", "1", "--best").code == 2


BIF = """network lawn {
}
variable rain {
  type discrete [ 2 ] { no, yes };
}
variable wet {
  type discrete [ 2 ] { dry, wet };
}
probability ( rain ) {
  table 0.75, 0.25;
}
probability ( wet | rain ) {
  (no) 0.9, 0.1;
  (yes) 0.4, 0.6;
}
"""


@pytest.fixture
def lawn(tmp_path: Path) -> Path:
    path = tmp_path / "lawn.bif"
    path.write_text(BIF)
    return path


def test_a_network_with_names_is_answered_in_names(lawn: Path) -> None:
    answer = run("infer", str(lawn), "--given", "wet=wet", "--json").json()
    assert answer["log_partition"] == pytest.approx(math.log(0.225))
    assert answer["marginals"]["rain"]["yes"] == pytest.approx(0.15 / 0.225)
    assert answer["marginals"]["wet"] == {"dry": 0.0, "wet": 1.0}
    best = run("infer", str(lawn), "--given", "wet=wet", "--best", "--json").json()
    assert best["states"] == {"rain": "yes", "wet": "wet"}
    shown = run("infer", str(lawn)).out
    assert "no: 0.7500, yes: 0.2500" in shown


def test_evidence_by_name_goes_for_uai_files_too(network: Path) -> None:
    answer = run("infer", str(network), "--given", "x1=0", "--json").json()
    assert answer["log_partition"] == pytest.approx(math.log(0.475))


@pytest.mark.parametrize(("given", "code"), [("wet", 1), ("wte=wet", 1), ("wet=moist", 1)])
def test_evidence_that_is_not_there_is_refused(lawn: Path, given: str, code: int) -> None:
    found = run("infer", str(lawn), "--given", given)
    assert found.code == code
    assert "wet" in found.err


def test_the_best_states_of_a_wide_network_come_with_what_is_proved(tmp_path: Path) -> None:
    from mrflearn.graph.builders import complete
    from mrflearn.graph.gauges import random_ising
    from mrflearn.graph.networks import to_uai
    from mrflearn.inference import JunctionTree
    from mrflearn.io.uai import write_network

    field = random_ising(complete(12), scale=1.0)
    write_network(tmp_path / "wide.uai", to_uai(field))
    best = float(JunctionTree().best(field).score)
    found = run("infer", str(tmp_path / "wide.uai"), "--best", "--memory", "0.005", "--json")
    answer = found.json()
    assert "upper bound" in found.err
    assert answer["kind"] == "optimal"
    assert answer["log_score"] == pytest.approx(best)
    assert answer["upper_bound"] == pytest.approx(best)
    narrow = run("infer", str(tmp_path / "wide.uai"), "--best", "--json")
    assert (narrow.json()["kind"], narrow.err) == ("optimal", "")


def test_a_field_fills_in_rows_of_a_larger_table(tmp_path: Path) -> None:
    rows, larger = tmp_path / "rows.csv", tmp_path / "larger.csv"
    rows.write_text("a,b\n" + "yes,yes\nno,no\n" * 20)
    larger.write_text("id,a,b\n1,yes,\n2,,no\n")
    model, filled = str(tmp_path / "model"), tmp_path / "filled.csv"
    MarkovField("complete", l2=0.1).fit(read_samples(rows)).save(model)
    asked = ("infer", model, "--impute", str(larger), "-o", str(filled))
    refused = run(*asked)
    assert (refused.code, filled.exists()) == (1, False)
    assert "'id'" in refused.err
    assert "--keep" in refused.err
    facts = run(*asked, "--keep", "a,b", "--json").json()
    assert (facts["rows"], facts["filled"]) == (2, 2)
    assert filled.read_text() == "a,b\nyes,yes\nno,no\n"
    assert run("infer", model, "--keep", "a,b").code == 2
