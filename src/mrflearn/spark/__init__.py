"""Spark: estimators and models of DataFrames, as `pyspark.ml` has them, and a cluster to run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mrflearn._lazy import lazy
from mrflearn.errors import MissingExtraError

if TYPE_CHECKING:
    from mrflearn.execution.spark import Spark as Spark
    from mrflearn.spark.learning import CRF as CRF
    from mrflearn.spark.learning import CompositeLanguageModel as CompositeLanguageModel
    from mrflearn.spark.learning import HMMTagger as HMMTagger
    from mrflearn.spark.learning import LanguageModel as LanguageModel
    from mrflearn.spark.learning import MarkovField as MarkovField
    from mrflearn.spark.learning import NgramLanguageModel as NgramLanguageModel
    from mrflearn.spark.learning import WordVectors as WordVectors
    from mrflearn.spark.scoring import TaggingEvaluator as TaggingEvaluator
    from mrflearn.spark.transformers import SamplesModel as SamplesModel
    from mrflearn.spark.transformers import TaggerModel as TaggerModel
    from mrflearn.spark.transformers import TextModel as TextModel
    from mrflearn.spark.transformers import VectorsModel as VectorsModel

_get, __dir__ = lazy(__name__)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as missing:
        if str(missing.name).partition(".")[0] not in ("pyspark", "pyarrow"):
            raise
        message = "needs Spark and Java 17: pip install 'mrflearn[spark]'"
        raise MissingExtraError(message) from missing
