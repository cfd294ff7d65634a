"""Functions for `scoring=` of scikit-learn, by the names of `sklearn_crfsuite.scorers`."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.evaluation.metrics import flat_accuracy as flat_accuracy
    from mrflearn.evaluation.metrics import sequence_accuracy as sequence_accuracy

__getattr__, __dir__ = lazy(__name__)
