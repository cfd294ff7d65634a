"""`mrflearn infer`: log Z and marginals, or the best states, of a network in UAI format."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, remark, say, say_json, say_table
from mrflearn.cli.inputs import input_argument, input_option
from mrflearn.errors import DataError, InferenceError

SHOWN = 12  # variables listed when people read the answer; --json has them all


Method = StrEnum(
    "Method",
    {"auto": "auto", "exact": "exact", "bp": "bp", "trw": "trw", "mean_field": "mean-field"},
)


def infer(
    network: Annotated[Path, input_argument("A network in UAI format (MARKOV or BAYES).")],
    evidence: Annotated[Path | None, input_option("Observed states, UAI format.")] = None,
    method: Annotated[
        Method, typer.Option(help="auto: exact where the width allows, else bp.")
    ] = Method.auto,
    memory: Annotated[float, typer.Option(min=0.001, help="GiB that exact tables may take.")] = 4.0,
    damping: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of the old message kept (bp, trw).")
    ] = 0.5,
    sweeps: Annotated[int, typer.Option(min=1, help="Most sweeps of bp, trw, mean-field.")] = 2000,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Print errors against NETWORK.PR and NETWORK.MAR beside it."
        ),
    ] = False,
    best: Annotated[
        bool, typer.Option("--best", help="The most probable states in place of marginals.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Log Z and marginals of a network, or its most probable states.

    Exit code 1 where no state is possible, or none was found.

    Example: mrflearn infer grid.uai --evidence grid.uai.evid --json

    Example: mrflearn infer grid.uai --best
    """
    if best and (compare or method in (Method.trw, Method.mean_field)):
        raise typer.BadParameter("--best goes with --method auto, exact or bp, and no --compare.")
    from mrflearn.graph.evidence import condition, expand_beliefs
    from mrflearn.graph.networks import from_uai
    from mrflearn.io.uai import read_evidence, read_network

    observed = read_evidence(evidence) if evidence is not None else {}
    potentials = from_uai(read_network(network))
    inference = _inference(method, memory, damping, sweeps)
    started = time.perf_counter()
    reduced = condition(potentials, observed)
    answer: dict[str, Any] = {
        "network": str(network),
        "variables": potentials.graph.variables,
        "factors": sum(len(group) for group in potentials.graph.groups),
        "observed": len(observed),
        "method": _name(inference, reduced.graph),
    }
    found = inference.best(reduced) if best else inference(reduced)
    value = float((found.score if best else found.log_partition).sum())
    if value == -math.inf:
        # A lower bound of -inf proves nothing, nor does a search that is not exact.
        proved = found.kind == "exact" if best else found.kind != "lower bound"
        raise InferenceError(f"{network}: {_impossible(answer, proved=proved)}")
    if not found.converged:
        what = "marginals" if answer["method"] == "MeanField" else "log-messages"
        remark(
            f"{answer['method']} did NOT converge: after {found.sweeps} sweeps {what} still "
            f"changed by {found.residual:.2g}. The answer may be far off; try more --sweeps, a "
            "--damping nearer to 1, or another --method."
        )
    answer["log_score" if best else "log_partition"] = value
    answer |= {name: getattr(found, name) for name in ("kind", "converged", "sweeps", "residual")}
    if best:
        states = enumerate(found.assignment.tolist())
        answer["states"] = [observed.get(variable, state) for variable, state in states]
    else:
        answer["marginals"] = expand_beliefs(potentials.graph, found.variables, observed)
    answer["seconds"] = round(time.perf_counter() - started, 4)
    if compare:
        answer |= _compare(network, answer)
    if as_json:
        say_json(answer)
    else:
        _tell(answer, observed)


def _inference(method: Method, memory: float, damping: float, sweeps: int) -> Any:
    from mrflearn.inference.automatic import Automatic
    from mrflearn.inference.belief_propagation import BeliefPropagation
    from mrflearn.inference.junction_tree import JunctionTree
    from mrflearn.inference.mean_field import MeanField
    from mrflearn.inference.tree_reweighted import TreeReweighted

    exact = JunctionTree(memory_limit=int(memory * 2**30))
    propagation = BeliefPropagation(max_sweeps=sweeps, tolerance=1e-8, damping=damping)
    return {
        Method.auto: Automatic(exact, propagation),
        Method.exact: exact,
        Method.bp: propagation,
        Method.trw: TreeReweighted(max_sweeps=sweeps, tolerance=1e-8, damping=damping),
        Method.mean_field: MeanField(max_sweeps=sweeps),
    }[method]


def _name(inference: Any, graph: Any) -> str:
    """The inference that answers; that one was chosen which is approximate is said with why."""
    if hasattr(inference, "chosen"):
        inference, refusal = inference.chosen(graph)
        if refusal is not None:
            remark(f"{refusal} Answering by belief propagation, which is approximate.")
    return type(inference).__name__


def _impossible(answer: dict[str, Any], *, proved: bool) -> str:
    given = " that agrees with the evidence" if answer["observed"] else ""
    if proved:
        return f"no state{given} is possible: every one meets a factor of value 0."
    return (
        f"{answer['method']} found no possible state{given}; there may be none, which --method "
        "exact can tell."
    )


def _compare(network: Path, answer: dict[str, Any]) -> dict[str, Any]:
    from mrflearn.evaluation.recovery import marginal_error, partition_agreement
    from mrflearn.io.uai import read_marginals, read_partition

    partition, marginals = Path(f"{network}.PR"), Path(f"{network}.MAR")
    if not partition.exists() and not marginals.exists():
        raise DataError(f"neither {partition.name} nor {marginals.name} is there.", path=network)
    found: dict[str, Any] = {}
    if partition.exists():
        published = read_partition(partition)
        agreement = partition_agreement(answer["log_partition"], published)
        found["published_log_partition"] = published
        found["published_log_base"] = agreement.log_base
        found["log_partition_error"] = agreement.log_partition_error
    if marginals.exists():
        error = marginal_error(answer["marginals"], read_marginals(marginals))
        found["largest_marginal_error"] = error
    return found


def _tell(answer: dict[str, Any], observed: dict[int, int]) -> None:
    say(
        f"{answer['network']}: {answer['variables']} variables ({answer['observed']} observed), "
        f"{answer['factors']} factors"
    )
    ended = "converged" if answer["converged"] else f"NOT converged (off {answer['residual']:.1e})"
    how = f"{answer['kind']}; {answer['method']}"
    how += f", {answer['sweeps']} sweeps, {ended}" if answer["sweeps"] else ""
    what = "log Z =" if "log_partition" in answer else "log of the product"
    say(f"{what} {answer.get('log_partition', answer.get('log_score')):.9g} nats  ({how})")
    if "log_partition_error" in answer:
        base = "natural log" if answer["published_log_base"] == "e" else "log10"
        say(
            f"published: {answer['published_log_partition']:.9g}, read as a {base}; "
            f"it is off by {answer['log_partition_error']:.1e}"
        )
    if "largest_marginal_error" in answer:
        say(f"published marginals: the worst is off by {answer['largest_marginal_error']:.1e}")
    say(f"{answer['seconds']:.3f} s")
    say()
    if "states" in answer:
        say(" ".join(map(str, answer["states"])))
        return
    rows = []
    for v, marginal in enumerate(answer["marginals"][:SHOWN]):
        shown = " ".join(f"{p:.4f}" for p in marginal)
        rows.append([f"{v}{' (observed)' if v in observed else ''}", shown])
    say_table(["variable", "marginal"], rows)
    if len(answer["marginals"]) > SHOWN:
        say(f"... and {len(answer['marginals']) - SHOWN} more; --json prints all.")
