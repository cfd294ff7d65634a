"""Training objectives: functions of a model, a batch and (if needed) an inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.objectives.likelihood import Likelihood
    from mrflearn.objectives.objective import Evaluation, Objective
    from mrflearn.objectives.penalties import L1, L2, ElasticNet, Penalty
    from mrflearn.objectives.pseudolikelihood import Pseudolikelihood, conditional_scores

__all__ = [
    "L1",
    "L2",
    "ElasticNet",
    "Evaluation",
    "Likelihood",
    "Objective",
    "Penalty",
    "Pseudolikelihood",
    "conditional_scores",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "ElasticNet": ".penalties",
        "Evaluation": ".objective",
        "L1": ".penalties",
        "L2": ".penalties",
        "Likelihood": ".likelihood",
        "Objective": ".objective",
        "Penalty": ".penalties",
        "Pseudolikelihood": ".pseudolikelihood",
        "conditional_scores": ".pseudolikelihood",
    },
)
