"""Training objectives: functions of one flat vector, made of a model, data and an inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.objectives.base import Autograd, Evaluation, Objective
    from mrflearn.objectives.likelihood import Likelihood
    from mrflearn.objectives.problem import Penalty
    from mrflearn.objectives.pseudolikelihood import Pseudolikelihood, conditional_scores

__all__ = [
    "Autograd",
    "Evaluation",
    "Likelihood",
    "Objective",
    "Penalty",
    "Pseudolikelihood",
    "conditional_scores",
]

__getattr__, __dir__ = lazy(__name__)
