"""Pictures are whole files in the format that their names say, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.errors import DataError
from mrflearn.plots.figure import panels, save


@pytest.mark.parametrize(
    ("ending", "magic"), [("png", b"\x89PNG"), ("PDF", b"%PDF"), ("svg", b"<")]
)
def test_the_ending_is_the_format(tmp_path: Path, ending: str, magic: bytes) -> None:
    save(panels(1)[0], tmp_path / "deep" / f"picture.{ending}")
    assert (tmp_path / "deep" / f"picture.{ending}").read_bytes().startswith(magic)


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    class Broken:
        def savefig(self, stream: object, **options: object) -> None:
            stream.write(b"half")  # type: ignore[attr-defined]
            raise ValueError("no font")

    (tmp_path / "picture.png").write_text("old")
    with pytest.raises(ValueError, match="no font"):
        save(Broken(), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_other_names_and_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ends in \.png, \.svg or \.pdf"):
        save(panels(1)[0], tmp_path / "picture.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        save(panels(1)[0], tmp_path / "file" / "picture.png")


def test_letters_that_the_font_lacks_raise_no_warning(tmp_path: Path) -> None:
    figure, (axes,) = panels(1)
    axes.set_title("\U00100000")  # a private character, which no font has
    save(figure, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0
