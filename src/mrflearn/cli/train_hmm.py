"""`mrflearn train hmm`: a hidden Markov tagger from a file of tagged words."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.labelling import refuse_single_label
from mrflearn.cli.options import Quiet
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report
from mrflearn.cli.tagger_files import (
    Column,
    ColumnNames,
    FileFormat,
    TaggedFile,
    Validation,
    figures,
    rate,
    read_truth,
    source_of,
    tell_figures,
)


class Unknown(StrEnum):
    """What the tags of new words are guessed from."""

    auto = "auto"
    suffixes = "suffixes"
    rare = "rare"


def hmm(
    file: TaggedFile,
    output: Output,
    order: Annotated[int, typer.Option(min=1, max=2, help="Tags looked back at.")] = 2,
    unknown: Annotated[
        Unknown,
        typer.Option(
            help="New words by the endings of rare words, or by rare words as they come; "
            "auto: suffixes with --order 2, rare with --order 1."
        ),
    ] = Unknown.auto,
    rare: Annotated[
        int | None,
        typer.Option(min=1, help="Words this rare teach about new ones; default: 20, or 1."),
    ] = None,
    suffix_length: Annotated[int, typer.Option(min=0, help="The longest ending, in letters.")] = 10,
    beam: Annotated[
        float,
        typer.Option(min=1.0, help="Leave out a word's tags so many times below its best."),
    ] = 1000.0,
    column: Column = None,
    columns: ColumnNames = None,
    file_format: FileFormat = None,
    validation: Validation = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Count a hidden Markov model of tags: trigrams, endings of words; a second for a treebank.

    --order 1 is the textbook model with one score for all new words.

    Example: mrflearn train hmm train.conllu --labels xpos --validation dev.conllu -o tagger
    """
    from mrflearn.estimators.hmm_tagger import HMMTagger

    source = source_of(file, file_format, columns, column)
    model = HMMTagger(
        order, unknown=unknown.value, rare=rare, suffix_length=suffix_length, beam=beam
    )
    words, tags = source.tagged(file)
    refuse_single_label(tags, file, source.column)
    began = time.perf_counter()
    model.fit(words, tags)
    seconds = time.perf_counter() - began
    model.source_ = source
    rated = None if validation is None else figures(rate(model, *read_truth(source, validation))[0])
    model.save(output, overwrite=overwrite)
    answer: dict[str, Any] = {
        "model": str(output),
        "order": order,
        "column": source.column,
        "sentences": len(words),
        "tokens": sum(map(len, words)),
        "words": len(model.known_words_),
        "tags": model.classes_,
        "interpolation": model.interpolation_,
        "seconds": round(seconds, 4),
    }
    if rated is not None:
        answer["validation"] = rated
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
        return
    size = f"{len(answer['tags'])} tags, {answer['words']:,} words"
    say(f"{output}: order {order}, {size}, learned in {seconds:.2f} s")
    weights = ", ".join(f"{weight:.2f}" for weight in model.interpolation_)
    say(f"weights of tag n-grams, short ones first: {weights}")
    if rated is not None:
        say(f"{validation}: {tell_figures(rated)}")
