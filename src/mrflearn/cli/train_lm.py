"""`mrflearn train lm`: a Markov random field language model from text."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.engine import Engine, EngineOption, Jobs, Master
from mrflearn.cli.inputs import input_option
from mrflearn.cli.options import (
    Checkpoint,
    Device,
    MinCount,
    NumberType,
    Quiet,
    Resume,
    Seed,
    VocabularySize,
    check_resume,
)
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.pictures import keep, picture_of
from mrflearn.cli.report import write_report
from mrflearn.cli.text_source import TextOrMoments, text_or_moments, text_source
from mrflearn.cli.training_facts import conclude

if TYPE_CHECKING:
    from mrflearn.estimators.language_model import LanguageModel


class BoundName(StrEnum):
    """Lower bounds on the log-likelihood that training can make large."""

    chains = "chains"
    stars = "stars"
    windows = "windows"


class Estimator(StrEnum):
    """What training makes large."""

    bound = "bound"
    pl = "pl"
    pl_sgd = "pl-sgd"
    ml = "ml"


class Form(StrEnum):
    """How scores of pairs of words are held."""

    low_rank = "low-rank"
    bilinear = "bilinear"
    explicit = "explicit"


def lm(
    command: typer.Context,
    text: TextOrMoments,
    output: Output,
    validation: Annotated[
        Path | None, input_option("Text to stop by (--estimator bound), else to report on.")
    ] = None,
    dims: Annotated[int, typer.Option(min=1, help="Dimensions of the word vectors.")] = 30,
    context: Annotated[int, typer.Option(min=1, max=8, help="Neighbours on each side.")] = 2,
    estimator: Annotated[
        Estimator,
        typer.Option(help="A lower bound; pseudolikelihood; exact likelihood for few words."),
    ] = Estimator.bound,
    bound: Annotated[
        BoundName,
        typer.Option(
            help="chains: tighter; stars: as published; windows: nearly exact, on a GPU or for up "
            "to 4,000 words."
        ),
    ] = BoundName.chains,
    weights: Annotated[
        str | None, typer.Option(help="Weights of the chains, such as 0.9,0.1; or validation.")
    ] = None,
    form: Annotated[Form, typer.Option(help="How pair scores are held.")] = Form.low_rank,
    triples: Annotated[
        bool,
        typer.Option(
            "--triples",
            help="Score three words in a row too: up to 128 words, with --bound windows.",
        ),
    ] = False,
    l2: Annotated[
        float, typer.Option(min=0.0, help="L2 regularisation strength, nats per position.")
    ] = 3e-6,
    min_count: MinCount = 1,
    vocabulary_size: VocabularySize = None,
    max_iterations: Annotated[
        int, typer.Option(min=1, help="When to stop at the latest: iterations of L-BFGS.")
    ] = 600,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Relative norm of the gradient to stop at [default: 1e-7 for bounds, 1e-8 for "
            "ml, 1e-6 for pl].",
        ),
    ] = None,
    device: Device = "cpu",
    dtype: Annotated[
        NumberType | None, typer.Option(help="Default: float64 for up to 1,000 words.")
    ] = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    plot: Annotated[Path | None, picture_of("the curve of the bound")] = None,
    engine: EngineOption = Engine.local,
    master: Master = None,
    jobs: Jobs = 1,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a language model that sees both sides of a word, in time independent of the corpus.

    Several files, or any with --engine spark, are counted where they are read; then the counts
    alone are learned from, here.

    Example: mrflearn train lm train.txt --validation valid.txt --dims 30 -o model
    """
    from mrflearn.estimators.language_model import LanguageModel

    _refuse_idle(estimator, bound, weights, checkpoint, resume)
    if triples and bound is not BoundName.windows:
        raise typer.BadParameter(f"--triples go with --bound windows; {bound} cannot bound them.")
    model = LanguageModel(
        dims,
        context,
        estimator=estimator.value,
        bound=bound.value,
        weights=_weights(weights),
        form=form.value,
        triples=triples,
        l2=l2,
        min_count=min_count,
        vocabulary_size=vocabulary_size,
        max_iterations=max_iterations,
        tolerance=tolerance,
        device=device,
        dtype=None if dtype is None else dtype.value,
        random_state=seed,
        verbose=not quiet,
    )
    source = text_source(command, model, text, engine, master, jobs)
    held_out = None if validation is None else text_or_moments(validation)
    model.fit(source, validation=held_out, checkpoint=checkpoint, resume=resume)
    model.save(output, overwrite=overwrite or resume)
    if plot is not None:
        from mrflearn.plots.language_model import bound_curve

        keep(bound_curve(model.outcome_.history), plot)
    answer = _answer(model, output)
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
    else:
        _tell(answer, validation)
    conclude(model.outcome_)


def _refuse_idle(
    estimator: Estimator,
    bound: BoundName,
    weights: str | None,
    checkpoint: Path | None,
    resume: bool,
) -> None:
    """An error where an option was given that this training would not read."""
    if weights is not None and bound is not BoundName.chains:
        raise typer.BadParameter(f"--weights are those of chains; {bound} have none.")
    if checkpoint is not None and estimator is not Estimator.bound:
        raise typer.BadParameter(f"--checkpoint goes with --estimator bound, not {estimator}.")
    check_resume(checkpoint, resume)


def _answer(model: LanguageModel, output: Path) -> dict[str, Any]:
    from mrflearn.execution.memory import peak_memory

    outcome, peak = model.outcome_, peak_memory()
    return {
        "model": str(output),
        "vocabulary": len(model.vocabulary_),
        "bound": model.bound,
        "weights": list(model.ceiling_.weights),
        "train_bound_per_position": model.bound_,
        "validation_bound_per_position": model.validation_bound_,
        "slack": model.ceiling_.slack,
        "iterations": outcome.iterations,
        "evaluations": outcome.evaluations,
        "converged": outcome.converged,
        "ending": outcome.ending,
        "reason": outcome.reason,
        "seconds": round(outcome.seconds, 4),
        "peak_memory_mb": None if peak is None else round(peak / (1 << 20), 1),
    }


def _tell(answer: dict[str, Any], validation: Path | None) -> None:
    say(
        f"{answer['model']}: {answer['vocabulary']:,} words, {answer['bound']}, learned in "
        f"{answer['seconds']:.1f} s ({answer['iterations']} iterations): {answer['reason']}"
    )
    say(f"training text: at least {answer['train_bound_per_position']:.4f} nats per position")
    if validation is not None:
        bound = answer["validation_bound_per_position"]
        say(f"{validation}: at least {bound:.4f} nats per position")
    say("(proven lower bounds; positions count words and the separators before each sentence)")


def _weights(text: str | None) -> list[float] | Literal["validation"] | None:
    if text is None:
        return None
    if text == "validation":
        return "validation"
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 0.9,0.1") from error
