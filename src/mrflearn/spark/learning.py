"""Estimators of `pyspark.ml`, whose Params are the arguments of mrflearn's own.

Rows stay on the workers, where each block of them is compiled once.  What cannot be learned so
(tags of an HMM, documents of a composite model) is collected to the driver, if it has the memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pyspark.ml import Estimator
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

import mrflearn
from mrflearn.estimators.field import is_learned
from mrflearn.execution.spark import Spark
from mrflearn.io.samples import arrow_samples
from mrflearn.spark import answers
from mrflearn.spark.params import Settings, check_columns
from mrflearn.spark.transformers import (
    FittedModel,
    SamplesColumns,
    SamplesModel,
    TaggerColumns,
    TaggerModel,
    TextColumns,
    TextModel,
    VectorsColumns,
    VectorsModel,
)

COUNTED = ("auto", "lap", "ml", "bp", "pcd", "pw")  # estimators that need no rows


class Learner(Estimator, Settings, DefaultParamsWritable, DefaultParamsReadable):  # type: ignore[misc]
    """An estimator that learns from a DataFrame what mrflearn's own learns from lists.

    Its Params are the names of columns and every argument of that estimator, with the same name,
    default and meaning.
    """

    makes: ClassVar[type[FittedModel]]

    def _fit(self, dataset: Any) -> FittedModel:
        estimator = self._estimator()
        self._learn(estimator, dataset)
        return self._copyValues(self.makes(estimator))  # type: ignore[no-any-return]

    def _estimator(self) -> Any:
        """mrflearn's own estimator with these settings."""
        assert self.fits is not None  # noqa: S101 - every class that can be made names one
        return self.fits(**{name: self.getOrDefault(name) for name in self.arguments})

    @abstractmethod
    def _learn(self, estimator: Any, dataset: Any) -> None:
        """Fits the estimator to the DataFrame."""


class LabelColumns(TaggerColumns):
    """The columns that labellers learn from."""

    columns: ClassVar = {
        "labelCol": ("labels", "the labels of each sentence, an array of strings"),
    }


class CRF(Learner, LabelColumns, fits=mrflearn.CRF):
    """`mrflearn.CRF` of the sentences of a DataFrame: `fit` gives a `TaggerModel`.

    Every evaluation sends the weights to the workers, which hold the compiled sentences, and brings
    back one sum.  All arguments of `mrflearn.CRF` are Params.

    Params
    ------
    inputCol
        The sentences: arrays of words or texts with `features="words"`, a template or a function
        by its name; arrays of structs for several columns; arrays of arrays of attributes, or of
        maps from attributes to values, without `features`.
    labelCol
        The labels of each sentence, an array of as many strings.
    weightCol
        If set: the weight of each sentence.
    validationIndicatorCol
        If set: whether a sentence is held out; the weights with the best score on those are kept.
    predictionCol, marginalsCol, scoreCol
        As in `TaggerModel`.

    Examples
    --------
    `CRF(inputCol="words", labelCol="tags", features="words", c2=0.1).fit(sentences)`

    """

    makes = TaggerModel
    columns: ClassVar = {
        "weightCol": (None, "the weight of each sentence"),
        "validationIndicatorCol": (None, "whether a sentence is held out of training"),
    }

    def _learn(self, estimator: Any, dataset: Any) -> None:
        columns = [self._needed(name, dataset) for name in ("inputCol", "labelCol")]
        if self._given("weightCol"):
            columns.append(self._needed("weightCol", dataset))
        validation = None
        if self._given("validationIndicatorCol"):
            held_out = dataset[self._needed("validationIndicatorCol", dataset)]
            rows = Spark(dataset.sparkSession).collect(dataset.filter(held_out), columns[:2])
            validation = _columns(answers.examples(rows))
            dataset = dataset.filter(~held_out)
        place = Spark(dataset.sparkSession)
        if estimator.algorithm == "lbfgs":
            with place.hold(dataset.select(*columns), answers.examples) as sentences:
                estimator.fit(sentences, validation=validation)
        else:  # goes from sentence to sentence
            X, y, *weights = _columns(answers.examples(place.collect(dataset, columns)))
            weight = weights[0] if weights else None
            estimator.fit(X, y, sample_weight=weight, validation=validation)


def _columns(examples: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(zip(*examples, strict=True)) if examples else ((), ())


class HMMTagger(Learner, LabelColumns, fits=mrflearn.HMMTagger):
    """`mrflearn.HMMTagger` of the sentences of a DataFrame: `fit` gives a `TaggerModel`.

    The sentences are collected to the driver.  All arguments of `mrflearn.HMMTagger` are Params.

    Params
    ------
    inputCol
        The sentences: arrays of words, or texts.
    labelCol
        The tags of each sentence, an array of as many strings.
    predictionCol, marginalsCol, scoreCol
        As in `TaggerModel`.

    Examples
    --------
    `HMMTagger(inputCol="words", labelCol="tags").fit(sentences)`

    """

    makes = TaggerModel

    def _learn(self, estimator: Any, dataset: Any) -> None:
        columns = [self._needed(name, dataset) for name in ("inputCol", "labelCol")]
        rows = Spark(dataset.sparkSession).collect(dataset, columns)
        estimator.fit(*_columns(answers.examples(rows)))


class NgramLanguageModel(Learner, TextColumns, fits=mrflearn.NgramLanguageModel):
    """`mrflearn.NgramLanguageModel` of the sentences of a DataFrame: `fit` gives a `TextModel`.

    N-grams are counted on the workers.  All arguments of `mrflearn.NgramLanguageModel` are Params.

    Params
    ------
    inputCol
        The sentences: arrays of words, or texts.
    scoreCol
        As in `TextModel`.

    Examples
    --------
    `NgramLanguageModel(inputCol="words", order=5).fit(sentences).fitted.export("model.arpa")`

    """

    makes = TextModel

    def _learn(self, estimator: Any, dataset: Any) -> None:
        chosen = dataset.select(self._needed("inputCol", dataset))
        with Spark(dataset.sparkSession).hold(chosen, answers.sentences) as text:
            estimator.fit(text)


class LanguageModel(Learner, TextColumns, fits=mrflearn.LanguageModel):
    """`mrflearn.LanguageModel` of the sentences of a DataFrame: `fit` gives a `TextModel`.

    Pairs of words are counted on the workers, and the driver learns from the counts.  All arguments
    of `mrflearn.LanguageModel` are Params.

    Params
    ------
    inputCol
        The sentences: arrays of words, or texts.
    scoreCol
        As in `TextModel`.

    Examples
    --------
    `LanguageModel(inputCol="words", bound="chains", dims=50).fit(sentences)`

    """

    makes = TextModel

    def _learn(self, estimator: Any, dataset: Any) -> None:
        _learn_from_counts(estimator, dataset, self._needed("inputCol", dataset))


class WordVectors(Learner, VectorsColumns, fits=mrflearn.WordVectors):
    """`mrflearn.WordVectors` of the sentences of a DataFrame: `fit` gives a `VectorsModel`.

    Pairs of words are counted on the workers.  All arguments of `mrflearn.WordVectors` are Params.

    Params
    ------
    inputCol
        The sentences: arrays of words, or texts.
    outputCol
        As in `VectorsModel`.

    Examples
    --------
    `WordVectors(inputCol="words", dims=100).fit(sentences).fitted.neighbors("king")`

    """

    makes = VectorsModel

    def _learn(self, estimator: Any, dataset: Any) -> None:
        _learn_from_counts(estimator, dataset, self._needed("inputCol", dataset))


def _learn_from_counts(estimator: Any, dataset: Any, name: str) -> None:
    place = Spark(dataset.sparkSession)
    if getattr(estimator, "order", 3) > 3:  # moments have no longer n-grams
        estimator.fit(answers.sentences(place.collect(dataset, [name])))
        return
    with place.hold(dataset.select(name), answers.sentences) as text:
        estimator.fit(estimator.count_shards(text))


class CompositeLanguageModel(Learner, TextColumns, fits=mrflearn.CompositeLanguageModel):
    """`mrflearn.CompositeLanguageModel` of the documents of a DataFrame: `fit` gives a `TextModel`.

    The documents are collected to the driver; each step of EM is summed up on the workers.  All
    arguments of `mrflearn.CompositeLanguageModel` are Params.

    Params
    ------
    inputCol
        The documents: arrays of sentences, each an array of words; a text or an array of words is
        a document of one sentence.
    scoreCol, topicsCol
        As in `TextModel`.

    Examples
    --------
    `CompositeLanguageModel(inputCol="sentences", order=3, topics=20).fit(documents)`

    """

    makes = TextModel

    def _learn(self, estimator: Any, dataset: Any) -> None:
        place = Spark(dataset.sparkSession)
        table = place.collect(dataset, [self._needed("inputCol", dataset)])
        estimator.fit(answers.documents(table), executor=place)


class MarkovField(Learner, SamplesColumns, fits=mrflearn.MarkovField):
    """`mrflearn.MarkovField` of the rows of a DataFrame: `fit` gives a `SamplesModel`.

    Rows are counted on the workers for the estimators of `fit_shards` (`lap`, `ml`, `bp`, `pcd` and
    `pw`); other estimators and the search for edges collect them to the driver.  All arguments of
    `mrflearn.MarkovField` are Params.

    Params
    ------
    inputCols
        The variables, columns of whole numbers counted from 0, in the order of the graph; by
        default all columns.
    outputCols, scoreCol
        As in `SamplesModel`.

    Examples
    --------
    `MarkovField(graph="grid:100x100", estimator="lap").fit(samples)`

    """

    makes = SamplesModel

    def _learn(self, estimator: Any, dataset: Any) -> None:
        names = self._given("inputCols") or list(dataset.columns)
        check_columns(dataset, names, "inputCols=[...]")
        place = Spark(dataset.sparkSession)
        own = estimator.graph
        if estimator.estimator not in COUNTED or is_learned(own) or hasattr(own, "fit"):
            estimator.fit(arrow_samples(place.collect(dataset, names)))
            return
        with place.hold(dataset.select(*names), arrow_samples) as rows:
            estimator.fit_shards(rows, missing=any(rows.map(answers.has_gaps)))
