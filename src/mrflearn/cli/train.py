"""`mrflearn train`: one noun a kind of model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli import train_lm, train_ngram
from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.train_crf import crf

app = typer.Typer(help="Learn a model from data.", no_args_is_help=True)
app.command("crf")(crf)
app.command("ngram")(train_ngram.ngram)
app.command("lm")(train_lm.lm)


class Estimator(StrEnum):
    """The training principles a field can be learned by."""

    ml = "ml"
    pl = "pl"


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
        Estimator, typer.Option(help="pl: pseudolikelihood; ml: exact, for small widths.")
    ] = Estimator.pl,
    l2: Annotated[float, typer.Option(min=0.0, help="Strength of the penalty.")] = 0.0,
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
        l2=l2,
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
