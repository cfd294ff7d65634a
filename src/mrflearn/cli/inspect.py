"""`mrflearn inspect`: what a model has learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json
from mrflearn.cli.composite_answers import inspect_composite
from mrflearn.cli.inspect_crf import inspect_crf
from mrflearn.cli.inspect_field import FieldView, inspect_field
from mrflearn.cli.inspect_tagger import inspect_tagger
from mrflearn.cli.layered_answers import inspect_layered
from mrflearn.cli.lm_answers import inspect_neighbours
from mrflearn.cli.ngram_answers import inspect_text
from mrflearn.cli.pcfg_answers import inspect_pcfg
from mrflearn.cli.vector_answers import inspect_vectors


def inspect(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
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
        Path | None,
        typer.Option(help="Draw FILE.png: all pairs of a field; a map of the frequent words."),
    ] = None,
    edges: Annotated[
        bool, typer.Option("--edges", help="With --plot: draw the strongest edges instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """A field's strongest couplings, a CRF's heaviest weights, the size of a language model.

    Example: mrflearn inspect spikes-model --top 10 --plot couplings.png
    """
    from mrflearn.estimators.loading import load

    fitted = load(model)
    of_fields: dict[str, object] = {"--contacts": contacts, "--matrix": matrix, "--edges": edges}
    pictures = {**of_fields, "--plot": plot}
    match type(fitted).__name__:
        case "CRF":
            _refuse(model, pictures)
            inspect_crf(fitted, top, label, as_json)
        case "FactorialCRF" | "SkipChainCRF":
            _refuse(model, pictures)
            inspect_layered(fitted, top, label, as_json)
        case "HMMTagger" | "JointTagger":
            _refuse(model, {**pictures, "--label": label})
            inspect_tagger(fitted, top, as_json)
        case "NgramLanguageModel":
            _refuse(model, {**pictures, "--label": label})
            inspect_text(fitted, top, as_json)
        case "CompositeLanguageModel":
            _refuse(model, {**pictures, "--label": label})
            inspect_composite(fitted, top, as_json)
        case "PCFG":
            _refuse(model, {**pictures, "--label": label})
            inspect_pcfg(fitted, top, as_json)
        case "LanguageModel":
            _refuse(model, {**of_fields, "--label": label})
            inspect_neighbours(fitted, top, plot, as_json)
        case "WordVectors":
            _refuse(model, {**of_fields, "--label": label})
            inspect_vectors(fitted, top, plot, as_json)
        case _:
            _refuse(model, {"--label": label})
            if edges and plot is None:
                raise typer.BadParameter("--edges says what --plot FILE draws; give both")
            view = FieldView(top, contacts, apart, matrix, plot, edges)
            inspect_field(fitted, view, as_json)


def _refuse(model: Path, options: Mapping[str, object]) -> None:
    """An error where an option was given that a model of this kind has no answer to."""
    given = [name for name, value in options.items() if value]
    if given:
        raise typer.BadParameter(f"{' and '.join(given)}: not for a model such as {model}")
