"""`mrflearn evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import answered
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule
from mrflearn.cli.inputs import input_argument, input_option
from mrflearn.cli.options import ChunkScheme, ModelFolder, Seed
from mrflearn.cli.pictures import picture_of


@answered
def evaluate(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, input_argument("Data of the kind it was trained on.")],
    train: Annotated[
        Path | None, input_option("CRF: its training file; adds accuracy on unseen words.")
    ] = None,
    scheme: Annotated[
        ChunkScheme | None, typer.Option(help="CRF: keep chunk tags well-formed in this scheme.")
    ] = None,
    n: Annotated[
        int,
        typer.Option("--number", "-n", min=0, help="CRF, tagger: how many confusions to show."),
    ] = 10,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="CRF, tagger: whether probabilities hold.")
    ] = False,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    seed: Seed = 0,
    plot: Annotated[
        Path | None,
        picture_of("a field's moments, a CRF's or tagger's confusions or, if asked, calibration"),
    ] = None,
    as_json: Json = False,
) -> None:
    """A CRF's or tagger's accuracy, a CRF's chunk scores; a field's held-out likelihood.

    A grammar's labelled brackets beside the trees of a treebank (as evalb counts them). Of word
    vectors: agreement with people's scores (`word word score` a line), or analogies answered right.

    Accuracy, precision, recall and F1 (as conlleval counts them) are shares between 0 and 1.

    Example: mrflearn evaluate chunker test.txt --json
    """
