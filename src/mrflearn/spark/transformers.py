"""Fitted models as Transformers: they add columns, and are stored as ordinary model directories."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyspark import cloudpickle
from pyspark.ml import Model
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql.types import DataType, StructField, StructType

import mrflearn
from mrflearn.errors import SettingsError, StorageError
from mrflearn.io.files import joined, plain, read_bytes, url_of, write_binary
from mrflearn.spark import answers
from mrflearn.spark.params import Settings, check_columns

METADATA = "metadata/part-00000"  # where Spark looks for what a stage of a pipeline is


class FittedModel(Model, Settings, MLWritable, MLReadable):  # type: ignore[misc]
    """A fitted mrflearn model that answers for every row of a DataFrame.

    Parameters
    ----------
    fitted
        The model, trained on a cluster or anywhere else.
    **columns
        Names of columns.

    Attributes
    ----------
    fitted
        The model itself: all that it can do without Spark.

    """

    asks: ClassVar[tuple[str, ...]] = ()  # methods that a model must have

    def __init__(self, fitted: Any = None, **columns: Any) -> None:
        super().__init__(**columns)
        lacking = [name for name in self.asks if not hasattr(type(fitted), name)]
        if fitted is not None and lacking:
            own, other = type(self).__name__, type(fitted).__name__
            raise SettingsError(f"{own} cannot work with a {other}, which has no {lacking[0]}.")
        self.fitted = fitted
        self._sent: answers.Sent | None = None

    def write(self) -> ModelWriter:
        """`write().overwrite().save(path)`: the same directory that `fitted.save(path)` writes."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """`read().load(path)`, of any directory with a model of this kind."""
        return ModelReader(cls)

    def _added(
        self, dataset: Any, ask: Callable[[Any, Any], list[Any]], fields: list[tuple[str, Any]]
    ) -> Any:
        """The DataFrame with further columns, which workers fill batch by batch."""
        for name, _ in fields:
            if name in dataset.columns:
                raise SettingsError(f"there is a column '{name}' already. Drop or rename it first.")
        if not fields:
            raise SettingsError("no column is asked for.")
        self._sent = self._sent or answers.Sent.of(self.fitted, cloudpickle.dumps)
        new = [StructField(n, _type(own), nullable=True) for n, own in fields]
        schema = StructType([*dataset.schema.fields, *new])
        task = partial(answers.answered, self._sent, ask, [name for name, _ in fields])
        return dataset.mapInArrow(task, schema)


def _type(kind: str | DataType) -> DataType:
    return kind if isinstance(kind, DataType) else DataType.fromDDL(kind)


class SequenceModel(FittedModel):
    """What answers questions about the rows of one column."""

    answers: ClassVar[dict[str, tuple[answers.Question, str]]] = {}

    def _transform(self, dataset: Any) -> Any:
        source = self._needed("inputCol", dataset)
        asked = [(self._given(name), *own) for name, own in self.answers.items()]
        wanted = [(name, ask, kind) for name, ask, kind in asked if name]
        questions = tuple((ask, kind) for _, ask, kind in wanted)
        fields = [(name, kind) for name, _, kind in wanted]
        return self._added(dataset, answers.SequenceAnswers(source, questions), fields)


class TaggerColumns(Settings):
    """The columns of labellers."""

    columns: ClassVar = {
        "inputCol": ("words", "sentences: arrays of words, of structs, or text"),
        "predictionCol": ("prediction", "the most probable labels of each sentence"),
        "marginalsCol": (None, "the probability of every label of every token"),
        "scoreCol": (None, "the log-probability of the predicted labels, in nats"),
    }


class TaggerModel(SequenceModel, TaggerColumns):
    """Labels the tokens of each row: a fitted `CRF`, `HMMTagger` or other labeller of sentences.

    Params
    ------
    inputCol
        The sentences: arrays of words, or texts, whose words are set apart by white space; for
        models of several columns arrays of structs, as `arrays_zip("words", "pos")` makes.
    predictionCol
        The most probable labels, an array of strings.
    marginalsCol
        If set: an array of maps, from each label to its probability.
    scoreCol
        If set: the log-probability of the predicted labels, in nats.

    Examples
    --------
    `TaggerModel(mrflearn.load("chunker")).transform(sentences)` labels a DataFrame by a model that
    was trained elsewhere.

    """

    asks: ClassVar = ("predict", "predict_proba", "classes_")
    answers: ClassVar = {
        "predictionCol": (answers.labels, "array<string>"),
        "marginalsCol": (answers.marginals, "array<map<string,double>>"),
        "scoreCol": (answers.label_scores, "double"),
    }


class TextColumns(Settings):
    """The columns of language models."""

    columns: ClassVar = {
        "inputCol": ("words", "sentences or documents: arrays of words, or text"),
        "scoreCol": ("score", "the log-probability of each row, in nats"),
        "topicsCol": (None, "the share of every topic in each document"),
    }


class TextModel(SequenceModel, TextColumns):
    """Scores each row by a fitted `NgramLanguageModel`, `LanguageModel` or composite model.

    Params
    ------
    inputCol
        Sentences: arrays of words, or texts; for composite models also arrays of sentences.
    scoreCol
        The log-probability of each row, in nats (a lower bound for `LanguageModel`, whose
        sentences share the ring of their batch); null where it has no word.
    topicsCol
        If set, of composite models: the share of every topic.

    """

    asks: ClassVar = ("score_samples", "vocabulary_")
    answers: ClassVar = {
        "scoreCol": (answers.text_scores, "double"),
        "topicsCol": (answers.topics, "array<double>"),
    }


class VectorsColumns(Settings):
    """The columns of word vectors."""

    columns: ClassVar = {
        "inputCol": ("words", "sentences or documents: arrays of words, or text"),
        "outputCol": ("vector", "the mean of the vectors of the words"),
    }


class VectorsModel(SequenceModel, VectorsColumns):
    """The mean vector of the words of each row, by fitted `WordVectors` or a `LanguageModel`.

    Params
    ------
    inputCol
        Arrays of words, or texts.
    outputCol
        The mean of the vectors of the words that are known, an array; null where none is.

    """

    asks: ClassVar = ("neighbors",)
    answers: ClassVar = {"outputCol": (answers.mean_vectors, "array<double>")}


class SamplesColumns(Settings):
    """The columns of fields."""

    columns: ClassVar = {
        "inputCols": (None, "the variables, in the order of the graph"),
        "outputCols": (None, "the variables with missing values filled in"),
        "scoreCol": (None, "the log-probability of each row, in nats"),
    }


class SamplesModel(FittedModel, SamplesColumns):
    """Fills in missing values of each row, and scores it, by a fitted `MarkovField`.

    Params
    ------
    inputCols
        The variables, in the order of the graph; by default all columns.
    outputCols
        If set: as many names, for the variables with missing values replaced by the most probable
        state given all that the row has.
    scoreCol
        If set: the log-probability of each row, in nats; rows must be complete.

    """

    asks: ClassVar = ("impute", "score_samples")

    def _transform(self, dataset: Any) -> Any:
        source = self._given("inputCols") or list(dataset.columns)
        check_columns(dataset, source, "inputCols=[...]")
        filled, score = self._given("outputCols") or [], self._given("scoreCol")
        if filled and len(filled) != len(source):
            raise SettingsError(f"{len(filled)} outputCols, but {len(source)} inputCols.")
        kinds = [dataset.schema[name].dataType for name in source]
        fields = [*zip(filled, kinds, strict=False), *([(score, "double")] if score else [])]
        ask = answers.SampleAnswers(tuple(source), bool(filled), bool(score))
        return self._added(dataset, ask, fields)


# On disk: the ordinary model directory, and Spark's own description of the stage inside it.


class ModelWriter(MLWriter):  # type: ignore[misc]
    """Writes the model directory; anything but a model is never replaced."""

    def __init__(self, model: FittedModel) -> None:
        super().__init__()
        self.model = model

    def save(self, path: str) -> None:
        """Writes the directory, at a path of this machine or a URL that fsspec knows."""
        if self.model.fitted is None:
            raise StorageError("there is no fitted model to save.")
        self.model.fitted.save(path, overwrite=self.shouldOverwrite)
        text = DefaultParamsWriter._get_metadata_to_save(self.model, self.sparkSession)
        if url_of(path) is None:
            Path(plain(path), METADATA).parent.mkdir()
        with write_binary(joined(path, METADATA)) as stream:
            stream.write(text.encode() + b"\n")


class ModelReader(MLReader):  # type: ignore[misc]
    """Reads a model directory, whether Spark wrote it or not."""

    def __init__(self, kind: type[FittedModel]) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        """The model at a path of this machine or a URL that fsspec knows."""
        model = self.kind(mrflearn.load(path))
        try:
            found = json.loads(read_bytes(joined(path, METADATA)))
        except ValueError:  # a model that was trained without Spark
            return model
        model._resetUid(found["uid"])
        DefaultParamsReader.getAndSetParams(model, found)
        return model
