"""`mrflearn score`: how probable a model finds data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.composite_answers import score_documents
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule, read_rows, whole_rows
from mrflearn.cli.lm_answers import score_neighbours
from mrflearn.cli.ngram_answers import score_text
from mrflearn.cli.pcfg_answers import score_sentences
from mrflearn.errors import InferenceError, MrflearnError


class Method(StrEnum):
    """How log-probabilities are found."""

    exact = "exact"
    ais = "ais"
    pl = "pl"
    bound = "bound"
    ring = "ring"


def score(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
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
    from mrflearn.estimators.loading import load

    fitted = load(model)
    match type(fitted).__name__:
        case "NgramLanguageModel":
            if method is not None:
                raise typer.BadParameter("an n-gram model is always scored exactly: no --method")
            score_text(fitted, file, as_json)
        case "CompositeLanguageModel":
            if method is not None:
                raise typer.BadParameter("a composite model is always scored exactly: no --method")
            score_documents(fitted, file, as_json)
        case "PCFG":
            if method is not None:
                raise typer.BadParameter("a grammar is always scored exactly: no --method")
            score_sentences(fitted, file, as_json)
        case "LanguageModel":
            score_neighbours(fitted, file, (method or Method.bound).value, as_json)
        case "CRF" | "FactorialCRF" | "SkipChainCRF":
            raise MrflearnError(f"{model} is a CRF; `mrflearn evaluate` tells how right it is.")
        case "HMMTagger" | "JointTagger":
            raise MrflearnError(f"{model} is a tagger; `mrflearn evaluate` tells how right it is.")
        case "WordVectors":
            raise MrflearnError(
                f"{model} holds word vectors, no probabilities; `mrflearn neighbors` asks them."
            )
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
        "standard_error": float(values.std() / len(values) ** 0.5),
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
