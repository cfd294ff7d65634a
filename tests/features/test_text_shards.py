"""Counts of a text in many files are the counts of the whole, wherever they are made."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.estimators.language_model import LanguageModel
from mrflearn.execution.executor import Serial
from mrflearn.features.moments import count_text, count_text_shards
from mrflearn.io.corpus import Vocabulary, count_words
from support.text_shards import assert_same_moments, write_shards


@pytest.mark.parametrize("context", [1, 2, 5])
def test_shards_add_up_to_the_whole(tmp_path, context):
    whole, shards = write_shards(tmp_path)
    found = count_text_shards(shards, Serial(), context=context, min_count=2)
    vocabulary = Vocabulary.from_counts(count_words(whole), min_count=2)
    assert_same_moments(found, count_text(whole, vocabulary=vocabulary, context=context))


def test_shards_may_be_compressed_and_some_empty(tmp_path):
    whole, shards = write_shards(tmp_path)
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(shards[0].read_bytes()))
    empty = tmp_path / "empty.txt"
    empty.touch()
    found = count_text_shards([packed, *shards[1:], empty], Serial())
    assert_same_moments(found, count_text_shards([whole], Serial()))


def test_what_cannot_be_counted_is_told(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.touch()
    with pytest.raises(DataError, match="no words in these files"):
        count_text_shards([empty, empty], Serial())
    with pytest.raises(DataError, match="flows by once"):
        count_text_shards([Path("-")], Serial())


def test_a_model_of_shards_is_the_model_of_the_text(tmp_path):
    whole, shards = write_shards(tmp_path)
    model = LanguageModel(dims=3, max_iterations=8)
    there = model.fit(model.count_shards(shards)).vectors_
    np.testing.assert_array_equal(there, model.fit(whole).vectors_)
