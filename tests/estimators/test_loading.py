"""Any model by its path; a large one is mapped into memory, not copied."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mrflearn import LanguageModel, load
from mrflearn.errors import StorageError
from mrflearn.models.storage import read_model, write_model

MEBIBYTES = 128
LOAD = """
import mrflearn, sys, torch

def private():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) // 1024

mrflearn.load(sys.argv[1])  # imports all that loading needs
before = private()
model = mrflearn.load(sys.argv[2])
print(private() - before, model.vectors_.nbytes >> 20)
"""


def enlarge(small: Path, large: Path, mebibytes: int) -> None:
    """The same language model with so many dimensions, all zero."""
    stored = read_model(small)
    states = len(stored.tensors["unary"])
    dims = (mebibytes << 20) // (4 * 2 * states)
    wide = {"left": torch.zeros(states, dims), "right": torch.zeros(1, states, dims)}
    write_model(large, replace(stored, tensors={**stored.tensors, **wide}))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")
def test_a_large_model_is_not_copied(tmp_path: Path) -> None:
    words = [["a", "b", "c"], ["b", "c"]] * 3
    LanguageModel(2, 1, max_iterations=2).fit(words).save(tmp_path / "small")
    enlarge(tmp_path / "small", tmp_path / "large", MEBIBYTES)
    paths = [str(tmp_path / name) for name in ("small", "large")]
    found = subprocess.run(
        [sys.executable, "-c", LOAD, *paths], capture_output=True, text=True, check=True
    )
    grown, vectors = map(int, found.stdout.split())
    assert vectors >= MEBIBYTES // 2 - 1
    assert grown < MEBIBYTES // 8


def test_an_unknown_class_is_told(tmp_path: Path) -> None:
    LanguageModel(2, 1, max_iterations=2).fit([["a", "b"]]).save(tmp_path / "model")
    write_model(tmp_path / "teapot", replace(read_model(tmp_path / "model"), kind="Teapot"))
    with pytest.raises(StorageError, match="holds a 'Teapot', which this version does not know"):
        load(tmp_path / "teapot")
