"""`mrflearn next-word`: how a sentence may go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrflearn.cli.answers import Json, say_json, say_table
from mrflearn.cli.asking import ask
from mrflearn.cli.inputs import input_option
from mrflearn.cli.options import ModelFolder, Number

if TYPE_CHECKING:
    from mrflearn.estimators.composite import CompositeLanguageModel
    from mrflearn.estimators.ngram import NgramLanguageModel
    from mrflearn.estimators.pcfg import PCFG


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
    before = [word for group in words or [] for word in group.split()]
    options = {"words": before, "document": document, "n": n, "as_json": as_json}
    ask("next-word", context, model, **options)


def continue_sentence(
    model: NgramLanguageModel | PCFG, words: list[str], n: int, as_json: bool
) -> None:
    """Tells the next words of a sentence that stands by itself."""
    _tell(words, model.next_word(words, n), as_json)


def continue_document(
    model: CompositeLanguageModel, words: list[str], document: Path | None, n: int, as_json: bool
) -> None:
    """Tells the next words of a sentence, given those before it in its document."""
    from mrflearn.io.corpus import read_documents

    documents = [] if document is None else list(read_documents(document))
    before = documents[-1] if documents else []
    _tell(words, model.next_word(words, n, document=before), as_json)


def _tell(words: list[str], found: list[tuple[str, float]], as_json: bool) -> None:
    if as_json:
        say_json({"words": words, "next": found})
        return
    say_table(["next word", "probability"], [[word, f"{p:.4f}"] for word, p in found])
