"""`mrflearn score`: how probable a model finds data."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.asking import load_for, refuse_others
from mrflearn.cli.composite_answers import score_documents
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule, read_rows, whole_rows
from mrflearn.cli.lm_answers import score_neighbours
from mrflearn.cli.ngram_answers import score_text
from mrflearn.cli.options import ModelFolder
from mrflearn.cli.pcfg_answers import score_sentences
from mrflearn.errors import InferenceError


class Method(StrEnum):
    """How log-probabilities are found."""

    exact = "exact"
    ais = "ais"
    pl = "pl"
    bound = "bound"
    ring = "ring"


# The options that each kind of model reads; others are scored exactly, with none.
FIELD = ("method", "columns", "molecule", "drop_inserts")
USED = {"LanguageModel": ("method",), "MarkovField": FIELD, "PottsField": FIELD}


def score(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(help="Rows of states, an alignment, or text.")],
    method: Annotated[
        Method | None,
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
    fitted = load_for("score", model)
    refuse_others(context, fitted, USED.get(type(fitted).__name__, ()))
    match type(fitted).__name__:
        case "NgramLanguageModel":
            score_text(fitted, file, as_json)
        case "CompositeLanguageModel":
            score_documents(fitted, file, as_json)
        case "PCFG":
            score_sentences(fitted, file, as_json)
        case "LanguageModel":
            score_neighbours(fitted, file, (method or Method.bound).value, as_json)
        case _:
            rows = read_rows(file, columns, molecule, drop_inserts)
            # As `score` in Python: families are too wide for exact answers.
            usual = Method.pl if type(fitted).__name__ == "PottsField" else Method.exact
            _score_field(fitted, whole_rows(rows), method or usual, as_json)


def _score_field(field: Any, rows: Any, method: Method, as_json: bool) -> None:
    try:
        values = field.log_likelihood(rows, method=method.value)
    except InferenceError as error:
        raise InferenceError(f"{error} Here: --method ais (sampled) or --method pl.") from error
    answer = {
        "log_likelihood_per_sample": float(values.mean()),
        "standard_error": float(values.std(ddof=1) / len(values) ** 0.5)
        if len(values) > 1
        else math.nan,
        "samples": len(values),
        "method": method.value,
    }
    if as_json:
        say_json(answer)
        return
    say(
        f"{answer['log_likelihood_per_sample']:.6f} nats a sample "
        f"(+- {answer['standard_error']:.6f}; {answer['samples']} samples, {method.value})"
    )
