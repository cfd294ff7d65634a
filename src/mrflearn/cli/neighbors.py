"""`mrflearn neighbors`: words with similar vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrflearn.cli.answers import Json, say, say_json, say_table
from mrflearn.cli.asking import ask
from mrflearn.cli.options import ModelFolder, Number
from mrflearn.cli.pictures import picture_of
from mrflearn.cli.vector_answers import draw_map

if TYPE_CHECKING:
    from mrflearn.estimators.word_vectors import WordSpace


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
    if analogy and len(words) != 3:
        raise typer.BadParameter(f"--analogy takes three words, and these are {len(words)}.")
    options = {"words": words, "n": n, "analogy": analogy, "plot": plot, "as_json": as_json}
    ask("neighbors", context, model, **options)


def nearest_words(
    model: WordSpace, words: list[str], n: int, analogy: bool, plot: Path | None, as_json: bool
) -> None:
    """Tells the words nearest to each, or to where an analogy points."""
    if analogy:
        first, second, third = words
        answers = {" ".join(words): model.analogy(first, second, third, n)}
    else:
        answers = {word: model.neighbors(word, n) for word in words}
    if plot is not None:
        draw_map(model, [*words, *(word for found in answers.values() for word, _ in found)], plot)
    if as_json:
        say_json({key: [list(pair) for pair in found] for key, found in answers.items()})
        return
    for number, (key, found) in enumerate(answers.items()):
        if number:
            say()
        say_table([key, "cosine"], [[word, f"{cosine:.3f}"] for word, cosine in found])
