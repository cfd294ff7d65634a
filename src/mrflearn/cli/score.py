"""`mrflearn score`: how probable a model finds data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.field_rows import Columns, DropInserts, Letters, Molecule, RowsFile, read_rows


class Method(StrEnum):
    """How log-probabilities are found."""

    exact = "exact"
    ais = "ais"
    pl = "pl"


def score(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    samples: RowsFile,
    method: Annotated[
        Method, typer.Option(help="exact; ais: log Z by sampling; pl: pseudolikelihood.")
    ] = Method.exact,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    as_json: Json = False,
) -> None:
    """The mean log-probability of the rows under a field.

    Example: mrflearn score spikes-model held-out.txt --method ais
    """
    from mrflearn.estimators.loading import load

    field = load(model)
    rows = read_rows(samples, columns, molecule, drop_inserts)
    values = field.log_likelihood(rows.values, method=method.value)
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
