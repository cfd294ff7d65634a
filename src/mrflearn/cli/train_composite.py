"""`mrflearn train composite`: n-gram, grammar and topics in one language model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.engine import Engine, EngineOption, Jobs, Master, place_to_run
from mrflearn.cli.inputs import input_argument, input_option
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

if TYPE_CHECKING:
    from mrflearn.estimators.composite import CompositeLanguageModel


def composite(
    documents: Annotated[
        Path,
        input_argument(
            "One sentence a line, a blank line between documents (gzip and - are fine); or a "
            "folder of such files."
        ),
    ],
    output: Output,
    order: Annotated[int, typer.Option(min=1, help="The longest n-gram; 1: none.")] = 3,
    topics: Annotated[int, typer.Option(min=1, help="How many topics; 1: none.")] = 1,
    grammar: Annotated[
        str,
        typer.Option(help="latent:PHRASES,PRETERMINALS; treebank:FILE of bracketed trees; none."),
    ] = "none",
    horizontal: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Treebank: sisters that split nodes remember [default: 1]; 0 is several times "
            "faster.",
        ),
    ] = None,
    levels: Annotated[
        str | None, typer.Option(help="Back-off levels beside the n-gram, such as vAh,Ah,A,h.")
    ] = None,
    longest: Annotated[
        int, typer.Option(min=1, help="Longer sentences teach words and topics, not grammar.")
    ] = 40,
    min_count: MinCount = 1,
    vocabulary_size: VocabularySize = None,
    max_iterations: Annotated[
        int, typer.Option(min=1, help="When to stop at the latest: iterations of EM.")
    ] = 20,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="EM stops once it gains less, relatively.")
    ] = 1e-5,
    restarts: Annotated[int, typer.Option(min=1, help="Random grammars to choose from.")] = 1,
    validation: Annotated[
        Path | None, input_option("Documents to report the perplexity of.")
    ] = None,
    dtype: Annotated[
        NumberType, typer.Option(help="Type of numbers; float32 is faster.")
    ] = NumberType.float64,
    device: Device = "cpu",
    seed: Seed = 0,
    engine: EngineOption = Engine.local,
    master: Master = None,
    jobs: Jobs = 1,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    plot: Annotated[Path | None, picture_of("the curve of EM")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a language model of documents: word n-grams, phrase structure and topics in one.

    Example: mrflearn train composite news.txt --topics 10 --grammar latent:10,20 -o model
    """
    from mrflearn.estimators.composite import CompositeLanguageModel

    check_resume(checkpoint, resume)
    if restarts > 1 and not grammar.startswith("latent"):
        raise typer.BadParameter("--restarts: only a latent grammar begins at random")
    if horizontal is not None and not grammar.startswith("treebank"):
        raise typer.BadParameter("--horizontal: only a treebank's grammar has nodes to split")
    model = CompositeLanguageModel(
        order,
        grammar=None if grammar == "none" else grammar,
        topics=topics,
        horizontal=1 if horizontal is None else horizontal,
        levels=None if levels is None else levels.split(","),
        longest=longest,
        min_count=min_count,
        vocabulary_size=vocabulary_size,
        max_iterations=max_iterations,
        tolerance=tolerance,
        restarts=restarts,
        dtype=dtype.value,
        random_state=seed,
        device=device,
        verbose=not quiet,
    )
    started = time.perf_counter()
    with place_to_run(engine, master, jobs) as executor:
        model.fit(documents, executor=executor, checkpoint=checkpoint, resume=resume)
    seconds = time.perf_counter() - started
    rated = None if validation is None else model.perplexity(validation)
    model.save(output, overwrite=overwrite or resume)
    if plot is not None:
        from mrflearn.plots.composite import em_curve

        keep(em_curve(model.fit_.history), plot)
    answer = _answer(model, output, seconds)
    if rated is not None:
        answer["validation_perplexity"] = rated
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
        return
    say(
        f"{output}: {answer['vocabulary']:,} words, learned in {seconds:.1f} s by "
        f"{answer['iterations']} steps of EM in {model.rounds} rounds"
    )
    if rated is not None:
        say(f"perplexity of {validation}: {rated:.2f} ({model.unknown_policy_})")


def _answer(model: CompositeLanguageModel, output: Path, seconds: float) -> dict[str, Any]:
    history = model.fit_.history
    return {
        "model": str(output),
        "order": model.order,
        "topics": model.topics,
        "vocabulary": len(model.vocabulary_),
        "iterations": len(history),
        "train_log_likelihood": -history[-1].value if history else None,
        "reason": model.fit_.reason,
        "seconds": round(seconds, 4),
    }
