from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy

from mrflearn.errors import DataError, StorageError
from mrflearn.features.moments import lattice_moments
from mrflearn.features.moments_file import load_moments, save_moments
from mrflearn.io.corpus import Vocabulary
from support.moments import count_sentences

WORDS = Vocabulary(("<S>", "<unk>", "é\n", "a"))
TEXT = count_sentences([["a", "é\n"], ["a", "b", "a"]], WORDS, 2).rounded_up(4)


@pytest.mark.parametrize("moments", [TEXT, lattice_moments([[0, 2], [1, 1]])])
@pytest.mark.parametrize("name", ["moments", "moments.gz"])
def test_what_was_saved_is_loaded(tmp_path, moments, name):
    save_moments(moments, tmp_path / name)
    loaded = load_moments(tmp_path / name)
    for field in ("offsets", "separator", "filler", "vocabulary"):
        assert getattr(loaded, field) == getattr(moments, field)
    for field in ("unary", "lengths", "length_counts"):
        np.testing.assert_array_equal(getattr(loaded, field), getattr(moments, field))
    for mine, theirs in zip(loaded.pairs, moments.pairs, strict=True):
        for field in ("left", "right", "count"):
            np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field))


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"\x02\0\0\0\0\0\0\0{}", b"\xff" * 100, b"\x05\0\0\0\0\0\0\0[[[[["]
)
def test_junk_is_refused(tmp_path, content):
    (tmp_path / "junk").write_bytes(content)
    with pytest.raises(StorageError, match="not a file of moments"):
        load_moments(tmp_path / "junk")


def test_truncated_files_are_refused(tmp_path):
    save_moments(TEXT, tmp_path / "moments")
    content = (tmp_path / "moments").read_bytes()
    for keep in (10, len(content) // 2, len(content) - 1):
        (tmp_path / "moments").write_bytes(content[:keep])
        with pytest.raises(StorageError):
            load_moments(tmp_path / "moments")


def test_a_newer_version_is_refused(tmp_path):
    header = json.dumps({"format": "mrflearn moments", "version": 99})
    content = safetensors.numpy.save({"unary": np.zeros(1, np.int64)}, {"mrflearn": header})
    (tmp_path / "moments").write_bytes(content)
    with pytest.raises(StorageError, match="version 99"):
        load_moments(tmp_path / "moments")


@pytest.mark.parametrize(
    "damage",
    [
        {"unary": np.array([1, 1, 1, 1])},
        {"unary": TEXT.unary.astype(float)},
        {"left.0": TEXT.pairs[0].left + 100},
        {"vocabulary": np.frombuffer(b"[3", np.uint8)},
        {"vocabulary": np.frombuffer(b"\xff\xff", np.uint8)},
    ],
)
def test_damaged_numbers_are_refused(tmp_path, damage):
    save_moments(TEXT, tmp_path / "moments")
    content = (tmp_path / "moments").read_bytes()
    size = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + size])["__metadata__"]
    tensors = {**safetensors.numpy.load(content), **damage}
    (tmp_path / "moments").write_bytes(safetensors.numpy.save(tensors, metadata))
    with pytest.raises(StorageError, match="not those of moments"):
        load_moments(tmp_path / "moments")


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(DataError, match="absent"):
        load_moments(tmp_path / "absent")
