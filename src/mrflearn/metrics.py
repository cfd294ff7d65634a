"""Scores of all tokens at once, by the names of `sklearn_crfsuite.metrics`."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.evaluation.metrics import flat_accuracy_score as flat_accuracy_score
    from mrflearn.evaluation.metrics import flat_classification_report as flat_classification_report
    from mrflearn.evaluation.metrics import flat_f1_score as flat_f1_score
    from mrflearn.evaluation.metrics import flat_fbeta_score as flat_fbeta_score
    from mrflearn.evaluation.metrics import flat_precision_score as flat_precision_score
    from mrflearn.evaluation.metrics import flat_recall_score as flat_recall_score
    from mrflearn.evaluation.metrics import sequence_accuracy_score as sequence_accuracy_score

__getattr__, __dir__ = lazy(__name__)
