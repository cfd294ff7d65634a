"""`mrflearn inspect`: what a model has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.inspect_field import FieldView, inspect_field


def inspect(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    top: Annotated[int, typer.Option(min=1, help="How many edges to show.")] = 20,
    contacts: Annotated[
        bool, typer.Option("--contacts", help="Of an alignment: its strongest contacts.")
    ] = False,
    apart: Annotated[int, typer.Option(min=1, help="Contacts: least distance of columns.")] = 4,
    matrix: Annotated[
        Path | None, typer.Option(help="Write all contact scores, in CCMpred's format.")
    ] = None,
    heat_map: Annotated[Path | None, typer.Option(help="Draw all pairs: FILE.png.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the strongest edges.")] = None,
    as_json: Json = False,
) -> None:
    """The strongest couplings of a field, in the zero-sum (spin) gauge.

    Example: mrflearn inspect spikes-model --top 10 --heat-map couplings.png
    """
    from mrflearn.estimators.loading import load

    view = FieldView(top, contacts, apart, matrix, heat_map, picture)
    inspect_field(load(model), view, as_json)
