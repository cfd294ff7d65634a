"""`mrflearn serve`: from model directories to a page, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from mrflearn import NgramLanguageModel
from support.command import run


def test_models_are_served_until_interrupted(tmp_path: Path) -> None:
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
        job.send_signal(signal.SIGINT)
        _, remarks = job.communicate(timeout=30)
    assert job.returncode == 0
    assert "ended" in remarks


def test_a_missing_model_is_told(tmp_path: Path) -> None:
    result = run("serve", str(tmp_path / "nothing"))
    assert result.code == 1
    assert "nothing" in result.err
