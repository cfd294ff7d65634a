"""`mrflearn fill`: words for the gap in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mrflearn.cli.answers import Json, say_json, say_table
from mrflearn.cli.asking import ask
from mrflearn.cli.options import ModelFolder, Number

if TYPE_CHECKING:
    from mrflearn.estimators.language_model import LanguageModel


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
    ask("fill", context, model, sentence=sentence, n=n, as_json=as_json)


def fill_gap(model: LanguageModel, sentence: str, n: int, as_json: bool) -> None:
    """Tells the words for the gap."""
    found = model.fill(sentence.split(), n)
    if as_json:
        say_json({"sentence": sentence, "words": [list(pair) for pair in found]})
        return
    say_table(["word", "probability"], [[word, f"{chance:.4f}"] for word, chance in found])
