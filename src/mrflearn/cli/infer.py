"""`mrflearn infer`: log Z and marginals, or the best states, of a network in a file."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import typer

import mrflearn
from mrflearn import inference
from mrflearn.cli.options import found, refuse_idle
from mrflearn.cli.output import remark, show
from mrflearn.describe.blocks import Block, Data, Facts, Nats, Table, Text
from mrflearn.describe.fields import FieldDescription, evidence_of
from mrflearn.errors import DataError, InferenceError, SettingsError
from mrflearn.evaluation.recovery import marginal_error, partition_agreement
from mrflearn.graph.evidence import condition
from mrflearn.graph.networks import from_uai
from mrflearn.io import uai
from mrflearn.io.formats import FORMATS, guess_format
from mrflearn.io.samples import SampleTable, read_samples, write_samples
from mrflearn.network import Network

DIGITS = 1e-3  # published values are rounded, but not so far
SECONDS = 20.0  # taken where none are given
SHOWN = 12  # variables listed when people read the answer; --json has them all


def infer(
    ctx: typer.Context,
    network: Path,
    evidence: str | None,
    given: list[str] | None,
    method: str,
    compare: bool,
    best: bool,
    impute: Path | None,
    temperature: float,
    output: Path | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Log Z and marginals of a network, or its most probable states; or answers of a field."""
    if network.is_dir():
        others = ("method", "compare", *limits)
        refuse_idle(ctx, dict.fromkeys(others, "goes with a network in a file."))
        named = ",".join([*([] if evidence is None else [evidence]), *(given or [])])
        show(_of_field(network, named, best, impute, temperature, output), as_json=as_json)
        return
    own = ("impute", "temperature", "output")
    refuse_idle(ctx, dict.fromkeys(own, "goes with a saved field."))
    if best and (compare or method in ("trw", "mean-field")):
        raise typer.BadParameter("--best goes with --method auto, exact or bp, and no --compare.")
    timed = limits["time"] is not None or limits["max_width"] is not None
    if timed and method != "auto":
        raise typer.BadParameter("--time and --max-width go with --method auto.")
    if best and limits["max_width"] is not None:
        raise typer.BadParameter("--max-width is not for --best, which takes --time and --memory.")
    timed = timed and not best
    observed = {} if evidence is None else uai.read_evidence(found(Path(evidence)))
    record = _read(network)
    observed |= _observed(record, given or [])
    potentials = from_uai(record)
    answering = _inference("search" if best and method == "auto" else method, **limits)
    started = time.perf_counter()
    reduced = condition(potentials, observed)
    facts: dict[str, Any] = {
        "network": str(network),
        "variables": potentials.graph.variables,
        "factors": sum(len(group) for group in potentials.graph.groups),
        "observed": len(observed),
        "method": _name(answering, reduced.graph),
    }
    result = answering.best(reduced) if best else answering(reduced)
    value = float((result.score if best else result.log_partition).sum())
    if value == -math.inf:
        # A lower bound of -inf proves nothing, nor does a search that is not exact.
        proved = result.kind == "exact" if best else result.kind != "lower bound"
        agreeing = " that agrees with the evidence" if observed else ""
        problem = f"no state{agreeing} is possible: every one meets a factor of value 0."
        if not proved:
            problem = (
                f"{facts['method']} found no possible state{agreeing}; there may be none, which "
                "--method exact can tell."
            )
        raise InferenceError(f"{network}: {problem}")
    if not result.converged:
        what = "marginals" if facts["method"] == "MeanField" else "log-messages"
        remark(
            f"{facts['method']} did NOT converge: after {result.sweeps} sweeps {what} still "
            f"changed by {result.residual:.2g}. The answer may be far off; try more --sweeps, a "
            "--damping nearer to 1, or another --method."
        )
    facts["log_score" if best else "log_partition"] = Nats(value)
    if timed:
        facts |= {side: Nats(float(getattr(result, side).sum())) for side in ("lower", "upper")}
        facts["width"] = result.width
    facts |= {name: getattr(result, name) for name in ("kind", "converged", "sweeps", "residual")}
    if best:
        facts["kind"] = result.certificate
        if result.upper is not None:
            facts["upper_bound"] = Nats(float(result.upper.sum()))
        states = result.assignment.tolist()
        answer = _states(record, states)
    else:
        rows = zip(result.variables.tolist(), potentials.graph.states.tolist(), strict=True)
        marginals = [row[:count] for row, count in rows]
        answer = _marginals(record, marginals, observed)
    facts["seconds"] = round(time.perf_counter() - started, 4)
    if compare:
        facts |= _compare(network, value, result.kind, marginals)
    show([Facts(facts, floats=".9g"), *answer], as_json=as_json)


def _of_field(
    folder: Path,
    evidence: str,
    best: bool,
    impute: Path | None,
    temperature: float,
    output: Path | None,
) -> list[Block]:
    """What a saved field says of all variables, or the rows that it fills in."""
    field: Any = mrflearn.load(folder)
    if not hasattr(field, "marginals"):
        kind = type(field).__name__
        raise SettingsError(f"{folder} holds a {kind}, not a field; infer asks fields.")
    if temperature != 1:
        field = field.at_temperature(temperature)
    if impute is None:
        if output is not None:
            raise typer.BadParameter("--output goes with --impute.")
        given = evidence_of(evidence)
        log_partition = field.log_partition()
        facts = {
            "log_partition": Nats(log_partition.value),
            "standard_error": Nats(log_partition.standard_error),
        }
        return [Facts(facts), *FieldDescription(field).answer(given, best=best)]
    if evidence or best:
        raise typer.BadParameter("--impute goes without --evidence and --best: rows are evidence.")
    table = read_samples(impute)
    filled = field.impute(table)
    states = field.encode(filled)
    names = getattr(field, "feature_names_in_", None)
    labels = None if field.spins_ else tuple(field.labels_)
    whole = SampleTable(None if names is None else tuple(names), states, field.spins_, None, labels)
    gaps = int((field.encode(table) < 0).sum())
    if output is None:
        raise typer.BadParameter("--impute needs --output: the file for the rows, such as new.csv.")
    write_samples(output, whole)
    return [Facts({"rows": len(states), "filled": gaps, "output": str(output)})]


def _read(path: Path) -> uai.UaiNetwork:
    """The network in a file, which is in UAI format where the ending says nothing else."""
    try:
        form = FORMATS[guess_format(path)]
    except DataError:
        form = FORMATS["uai"]
    network: uai.UaiNetwork = (form if form.record == "networks" else FORMATS["uai"]).read(path)
    return network


def _observed(network: uai.UaiNetwork, given: list[str]) -> dict[int, int]:
    """The states that `--given NAME=STATE` names, by number."""
    pairs = [words.partition("=") for words in given]
    for name, sign, _ in pairs:
        if not sign:
            raise typer.BadParameter(f"--given {name}: an observed state is NAME=STATE.")
    return Network.from_uai(network).numbered({name: state for name, _, state in pairs})


def _states(network: uai.UaiNetwork, states: list[int]) -> list[Block]:
    """The state of each variable: numbers, or names where the network has any."""
    if not network.names:
        return [Data({"states": states}), Text(" ".join(map(str, states)))]
    named = {network.name(v): network.labels_of(v)[state] for v, state in enumerate(states)}
    return [Data({"states": named}), Table(("variable", "state"), list(named.items()))]


def _marginals(
    network: uai.UaiNetwork, marginals: list[Any], observed: dict[int, int]
) -> list[Block]:
    """Every variable's probabilities, by names where the network has any."""
    named, rows = bool(network.names), []
    for v, own in enumerate(marginals[:SHOWN]):
        words = [f"{p:.4f}" for p in own]
        if named:
            words = [f"{label} {p}" for label, p in zip(network.labels_of(v), words, strict=True)]
        name = network.name(v) if named else str(v)
        rows.append(
            (
                f"{name}{' (observed)' if v in observed else ''}",
                (", " if named else " ").join(words),
            )
        )
    more = len(marginals) - SHOWN
    rest = [Text(f"... and {more} more; --json prints all.")] if more > 0 else []
    data: Any = marginals
    if named:
        data = {
            network.name(v): dict(zip(network.labels_of(v), own, strict=True))
            for v, own in enumerate(marginals)
        }
    return [Data({"marginals": data}), Table(("variable", "marginal"), rows), *rest]


def _inference(
    method: str,
    memory: float,
    damping: float,
    sweeps: int,
    time: float | None,
    max_width: int | None,
) -> Any:
    exact = inference.JunctionTree(memory_limit=int(memory * 2**30))
    if method == "search":
        return inference.BranchAndBound(exact, time or SECONDS, int(memory * 2**30))
    if time is not None or max_width is not None:
        return inference.Anytime(time or SECONDS, int(memory * 2**30), max_width)
    propagation = inference.BeliefPropagation(max_sweeps=sweeps, tolerance=1e-8, damping=damping)
    return {
        "auto": inference.Automatic(exact, propagation),
        "exact": exact,
        "bp": propagation,
        "trw": inference.TreeReweighted(max_sweeps=sweeps, tolerance=1e-8, damping=damping),
        "mean-field": inference.MeanField(max_sweeps=sweeps),
    }[method]


def _name(answering: Any, graph: Any) -> str:
    """The inference that answers; where an approximate one was chosen, a remark says why."""
    if hasattr(answering, "chosen"):
        answering, refusal = answering.chosen(graph)
        if refusal is not None:
            searching = isinstance(answering, inference.BranchAndBound)
            other = "a search with an upper bound" if searching else "belief propagation"
            remark(
                f"{refusal} Answering by {other}{'' if searching else ', which is approximate'}."
            )
    return type(answering).__name__


def _compare(network: Path, value: float, kind: str, marginals: list[Any]) -> dict[str, Any]:
    """How far the answer is from what is published beside the network.

    Some published files hold a bound on log Z (docs/decisions/uai-partition-files.md).
    """
    partition, beliefs = Path(f"{network}.PR"), Path(f"{network}.MAR")
    differences: dict[str, Any] = {}
    if partition.exists():
        published = uai.read_partition(partition)
        difference, base = partition_agreement(value, published)
        differences["published_log_partition"] = published
        differences["published_log_base"] = base
        differences["log_partition_difference"] = difference
        if kind == "exact" and difference > DIGITS * max(1.0, abs(published)):
            remark(f"{partition.name} is not the exact log Z: a bound, or of other --evidence.")
    if beliefs.exists():
        published_marginals = uai.read_marginals(beliefs)
        largest = marginal_error(marginals, published_marginals)
        differences["largest_marginal_difference"] = largest
    if not differences:
        raise DataError(f"neither {partition.name} nor {beliefs.name} is there.", path=network)
    return differences
