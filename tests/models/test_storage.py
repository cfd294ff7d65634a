"""A model directory is whole or absent, and says what is wrong with it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import StorageError
from mrflearn.io.files import new_draft
from mrflearn.models import storage
from mrflearn.models.storage import StoredModel, read_model, write_model


def example() -> StoredModel:
    tensors = {"weights": torch.arange(6.0).reshape(2, 3), "empty": torch.zeros(0, 4)}
    return StoredModel("Example", {"states": 3}, tensors, {"names": ["a", "é"]})


def test_round_trip(tmp_path: Path) -> None:
    write_model(tmp_path / "deep" / "m", example())
    back = read_model(tmp_path / "deep" / "m")
    assert (back.kind, back.settings) == ("Example", {"states": 3})
    assert back.learned == {"names": ["a", "é"]}
    assert back.tensors.keys() == example().tensors.keys()
    for name, value in example().tensors.items():
        assert torch.equal(back.tensors[name], value)


def test_replaces_an_older_model_when_told_to_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_model(tmp_path / "m", example())
    write_model(tmp_path / "m", StoredModel("Other", {}, {}), overwrite=True)
    assert read_model(tmp_path / "m").kind == "Other"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_model_is_not_replaced_without_being_told_to(tmp_path: Path) -> None:
    write_model(tmp_path / "m", example())
    with pytest.raises(StorageError, match=r"m holds a model.*overwrite=True"):
        write_model(tmp_path / "m", StoredModel("Other", {}, {}))
    assert read_model(tmp_path / "m").kind == "Example"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_an_empty_directory_is_filled_and_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "m").symlink_to("real")
    write_model(tmp_path / "m", example())
    write_model(tmp_path / "m", StoredModel("Other", {}, {}), overwrite=True)
    assert (tmp_path / "m").is_symlink()
    assert read_model(tmp_path / "real").kind == "Other"


def test_never_replaces_what_is_not_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.txt").write_text("cat")
    with pytest.raises(StorageError, match="left alone"):
        write_model(folder, example(), overwrite=True)
    assert (folder / "cat.txt").read_text() == "cat"


@pytest.mark.parametrize("config", ['{"model_type": "bert"}', "[1]", "{"])
def test_a_config_of_another_program_is_no_model(tmp_path: Path, config: str) -> None:
    (tmp_path / storage.CONFIG).write_text(config)
    (tmp_path / "notes.txt").write_text("a year of work")
    with pytest.raises(StorageError, match="left alone"):
        write_model(tmp_path, example(), overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "a year of work"


def test_failed_write_keeps_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "m", example())

    def full_disk(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(storage.safetensors.torch, "save_file", full_disk)
    with pytest.raises(StorageError, match="cannot be written: disk full"):
        write_model(tmp_path / "m", StoredModel("Other", {}, {}), overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    monkeypatch.undo()
    assert read_model(tmp_path / "m").kind == "Example"


@pytest.mark.parametrize("failures", [1, 2], ids=["once", "for good"])
def test_the_old_model_is_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    target = tmp_path / "model"
    write_model(target, example())
    rename, left = Path.rename, [failures]

    def break_down(self: Path, to: Path) -> Path:
        if to == target and not target.exists() and left[0]:
            left[0] -= 1
            raise OSError("the disk went away")
        return rename(self, to)

    monkeypatch.setattr(storage, "_exchange", lambda *_: False)  # as on systems that cannot
    monkeypatch.setattr(Path, "rename", break_down)
    with pytest.raises(StorageError, match="the disk went away"):
        write_model(target, example(), overwrite=True)
    kept = [path.parent for path in tmp_path.rglob(storage.CONFIG)]
    assert len(kept) == 1
    assert read_model(kept[0]).kind == example().kind
    assert (kept[0] == target) == (failures == 1)


def test_where_nothing_can_be_exchanged_the_old_model_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "m", example())
    monkeypatch.setattr(storage, "_exchange", lambda *_: False)
    write_model(tmp_path / "m", StoredModel("Other", {}, {}), overwrite=True)
    assert read_model(tmp_path / "m").kind == "Other"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("what", ["kill", "race"])
def test_a_model_is_whole_whenever_savers_are_killed_or_compete(what: str, tmp_path: Path) -> None:
    (tmp_path / ".m.mrflearn-mine").mkdir()  # not of our making
    done = subprocess.run(
        [sys.executable, "-m", "support.saving", what, str(tmp_path / "m")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    write_model(tmp_path / "m", example(), overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".m.mrflearn-mine", "m"]


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    write_model(tmp_path / "m", example())
    living, lock = new_draft(tmp_path / "m", folder=True)
    dead, other = new_draft(tmp_path / "m", folder=True)
    (dead / "config.json").write_text("{")
    os.close(other)  # as the system does when a process ends
    write_model(tmp_path / "m", example(), overwrite=True)
    assert living.is_dir()
    assert not dead.exists()
    os.close(lock)


@pytest.mark.parametrize(("value", "says"), [(float("nan"), "JSON"), (b"x", "no plain value")])
def test_settings_that_json_cannot_hold_are_refused_before_anything_is_written(
    value: object, says: str, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match=f"this Example cannot be stored: .*{says}"):
        write_model(tmp_path / "m", StoredModel("Example", {"x": value}, {}))
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_are_stored_as_numbers(tmp_path: Path) -> None:
    settings = {"x": np.int64(3), "y": np.float32(0.5), "z": np.bool_(True)}
    write_model(tmp_path / "m", StoredModel("Example", settings, {}))
    assert read_model(tmp_path / "m").settings == {"x": 3, "y": 0.5, "z": True}


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda m: (m / "config.json").unlink(), "not a mrflearn model"),
        (lambda m: (m / "model.safetensors").unlink(), "missing"),
        (lambda m: (m / "config.json").write_text("{"), "damaged"),
        (lambda m: (m / "config.json").write_text('{"format": "pickle"}'), "not written by"),
        (lambda m: (m / "model.safetensors").write_bytes(b"PK\x03\x04junk"), "damaged"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, damage, says: str) -> None:
    write_model(tmp_path / "m", example())
    damage(tmp_path / "m")
    with pytest.raises(StorageError, match=says):
        read_model(tmp_path / "m")


def test_other_versions_are_told_apart(tmp_path: Path) -> None:
    write_model(tmp_path / "m", example())
    path = tmp_path / "m" / "config.json"
    config = json.loads(path.read_text())
    for version, advice in ((2, "Train the model again"), (99, "made by a newer mrflearn")):
        path.write_text(json.dumps({**config, "format_version": version}))
        with pytest.raises(StorageError, match=f"format version {version}.*{advice}"):
            read_model(tmp_path / "m")


def test_files_of_two_models_are_told_apart(tmp_path: Path) -> None:
    write_model(tmp_path / "m", example())
    write_model(tmp_path / "n", replace(example(), tensors={"weights": torch.zeros(2, 3)}))
    (tmp_path / "n" / "model.safetensors").replace(tmp_path / "m" / "model.safetensors")
    with pytest.raises(StorageError, match=r"model\.safetensors"):
        read_model(tmp_path / "m")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_any_flipped_bit_is_noticed(name: str, tmp_path: Path) -> None:
    write_model(tmp_path / "m", example())
    path = tmp_path / "m" / name
    content = path.read_bytes()
    text = re.sub(rb"\s+", b"", content)
    for place in range(len(content)):
        bit = 1 << place % 8
        flipped = content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
        if name == "config.json" and re.sub(rb"\s+", b"", flipped) == text:
            continue  # another kind of white space
        path.write_bytes(flipped)
        with pytest.raises(StorageError, match=re.escape(str(path))):
            read_model(tmp_path / "m")
    path.write_bytes(content)
    read_model(tmp_path / "m")


def test_an_edited_setting_is_noticed(tmp_path: Path) -> None:
    write_model(tmp_path / "m", example())
    path = tmp_path / "m" / "config.json"
    path.write_text(path.read_text().replace('"states": 3', '"states": 4'))
    with pytest.raises(StorageError, match=r"config\.json"):
        read_model(tmp_path / "m")


def test_missing_and_plain_files(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        read_model(tmp_path / "absent")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="is a file"):
        read_model(tmp_path / "file")


@given(cut=st.integers(0, 400), flip=st.integers(0, 10**6), which=st.booleans())
def test_damaged_bytes_give_a_model_or_a_storage_error(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int, which: bool
) -> None:
    folder = tmp_path_factory.mktemp("fuzz") / "m"
    write_model(folder, example())
    path = folder / ("config.json" if which else "model.safetensors")
    content = bytearray(path.read_bytes())
    content[flip % len(content)] ^= 1 << (flip % 8)
    path.write_bytes(bytes(content[: max(0, len(content) - cut)]))
    with contextlib.suppress(StorageError):
        read_model(folder)
