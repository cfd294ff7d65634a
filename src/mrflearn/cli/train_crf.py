"""`mrflearn train crf`: a CRF from a file of labelled words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.engine import Jobs
from mrflearn.cli.options import Device, Quiet, Seed
from mrflearn.cli.output import Output
from mrflearn.cli.report import write_report
from mrflearn.cli.train_layered import (
    Estimator,
    Layered,
    SkipRule,
    Structure,
    choose_structure,
    refuse,
    tell,
    train_layered,
)

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.statistics.recipes import Recipe


class Algorithm(StrEnum):
    """How the weights are found."""

    lbfgs = "lbfgs"
    l2sgd = "l2sgd"
    ap = "ap"


def crf(
    file: Annotated[
        Path, typer.Argument(help="Labelled words: columns, .conllu, .mrg, .crfsuite, .grmm ...")
    ],
    output: Output,
    columns: Annotated[
        str | None, typer.Option(help="Names of the columns, such as word,pos,chunk.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="The column to learn, default: the last; several: pos,chunk."),
    ] = None,
    structure: Annotated[
        Structure | None,
        typer.Option(help="Default: chain, or factorial where --labels names several columns."),
    ] = None,
    estimator: Annotated[
        Estimator | None,
        typer.Option(help="ml: exact (default of a chain); pw: piecewise (default of others) ..."),
    ] = None,
    skip_rule: Annotated[
        SkipRule | None,
        typer.Option(help="Of a skip chain: which tokens it joins; default: capitalised."),
    ] = None,
    template: Annotated[
        Path | None, typer.Option(help="CRF++ or Wapiti templates; default: features of words.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="The file's format; default: by its ending.")
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(
            "--valid", "--dev", help="Labelled words to stop by: the model best on them is kept."
        ),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit a temperature of the probabilities on --valid.")
    ] = False,
    algorithm: Annotated[
        Algorithm, typer.Option(help="l2sgd: in small steps; ap: averaged perceptron.")
    ] = Algorithm.lbfgs,
    c1: Annotated[float, typer.Option(min=0.0, help="Strength of the L1 penalty.")] = 0.0,
    c2: Annotated[
        float | None,
        typer.Option(min=0.0, help="Strength of the L2 penalty: 1 of a chain, else 0.05."),
    ] = None,
    max_iterations: Annotated[
        int | None, typer.Option(min=1, help="Default: until nothing is gained.")
    ] = None,
    min_freq: Annotated[float, typer.Option(min=0.0, help="Drop features seen less often.")] = 0.0,
    order: Annotated[int, typer.Option(min=1, max=2, help="2: three labels in a row.")] = 1,
    device: Device = "cpu",
    jobs: Jobs = -1,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a CRF: chunks, names, parts of speech, any label a token, or several of them at once.

    Example: mrflearn train crf train.txt --columns word,pos,chunk --labels chunk -o chunker

    Example: mrflearn train crf train.txt --columns word,pos,chunk --labels pos,chunk -o both
    """
    from mrflearn.estimators.crf import CRF
    from mrflearn.statistics.recipes import Recipe

    if calibrate and dev is None:
        raise typer.BadParameter("probabilities are calibrated on held-out data: name --valid.")
    recipe = Recipe.of(
        file,
        format=file_format,
        columns=columns.split(",") if columns else None,
        labels=labels.split(",") if labels else None,
        template=template,
    )
    chosen = choose_structure(structure, len(recipe.layers))
    if chosen is not Structure.skip:
        refuse(chosen, {"--skip-rule": skip_rule is not None})
    if chosen is not Structure.chain:
        unused = {"--valid": dev is not None, "--order": order != 1, "--device": device != "cpu"}
        refuse(chosen, unused | {"--algorithm ap": algorithm is Algorithm.ap})
        settings = {
            "estimator": (estimator or Estimator.pw).value,
            "algorithm": algorithm.value,
            "c1": c1,
            "c2": 0.05 if c2 is None else c2,
            "max_iterations": max_iterations,
            "min_freq": min_freq,
            "n_jobs": jobs,
            "random_state": seed,
            "verbose": not quiet,
        }
        layered = Layered(chosen, settings, skip_rule)
        tell(train_layered(recipe, file, layered, output), as_json)
        return
    if algorithm is Algorithm.ap and estimator not in (None, Estimator.ml):
        raise typer.BadParameter(f"--algorithm ap has no --estimator {estimator.value}.")
    model = CRF(
        algorithm=algorithm.value,
        c1=c1,
        c2=1.0 if c2 is None else c2,
        max_iterations=max_iterations,
        min_freq=min_freq,
        order=order,
        estimator=(estimator or Estimator.ml).value,
        device=device,
        n_jobs=jobs,
        random_state=seed,
        verbose=not quiet,
    )
    held_out = recipe.labelled(dev) if dev is not None else (None, None)
    model.fit(*recipe.labelled(file), *held_out)
    model.recipe_ = recipe
    if calibrate and dev is not None:
        model.calibrate(*recipe.labelled(dev))
    model.save(output)
    answer = _answer(model, recipe, output)
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
    else:
        _tell(answer)


def _answer(model: CRF, recipe: Recipe, output: Path) -> dict[str, Any]:
    outcome = model.outcome_
    return {
        "model": str(output),
        "format": recipe.format,
        "columns": recipe.columns,
        "labels": model.classes_,
        "attributes": model.num_attributes_,
        "objective": outcome.value,
        "iterations": outcome.iterations,
        "converged": outcome.converged,
        "reason": outcome.reason,
        "temperature": model.temperature_,
        "seconds": round(outcome.seconds, 4),
    }


def _tell(answer: dict[str, Any]) -> None:
    say(
        f"{answer['model']}: {len(answer['labels'])} labels, {answer['attributes']:,} attributes, "
        f"learned in {answer['seconds']:.2f} s"
    )
    say(
        f"objective {answer['objective']:.6g} nats after {answer['iterations']} iterations: "
        f"{answer['reason']}"
    )
    if answer["temperature"] != 1.0:
        say(f"temperature of the probabilities: {answer['temperature']:.4f}")
