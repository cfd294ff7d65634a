"""GRMM's text: a token a line, its labels (one a layer), `----`, and then its features.

Everything is set apart by white space; a blank line ends a sequence.  A file without labels has
lines that begin with `----`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.io.corpus import split_tokens
from mrflearn.io.files import PathLike, read_lines, write_text

SEPARATOR = "----"

Row = tuple[tuple[str, ...], tuple[str, ...]]  # the labels and the features of one token


@dataclass(frozen=True, slots=True)
class LayeredSequence:
    """The features of each token, and for each layer a label for each token.

    No layers at all stand for a sequence whose labels are not known.
    """

    layers: tuple[tuple[str, ...], ...]
    features: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        lengths = [len(layer) for layer in self.layers]
        if any(length != len(self.features) for length in lengths):
            raise DataError(
                f"layers of {lengths} labels for {len(self.features)} tokens: every layer needs "
                "one label for each token."
            )

    def __len__(self) -> int:
        return len(self.features)


def read_grmm(path: PathLike) -> Generator[LayeredSequence]:
    """The sequences of a file, one at a time; all lines must have as many labels as the first."""
    rows: list[Row] = []
    layers: int | None = None
    with closing(read_lines(path)) as lines:
        for number, line in lines:
            cells = split_tokens(line)
            if cells:
                row = _row(cells, layers, path, number)
                layers = len(row[0])
                rows.append(row)
            elif rows:
                yield _sequence(rows)
                rows = []
    if rows:
        yield _sequence(rows)


def write_grmm(path: PathLike, sequences: Iterable[LayeredSequence]) -> None:
    """Writes sequences, one space between cells; the file appears when complete."""
    layers: int | None = None
    with write_text(path) as stream:
        for sequence in sequences:
            for row in _rows(sequence):
                labels, features = row
                line = " ".join([*labels, SEPARATOR, *features])
                if _row(split_tokens(line), layers, path, None) != row:
                    raise DataError(
                        f"a token cannot be written: {labels!r} and {features[:8]!r} have an empty "
                        f"cell, white space, or '{SEPARATOR}' for a label.",
                        path=path,
                    )
                layers = len(labels)
                stream.write(line + "\n")
            stream.write("\n")


def _row(cells: Sequence[str], layers: int | None, path: PathLike, number: int | None) -> Row:
    if SEPARATOR not in cells:
        raise DataError(
            f"there is no '{SEPARATOR}' between labels and features: {list(cells[:8])!r}. Is this "
            "a file of columns? Then name it so: --format columns.",
            path=path,
            line=number,
        )
    place = cells.index(SEPARATOR)
    if layers is not None and place != layers:
        raise DataError(
            f"{place} labels where the lines before have {layers}: {list(cells[:8])!r}. Every "
            "token needs a label in every layer.",
            path=path,
            line=number,
        )
    return tuple(cells[:place]), tuple(cells[place + 1 :])


def _rows(sequence: LayeredSequence) -> Iterator[Row]:
    labels = zip(*sequence.layers, strict=True) if sequence.layers else ((),) * len(sequence)
    return zip(labels, sequence.features, strict=True)


def _sequence(rows: list[Row]) -> LayeredSequence:
    labels, features = zip(*rows, strict=True)
    return LayeredSequence(tuple(zip(*labels, strict=True)), features)
