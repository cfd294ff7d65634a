"""`mrflearn train pcfg`: a grammar from a treebank."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import MinCount, Quiet
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report


class Side(StrEnum):
    """Which children of a node are split off first."""

    left = "left"
    right = "right"


def pcfg(
    trees: Annotated[Path, input_argument("Trees in brackets, as the Penn Treebank's.")],
    output: Output,
    side: Annotated[
        Side, typer.Option(help="Split nodes of many children into pairs that branch this way.")
    ] = Side.right,
    horizontal: Annotated[
        int, typer.Option(min=0, help="How many sisters a split node remembers.")
    ] = 1,
    vertical: Annotated[int, typer.Option(min=0, help="How many ancestors labels carry.")] = 0,
    min_count: MinCount = 2,
    smoothing: Annotated[
        float, typer.Option(min=0, help="Additive smoothing of word-tag counts.")
    ] = 0.1,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read a probabilistic grammar off a treebank, to parse, score and continue sentences with.

    Example: mrflearn train pcfg treebank.mrg --vertical 1 -o grammar
    """
    from mrflearn.estimators.pcfg import PCFG

    model = PCFG(
        side=side.value,
        horizontal=horizontal,
        vertical=vertical,
        min_count=min_count,
        smoothing=smoothing,
    )
    started = time.perf_counter()
    model.fit(trees)
    seconds = time.perf_counter() - started
    model.save(output, overwrite=overwrite)
    shape = model.model_.shape
    answer = {
        "model": str(output),
        "phrases": shape.phrases,
        "preterminals": shape.preterminals,
        "rules": len(shape),
        "vocabulary": len(model.vocabulary_),
        "seconds": round(seconds, 4),
    }
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
        return
    say(
        f"{output}: {len(shape):,} rules, {shape.phrases} phrases, {shape.preterminals} tags, "
        f"{len(model.vocabulary_):,} words, read in {seconds:.2f} s"
    )
