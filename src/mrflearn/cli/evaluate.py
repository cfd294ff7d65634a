"""`mrflearn evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.evaluate_field import evaluate_field
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule, RowsFile, read_rows


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    file: RowsFile,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    as_json: Json = False,
) -> None:
    """Held-out likelihood of a field (exact, or by annealing), and whether its moments match.

    Example: mrflearn evaluate spikes-model held-out.txt --plots pictures
    """
    from mrflearn.estimators.loading import load

    rows = read_rows(file, columns, molecule, drop_inserts)
    evaluate_field(load(model), rows, plots, seed, as_json)
