"""`mrflearn parse`: the most probable tree of each sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, remark, say, say_json
from mrflearn.cli.asking import load_for
from mrflearn.cli.options import ModelFolder


def parse(
    model: ModelFolder,
    text: Annotated[Path, typer.Argument(help="One sentence a line (gzip and - are fine).")],
    as_json: Json = False,
) -> None:
    """Draw the most probable tree over each sentence, in brackets, one a line.

    A blank line between sentences begins a new document: topics are told from the sentences before.

    Example: mrflearn parse model sentences.txt
    """
    from mrflearn.data.documents import read_documents

    fitted = load_for("parse", model)
    missing = 0
    for document in read_documents(text):
        for number, words in enumerate(document):
            (tree,) = fitted.parse([words], document=document[:number])
            missing += tree is None
            if as_json:
                say_json({"words": words, "tree": None if tree is None else str(tree)})
            else:
                say("()" if tree is None else str(tree))
    if missing:
        remark(f"{missing} sentences cannot be produced by the grammar and have no tree")
