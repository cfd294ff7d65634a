"""Optimisers, progress, checkpoints."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.training.checkpoint import Checkpoint as Checkpoint
    from mrflearn.training.lbfgs import LBFGS as LBFGS
    from mrflearn.training.loop import minimise as minimise
    from mrflearn.training.outcome import EarlyStopping as EarlyStopping
    from mrflearn.training.outcome import Outcome as Outcome
    from mrflearn.training.outcome import Step as Step
    from mrflearn.training.owlqn import OWLQN as OWLQN
    from mrflearn.training.sgd import SGD as SGD
    from mrflearn.training.sgd import Adagrad as Adagrad
    from mrflearn.training.sgd import Adam as Adam

__getattr__, __dir__ = lazy(__name__)
