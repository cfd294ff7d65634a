"""Optimisers, progress, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.training.checkpoint import Checkpoint
    from mrflearn.training.lbfgs import LBFGS
    from mrflearn.training.loop import minimise
    from mrflearn.training.outcome import EarlyStopping, Outcome, Step
    from mrflearn.training.owlqn import OWLQN
    from mrflearn.training.sgd import SGD, Adagrad

__all__ = [
    "LBFGS",
    "OWLQN",
    "SGD",
    "Adagrad",
    "Checkpoint",
    "EarlyStopping",
    "Outcome",
    "Step",
    "minimise",
]

__getattr__, __dir__ = lazy(__name__)
