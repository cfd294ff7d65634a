"""A blank figure in the library's look; matplotlib is loaded here, on first use, and nowhere else.

Figures are made without pyplot, so nothing global is touched and no window opens.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, BinaryIO

from mrflearn.errors import DataError, MissingExtraError
from mrflearn.io.files import write_binary

INK = "#22313f"
COLOURS = ("#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a")
DIVERGING = "RdBu_r"  # of what has a sign: blue below zero, red above
SEQUENTIAL = "Greys"  # of what has none
INKED = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
STYLE = dict.fromkeys(INKED, INK) | {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "figure.dpi": 110,
}


def panels(columns: int, *, width: float = 4.0, height: float = 3.6) -> tuple[Any, list[Any]]:
    """A figure with `columns` axes side by side."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as missing:
        problem = "pictures need matplotlib: pip install 'mrflearn[plots]'"
        raise MissingExtraError(problem) from missing
    with rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def save(figure: Any, path: str | Path) -> None:
    """Writes the picture completely or not at all; the ending of the name says in which format."""
    target = Path(path)
    check_picture(target)
    kind = target.suffix.lower().removeprefix(".")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}.", path=target) from error
    with write_binary(target) as stream:
        render(figure, stream, kind)


def render(figure: Any, stream: BinaryIO, kind: str, **options: Any) -> None:
    """Draws the figure into a stream; letters that the font lacks are boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        metadata = {"Software": None} if kind == "png" else None
        figure.savefig(stream, format=kind, metadata=metadata, **options)


def check_picture(path: str | Path) -> None:
    """Raises `DataError` where the ending of the name is no format of pictures."""
    kinds = panels(1)[0].canvas.get_supported_filetypes()
    if Path(path).suffix.lower().removeprefix(".") not in kinds:
        raise DataError("the name of a picture ends in .png, .svg or .pdf.", path=path)
