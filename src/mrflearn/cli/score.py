"""`mrflearn score`: how probable a model finds data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.lm_answers import score_neighbours
from mrflearn.cli.ngram_answers import score_text


class Method(StrEnum):
    """How log-probabilities are found."""

    bound = "bound"
    exact = "exact"
    ring = "ring"
    ais = "ais"
    pl = "pl"


def score(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    samples: Annotated[Path, typer.Argument(help="Rows of states, or text.")],
    method: Annotated[
        Method | None,
        typer.Option(
            help="exact; ais: log Z by sampling; pl: pseudolikelihood; bound, ring: of a text."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """The mean log-probability of the rows under a field; the perplexity of a text.

    Example: mrflearn score spikes-model held-out.txt --method ais
    """
    from mrflearn.data.samples import read_samples
    from mrflearn.estimators.loading import load

    field = load(model)
    if hasattr(field, "token_scores"):
        score_text(field, samples, as_json)
        return
    if hasattr(field, "fill"):
        score_neighbours(field, samples, (method or Method.bound).value, as_json)
        return
    method = method or Method.exact
    values = field.log_likelihood(read_samples(samples).values, method=method.value)
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
