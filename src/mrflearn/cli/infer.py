"""`mrflearn infer`: log Z and marginals, or the best states, of a network in a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

import mrflearn
from mrflearn.cli.options import found, picked, refuse_idle
from mrflearn.cli.output import show
from mrflearn.describe.blocks import Block, Data, Facts, Nats, Text
from mrflearn.describe.fields import FieldDescription, evidence_of, marginal_blocks, state_blocks
from mrflearn.errors import InferenceError, SettingsError
from mrflearn.evaluation.recovery import published_differences
from mrflearn.graph.evidence import condition
from mrflearn.inference.answering import Method, answered, method_of
from mrflearn.io import uai
from mrflearn.io.formats import network_format
from mrflearn.io.samples import read_samples
from mrflearn.network import Network

SHOWN = 12  # variables listed when people read the answer; --json has them all


def infer(ctx: typer.Context, network: Path, as_json: bool, **asked: Any) -> None:
    """Log Z and marginals of a network, or its most probable states; or answers of a field."""
    own = {name: asked.pop(name) for name in ("impute", "temperature", "output", "columns")}
    if network.is_dir():
        own |= {name: asked.pop(name) for name in ("evidence", "given", "best")}
        refuse_idle(ctx, dict.fromkeys(asked, "goes with a network in a file."))
        blocks = _of_field(network, **own)
    else:
        refuse_idle(ctx, dict.fromkeys(own, "goes with a saved field."))
        blocks = _of_network(network, **asked)
    show(blocks, as_json=as_json)


def _of_network(
    path: Path,
    evidence: str | None,
    given: list[str] | None,
    method: Method,
    compare: bool,
    best: bool,
    **limits: Any,
) -> list[Block]:
    """Log Z and marginals of a network, or its most probable states."""
    if best and (compare or method in ("trw", "mean-field")):
        raise typer.BadParameter("--best goes with --method auto, exact or bp, and no --compare.")
    timed = limits["time"] is not None or limits["max_width"] is not None
    if timed and method != "auto":
        raise typer.BadParameter("--time and --max-width go with --method auto.")
    if best and limits["max_width"] is not None:
        raise typer.BadParameter("--max-width is not for --best, which takes --time and --memory.")
    observed = {} if evidence is None else uai.read_evidence(found(Path(evidence)))
    record: uai.UaiNetwork = network_format(path).read(path)
    by_name = Network.from_uai(record)
    observed |= by_name.numbered(evidence_of(",".join(given or [])))
    answering = method_of(method, best=best, **limits)
    started = time.perf_counter()
    try:
        name, result = answered(answering, condition(by_name.potentials, observed), best=best)
    except InferenceError as error:
        raise InferenceError(f"{path}: {error}") from error
    facts: dict[str, Any] = {
        "network": str(path),
        "variables": len(by_name.variables),
        "factors": len(record.scopes),
        "observed": len(observed),
        "method": name,
    }
    value = float((result.score if best else result.log_partition).sum())
    facts["log_score" if best else "log_partition"] = Nats(value)
    if timed and not best:
        facts |= {side: Nats(float(getattr(result, side).sum())) for side in ("lower", "upper")}
        facts["width"] = result.width
    facts |= {name: getattr(result, name) for name in ("kind", "converged", "sweeps", "residual")}
    if best:
        facts["kind"] = result.certificate
        if result.upper is not None:
            facts["upper_bound"] = Nats(float(result.upper.sum()))
    facts["seconds"] = round(time.perf_counter() - started, 4)
    numbers = (result.assignment if best else result.variables).tolist()
    own_names = zip(by_name.variables.items(), numbers, strict=True)
    if best:
        answer = state_blocks({name: labels[state] for (name, labels), state in own_names})
    else:
        seen = [name for v, name in enumerate(by_name.variables) if v in observed]
        chances = {n: dict(zip(labels, row, strict=False)) for (n, labels), row in own_names}
        answer = marginal_blocks(chances, seen, SHOWN)
        numbers = [list(chance.values()) for chance in chances.values()]
    if compare:
        facts |= published_differences(path, value, numbers, exact=result.kind == "exact")
    if not record.names:  # numbers, as the files of UAI have them
        answer = [Text(" ".join(map(str, numbers)))] if best else answer
        answer.append(Data({"states" if best else "marginals": numbers}))
    return [Facts(facts, floats=".9g"), *answer]


def _of_field(
    folder: Path,
    impute: Path | None,
    temperature: float,
    output: Path | None,
    columns: str | None,
    evidence: str | None,
    given: list[str] | None,
    best: bool,
) -> list[Block]:
    """What a saved field says of all variables, or the rows that it fills in."""
    field: Any = mrflearn.load(folder)
    if not hasattr(field, "marginals"):
        kind = type(field).__name__
        raise SettingsError(f"{folder} holds a {kind}, not a field; infer asks fields.")
    if (impute is None) != (output is None) or (columns is not None and impute is None):
        raise typer.BadParameter("--impute goes with --output, and --keep with both of them.")
    field = field if temperature == 1 else field.at_temperature(temperature)
    named = ",".join(filter(None, [evidence, *(given or [])]))
    description = FieldDescription(field)
    if impute is None or output is None:
        total = field.log_partition()
        facts = {"log_partition": total.value, "standard_error": total.standard_error}
        blocks = description.answer(evidence_of(named), best=best)
        return [Facts({name: Nats(own) for name, own in facts.items()}), *blocks]
    if named or best:
        raise typer.BadParameter("--impute goes without --evidence and --best: rows are evidence.")
    table = read_samples(impute, columns=picked(columns))
    filled = field.impute(table)
    field.write_rows(filled, output)
    gaps = int((field.encode(table) < 0).sum())
    return [Facts({"rows": len(filled), "filled": gaps, "output": str(output)})]
