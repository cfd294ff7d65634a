"""What commands print and write: answers, remarks, pictures, pages."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrflearn.describe.blocks import Block, Note, answer, as_text, plain
from mrflearn.plots.figure import save

TITLE_WIDTH = 70  # characters


def say(text: str = "") -> None:
    """One line of the answer."""
    sys.stdout.write(text + "\n")


def say_json(answer: Mapping[str, Any]) -> None:
    """One JSON object on one line: infinities and NaN become null, trees their brackets."""
    say(json.dumps(plain(answer), ensure_ascii=False, allow_nan=False, default=str))


def remark(text: str) -> None:
    """One line on what is being done or should be known, on standard error."""
    sys.stderr.write(text + "\n")


def report_unknown(vocabulary: Any, limits: Mapping[str, Any]) -> None:
    """A remark on the words of a training text that its vocabulary leaves out, and what did so."""
    if vocabulary is not None and vocabulary.left_out[0]:
        words, times = vocabulary.left_out
        given = [(name.replace("_", "-"), value) for name, value in limits.items()]
        options = " and ".join(f"--{name} {value}" for name, value in given if value)
        remark(f"{words:,} words ({times:,} occurrences) are read as <unk>, by {options}")


def show(blocks: Sequence[Block], *, as_json: bool) -> None:
    """One answer: remarks first, then text or JSON."""
    notes = [block.text for block in blocks if isinstance(block, Note)]
    for note in notes:
        remark(note)
    if as_json and len(notes) < len(blocks):
        say_json(answer(blocks))
    elif text := as_text(blocks):
        say(text)
    sys.stdout.flush()  # whoever reads a pipe should not wait for the next answer


def write_picture(figure: Any, caption: str, path: Path) -> None:
    """Writes the picture, its caption on top, and says where it is."""
    figure.suptitle(textwrap.fill(caption.removesuffix("."), TITLE_WIDTH), fontsize=10)
    save(figure, path)
    remark(f"picture: {path}")
