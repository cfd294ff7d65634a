"""How the training of a CRF went, on disk and back: the outcome's figures, the estimator chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from mrflearn.errors import StorageError
from mrflearn.estimators.crf_choice import Choice
from mrflearn.objectives.field_objectives import Criterion
from mrflearn.training.outcome import Outcome


def stored_training(model: Any) -> dict[str, Any]:
    """`outcome_` and `choice_` as plain values, where the model has them."""
    outcome: Outcome[Any] | None = getattr(model, "outcome_", None)
    choice: Choice | None = getattr(model, "choice_", None)
    return {
        "outcome": None if outcome is None else outcome.figures(),
        "choice": None if choice is None else choice._asdict(),
    }


def restore_training(model: Any, learned: Mapping[str, Any]) -> None:
    """Gives the model, whose `model_` is restored, the attributes that `stored_training` read."""
    if learned["outcome"] is not None:
        model.outcome_ = Outcome.from_figures(model.model_, learned["outcome"])
    if learned["choice"] is not None:
        choice = Choice(**learned["choice"])
        if choice.estimator not in get_args(Criterion) or not isinstance(choice.reason, str):
            raise StorageError("the choice of an estimator does not say which and why")
        model.choice_ = choice
