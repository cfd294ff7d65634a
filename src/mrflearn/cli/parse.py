"""`mrflearn parse`: the most probable tree of each sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import ModelFolder


@answered
def parse(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[
        Path, input_argument("One sentence a line (gzip is fine); - is standard input.")
    ] = Path("-"),
    as_json: Json = False,
) -> None:
    """Draw the most probable tree over each sentence, in brackets, one a line.

    A blank line between sentences begins a new document: topics are inferred from the sentences
    before.

    Example: mrflearn parse model sentences.txt
    """
