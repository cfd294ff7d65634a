"""What is public is a decision: importable = `__all__` = documented, and importing it is free."""

from __future__ import annotations

import importlib.util
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sklearn.exceptions

import mrflearn
from mrflearn.errors import MrflearnError, NotFittedError
from support.spark_cluster import WITHOUT_SPARK

PUBLIC = {
    "CRF",
    "CompositeLanguageModel",
    "Constraints",
    "Explanation",
    "FactorialCRF",
    "FieldStructure",
    "GraphCRF",
    "HMMTagger",
    "JointTagger",
    "LanguageModel",
    "MarkovField",
    "NeuralCRF",
    "Network",
    "NgramLanguageModel",
    "PCFG",
    "Posterior",
    "PottsField",
    "SkipChainCRF",
    "WordVectors",
    "__version__",
    "edge",
    "load",
    "word_features",
}
MODULES = [
    "mrflearn",
    "mrflearn.inference",
    "mrflearn.graph",
    "mrflearn.io",
    "mrflearn.datasets",
    "mrflearn.evaluation",
    "mrflearn.metrics",
    "mrflearn.scorers",
    "mrflearn.plots",
    "mrflearn.execution",
    "mrflearn.spark",
    "mrflearn.features",
    "mrflearn.models",
    "mrflearn.objectives",
    "mrflearn.training",
    "mrflearn.nn",
    "mrflearn.estimators",
    "mrflearn.serving",
    "mrflearn.errors",
]
ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_public_names_are_a_decision() -> None:
    assert set(mrflearn.__all__) == PUBLIC


def loaded(name: str) -> Any:
    """A module all of whose names can be had; the test is skipped where its extra is absent."""
    if name == "mrflearn.spark":
        pytest.importorskip("pyspark", reason=WITHOUT_SPARK)
    return import_module(name)


@pytest.mark.parametrize("name", MODULES)
def test_what_is_listed_is_importable(name: str) -> None:
    module = loaded(name)
    assert dir(module) == sorted(set(module.__all__))
    for own in module.__all__:
        assert getattr(module, own) is not None
    assert not hasattr(module, "Teapot")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_never_hides_a_name(name: str) -> None:
    """Importing `mrflearn.a.b` sets `b` in `mrflearn.a`, whatever it was before."""
    module = import_module(name)
    inner = {path.stem for folder in getattr(module, "__path__", ()) for path in modules_in(folder)}
    assert not inner & set(module.__all__)


def modules_in(folder: str) -> list[Path]:
    return [path for path in Path(folder).iterdir() if path.suffix == ".py" or path.is_dir()]


def test_the_reference_has_every_module() -> None:
    shown = {page: page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md")}
    found = [name for text in shown.values() for name in re.findall(r"<!-- api: (\S+) -->", text)]
    assert sorted(found) == sorted(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_what_is_listed_is_documented(name: str) -> None:
    module, public = loaded(name), hooks().public_names(name)
    assert [own for _, own in public] == module.__all__
    for home, own in public:
        assert own == "__version__" or len(getattr(import_module(home), own).__doc__) > 10
    shown = hooks().api_of(name)
    assert all(f"::: {home}.{own}\n" in shown for home, own in public if own != "__version__")


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_an_example(name: str) -> None:
    """The pages of the reference run (see test_readme), and use every name they document."""
    page = next(
        text
        for path in sorted(REFERENCE.glob("*.md"))
        if f"<!-- api: {name} -->" in (text := path.read_text(encoding="utf-8"))
    )
    code = "".join(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    used = set(re.findall(r"\w+", code if name != "mrflearn.spark" else page))
    assert set(import_module(name).__all__) - used <= {"__version__"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_public_names_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"(?:from|import) mrflearn\.\w+\.\w+.*", text)
    for module, names in re.findall(r"from (mrflearn(?:\.\w+)?) import ([\w, ]+)", text):
        if module != "mrflearn.kernels":  # private; the page about it shows its modules
            for own in map(str.strip, names.split(",")):
                assert own in import_module(module).__all__ or f"{module}.{own}" in MODULES
    for module, own in re.findall(r"\b(mrflearn\.[a-z_]+)\.([A-Za-z_]\w*)", text):
        assert own in import_module(module).__all__, f"{module}.{own}"


HEAVY = "torch", "numpy", "sklearn", "scipy", "matplotlib", "networkx", "pyspark"


@pytest.mark.parametrize("modules", [MODULES, ["mrflearn.cli.main"]], ids=["public", "cli"])
def test_import_loads_nothing_heavy(modules: list[str]) -> None:
    code = f"import {', '.join(modules)}, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# Every module is imported as Windows would; extras that are not installed may be missing.
ON_WINDOWS = """
import builtins, contextlib, importlib, pkgutil
import mrflearn

UNIX = {"fcntl", "grp", "posix", "pwd", "resource", "termios"}
unblocked = builtins.__import__

def blocked(name, scope=None, *rest, **more):
    if name in UNIX and (scope or {}).get("__name__", "").startswith("mrflearn"):
        raise ImportError(f"{scope['__name__']} imports {name}")
    return unblocked(name, scope, *rest, **more)

builtins.__import__ = blocked
for module in pkgutil.walk_packages(mrflearn.__path__, "mrflearn."):
    if module.name != "mrflearn.__main__":
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module.name)
"""


def test_windows_can_import_every_module() -> None:
    """Modules that Unix alone has are imported where they are used, if at all."""
    found = subprocess.run([sys.executable, "-c", ON_WINDOWS], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_packages_need_no_import_of_their_own() -> None:
    parts = [name.removeprefix("mrflearn.") for name in MODULES[1:]]
    code = f"import mrflearn; print([getattr(mrflearn, name).__name__ for name in {parts!r}])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == repr(MODULES[1:])


def test_not_fitted_is_what_scikit_learn_says() -> None:
    with pytest.raises(sklearn.exceptions.NotFittedError) as caught:
        mrflearn.MarkovField().score([[0, 1]])
    assert isinstance(caught.value, MrflearnError)
    assert type(pickle.loads(pickle.dumps(caught.value))) is NotFittedError
