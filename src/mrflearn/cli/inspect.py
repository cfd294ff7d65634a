"""`mrflearn inspect`: what a model has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.options import ModelFolder
from mrflearn.cli.pictures import picture_of


@answered
def inspect(
    context: typer.Context,
    model: ModelFolder,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="How many entries to show.")] = 20,
    label: Annotated[str | None, typer.Option(help="Of a CRF: this label's weights.")] = None,
    contacts: Annotated[
        bool, typer.Option("--contacts", help="Of an alignment: its strongest contacts.")
    ] = False,
    apart: Annotated[
        int | None, typer.Option(min=1, help="Contacts: least distance of columns [default: 4].")
    ] = None,
    matrix: Annotated[
        Path | None, typer.Option(help="Write all contact scores, in CCMpred's format.")
    ] = None,
    plot: Annotated[
        Path | None, picture_of("all pairs of a field as a heat map, or a map of frequent words")
    ] = None,
    edges: Annotated[
        bool, typer.Option("--edges", help="With --plot: the strongest edges instead.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with all of it, as training writes one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """A field's strongest couplings, a CRF's heaviest weights, the size of a language model.

    Example: mrflearn inspect spikes-model -n 10 --plot couplings.png
    """
