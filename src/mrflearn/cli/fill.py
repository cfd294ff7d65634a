"""`mrflearn fill`: words for the gap in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say_json, say_table
from mrflearn.errors import MrflearnError


def fill(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    sentence: Annotated[str, typer.Argument(help="Words with one gap, written _.")],
    top: Annotated[int, typer.Option(min=1, help="How many words to show.")] = 10,
    as_json: Json = False,
) -> None:
    """The most probable words for a gap, with exact probabilities from both sides.

    Example: mrflearn fill model "the company said _ would rise"
    """
    from mrflearn.estimators.loading import load

    loaded = load(model)
    if not hasattr(loaded, "fill"):
        raise MrflearnError(f"{model} holds a {type(loaded).__name__}, which fills no gaps.")
    found = loaded.fill(sentence.split(), top)
    if as_json:
        say_json({"sentence": sentence, "words": [list(pair) for pair in found]})
        return
    say_table(["word", "probability"], [[word, f"{chance:.4f}"] for word, chance in found])
