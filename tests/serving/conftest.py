"""A server on a free port of this machine, with one small model of each kind behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from mrflearn import (
    CRF,
    CompositeLanguageModel,
    FactorialCRF,
    HMMTagger,
    JointTagger,
    LanguageModel,
    MarkovField,
    NgramLanguageModel,
    SkipChainCRF,
    WordVectors,
)
from mrflearn.features.recipes import Recipe
from mrflearn.serving.server import make_server
from mrflearn.serving.service import Service

TAGGED = """the DT
dog NN
barks VBZ

a DT
cat NN
sees VBZ
the DT
dog NN
"""
TEXT = [line.split() for line in ("the dog barks", "the cat sees the dog", "a cat sees a dog")] * 4


def _tagger(folder: Path) -> CRF:
    file = folder / "tagged.txt"
    file.write_text(TAGGED, encoding="utf-8")
    recipe = Recipe.of(file, columns=["word", "tag"])
    return CRF(c2=0.1, features=recipe).fit(*recipe.labelled(file))


def _layered(folder: Path, kind: str) -> FactorialCRF | SkipChainCRF:
    file = folder / "layers.txt"
    rows = [line.split() for line in TAGGED.splitlines()]
    text = "\n".join(f"{row[0]} {row[1]} {row[1][0]}" if row else "" for row in rows)
    file.write_text(text + "\n", encoding="utf-8")
    layers = ["tag", "kind"] if kind == "factorial" else ["kind"]
    recipe = Recipe.of(file, columns=["word", "tag", "kind"], labels=layers)
    examples = list(recipe.layered(file))
    X = [example.tokens for example in examples]
    if kind == "factorial":
        return FactorialCRF(features=recipe).fit(X, [example.layers for example in examples])
    return SkipChainCRF(features=recipe).fit(X, [example.labels for example in examples])


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One small fitted model of each kind, by name."""
    tags = [["DT", "NN", "VBZ"]] * 4
    sentences = [["the", "dog", "barks"], ["a", "cat", "sees"]] * 2
    spins = np.random.default_rng(0).integers(0, 2, (50, 4))
    return {
        "tagger": _tagger(tmp_path_factory.mktemp("tagger")),
        "layers": _layered(tmp_path_factory.mktemp("layers"), "factorial"),
        "skips": _layered(tmp_path_factory.mktemp("skips"), "skip"),
        "hidden": HMMTagger().fit(sentences, tags),
        "joint": JointTagger(max_iterations=10).fit(sentences, tags),
        "composite": CompositeLanguageModel(
            2, grammar="latent:2,3", topics=2, max_iterations=2
        ).fit([TEXT, TEXT]),
        "words": LanguageModel(4, 1, max_iterations=20).fit(TEXT),
        "vectors": WordVectors(2).fit(TEXT),
        "ngrams": NgramLanguageModel(2).fit(TEXT),
        "grid": MarkovField("grid:2x2", estimator="pl", l2=0.1).fit(spins),
    }


@pytest.fixture(scope="session")
def address(models: dict[str, Any]) -> Iterator[str]:
    """Where the server listens."""
    server = make_server(Service(models), "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()
