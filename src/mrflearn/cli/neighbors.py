"""`mrflearn neighbors`: words with similar vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say, say_json, say_table
from mrflearn.cli.asking import load_for
from mrflearn.cli.options import ModelFolder, Top
from mrflearn.cli.pictures import picture_of
from mrflearn.cli.vector_answers import draw_map


def neighbors(
    model: ModelFolder,
    words: Annotated[list[str], typer.Argument(help="Words, or three of them with --analogy.")],
    top: Top = 10,
    analogy: Annotated[
        bool, typer.Option("--analogy", help="What is to the third as the second to the first.")
    ] = False,
    plot: Annotated[Path | None, picture_of("the words and those found")] = None,
    as_json: Json = False,
) -> None:
    """The words nearest to each given word, by the cosine of their vectors.

    Example: mrflearn neighbors model company dollar --top 3
    """
    if analogy and len(words) != 3:
        raise typer.BadParameter(f"--analogy takes three words, and these are {len(words)}.")
    loaded = load_for("neighbors", model)
    if analogy:
        answers = {" ".join(words): loaded.analogy(*words, top=top)}
    else:
        answers = {word: loaded.neighbors(word, top) for word in words}
    if plot is not None:
        draw_map(loaded, [*words, *(word for found in answers.values() for word, _ in found)], plot)
    if as_json:
        say_json({key: [list(pair) for pair in found] for key, found in answers.items()})
        return
    for number, (key, found) in enumerate(answers.items()):
        if number:
            say()
        say_table([key, "cosine"], [[word, f"{cosine:.3f}"] for word, cosine in found])
