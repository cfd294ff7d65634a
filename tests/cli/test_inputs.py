"""Files to read are looked for before the work begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from mrflearn.cli.main import app
from support.command import run

TRAINED = get_command(app).commands["train"].commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("noun", sorted(TRAINED))
def test_a_missing_file_is_told_at_once(tmp_path: Path, noun: str) -> None:
    found = run("train", noun, str(tmp_path / "absent.txt"), "-o", str(tmp_path / "model"))
    assert found.code == 1
    assert found.err == f"mrflearn: {tmp_path / 'absent.txt'}: there is no such file.\n"


@pytest.mark.parametrize("noun", sorted(TRAINED))
def test_held_out_data_are_looked_for_before_training(tmp_path: Path, noun: str) -> None:
    held_out = [own.opts[0] for own in TRAINED[noun].params if own.opts[0].startswith("--valid")]
    if not held_out:
        assert noun in ("field", "graph", "pcfg", "vectors")
        return
    (tmp_path / "train.txt").write_bytes(b"\xff no text at all: nobody may get as far as this")
    words = ["train", noun, str(tmp_path / "train.txt"), *held_out, str(tmp_path / "absent.txt")]
    found = run(*words, "-o", str(tmp_path / "model"))
    assert (found.code, found.out) == (1, "")
    assert f"{tmp_path / 'absent.txt'}: there is no such file." in found.err


def test_a_name_mistyped_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a b\n")
    found = run("train", "ngram", str(tmp_path / "trian.txt"), "-o", str(tmp_path / "model"))
    assert f"Is {tmp_path / 'train.txt'} meant?" in found.err


def test_standard_input_is_always_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Piped:
        buffer = tmp_path / "pipe"

    (tmp_path / "pipe").write_text("a b\n")
    with (tmp_path / "pipe").open("rb") as stream:
        monkeypatch.setattr(Piped, "buffer", stream)
        monkeypatch.setattr("sys.stdin", Piped())
        found = run("train", "ngram", "-", "-o", str(tmp_path / "model"))
    assert found.code == 0


@pytest.mark.parametrize("noun", sorted(TRAINED))
def test_a_model_without_a_place_is_found_before_training(tmp_path: Path, noun: str) -> None:
    text = tmp_path / "train.txt"
    text.write_bytes(b"\xff no text at all: nobody may get as far as this")
    for place in (text / "model", text / "new" / "model"):
        found = run("train", noun, str(text), "-o", str(place))
        assert (found.code, found.out) == (1, "")
        assert f"{place} cannot be written" in found.err
