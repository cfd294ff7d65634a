"""What a worker does with batches of Arrow: rows into what estimators take, and answers back.

This module alone is imported by the workers of `transform`; it needs pyarrow and no pyspark.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mrflearn.errors import DataError
from mrflearn.io.answers import MISSING
from mrflearn.io.files import split_tokens
from mrflearn.io.samples import SampleTable

KEPT = 3  # models that a worker process remembers, as pyspark's own `predict_batch_udf` does
Batch = Any  # a RecordBatch of pyarrow, which has no types
Question = Callable[[Any, list[Any]], Sequence[Any]]  # (fitted estimator, rows) -> an answer each


# What a column holds, as Python's values.


def rows_of(column: Any, name: str, split: Callable[[str], list[str]] = split_tokens) -> list[Any]:
    """The rows of a column, None where one is null: what estimators take as one sentence each.

    A text is the list of its words, by default set apart by white space; an array of structs (as
    `arrays_zip("words", "pos")` makes) a list of rows of cells; a map a dict.
    """
    from pyarrow import types

    if types.is_string(column.type) or types.is_large_string(column.type):
        texts = column.to_pylist()
        return [None if text is None else split(text) for text in texts]
    return _values(column, name)


def _values(column: Any, name: str, inside: bool = False) -> list[Any]:
    from pyarrow import types

    kind = column.type
    if inside and column.null_count:
        raise DataError(
            f"column '{name}': a row has a null inside, where a word or a value should be. Drop "
            f'such rows first, as by filter("not exists({name}, x -> x is null)").'
        )
    if types.is_list(kind) or types.is_large_list(kind):
        parts = iter(_values(column.flatten(), name, inside=True))
        lengths = column.value_lengths().to_pylist()
        return [None if n is None else [next(parts) for _ in range(n)] for n in lengths]
    if types.is_struct(kind):
        fields = column.flatten()
        cells = [_values(own, name, inside=True) for own in fields]
        return list(zip(*cells, strict=True))
    found: list[Any] = column.to_pylist()
    if types.is_map(kind):
        return [None if own is None else dict(own) for own in found]
    return found


def sentences(table: Any) -> list[list[Any]]:
    """The rows of a table of one column that are there, as language models learn from them."""
    (name,) = table.column_names
    return [row for row in _rows(table, 0, name) if row]


def documents(table: Any) -> list[list[list[Any]]]:
    """The rows of a table of one column as lists of sentences."""
    return _documents(sentences(table))


def examples(table: Any) -> list[tuple[Any, ...]]:
    """(sentence, labels) of each row of a table, and its weight where there is a third column."""
    columns = [_rows(table, place, name) for place, name in enumerate(table.column_names)]
    found = list(zip(*columns, strict=True))
    for sentence, *others in found:
        if sentence is None or None in others:
            raise DataError(
                f"a row has a null in one of {', '.join(table.column_names)}: {sentence!r:.60}. "
                "Drop such rows first, as by dropna()."
            )
    return found


def has_gaps(samples: SampleTable) -> bool:
    """Whether a value is missing."""
    return bool((samples.values == MISSING).any())


def _rows(table: Any, place: int, name: str) -> list[Any]:
    found = table.column(place)
    return [row for chunk in found.chunks for row in rows_of(chunk, name)]


def table_of(batch: Batch, places: Sequence[int]) -> Any:
    """Some columns of a batch as a table, which estimators of samples take."""
    from pyarrow import Table

    return Table.from_batches([batch]).select(list(places))


# What a model answers: one value a row.


def labels(model: Any, rows: list[Any]) -> list[list[str]]:
    """The most probable labels."""
    return [list(own) for own in model.predict(rows)]


def marginals(model: Any, rows: list[Any]) -> list[list[dict[str, float]]]:
    """The probability of every label of every token."""
    names = list(model.classes_)
    found = model.predict_proba(rows)
    return [[dict(zip(names, token, strict=True)) for token in own.tolist()] for own in found]


def label_scores(model: Any, rows: list[Any]) -> list[float]:
    """The log-probability of the most probable labelling."""
    if hasattr(model, "log_prob"):
        scores: list[float] = model.log_prob(rows, labels(model, rows))
        return scores
    best = (own[0][1] if own else 1.0 for own in model.n_best(rows, n=1))
    return [math.log(chance) if chance > 0 else -math.inf for chance in best]


def text_scores(model: Any, rows: list[Any]) -> list[float | None]:
    """The log-probability of each sentence or document; None of those without a word."""
    documents = _documents(rows)
    counts = [sum(1 for words in own if words) for own in documents]
    if not sum(counts):
        return [None] * len(rows)
    flat = [words for own in documents for words in own]
    found = iter(model.score_samples(documents if hasattr(model, "document_topics") else flat))
    return [sum(float(next(found)) for _ in range(n)) if n else None for n in counts]


def topics(model: Any, rows: list[Any]) -> list[list[float]]:
    """The share of every topic in each document."""
    found: list[list[float]] = model.document_topics(_documents(rows)).tolist()
    return found


def _documents(rows: list[Any]) -> list[list[Any]]:
    """Rows of sentences as they are; a row of words is one sentence."""
    plain = (all(isinstance(own, str) for own in row) for row in rows)
    return [[row] if sentence else row for row, sentence in zip(rows, plain, strict=True)]


def mean_vectors(model: Any, rows: list[Any]) -> list[list[float] | None]:
    """The mean of the vectors of the words that the model knows; None where it knows none."""
    vocabulary, vectors = model.vocabulary_, np.asarray(model.vectors_, dtype=np.float64)
    found: list[list[float] | None] = []
    for row in rows:
        ids = vocabulary.encode(row)
        ids = ids[ids != vocabulary.unknown]
        found.append(vectors[ids].mean(axis=0).tolist() if len(ids) else None)
    return found


@dataclass(frozen=True)
class SequenceAnswers:
    """The answers to questions about the rows of one column."""

    column: str
    questions: tuple[tuple[Question, str], ...]  # and the kind of each answer, in Spark's words

    def __call__(self, model: Any, batch: Batch) -> list[Any]:
        column = batch.column(batch.schema.get_field_index(self.column))
        rows = rows_of(column, self.column, getattr(model, "tokens", split_tokens))
        present = [place for place, row in enumerate(rows) if row is not None]
        asked, size = [rows[place] for place in present], len(rows)
        return [
            self._answer(own, kind, model, asked, present, size) for own, kind in self.questions
        ]

    def _answer(
        self,
        ask: Question,
        kind: str,
        model: Any,
        asked: list[Any],
        present: list[int],
        count: int,
    ) -> Any:
        import pyarrow as pa

        found: list[Any] = [None] * count
        for place, own in zip(present, ask(model, asked) if asked else (), strict=True):
            found[place] = own
        words, number = pa.string(), pa.float64()
        kinds = {
            "double": number,
            "array<double>": pa.list_(number),
            "array<string>": pa.list_(words),
            "array<map<string,double>>": pa.list_(pa.map_(words, number)),
        }
        if kind == "array<map<string,double>>":  # pyarrow takes pairs for a map
            found = [None if own is None else [list(each.items()) for each in own] for own in found]
        return pa.array(found, kinds[kind])


@dataclass(frozen=True)
class SampleAnswers:
    """The samples of some columns with their gaps filled, and the log-probability of each."""

    columns: tuple[str, ...]
    impute: bool
    score: bool

    def __call__(self, model: Any, batch: Batch) -> list[Any]:
        import pyarrow as pa

        places = [batch.schema.get_field_index(name) for name in self.columns]
        table = table_of(batch, places)
        found = []
        if self.impute:
            filled = model.impute(table) if len(table) else np.zeros((0, len(places)))
            kinds = [batch.schema.field(place).type for place in places]
            columns = zip(filled.T.tolist(), kinds, strict=True)
            found += [pa.array(own).cast(kind) for own, kind in columns]
        if self.score:
            scores = model.score_samples(table).tolist() if len(table) else []
            found.append(pa.array(scores, pa.float64()))
        return found


# The model on its way: bytes in the task, which Spark sends to each executor once a stage.


class Sent(NamedTuple):
    """A fitted estimator as bytes, and their digest, by which a worker knows it again."""

    digest: str
    content: bytes

    @classmethod
    def of(cls, estimator: Any, pickled: Callable[[Any], bytes]) -> Sent:
        """The estimator as that function pickles it."""
        content = pickled(estimator)
        return cls(hashlib.sha256(content).hexdigest(), content)


_held: OrderedDict[str, Any] = OrderedDict()


def received(sent: Sent) -> Any:
    """The estimator, unpickled once in each worker process, which computes with one thread."""
    if sent.digest not in _held:
        import torch

        torch.set_num_threads(1)
        _held[sent.digest] = pickle.loads(sent.content)  # noqa: S301 - sent by the driver
    _held.move_to_end(sent.digest)
    while len(_held) > KEPT:
        _held.popitem(last=False)
    return _held[sent.digest]


def answered(
    sent: Sent,
    ask: Callable[[Any, Batch], list[Any]],
    names: Sequence[str],
    batches: Iterable[Batch],
) -> Iterator[Batch]:
    """The batches with further columns."""
    from pyarrow import RecordBatch

    model = received(sent)
    for batch in batches:
        columns = [*batch.columns, *ask(model, batch)]
        yield RecordBatch.from_arrays(columns, names=[*batch.schema.names, *names])


def counted(gold: str, found: str, spans: bool, batches: Iterable[Batch]) -> Iterator[Batch]:
    """How many labels or chunks are right, are there and were found, in one row a batch."""
    from pyarrow import RecordBatch, array, float64

    from mrflearn.io.spans import tags_to_spans

    for batch in batches:
        places = (batch.schema.get_field_index(name) for name in (gold, found))
        true, guess = (_values(batch.column(place), batch.schema.names[place]) for place in places)
        counts = np.zeros(3)
        for row, (expected, given) in enumerate(zip(true, guess, strict=True)):
            if expected is None or given is None or len(expected) != len(given):
                sizes = [0 if own is None else len(own) for own in (expected, given)]
                raise DataError(
                    f"row {row} of a batch has {sizes[0]} labels in '{gold}' and {sizes[1]} in "
                    f"'{found}'."
                )
            parts: Callable[[Any], Iterable[Any]] = tags_to_spans if spans else enumerate
            one, other = set(parts(expected)), set(parts(given))
            counts += (len(one & other), len(one), len(other))
        names = ["right", "gold", "found"]
        yield RecordBatch.from_arrays([array([own], float64()) for own in counts], names=names)
