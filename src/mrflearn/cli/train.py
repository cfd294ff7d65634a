"""`mrflearn train`: one noun a kind of model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say, say_json

app = typer.Typer(help="Learn a model from data.", no_args_is_help=True)


class Estimator(StrEnum):
    """The training principles a field can be learned by."""

    lap = "lap"
    pl = "pl"
    ml = "ml"
    bp = "bp"
    pw = "pw"
    consensus = "consensus"


class Auxiliary(StrEnum):
    """What LAP lets the neighbours of a clique follow."""

    exact = "exact"
    dense = "dense"
    pairwise = "pairwise"


@app.callback()
def nouns() -> None:
    """Learn a model from data."""


@app.command("field")
def field(
    samples: Annotated[Path, typer.Argument(help="Rows of states: csv, npy, text or digits.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model directory to write.")],
    graph: Annotated[
        str,
        typer.Option(help="grid:RxC, torus:RxC, cube:XxYxZ, chimera:M,N,T, complete, edges:FILE."),
    ] = "complete",
    states: Annotated[int | None, typer.Option(min=2, help="Default: the largest seen.")] = None,
    estimator: Annotated[
        Estimator,
        typer.Option(
            help="lap: each clique from its neighbourhood, for small degree and any size; "
            "pl: pseudolikelihood; ml: exact, for small widths; bp: loopy; "
            "consensus: each variable by itself, averaged; pw: each clique by itself."
        ),
    ] = Estimator.pl,
    auxiliary: Annotated[
        Auxiliary, typer.Option(help="For lap: what a clique's neighbours may follow.")
    ] = Auxiliary.exact,
    l2: Annotated[float, typer.Option(min=0.0, help="Price of squared parameters.")] = 0.0,
    l1: Annotated[float, typer.Option(min=0.0, help="Price of couplings; makes some zero.")] = 0.0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Learn a Markov random field with free parameters on every variable and edge.

    Example: mrflearn train field spikes.txt --graph complete --estimator pl -o spikes-model
    """
    from mrflearn.data.samples import read_samples
    from mrflearn.estimators.field import MarkovField

    table = read_samples(samples)
    model = MarkovField(
        graph,
        states=states,
        estimator=estimator.value,
        auxiliary=auxiliary.value,
        l2=l2,
        l1=l1,
        device=device,
        random_state=seed,
        verbose=not quiet,
    ).fit(table.values)
    model.save(output)
    outcome = model.outcome_
    answer = {
        "model": str(output),
        "samples": len(table.values),
        "variables": model.n_features_in_,
        "edges": len(model.edges_),
        "estimator": estimator.value,
        "value": outcome.value,
        "iterations": outcome.iterations,
        "evaluations": outcome.evaluations,
        "converged": outcome.converged,
        "reason": outcome.reason,
        "seconds": round(outcome.seconds, 4),
    }
    if as_json:
        say_json(answer)
        return
    say(
        f"{output}: {answer['variables']} variables, {answer['edges']} edges, learned from "
        f"{answer['samples']} samples by {estimator.value} in {outcome.seconds:.2f} s"
    )
    say(
        f"objective {outcome.value:.6g} nats after {outcome.iterations} iterations: "
        f"{outcome.reason}"
    )
