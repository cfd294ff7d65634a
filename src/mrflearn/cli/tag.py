"""`mrflearn tag`: labels for new text, from a file or a pipe, as it comes in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import ChunkScheme, ModelFolder


@answered
def tag(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, input_argument("Text as trained on; - is standard input.")] = Path("-"),
    n: Annotated[
        int,
        typer.Option("--number", "-n", min=1, help="This many labellings, with probabilities."),
    ] = 1,
    marginals: Annotated[
        bool, typer.Option("--marginals", help="The probability of each token's label.")
    ] = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="Chunks and their probabilities in place of rows.")
    ] = False,
    scheme: Annotated[
        ChunkScheme | None, typer.Option(help="Keep chunk tags well-formed in this scheme.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="The file's format; text: words alone.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Sentences at a time; 1 answers each at once.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Label every token: the rows of the input, each with its label behind it.

    A tagger (train hmm, train tagger) gives CoNLL-U back with its column of tags filled in, a CRF
    on graphs (train graph) a row for each node.
    Of several layers each has its label.  Labels already in other input are kept and not looked
    at.  With --number each labelling stands below a line with its rank and probability (of graphs:
    its score).

    Example: mrflearn tag chunker < new.txt
    """
