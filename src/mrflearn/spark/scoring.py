"""How good predicted labels are: an Evaluator for `CrossValidator` and by itself."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from pyspark.ml.evaluation import Evaluator
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

from mrflearn.errors import SettingsError
from mrflearn.spark import answers
from mrflearn.spark.params import Settings

METRICS = ("f1", "precision", "recall", "accuracy")


class TaggingEvaluator(Evaluator, Settings, DefaultParamsWritable, DefaultParamsReadable):  # type: ignore[misc]
    """Scores predicted labels against the true ones; larger is better.

    Params
    ------
    predictionCol, labelCol
        Arrays of as many labels.
    metricName
        `"f1"`, `"precision"` or `"recall"` of exact chunks (labels such as B-NP, I-NP, O), or
        `"accuracy"`, the share of tokens whose label is right.

    Examples
    --------
    `TaggingEvaluator(labelCol="tags", metricName="accuracy").evaluate(model.transform(sentences))`

    """

    columns: ClassVar = {
        "predictionCol": ("prediction", "predicted labels, an array of strings"),
        "labelCol": ("labels", "true labels, an array of strings"),
        "metricName": ("f1", f"one of {', '.join(METRICS)}"),
    }

    def _evaluate(self, dataset: Any) -> float:
        metric = self.getOrDefault("metricName")
        if metric not in METRICS:
            raise SettingsError(f"metricName {metric!r} is not one of {', '.join(METRICS)}.")
        gold, found = self._needed("labelCol", dataset), self._needed("predictionCol", dataset)
        task = partial(answers.counted, gold, found, metric != "accuracy")
        counts = dataset.select(gold, found).mapInArrow(
            task, "right double, gold double, found double"
        )
        right, true, given = counts.groupBy().sum("right", "gold", "found").first()
        below = {"precision": given, "recall": true, "accuracy": true}
        score: float = (
            2 * (right or 0) / ((true or 0) + (given or 0) or 1) if metric == "f1" else 0.0
        )
        return score if metric == "f1" else (right or 0) / (below[metric] or 1)
