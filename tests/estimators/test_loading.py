"""Any model by its path; a large one is mapped into memory, not copied."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mrflearn import LanguageModel, load
from mrflearn.errors import StorageError

MEBIBYTES = 512
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
    """The same language model with so many dimensions, all zero: a hole in a sparse file."""
    config = json.loads((small / "config.json").read_text())
    states = config["tensors"]["unary"][0]
    dims = (mebibytes << 20) // (4 * 2 * states)
    config["tensors"] |= {"left": [states, dims], "right": [1, states, dims]}
    header, end = {}, 0
    for name, shape in config["tensors"].items():
        size, kind = (8, "I64") if name == "lengths" else (4, "F32")
        begin = end
        for axis in shape:
            size *= axis
        end += size
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    large.mkdir()
    (large / "config.json").write_text(json.dumps(config))
    with (large / "model.safetensors").open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + end)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")
def test_a_large_model_is_not_copied(tmp_path: Path) -> None:
    words = [["a", "b", "c"], ["b", "c"]] * 3
    LanguageModel(1, 2, max_evaluations=2).fit(words).save(tmp_path / "small")
    enlarge(tmp_path / "small", tmp_path / "large", MEBIBYTES)
    paths = [str(tmp_path / name) for name in ("small", "large")]
    found = subprocess.run(
        [sys.executable, "-c", LOAD, *paths], capture_output=True, text=True, check=True
    )
    grown, vectors = map(int, found.stdout.split())
    assert vectors >= MEBIBYTES // 2 - 1
    assert grown < MEBIBYTES // 8


def test_an_unknown_class_is_told(tmp_path: Path) -> None:
    LanguageModel(1, 2, max_evaluations=2).fit([["a", "b"]]).save(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"LanguageModel"', '"Teapot"'))
    with pytest.raises(StorageError, match="holds a 'Teapot', which this version does not know"):
        load(tmp_path / "model")
