"""`mrflearn infer`: log Z and marginals, or the best states, of a network in UAI format."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, remark, say, say_json, say_table
from mrflearn.cli.inputs import input_argument, input_option

if TYPE_CHECKING:
    from mrflearn.inference.beliefs import Beliefs, Decoding

SHOWN = 12  # variables listed when people read the answer; --json has them all


class Method(StrEnum):
    """The inferences that can be asked for by name."""

    auto = "auto"
    exact = "exact"
    bp = "bp"
    trw = "trw"
    mean_field = "mean-field"


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
    name = _name(inference, reduced.graph)
    answer: dict[str, Any] = {
        "network": str(network),
        "variables": potentials.graph.variables,
        "factors": sum(len(group) for group in potentials.graph.groups),
        "observed": len(observed),
        "method": name,
    }
    if best:
        _tell_best(answer, inference.best(reduced), observed, started, as_json)
        return
    beliefs = inference(reduced)
    # A lower bound of -inf proves nothing.
    proved = beliefs.kind != "lower bound"
    _refuse_impossible(answer, float(beliefs.log_partition.sum()), proved=proved)
    _remark_ending(beliefs, name)
    marginals = expand_beliefs(potentials.graph, beliefs.variables, observed)
    answer |= {
        "log_partition": float(beliefs.log_partition.sum()),
        "kind": beliefs.kind,
        "converged": beliefs.converged,
        "sweeps": beliefs.sweeps,
        "residual": beliefs.residual,
        "seconds": round(time.perf_counter() - started, 4),
        "marginals": marginals,
    }
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
    from mrflearn.inference.automatic import Automatic

    if isinstance(inference, Automatic):
        refusal = inference.refusal(graph)
        if refusal is not None:
            remark(f"{refusal} Answering by belief propagation, which is approximate.")
        inference = inference.chosen(graph)
    return type(inference).__name__


def _refuse_impossible(answer: dict[str, Any], score: float, *, proved: bool) -> None:
    """An error where no state was found that the network (and the evidence) allows."""
    if score > -math.inf:
        return
    from mrflearn.errors import InferenceError

    given = " that agrees with the evidence" if answer["observed"] else ""
    if proved:
        reason = f"no state{given} is possible: every one meets a factor of value 0."
    else:
        reason = (
            f"{answer['method']} found no possible state{given}; there may be none, which --method "
            "exact can tell."
        )
    raise InferenceError(f"{answer['network']}: {reason}")


def _remark_ending(found: Beliefs | Decoding, method: str) -> None:
    """Says on standard error that an inference stopped before it converged."""
    if not found.converged:
        what = "marginals" if method == "MeanField" else "log-messages"
        remark(
            f"{method} did NOT converge: after {found.sweeps} sweeps {what} still changed by "
            f"{found.residual:.2g}. The answer may be far off; try more --sweeps, a --damping "
            "nearer to 1, or another --method."
        )


def _compare(network: Path, answer: dict[str, Any]) -> dict[str, Any]:
    from mrflearn.errors import DataError
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
        found["largest_marginal_error"] = marginal_error(
            answer["marginals"], read_marginals(marginals)
        )
    return found


def _tell_best(
    answer: dict[str, Any],
    found: Decoding,
    observed: dict[int, int],
    started: float,
    as_json: bool,
) -> None:
    """Tells the best states, those observed among them, and the log of their factors' product."""
    log_score = float(found.score.sum())
    _refuse_impossible(answer, log_score, proved=found.kind == "exact")
    _remark_ending(found, answer["method"])
    states = found.assignment.tolist()
    answer |= {
        "states": [observed.get(v, state) for v, state in enumerate(states)],
        "log_score": log_score,
        "kind": found.kind,
        "converged": found.converged,
        "sweeps": found.sweeps,
        "residual": found.residual,
        "seconds": round(time.perf_counter() - started, 4),
    }
    if as_json:
        say_json(answer)
        return
    _tell_size(answer)
    say(f"log of the product {answer['log_score']:.9g} nats  ({found.kind}; {answer['method']})")
    say(f"{answer['seconds']:.3f} s")
    say()
    say(" ".join(map(str, answer["states"])))


def _tell_size(answer: dict[str, Any]) -> None:
    say(
        f"{answer['network']}: {answer['variables']} variables ({answer['observed']} observed), "
        f"{answer['factors']} factors"
    )


def _tell(answer: dict[str, Any], observed: dict[int, int]) -> None:
    ended = "converged" if answer["converged"] else f"NOT converged (off {answer['residual']:.1e})"
    how = f", {answer['sweeps']} sweeps, {ended}" if answer["sweeps"] else ""
    _tell_size(answer)
    say(f"log Z = {answer['log_partition']:.9g} nats  ({answer['kind']}; {answer['method']}{how})")
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
    rows = []
    for v, marginal in enumerate(answer["marginals"][:SHOWN]):
        shown = " ".join(f"{p:.4f}" for p in marginal)
        rows.append([f"{v}{' (observed)' if v in observed else ''}", shown])
    say_table(["variable", "marginal"], rows)
    if len(answer["marginals"]) > SHOWN:
        say(f"... and {len(answer['marginals']) - SHOWN} more; --json prints all.")
