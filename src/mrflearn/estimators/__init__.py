"""The estimators: fit, predict, score, save."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.estimators.base import Estimator as Estimator
    from mrflearn.estimators.lifted_training import LiftedSettings as LiftedSettings
    from mrflearn.estimators.lifted_training import train_lifted as train_lifted

__getattr__, __dir__ = lazy(__name__)
