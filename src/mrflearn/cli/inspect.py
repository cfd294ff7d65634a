"""`mrflearn inspect`: what a model has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from mrflearn.cli.answers import Json, say, say_json, say_table
from mrflearn.cli.lm_answers import inspect_neighbours
from mrflearn.cli.ngram_answers import inspect_text


def inspect(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    top: Annotated[int, typer.Option(min=1, help="How many edges or features to show.")] = 20,
    label: Annotated[str | None, typer.Option(help="Of a CRF: this label's weights.")] = None,
    as_json: Json = False,
) -> None:
    """The strongest couplings of a field, in the zero-sum (spin) gauge; a CRF's heaviest weights.

    Example: mrflearn inspect spikes-model --top 10
    """
    from mrflearn.cli.inspect_crf import inspect_crf
    from mrflearn.estimators.crf import CRF
    from mrflearn.estimators.loading import load

    field = load(model)
    if isinstance(field, CRF):
        inspect_crf(field, top, label, as_json)
        return
    if hasattr(field, "token_scores"):
        inspect_text(field, top, as_json)
        return
    if hasattr(field, "fill"):
        inspect_neighbours(field, top, as_json)
        return
    edges, couplings = field.edges_, field.couplings_
    # With more than two states an edge's strength is the norm of its table.
    strength = couplings if couplings.ndim == 1 else np.linalg.norm(couplings, axis=(1, 2))
    order = np.argsort(-np.abs(strength), kind="stable")[:top]
    if as_json:
        say_json(
            {
                "class": type(field).__name__,
                "variables": field.n_features_in_,
                "edges": [[*edges[i].tolist(), float(strength[i])] for i in order],
                "fields": field.fields_.tolist(),
            }
        )
        return
    say(f"{type(field).__name__}: {field.n_features_in_} variables, {len(edges)} edges")
    rows = [[f"{edges[i][0]} - {edges[i][1]}", f"{strength[i]:+.4f}"] for i in order]
    say_table(["edge", "coupling" if couplings.ndim == 1 else "norm"], rows)
