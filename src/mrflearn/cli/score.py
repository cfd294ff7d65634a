"""`mrflearn score`: how probable a model finds data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import LikelihoodMethod, ModelFolder


@answered
def score(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, input_argument("Rows of states, an alignment, or text.")],
    method: Annotated[
        LikelihoodMethod | None,
        typer.Option(
            help="exact (default of a field); ais: log Z by sampling; pl: pseudolikelihood "
            "(default of a family); bound (default of a text), ring: of a text."
        ),
    ] = None,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    as_json: Json = False,
) -> None:
    """The mean log-probability of the rows under a field; the perplexity of a text.

    Example: mrflearn score spikes-model held-out.txt --method ais
    """
