"""Training objectives: functions of one flat vector, made of a model, data and an inference."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.objectives.base import Autograd as Autograd
    from mrflearn.objectives.base import Evaluation as Evaluation
    from mrflearn.objectives.base import Objective as Objective
    from mrflearn.objectives.likelihood import Likelihood as Likelihood
    from mrflearn.objectives.problem import Penalty as Penalty
    from mrflearn.objectives.pseudolikelihood import Pseudolikelihood as Pseudolikelihood
    from mrflearn.objectives.pseudolikelihood import conditional_scores as conditional_scores

__getattr__, __dir__ = lazy(__name__)
