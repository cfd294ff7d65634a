"""How many modules of the library are entered on three walks through it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from mrflearn import CRF, LanguageModel, MarkovField
from mrflearn.features.recipes import Recipe
from mrflearn.io.samples import read_samples


def language_model(data: Path, output: Path) -> None:
    """Lines of text to a saved model."""
    LanguageModel(3, 2, max_iterations=5).fit(data / "text.txt").save(output)


def crf(data: Path, output: Path) -> None:
    """A file of columns to a saved model."""
    recipe = Recipe.of(data / "columns.txt")
    crf = CRF(features=recipe, max_iterations=5)
    crf.fit(*recipe.labelled(data / "columns.txt")).save(output)


def lap(data: Path, output: Path) -> None:
    """A table of samples to the estimates of all cliques."""
    MarkovField("grid:3x3", estimator="lap").fit(read_samples(data / "samples.csv").values)


MOST_MODULES = {language_model: 20, crf: 20, lap: 20}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walks")
    lines = ["the cat sat on the mat", "a dog ran to the cat", "the dog sat"] * 30
    (folder / "text.txt").write_text("\n".join(lines))
    (folder / "columns.txt").write_text("the DT B-NP\ncat NN I-NP\nsat VB O\n\n" * 30)
    rows = np.random.default_rng(0).integers(0, 2, (200, 9))
    names = ",".join("abcdefghi")
    np.savetxt(folder / "samples.csv", rows, "%d", ",", header=names, comments="")
    return folder


@contextmanager
def entered() -> Iterator[dict[str, str]]:
    """The modules of the library whose functions are called, in order, each with the first."""
    found: dict[str, str] = {}

    def called(frame: FrameType, event: str, argument: Any) -> None:
        module = str(frame.f_globals.get("__name__"))
        if event == "call" and module.startswith("mrflearn.") and module != "mrflearn._lazy":
            found.setdefault(module, frame.f_code.co_qualname)

    before = sys.getprofile()
    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("walk", MOST_MODULES, ids=lambda walk: walk.__name__)
def test_a_walk_stays_short(walk: Callable[[Path, Path], None], data: Path, tmp_path: Path) -> None:
    walk(data, tmp_path / "first")  # what it imports is imported now
    with entered() as found:
        walk(data, tmp_path / "second")
    listed = "\n".join(f"{module}: {function}" for module, function in found.items())
    assert 0 < len(found) <= MOST_MODULES[walk], f"{len(found)} modules:\n{listed}"
