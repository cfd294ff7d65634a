"""`mrflearn train tagger`: a joint field of words and tags from a file of tagged words."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.inputs import input_option
from mrflearn.cli.labelling import refuse_single_label
from mrflearn.cli.options import Checkpoint, Device, Quiet, Resume, Seed, check_resume
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report
from mrflearn.cli.tagger_files import (
    Column,
    ColumnNames,
    FileFormat,
    TaggedFile,
    figures,
    rate,
    read_truth,
    source_of,
    tell_figures,
)
from mrflearn.cli.training_facts import conclude

if TYPE_CHECKING:
    from mrflearn.estimators.tagger import JointTagger
    from mrflearn.io.tag_files import Tags


class Bound(StrEnum):
    """What training makes large."""

    exact = "exact"
    chains = "chains"
    stars = "stars"


class Near(StrEnum):
    """How many words a tag sees."""

    own = "1"
    three = "3"


def tagger(
    command: typer.Context,
    file: TaggedFile,
    output: Output,
    context: Annotated[int, typer.Option(min=1, max=2, help="How far tags see tags.")] = 1,
    words: Annotated[
        Near, typer.Option(help="A tag sees its own word, or those beside it too.")
    ] = Near.three,
    bound: Annotated[
        Bound,
        typer.Option(help="What is made large: exact likelihood, or a bound (stars: the paper's)."),
    ] = Bound.chains,
    l2: Annotated[
        str | None,
        typer.Option(
            help="Strength of the L2 penalty; of several (0.1,0.3) the best on the validation set."
        ),
    ] = None,
    unlabelled: Annotated[
        Path | None, input_option("Sentences without tags, to learn from as well.")
    ] = None,
    unlabelled_weight: Annotated[
        str | None,
        typer.Option(help="What a word without a tag counts, against 1; several as with --l2."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Of expectation-maximisation, for unknown tags.")
    ] = None,
    max_iterations: Annotated[
        int | None, typer.Option(min=1, help="When to stop at the latest.")
    ] = None,
    column: Column = None,
    columns: ColumnNames = None,
    file_format: FileFormat = None,
    validation: Annotated[
        Path | None, input_option("Tagged words to choose by, and to report accuracy on.")
    ] = None,
    device: Device = "cpu",
    seed: Seed = 0,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn one Markov random field of words and tags, by a bound on its likelihood.

    Words act through their spelling, so that new words are tagged by what they look like.  The
    time depends on the words and tags there are, not on how long the text is.  Words without a
    tag (`_` in CoNLL-U, and all of --unlabelled) are learned from by summing over their tags.

    Example: mrflearn train tagger train.conllu --validation dev.conllu -o tagger
    """
    from mrflearn.estimators.tagger import JointTagger

    check_resume(checkpoint, resume)
    source = source_of(file, file_format, columns, column)
    sentences, tags = source.tagged(file)
    refuse_single_label(tags, file, source.column)
    more: list[Tags | None] = [*tags]
    if unlabelled is not None:
        plain = [example.words for example in source.read(unlabelled)]
        sentences, more = [*sentences, *plain], [*more, *[None] * len(plain)]
    gaps = any(own is None or None in own for own in more)
    if not gaps:
        reason = "every word has its tag, so nothing is left to guess; --unlabelled names more text"
        refuse_idle(command, dict.fromkeys(("unlabelled_weight", "rounds"), reason))
    chosen: dict[str, Any] = {
        "l2": _numbers("--l2", l2, validation),
        "unlabelled_weight": _numbers("--unlabelled-weight", unlabelled_weight, validation),
        "rounds": rounds,
        "max_iterations": max_iterations,
    }
    model = JointTagger(
        context,
        int(words.value),
        bound=bound.value,
        device=device,
        random_state=seed,
        verbose=not quiet,
        **{name: value for name, value in chosen.items() if value is not None},
    )
    held_out = None if validation is None else read_truth(source, validation)
    began = time.perf_counter()
    model.fit(sentences, more, validation=held_out, checkpoint=checkpoint, resume=resume)
    seconds = time.perf_counter() - began
    model.source_ = source
    model.save(output, overwrite=overwrite or resume)
    answer = _answer(model, output, seconds)
    answer |= {"column": source.column, "sentences": len(sentences)}
    answer["tokens"] = sum(map(len, sentences))
    if gaps:
        answer["unlabelled_weight"] = model.unlabelled_weight_
    if held_out is not None:
        answer["validation"] = figures(rate(model, *held_out)[0])
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
    else:
        _tell(answer, validation)
    conclude(model.outcome_)


def _numbers(option: str, text: str | None, validation: Path | None) -> float | list[float] | None:
    """The number, or the numbers to choose from, that an option has."""
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {text!r} is no number, nor several.") from error
    if not all(0 <= value < float("inf") for value in values):
        raise typer.BadParameter(f"{option}: {text}: not below 0, and finite.")
    if len(values) > 1 and validation is None:
        raise typer.BadParameter(f"{option}: to choose one of several, name --validation.")
    return values if len(values) > 1 else values[0]


def _answer(model: JointTagger, output: Path, seconds: float) -> dict[str, Any]:
    return {
        "model": str(output),
        "settings": {name: getattr(model, name) for name in ("context", "words", "bound")},
        "l2": model.l2_,
        "words": len(model.known_words_),
        "tags": model.classes_,
        "log_likelihood_per_position": model.bound_,
        "seconds": round(seconds, 4),
    }


def _tell(answer: dict[str, Any], validation: Path | None) -> None:
    size = f"{len(answer['tags'])} tags, {answer['words']:,} words"
    say(f"{answer['model']}: {size}, learned in {answer['seconds']:.2f} s")
    value, bound = answer["log_likelihood_per_position"], answer["settings"]["bound"]
    say(f"log-likelihood at least {value:.4f} nats a position ({bound})")
    if validation is not None:
        say(f"{validation}: {tell_figures(answer['validation'])}")
