"""`mrflearn neighbors`: words with similar vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.options import ModelFolder, Number
from mrflearn.cli.pictures import picture_of


@answered
def neighbors(
    context: typer.Context,
    model: ModelFolder,
    words: Annotated[list[str], typer.Argument(help="Words, or three of them with --analogy.")],
    n: Number = 10,
    analogy: Annotated[
        bool, typer.Option("--analogy", help="What is to the third as the second to the first.")
    ] = False,
    plot: Annotated[Path | None, picture_of("the words and those found")] = None,
    as_json: Json = False,
) -> None:
    """The words nearest to each given word, by the cosine of their vectors.

    Example: mrflearn neighbors model company dollar -n 3
    """
