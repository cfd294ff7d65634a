"""Composite models to and from what a model directory holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.composite_answers import Answers
from mrflearn.features.ngram_index import NgramIndex
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.kernels.rule_shape import RuleShape
from mrflearn.models.composite_lm import RULE_COLUMNS, CompositeModel, CompositeShape
from mrflearn.models.hidden_backoff import GIVEN, Level
from mrflearn.models.ngram import TABLE_PARTS, BackoffTable, NgramModel
from mrflearn.models.ngram_level import NgramLevel
from mrflearn.models.storage import figure, texts
from mrflearn.training.composite_fit import CompositeFit
from mrflearn.training.outcome import Row

CONTEXT_PARTS = ("seen", "kinds", "suffixes", "shorter")


def stored_composite(answers: Answers) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors of a trained model."""
    fit, shape = answers.fit, answers.model.shape
    tensors = {f"model.{name}": value for name, value in answers.model.tensors().items()}
    tensors["prior"] = torch.from_numpy(fit.prior)
    tensors["tag_of_word"] = torch.from_numpy(fit.tag_of_word)
    tensors |= {f"index.{n}": torch.from_numpy(c) for n, c in enumerate(shape.index.codes, 2)}
    if shape.grammar is not None:
        tensors |= {f"wiring.{name}": getattr(shape.grammar, name) for name in RULE_COLUMNS}
    if fit.ngrams is not None:
        tensors |= _ngram_tensors(fit.ngrams)
    history = [[row.iteration, row.value, row.seconds] for row in fit.history]
    own = {
        "words": list(answers.vocabulary.words),
        "symbols": list(answers.names),
        "binarised": answers.binarised,
        "phrases": None if shape.grammar is None else shape.grammar.phrases,
        "dense": shape.grammar is not None and shape.grammar.dense,
        "level_names": [str(level) for level in shape.levels],
        "buckets": shape.buckets,
        "strength": fit.strength,
        "history": history,
        "held_out": list(fit.held_out),
        "reason": fit.reason,
    }
    return own, tensors


def read_composite(
    order: int, topics: int, own: dict[str, Any], tensors: dict[str, Tensor]
) -> Answers:
    """The answers of a model of this order, with so many topics, that these values hold."""
    vocabulary = Vocabulary(texts(own, "words"))
    shape = _shape(own, topics, vocabulary, tensors)
    names = [f"table.{level or '-'}" for level in own["level_names"]]
    tables = tuple(tensors[f"model.{name}"] for name in names)
    rest = (tensors[f"model.{name}"] for name in ("weights", "tags", "rules", "start"))
    model = CompositeModel(shape, tables, *rest)
    for level, table in zip(shape.levels, tables, strict=True):
        if tuple(table.shape) != shape.table_shape(level):
            raise DataError(f"level '{level}' has a table of another size than its text")
    if model.weights.shape[2] != len(shape.levels) + GIVEN:
        raise DataError("it has weights for other levels than it has")
    fit = CompositeFit(
        model,
        _ngrams(order, vocabulary, tensors) if order > 1 else None,
        tensors["tag_of_word"].cpu().numpy(),
        tensors["prior"].cpu().numpy(),
        figure(own["strength"]),
        tuple(
            Row(int(i), figure(v), float("nan"), 1.0, int(i) + 1, figure(s))
            for i, v, s in own["history"]
        ),
        tuple(map(figure, own["held_out"])),
        str(own["reason"]),
    )
    return Answers(fit, vocabulary, texts(own, "symbols"), bool(own["binarised"]))


def _shape(
    own: dict[str, Any], topics: int, vocabulary: Vocabulary, tensors: dict[str, Tensor]
) -> CompositeShape:
    levels = tuple(Level.read(name) for name in texts(own, "level_names"))
    orders = range(2, 2 + max((level.words for level in levels), default=0))
    codes = tuple(tensors[f"index.{n}"].cpu().numpy() for n in orders)
    index = NgramIndex(len(vocabulary), vocabulary.separator, codes)
    wiring = None
    if own["phrases"] is not None:
        parent, left, right = (tensors[f"wiring.{name}"] for name in RULE_COLUMNS)
        preterminals = len(own["symbols"]) - own["phrases"]
        phrases, dense = own["phrases"], own["dense"]
        wiring = RuleShape(phrases, preterminals, parent, left, right, dense=dense)
    return CompositeShape(levels, index, wiring, topics, own["buckets"])


def _ngram_tensors(level: NgramLevel) -> dict[str, Tensor]:
    tensors = {
        f"ngram.{part}.{n}": torch.from_numpy(getattr(table, part))
        for n, table in enumerate(level.model.tables, start=1)
        for part in TABLE_PARTS
    }
    for part in CONTEXT_PARTS:
        for n, numbers in enumerate(getattr(level, part), start=2):
            tensors[f"ngram.{part}.{n}"] = torch.from_numpy(numbers.astype(np.int64))
    return tensors


def _ngrams(order: int, vocabulary: Vocabulary, tensors: dict[str, Tensor]) -> NgramLevel:
    tables = tuple(
        BackoffTable(*(tensors[f"ngram.{part}.{n}"].cpu().numpy() for part in TABLE_PARTS))
        for n in range(1, order + 1)
    )
    rest = (
        tuple(tensors[f"ngram.{part}.{n}"].cpu().numpy() for n in range(2, order + 1))
        for part in CONTEXT_PARTS
    )
    return NgramLevel(NgramModel(vocabulary, tables), *rest)
