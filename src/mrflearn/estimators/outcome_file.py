"""How a training went, to and from what a model directory holds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

from mrflearn.errors import StorageError
from mrflearn.models.storage import figure
from mrflearn.training.outcome import Ending, Outcome, Row

FIGURES = ("value", "iterations", "evaluations", "ending", "reason", "seconds")


def figures_of(outcome: Outcome[Any]) -> Outcome[None]:
    """The outcome without its model, which the estimator holds in its own form."""
    return replace(outcome, model=None)


def stored_outcome(outcome: Outcome[Any]) -> dict[str, Any]:
    """The figures of an outcome as plain values; None stands for what is not a finite number."""
    history = [[_finite(own) for own in row] for row in outcome.history]
    return {name: _finite(getattr(outcome, name)) for name in FIGURES} | {"history": history}


def read_outcome(stored: dict[str, Any]) -> Outcome[None]:
    """The outcome with these figures, without a model."""
    if stored["ending"] not in get_args(Ending):
        raise StorageError(f"{stored['ending']!r:.80} is not an ending of a training")
    return Outcome(
        None,
        _number(stored["value"]),
        int(figure(stored["iterations"])),
        int(figure(stored["evaluations"])),
        stored["ending"],
        str(stored["reason"]),
        tuple(_row(*row) for row in stored["history"]),
        _number(stored["seconds"]),
    )


def _row(
    iteration: Any,
    value: Any,
    norm: Any,
    step: Any,
    evaluations: Any,
    seconds: Any,
    validation: Any,
) -> Row:
    return Row(
        int(figure(iteration)),
        _number(value),
        _number(norm),
        _number(step),
        int(figure(evaluations)),
        _number(seconds),
        None if validation is None else figure(validation),
    )


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(stored: Any) -> float:
    return math.nan if stored is None else figure(stored)
