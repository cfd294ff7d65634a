"""`mrflearn evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import load_for, refuse_others
from mrflearn.cli.convert import ChunkScheme
from mrflearn.cli.evaluate_crf import LabelView, evaluate_crf
from mrflearn.cli.evaluate_field import evaluate_field
from mrflearn.cli.evaluate_parses import evaluate_parses
from mrflearn.cli.evaluate_tagger import evaluate_tagger
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule, read_rows
from mrflearn.cli.labelling import with_recipe
from mrflearn.cli.layered_answers import evaluate_layered
from mrflearn.cli.options import ModelFolder, Seed
from mrflearn.cli.pictures import picture_of
from mrflearn.cli.vector_answers import evaluate_vectors

# The options that each kind of model reads.
FIELD = ("columns", "molecule", "drop_inserts", "seed", "plot")
TAGGER = ("mistakes", "calibration", "plot")
USED = {
    "CRF": ("train", "scheme", *TAGGER),
    "CompositeLanguageModel": (),
    "FactorialCRF": ("mistakes",),
    "HMMTagger": TAGGER,
    "JointTagger": TAGGER,
    "LanguageModel": (),
    "MarkovField": FIELD,
    "PCFG": (),
    "PottsField": FIELD,
    "SkipChainCRF": ("mistakes",),
    "WordVectors": (),
}


def evaluate(
    context: typer.Context,
    model: ModelFolder,
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
    fitted = load_for("evaluate", model)
    refuse_others(context, fitted, USED[type(fitted).__name__])
    match type(fitted).__name__:
        case "CRF":
            view = LabelView(train, scheme, mistakes, calibration, plot)
            evaluate_crf(with_recipe(fitted, model), file, view, as_json)
        case "PCFG" | "CompositeLanguageModel":
            evaluate_parses(fitted, file, as_json)
        case "FactorialCRF" | "SkipChainCRF":
            evaluate_layered(fitted, model, file, mistakes, as_json)
        case "HMMTagger" | "JointTagger":
            view = LabelView(None, None, mistakes, calibration, plot)
            evaluate_tagger(fitted, file, view, as_json)
        case "LanguageModel" | "WordVectors":
            evaluate_vectors(fitted, file, as_json)
        case _:
            rows = read_rows(file, columns, molecule, drop_inserts)
            evaluate_field(fitted, rows, plot, seed, as_json)
