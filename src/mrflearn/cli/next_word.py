"""`mrflearn next-word`: how a sentence may go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say_json, say_table
from mrflearn.cli.asking import load_for, refuse_others
from mrflearn.cli.options import ModelFolder, Top


def next_word(
    context: typer.Context,
    model: ModelFolder,
    words: Annotated[
        list[str] | None, typer.Argument(help="The sentence so far; none: its first word.")
    ] = None,
    document: Annotated[
        Path | None, typer.Option(help="Sentences before this one, which tell its topics.")
    ] = None,
    top: Top = 10,
    as_json: Json = False,
) -> None:
    """The most probable next words of a sentence, `</s>` for its end.

    Example: mrflearn next-word model the old man
    """
    from mrflearn.data.documents import read_documents

    fitted = load_for("next-word", model)
    before = [word for group in words or [] for word in group.split()]
    match type(fitted).__name__:
        case "CompositeLanguageModel":
            sentences = [] if document is None else list(read_documents(document))
            last = sentences[-1] if sentences else []
            found = fitted.next_word(before, top, document=last)
        case _:
            refuse_others(context, fitted, ("top",))
            found = fitted.next_word(before, top)
    if as_json:
        say_json({"words": before, "next": found})
        return
    say_table(["next word", "probability"], [[word, f"{p:.4f}"] for word, p in found])
