"""`mrflearn train crf`: a CRF from a file of labelled words."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.engine import Jobs
from mrflearn.cli.inputs import input_argument, input_option
from mrflearn.cli.labelling import refuse_single_label
from mrflearn.cli.options import Checkpoint, Device, Quiet, Resume, Seed, check_resume
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report
from mrflearn.cli.train_layered import (
    Estimator,
    Layered,
    SkipRule,
    Structure,
    choose_structure,
    tell,
    train_layered,
)
from mrflearn.cli.training_facts import conclude, learned_by, tell_training, training_facts

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.features.recipes import Recipe


class Algorithm(StrEnum):
    """How the weights are found."""

    lbfgs = "lbfgs"
    l2sgd = "l2sgd"
    ap = "ap"


def crf(
    context: typer.Context,
    file: Annotated[
        Path, input_argument("Labelled words: columns, .conllu, .mrg, .crfsuite, .grmm ...")
    ],
    output: Output,
    columns: Annotated[
        str | None, typer.Option(help="Names of the columns, such as word,pos,chunk.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="The column to learn, default: upos of CoNLL-U, else the last; several: pos,chunk."
        ),
    ] = None,
    structure: Annotated[
        Structure | None,
        typer.Option(help="Default: chain, or factorial where --labels names several columns."),
    ] = None,
    estimator: Annotated[
        Estimator | None,
        typer.Option(
            help="ml: exact (default of a chain); pw: piecewise (default of others); auto: as "
            "suits the data, and says why ..."
        ),
    ] = None,
    skip_rule: Annotated[
        SkipRule | None,
        typer.Option(help="Of a skip chain: which tokens it joins; default: capitalised."),
    ] = None,
    template: Annotated[
        Path | None, input_option("CRF++ or Wapiti templates; default: features of words.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="The file's format; default: by its ending.")
    ] = None,
    validation: Annotated[
        Path | None, input_option("Labelled words to stop by: the model best on them is kept.")
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Fit a temperature of the probabilities on --validation."),
    ] = False,
    algorithm: Annotated[
        Algorithm, typer.Option(help="l2sgd: in small steps; ap: averaged perceptron.")
    ] = Algorithm.lbfgs,
    c1: Annotated[float, typer.Option(min=0.0, help="Strength of the L1 penalty.")] = 0.0,
    c2: Annotated[float, typer.Option(min=0.0, help="Strength of the L2 penalty.")] = 1.0,
    max_iterations: Annotated[
        int | None, typer.Option(min=1, help="When to stop at the latest; default: at no count.")
    ] = None,
    min_freq: Annotated[float, typer.Option(min=0.0, help="Drop features seen less often.")] = 0.0,
    order: Annotated[int, typer.Option(min=1, max=2, help="2: three labels in a row.")] = 1,
    device: Device = "cpu",
    jobs: Jobs = -1,
    seed: Seed = 0,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a CRF: chunks, names, parts of speech, any label a token, or several of them at once.

    Example: mrflearn train crf train.txt --columns word,pos,chunk --labels chunk -o chunker

    Example: mrflearn train crf train.txt --columns word,pos,chunk --labels pos,chunk -o both
    """
    from mrflearn.features.recipes import Recipe

    check_resume(checkpoint, resume)
    saved = {"checkpoint": checkpoint, "resume": resume}
    if calibrate and validation is None:
        raise typer.BadParameter("--calibrate needs held-out data: name --validation.")
    recipe = Recipe.of(
        file,
        format=file_format,
        columns=columns.split(",") if columns else None,
        labels=labels.split(",") if labels else None,
        template=template,
    )
    chosen = choose_structure(structure, len(recipe.layers))
    refuse_idle(context, _idle(chosen))
    if algorithm is Algorithm.ap:
        _refuse_for_perceptron(chosen, estimator)
    usual = Estimator.ml if chosen is Structure.chain else Estimator.pw
    settings = {
        "estimator": (estimator or usual).value,
        "algorithm": algorithm.value,
        "c1": c1,
        "c2": c2,
        "max_iterations": max_iterations,
        "min_freq": min_freq,
        "n_jobs": jobs,
        "random_state": seed,
        "verbose": not quiet,
    }
    if chosen is not Structure.chain:
        layered = Layered(chosen, settings, skip_rule, saved)
        model, answer = train_layered(recipe, file, layered, output, overwrite=overwrite or resume)
        tell(answer, as_json)
        conclude(model.outcome_)
        return
    settings |= {"order": order, "device": device}
    chain = _learn_chain(recipe, file, settings, validation, saved, calibrate=calibrate)
    chain.save(output, overwrite=overwrite or resume)
    answer = _answer(chain, recipe, output, quiet=quiet)
    write_report(chain, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
    else:
        _tell(answer)
    conclude(chain.outcome_)


def _idle(structure: Structure) -> dict[str, str]:
    """The options that would have no effect, each with the reason."""
    names = [] if structure is Structure.chain else ["validation", "order", "device"]
    names += [] if structure is Structure.skip else ["skip_rule"]
    return dict.fromkeys(names, f"has no effect with --structure {structure.value}.")


def _refuse_for_perceptron(structure: Structure, estimator: Estimator | None) -> None:
    if structure is not Structure.chain:
        raise typer.BadParameter(
            f"--algorithm ap has no effect with --structure {structure.value}: it is for chains."
        )
    if estimator not in (None, Estimator.auto, Estimator.ml):
        raise typer.BadParameter(f"--algorithm ap has no --estimator {estimator.value}.")


def _learn_chain(
    recipe: Recipe,
    file: Path,
    settings: dict[str, Any],
    validation: Path | None,
    saved: dict[str, Any],
    *,
    calibrate: bool,
) -> CRF:
    from mrflearn.estimators.crf import CRF

    model = CRF(**settings)
    held_out = None if validation is None else recipe.labelled(validation)
    items, labels = recipe.labelled(file)

    def checked() -> Iterator[list[Any]]:
        yield from items
        refuse_single_label(labels, file, recipe.labels if recipe.columns else "")

    model.fit(checked(), labels, validation=held_out, **saved)
    model.recipe_ = recipe
    if calibrate and validation is not None:
        model.calibrate(*recipe.labelled(validation))
    return model


def _answer(model: CRF, recipe: Recipe, output: Path, *, quiet: bool) -> dict[str, Any]:
    return {
        "model": str(output),
        "format": recipe.format,
        "columns": recipe.columns,
        "labels": model.classes_,
        "estimator": learned_by(model, quiet=quiet),
        "attributes": model.num_attributes_,
        **training_facts(model.outcome_),
        "temperature": model.temperature_,
    }


def _tell(answer: dict[str, Any]) -> None:
    say(
        f"{answer['model']}: {len(answer['labels'])} labels, {answer['attributes']:,} attributes, "
        f"learned in {answer['seconds']:.2f} s"
    )
    tell_training(answer)
    if answer["temperature"] != 1.0:
        say(f"temperature of the probabilities: {answer['temperature']:.4f}")
