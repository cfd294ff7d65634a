"""An experiment run in this process, as its script would run in another."""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

FOLDER = Path(__file__).parents[2] / "experiments"


def run_experiment(name: str, *options: str) -> str:
    """What `experiments/NAME/run.py OPTIONS` prints.

    The experiments' modules share names (`report`, `texts`), so that none may stay behind.
    """
    script = FOLDER / name / "run.py"
    before, threads = set(sys.modules), torch.get_num_threads()
    words = patch.object(sys, "argv", [str(script), *options])
    places = patch.object(sys, "path", [str(script.parent), *sys.path])
    try:
        with words, places, redirect_stdout(io.StringIO()) as out:
            runpy.run_path(str(script), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
        for module in set(sys.modules) - before:
            if FOLDER in Path(getattr(sys.modules[module], "__file__", None) or "/").parents:
                del sys.modules[module]
    return out.getvalue()


def experiment_module(folder: str, name: str) -> Any:
    """A module of an experiment, which lies outside the package."""
    spec = spec_from_file_location(name, FOLDER / folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look their module up
    with patch.object(sys, "path", [*sys.path, str(FOLDER)]):
        spec.loader.exec_module(found)
    return found
