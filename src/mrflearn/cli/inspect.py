"""`mrflearn inspect`: what a model has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.asking import load_for, refuse_idle, refuse_others
from mrflearn.cli.composite_answers import inspect_composite
from mrflearn.cli.inspect_crf import inspect_crf
from mrflearn.cli.inspect_field import FieldView, inspect_field
from mrflearn.cli.inspect_tagger import inspect_tagger
from mrflearn.cli.layered_answers import inspect_layered
from mrflearn.cli.lm_answers import inspect_neighbours
from mrflearn.cli.ngram_answers import inspect_text
from mrflearn.cli.options import ModelFolder
from mrflearn.cli.pcfg_answers import inspect_pcfg
from mrflearn.cli.pictures import picture_of
from mrflearn.cli.vector_answers import inspect_vectors

# The options that some kinds of model read besides --top.
FIELD = ("contacts", "apart", "matrix", "plot", "edges")
CRF = ("label",)
USED = {
    "CRF": CRF,
    "FactorialCRF": CRF,
    "LanguageModel": ("plot",),
    "MarkovField": FIELD,
    "PottsField": FIELD,
    "SkipChainCRF": CRF,
    "WordVectors": ("plot",),
}


def inspect(
    context: typer.Context,
    model: ModelFolder,
    top: Annotated[int, typer.Option(min=1, help="How many entries to show.")] = 20,
    label: Annotated[str | None, typer.Option(help="Of a CRF: this label's weights.")] = None,
    contacts: Annotated[
        bool, typer.Option("--contacts", help="Of an alignment: its strongest contacts.")
    ] = False,
    apart: Annotated[int, typer.Option(min=1, help="Contacts: least distance of columns.")] = 4,
    matrix: Annotated[
        Path | None, typer.Option(help="Write all contact scores, in CCMpred's format.")
    ] = None,
    plot: Annotated[
        Path | None, picture_of("all pairs of a field as a heat map, or a map of frequent words")
    ] = None,
    edges: Annotated[
        bool, typer.Option("--edges", help="With --plot: the strongest edges instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """A field's strongest couplings, a CRF's heaviest weights, the size of a language model.

    Example: mrflearn inspect spikes-model --top 10 --plot couplings.png
    """
    fitted = load_for("inspect", model)
    refuse_others(context, fitted, ("top", *USED.get(type(fitted).__name__, ())))
    match type(fitted).__name__:
        case "CRF":
            inspect_crf(fitted, top, label, as_json)
        case "FactorialCRF" | "SkipChainCRF":
            inspect_layered(fitted, top, label, as_json)
        case "HMMTagger" | "JointTagger":
            inspect_tagger(fitted, top, as_json)
        case "NgramLanguageModel":
            inspect_text(fitted, top, as_json)
        case "CompositeLanguageModel":
            inspect_composite(fitted, top, as_json)
        case "PCFG":
            inspect_pcfg(fitted, top, as_json)
        case "LanguageModel":
            inspect_neighbours(fitted, top, plot, as_json)
        case "WordVectors":
            inspect_vectors(fitted, top, plot, as_json)
        case _:
            if edges and plot is None:
                raise typer.BadParameter("--edges says what --plot FILE draws; give both.")
            if not contacts:
                refuse_idle(context, {"apart": "says which --contacts are shown; give both."})
            view = FieldView(top, contacts, apart, matrix, plot, edges)
            inspect_field(fitted, view, as_json)
