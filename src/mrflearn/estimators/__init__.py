"""The estimators: fit, predict, score, save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.estimators.base import Estimator
    from mrflearn.estimators.lifted_training import LiftedSettings, train_lifted

__all__ = ["Estimator", "LiftedSettings", "train_lifted"]

__getattr__, __dir__ = lazy(__name__)
