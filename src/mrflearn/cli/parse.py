"""`mrflearn parse`: the most probable tree of each sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrflearn.cli.answers import Json, remark, say, say_json
from mrflearn.cli.asking import ask
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import ModelFolder

if TYPE_CHECKING:
    from mrflearn.estimators.composite import CompositeLanguageModel
    from mrflearn.estimators.pcfg import PCFG

AT_ONCE = 2000  # sentences parsed together: enough of each length, and the first trees come soon


def parse(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[
        Path, input_argument("One sentence a line (gzip is fine); - is standard input.")
    ] = Path("-"),
    as_json: Json = False,
) -> None:
    """Draw the most probable tree over each sentence, in brackets, one a line.

    A blank line between sentences begins a new document: topics are told from the sentences before.

    Example: mrflearn parse model sentences.txt
    """
    ask("parse", context, model, file=file, as_json=as_json)


def parse_documents(fitted: PCFG | CompositeLanguageModel, file: Path, as_json: bool) -> None:
    """Tells the trees, of some sentences at a time."""
    from mrflearn.io.corpus import read_documents

    documents = read_documents(file)
    if getattr(fitted, "topics", 1) == 1:
        documents = _pieces(documents)
    missing = 0
    for portion in _portions(documents):
        for sentences, trees in zip(portion, fitted.parse_documents(portion), strict=True):
            for words, tree in zip(sentences, trees, strict=True):
                missing += tree is None
                if as_json:
                    say_json({"words": words, "tree": None if tree is None else str(tree)})
                else:
                    say("()" if tree is None else str(tree))
    if missing:
        remark(f"{missing} sentences cannot be produced by the grammar and have no tree")


def _pieces(documents: Iterable[list[list[str]]]) -> Iterator[list[list[str]]]:
    """Documents in pieces, where nothing of a document helps its later sentences."""
    for document in documents:
        for first in range(0, len(document), AT_ONCE):
            yield document[first : first + AT_ONCE]


def _portions(documents: Iterable[list[list[str]]]) -> Iterator[list[list[list[str]]]]:
    """Some documents at a time, as many as have enough sentences."""
    portion: list[list[list[str]]] = []
    for document in documents:
        portion.append(document)
        if sum(map(len, portion)) >= AT_ONCE:
            yield portion
            portion = []
    if portion:
        yield portion
