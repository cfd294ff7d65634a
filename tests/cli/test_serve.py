"""`mrflearn serve`: from model directories to a page, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from mrflearn import CRF, NgramLanguageModel
from support.command import run


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_models_are_served_until_ended(tmp_path: Path, ending: signal.Signals) -> None:
    for folder in ("one", "two"):
        NgramLanguageModel(2).fit([["a", "b"], ["b"]]).save(tmp_path / folder / "model")
    paths = [str(tmp_path / folder / "model") for folder in ("one", "two")]
    command = [sys.executable, "-m", "mrflearn", "serve", *paths, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        line = job.stdout.readline()
        address = line.split()[0]
        assert all(path in line for path in paths)  # two folders of one name: whole paths
        with urlopen(address) as reply:
            assert b"mrflearn" in reply.read()
        job.send_signal(ending)
        _, remarks = job.communicate(timeout=30)
    assert job.returncode == 0
    assert "ended" in remarks
    assert "Traceback" not in remarks


def test_an_unsuitable_model_is_named(tmp_path: Path) -> None:
    NgramLanguageModel(2).fit([["a", "b"], ["b"]]).save(tmp_path / "text")
    CRF().fit([[["a"], ["b"]]], [["x", "y"]]).save(tmp_path / "features")
    result = run("serve", str(tmp_path / "text"), str(tmp_path / "features"))
    assert result.code == 1
    assert "'features'" in result.err


def test_a_missing_model_is_told(tmp_path: Path) -> None:
    result = run("serve", str(tmp_path / "nothing"))
    assert result.code == 1
    assert "nothing" in result.err
