"""`mrflearn infer`: log Z and marginals, or the best states, of a network in UAI format."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import typer

from mrflearn.cli.output import remark, say, say_json
from mrflearn.errors import DataError, InferenceError

SHOWN = 12  # variables listed when people read the answer; --json has them all


def infer(
    network: Path,
    evidence: Path | None,
    method: str,
    compare: bool,
    best: bool,
    as_json: bool,
    **limits: Any,
) -> None:
    """Log Z and marginals of a network, or its most probable states."""
    if best and (compare or method in ("trw", "mean-field")):
        raise typer.BadParameter("--best goes with --method auto, exact or bp, and no --compare.")
    from mrflearn.graph.evidence import condition, expand_beliefs
    from mrflearn.graph.networks import from_uai
    from mrflearn.io.uai import read_evidence, read_network

    observed = read_evidence(evidence) if evidence is not None else {}
    potentials = from_uai(read_network(network))
    inference = _inference(method, **limits)
    started = time.perf_counter()
    reduced = condition(potentials, observed)
    answer: dict[str, Any] = {
        "network": str(network),
        "variables": potentials.graph.variables,
        "factors": sum(len(group) for group in potentials.graph.groups),
        "observed": len(observed),
        "method": _name(inference, reduced.graph),
    }
    result = inference.best(reduced) if best else inference(reduced)
    value = float((result.score if best else result.log_partition).sum())
    if value == -math.inf:
        # A lower bound of -inf proves nothing, nor does a search that is not exact.
        proved = result.kind == "exact" if best else result.kind != "lower bound"
        given = " that agrees with the evidence" if observed else ""
        raise InferenceError(
            f"{network}: no state{given} is possible: every one meets a factor of value 0."
            if proved
            else f"{network}: {answer['method']} found no possible state{given}; there may be "
            "none, which --method exact can tell."
        )
    if not result.converged:
        what = "marginals" if answer["method"] == "MeanField" else "log-messages"
        remark(
            f"{answer['method']} did NOT converge: after {result.sweeps} sweeps {what} still "
            f"changed by {result.residual:.2g}. The answer may be far off; try more --sweeps, a "
            "--damping nearer to 1, or another --method."
        )
    answer["log_score" if best else "log_partition"] = value
    answer |= {name: getattr(result, name) for name in ("kind", "converged", "sweeps", "residual")}
    if best:
        states = enumerate(result.assignment.tolist())
        answer["states"] = [observed.get(variable, state) for variable, state in states]
    else:
        answer["marginals"] = expand_beliefs(potentials.graph, result.variables, observed)
    answer["seconds"] = round(time.perf_counter() - started, 4)
    if compare:
        answer |= _compare(network, answer)
    if as_json:
        say_json(answer)
    else:
        say("\n".join(_lines(answer, observed)))


def _inference(method: str, memory: float, damping: float, sweeps: int) -> Any:
    from mrflearn.inference.automatic import Automatic
    from mrflearn.inference.belief_propagation import BeliefPropagation
    from mrflearn.inference.junction_tree import JunctionTree
    from mrflearn.inference.mean_field import MeanField
    from mrflearn.inference.tree_reweighted import TreeReweighted

    exact = JunctionTree(memory_limit=int(memory * 2**30))
    propagation = BeliefPropagation(max_sweeps=sweeps, tolerance=1e-8, damping=damping)
    return {
        "auto": Automatic(exact, propagation),
        "exact": exact,
        "bp": propagation,
        "trw": TreeReweighted(max_sweeps=sweeps, tolerance=1e-8, damping=damping),
        "mean-field": MeanField(max_sweeps=sweeps),
    }[method]


def _name(inference: Any, graph: Any) -> str:
    """The inference that answers; where an approximate one was chosen, a remark says why."""
    if hasattr(inference, "chosen"):
        inference, refusal = inference.chosen(graph)
        if refusal is not None:
            remark(f"{refusal} Answering by belief propagation, which is approximate.")
    return type(inference).__name__


def _compare(network: Path, answer: dict[str, Any]) -> dict[str, Any]:
    from mrflearn.evaluation.recovery import marginal_error, partition_agreement
    from mrflearn.io.uai import read_marginals, read_partition

    partition, marginals = Path(f"{network}.PR"), Path(f"{network}.MAR")
    if not partition.exists() and not marginals.exists():
        raise DataError(f"neither {partition.name} nor {marginals.name} is there.", path=network)
    errors: dict[str, Any] = {}
    if partition.exists():
        published = read_partition(partition)
        agreement = partition_agreement(answer["log_partition"], published)
        errors["published_log_partition"] = published
        errors["published_log_base"] = agreement.log_base
        errors["log_partition_error"] = agreement.log_partition_error
    if marginals.exists():
        error = marginal_error(answer["marginals"], read_marginals(marginals))
        errors["largest_marginal_error"] = error
    return errors


def _lines(answer: dict[str, Any], observed: dict[int, int]) -> list[str]:
    """The answer as people read it."""
    network = f"{answer['network']}: {answer['variables']} variables"
    lines = [f"{network} ({answer['observed']} observed), {answer['factors']} factors"]
    ended = "converged" if answer["converged"] else f"NOT converged (off {answer['residual']:.1e})"
    how = f"{answer['kind']}; {answer['method']}"
    how += f", {answer['sweeps']} sweeps, {ended}" if answer["sweeps"] else ""
    what = "log Z =" if "log_partition" in answer else "log of the product"
    lines += [f"{what} {answer.get('log_partition', answer.get('log_score')):.9g} nats  ({how})"]
    if "log_partition_error" in answer:
        base = "natural log" if answer["published_log_base"] == "e" else "log10"
        published = f"published: {answer['published_log_partition']:.9g}, read as a {base}"
        lines += [f"{published}; it is off by {answer['log_partition_error']:.1e}"]
    if "largest_marginal_error" in answer:
        lines += [
            f"published marginals: the worst is off by {answer['largest_marginal_error']:.1e}"
        ]
    lines += [f"{answer['seconds']:.3f} s", ""]
    if "states" in answer:
        return [*lines, " ".join(map(str, answer["states"]))]
    from mrflearn.describe.render import columns

    rows = [["variable", "marginal"]]
    for v, marginal in enumerate(answer["marginals"][:SHOWN]):
        shown = " ".join(f"{p:.4f}" for p in marginal)
        rows.append([f"{v}{' (observed)' if v in observed else ''}", shown])
    lines += columns(rows, (False, True))
    more = len(answer["marginals"]) - SHOWN
    return [*lines, f"... and {more} more; --json prints all."] if more > 0 else lines
