"""How commands that train end: failed and interrupted trainings have exit codes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mrflearn
from mrflearn.errors import TrainingWarning
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import Verdict
from support.command import run
from support.toy_language import toy_sentences


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    words, tags = toy_sentences(30, seed=0)
    text, columns, rows = (tmp_path / name for name in ("text.txt", "tags.txt", "rows.csv"))
    text.write_text("".join(" ".join(own) + "\n" for own in words))
    blocks = (zip(own, labels, strict=True) for own, labels in zip(words, tags, strict=True))
    columns.write_text("\n".join("".join(f"{w} {t}\n" for w, t in own) for own in blocks))
    table = np.random.default_rng(0).integers(0, 2, (60, 3))
    np.savetxt(rows, table, fmt="%d", delimiter=",")
    return {"lm": text, "crf": columns, "tagger": columns, "field": rows}


OPTIONS = {"tagger": ("--columns", "word,tag"), "field": ("--estimator", "pl", "--l2", "0.1")}


@pytest.mark.parametrize("noun", ["lm", "crf", "tagger", "field"])
def test_a_failed_training_ends_with_exit_code_1(
    noun: str, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gets_stuck(*_: object) -> Verdict:
        return Verdict("stuck", "no step lowers the value.")

    monkeypatch.setattr(LBFGS, "advance", gets_stuck)
    output = tmp_path / "model"
    found = run("train", noun, str(files[noun]), "-q", "-o", str(output), *OPTIONS.get(noun, ()))
    assert found.code == 1
    assert "no step lowers the value" in found.out + found.err
    assert (output / "config.json").exists()  # what was reached is not lost
    described = run("inspect", str(output), "--json")  # nor is it used unawares
    assert "no step lowers the value" in described.err
    assert described.json()["converged"] is False
    with pytest.warns(TrainingWarning, match="no step lowers the value") as told:
        mrflearn.load(output)
    assert told[0].filename == __file__


def test_advice_on_belief_propagation_reaches_standard_error(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where loopy messages leap there is no field to store."""
    monkeypatch.setattr(LBFGS, "advance", lambda *_: Verdict("stuck", "no step."))
    output = tmp_path / "model"
    found = run("train", "field", str(files["field"]), "--estimator", "bp", "-o", str(output))
    assert found.code == 1
    assert "estimator 'ml'" in found.err
    assert "no step." in found.err
    assert not output.exists()


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX's")
def test_an_interrupted_training_ends_with_exit_code_130(
    files: dict[str, Path], tmp_path: Path
) -> None:
    output, checkpoint = tmp_path / "model", tmp_path / "half"
    command = [sys.executable, "-m", "mrflearn", "train", "lm", str(files["lm"]), "-o", str(output)]
    command += ["--max-iterations", "1000000", "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()  # training has begun once it reports
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert (output / "config.json").exists()
    assert checkpoint.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_has_no_room_is_one_line(tmp_path: Path) -> None:
    network = tmp_path / "coin.uai"
    network.write_text("MARKOV\n1\n2\n1\n1 0\n2 1 2\n")
    command = [sys.executable, "-m", "mrflearn", "infer", str(network)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr
