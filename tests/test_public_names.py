"""What is public is a decision, and importing it is free."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mrflearn

PUBLIC = {
    "CRF",
    "CompositeLanguageModel",
    "Constraints",
    "FactorialCRF",
    "FieldStructure",
    "GraphCRF",
    "HMMTagger",
    "JointTagger",
    "LanguageModel",
    "MarkovField",
    "NgramLanguageModel",
    "PCFG",
    "PottsField",
    "SkipChainCRF",
    "WordVectors",
    "__version__",
    "edge",
    "load",
    "word_features",
}


def test_public_names_are_a_decision() -> None:
    assert set(mrflearn.__all__) == PUBLIC
    assert all(hasattr(mrflearn, name) for name in PUBLIC)
    assert not hasattr(mrflearn, "Teapot")


HEAVY = "torch", "numpy", "sklearn", "scipy", "matplotlib", "networkx"


@pytest.mark.parametrize("module", ["mrflearn", "mrflearn.cli.main"])
def test_import_loads_nothing_heavy(module: str) -> None:
    code = f"import {module}, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
