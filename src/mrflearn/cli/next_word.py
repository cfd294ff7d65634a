"""`mrflearn next-word`: how a sentence may go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.inputs import input_option
from mrflearn.cli.options import ModelFolder, Number


@answered
def next_word(
    context: typer.Context,
    model: ModelFolder,
    words: Annotated[
        list[str] | None, typer.Argument(help="The sentence so far; none: its first word.")
    ] = None,
    document: Annotated[
        Path | None, input_option("Sentences before this one, which tell its topics.")
    ] = None,
    n: Number = 10,
    as_json: Json = False,
) -> None:
    """The most probable next words of a sentence, `</s>` for its end.

    Example: mrflearn next-word model the old man
    """
