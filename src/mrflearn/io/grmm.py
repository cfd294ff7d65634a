"""GRMM's text: a token a line, its labels (one a layer), `----`, and then its features.

Everything is set apart by white space; a blank line ends a sequence.  A file without labels has
lines that begin with `----`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, runs, split_tokens, write_text

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
    with Lines(path) as lines:
        for rows in runs(_rows(map(split_tokens, lines))):
            labels, features = zip(*rows, strict=True)
            yield LayeredSequence(tuple(zip(*labels, strict=True)), features)


def write_grmm(path: PathLike, sequences: Iterable[LayeredSequence]) -> None:
    """Writes sequences, one space between cells; the file appears when complete."""
    layers: int | None = None
    with write_text(path) as stream:
        for sequence in sequences:
            labels = zip(*sequence.layers, strict=True) if sequence.layers else [()] * len(sequence)
            for row in zip(labels, sequence.features, strict=True):
                line = " ".join([*row[0], SEPARATOR, *row[1]])
                if _row(split_tokens(line), layers) != row:
                    raise DataError(
                        f"a token cannot be written: {row[0]!r} and {row[1][:8]!r} have an empty "
                        f"cell, white space, or '{SEPARATOR}' for a label."
                    )
                layers = len(row[0])
                stream.write(line + "\n")
            stream.write("\n")


def _rows(lines: Iterable[list[str]]) -> Iterator[Row | None]:
    """The labels and features of each line; None for a blank one."""
    layers: int | None = None
    for cells in lines:
        row = _row(cells, layers) if cells else None
        layers = len(row[0]) if row else layers
        yield row


def _row(cells: Sequence[str], layers: int | None) -> Row:
    if SEPARATOR not in cells:
        raise DataError(
            f"there is no '{SEPARATOR}' between labels and features: {list(cells[:8])!r}. Is this "
            "a file of columns? Then name that format."
        )
    place = cells.index(SEPARATOR)
    if layers is not None and place != layers:
        raise DataError(
            f"{place} labels where the lines before have {layers}: {list(cells[:8])!r}. Every "
            "token needs a label in every layer."
        )
    return tuple(cells[:place]), tuple(cells[place + 1 :])
