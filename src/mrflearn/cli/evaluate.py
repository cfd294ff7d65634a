"""`mrflearn evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.convert import ChunkScheme
from mrflearn.cli.evaluate_crf import LabelView, evaluate_crf
from mrflearn.cli.evaluate_field import evaluate_field
from mrflearn.cli.evaluate_parses import evaluate_parses
from mrflearn.cli.evaluate_tagger import evaluate_tagger
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule, read_rows
from mrflearn.cli.labelling import with_recipe
from mrflearn.cli.layered_answers import evaluate_layered, refuse_options
from mrflearn.cli.vector_answers import evaluate_vectors
from mrflearn.errors import MrflearnError


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    file: Annotated[Path, typer.Argument(help="Data of the kind it was trained on.")],
    train: Annotated[
        Path | None, typer.Option(help="CRF: its training file; adds accuracy on unseen words.")
    ] = None,
    scheme: Annotated[
        ChunkScheme | None, typer.Option(help="CRF: keep chunk tags well-formed in this scheme.")
    ] = None,
    mistakes: Annotated[int, typer.Option(min=0, help="CRF, tagger: so many confusions.")] = 10,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="CRF, tagger: whether probabilities hold.")
    ] = False,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    seed: Annotated[int, typer.Option(help="Field: seed of everything random.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw FILE.png: a field's moments; a CRF's confusions (or --calibration)."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """A CRF's or tagger's accuracy, a CRF's chunk scores; a field's held-out likelihood.

    A grammar's labelled brackets beside the trees of a treebank (as evalb counts them). Of word
    vectors: agreement with people's scores (`word word score` a line), or analogies answered right.

    Accuracy, precision, recall and F1 (as conlleval counts them) are shares between 0 and 1.

    Example: mrflearn evaluate chunker test.txt --json
    """
    from mrflearn.estimators.loading import load

    fitted = load(model)
    match type(fitted).__name__:
        case "CRF":
            if columns is not None:
                raise typer.BadParameter("--columns: a CRF knows the columns of its files")
            view = LabelView(train, scheme, mistakes, calibration, plot)
            evaluate_crf(with_recipe(fitted, model), file, view, as_json)
        case "PCFG" | "CompositeLanguageModel":
            unused = {"--train": train, "--scheme": scheme, "--calibration": calibration}
            refuse_options(model, unused | {"--columns": columns, "--plot": plot})
            evaluate_parses(fitted, file, as_json)
        case "FactorialCRF" | "SkipChainCRF":
            unused = {"--train": train, "--scheme": scheme, "--calibration": calibration}
            refuse_options(model, unused | {"--columns": columns, "--plot": plot})
            evaluate_layered(fitted, model, file, mistakes, as_json)
        case "HMMTagger" | "JointTagger":
            if given := [n for n, v in {"--columns": columns, "--scheme": scheme}.items() if v]:
                raise typer.BadParameter(f"{' and '.join(given)}: not for a tagger")
            if train is not None:
                raise typer.BadParameter("--train: a tagger knows which words it has seen")
            view = LabelView(None, None, mistakes, calibration, plot)
            evaluate_tagger(fitted, file, view, as_json)
        case "LanguageModel" | "WordVectors":
            unused = {"--train": train, "--scheme": scheme, "--calibration": calibration}
            refuse_options(model, unused | {"--columns": columns, "--plot": plot})
            evaluate_vectors(fitted, file, as_json)
        case "NgramLanguageModel":
            raise MrflearnError(f"{model} is a language model; `mrflearn score` rates a text.")
        case _:
            rows = read_rows(file, columns, molecule, drop_inserts)
            evaluate_field(fitted, rows, plot, seed, as_json)
