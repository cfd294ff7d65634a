"""`mrflearn fill`: words for the gap in a sentence."""

from __future__ import annotations

from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.options import ModelFolder, Number


@answered
def fill(
    context: typer.Context,
    model: ModelFolder,
    sentence: Annotated[str, typer.Argument(help="Words with one gap, written _.")],
    n: Number = 10,
    as_json: Json = False,
) -> None:
    """The most probable words for a gap, with exact probabilities from both sides.

    Example: mrflearn fill model "the company said _ would rise"
    """
