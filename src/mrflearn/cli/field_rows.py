"""Rows of states for fields, from sample tables and from alignments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import remark
from mrflearn.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOSTLY = 0.5  # of the sequences


Molecule = StrEnum("Molecule", {"protein": "protein", "rna": "rna", "dna": "dna"})
Letters = Annotated[Molecule, typer.Option("--molecule", help="For alignments: their letters.")]
DropInserts = Annotated[
    bool, typer.Option("--drop-inserts", help="For alignments: leave out lower case and dots.")
]
Columns = Annotated[
    str | None, typer.Option(help="Columns to use, by name or number from 0: A,B,C.")
]


@dataclass(frozen=True, eq=False)
class SampleRows:
    """States, the columns' names where the file has them, and how many states it can hold.

    `spins`: they stand in the file as -1 and 1, and estimators see them so.
    """

    values: NDArray[np.int64]
    names: tuple[str, ...] | None = None
    states: int | None = None
    spins: bool = False

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names, where estimators look for them."""
        return self.names

    def __array__(self, *_: object, **__: object) -> NDArray[Any]:
        """The samples as the file has them: states, or spins with NaN where one is missing."""
        if not self.spins:
            return self.values
        import numpy as np

        spins = 2 * self.values - 1
        missing = self.values < 0
        return np.where(missing, np.nan, spins) if missing.any() else spins


def is_alignment(path: Path) -> bool:
    """Whether aligned sequences stand in the file, by its name or by its first line."""
    from mrflearn.io.alignments import holds_alignment

    return holds_alignment(path)


def read_rows(
    path: Path, columns: str | None, molecule: Molecule, drop_inserts: bool
) -> SampleRows:
    """All rows of a file of either kind."""
    import numpy as np

    if is_alignment(path):
        from mrflearn.io.alignments import read_alignment

        if columns is not None:
            raise typer.BadParameter(f"--columns: {path} is an alignment, and all of it is used.")
        alignment = read_alignment(path, molecule.value, drop_inserts=drop_inserts)
        if alignment.unknown:
            remark(f"{alignment.unknown:,} letters outside the {molecule.value} alphabet are gaps")
        hollow = int(((alignment.values == 0).mean(axis=0) > MOSTLY).sum())
        if hollow and not drop_inserts:
            remark(
                f"{hollow} of {alignment.values.shape[1]} columns are gaps in most sequences; "
                "where lower case marks insertions, --drop-inserts leaves them out"
            )
        return SampleRows(alignment.values.astype(np.int64), states=len(alignment.alphabet))
    from mrflearn.io.samples import read_samples

    if drop_inserts or molecule is not Molecule.protein:
        raise typer.BadParameter("--molecule and --drop-inserts are only for alignments.")
    table = read_samples(path, columns=picked(columns))
    return SampleRows(table.values, table.names, spins=table.spins)


def whole_rows(rows: SampleRows, path: Path) -> NDArray[np.int64]:
    """The rows without missing values; a remark says how many were left out."""
    whole = rows.values[(rows.values >= 0).all(axis=1)]
    if len(whole) < len(rows.values):
        remark(f"{len(rows.values) - len(whole)} rows with missing values are left out")
    if not len(whole):
        what = "every row has a missing value" if len(rows.values) else "there are no rows in it"
        raise DataError(f"{what}: there is nothing to evaluate on.", path=path)
    return whole


def picked(columns: str | None) -> list[str | int] | None:
    """The columns that a text names; None for all of them."""
    if columns is None:
        return None
    return [int(word) if word.isdigit() else word for word in columns.split(",")]
