"""`mrflearn next-word`: how a sentence may go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say_json, say_table
from mrflearn.errors import MrflearnError


def next_word(
    model: Annotated[Path, typer.Argument(help="The directory of a language model.")],
    words: Annotated[
        list[str] | None, typer.Argument(help="The sentence so far; none: its first word.")
    ] = None,
    document: Annotated[
        Path | None, typer.Option(help="Sentences before this one, which tell its topics.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many words to show.")] = 10,
    as_json: Json = False,
) -> None:
    """The most probable next words of a sentence, `</s>` for its end.

    Example: mrflearn next-word model the old man
    """
    from mrflearn.data.documents import read_documents
    from mrflearn.estimators.loading import load

    fitted = load(model)
    before = [word for group in words or [] for word in group.split()]
    match type(fitted).__name__:
        case "CompositeLanguageModel":
            sentences = [] if document is None else list(read_documents(document))
            last = sentences[-1] if sentences else []
            found = fitted.next_word(before, top, document=last)
        case "NgramLanguageModel" | "PCFG":
            if document is not None:
                raise typer.BadParameter("--document: this model knows no topics")
            found = fitted.next_word(before, top)
        case name:
            raise MrflearnError(f"{model} is a {name}, which does not read from left to right.")
    if as_json:
        say_json({"words": before, "next": found})
        return
    say_table(["next word", "probability"], [[word, f"{p:.4f}"] for word, p in found])
