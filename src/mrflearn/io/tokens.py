"""Files that are one long run of numbers between white space, taken from front to back.

Line numbers are found only when there is something to complain about, so that reading stays fast.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, read_bytes

Number = TypeVar("Number", int, float)
LARGEST_COUNT = 2**31 - 1  # no count, state or variable number in any such file is larger


class Tokens:
    """The tokens of one file and a position among them."""

    def __init__(self, path: PathLike) -> None:
        self._content = read_bytes(path).removeprefix(codecs.BOM_UTF8)
        self.path = path
        self.position = 0
        self.tokens = self._content.split()
        if b"_" in self._content:  # Python would read 1_000 as a number
            wrong = next(i for i, token in enumerate(self.tokens) if b"_" in token)
            raise self.complaint(f"{self._shown(wrong)} is not a number.", wrong)

    @property
    def left(self) -> int:
        """How many tokens have not been taken yet."""
        return len(self.tokens) - self.position

    def word(self, expected: str) -> str:
        """The next token as text."""
        return self._take(1, expected)[0].decode("utf-8", "replace")

    def integers(self, count: int, what: str, *, least: int = 0) -> list[int]:
        """The next `count` whole numbers, each at least `least`."""
        start = self.position
        values = self._convert(int, self._take(count, what), f"{what} (whole numbers)")
        if values and not least <= min(values) <= max(values) <= LARGEST_COUNT:
            wrong = next(i for i, n in enumerate(values) if not least <= n <= LARGEST_COUNT)
            bound = f"at least {least}" if values[wrong] < least else f"at most {LARGEST_COUNT}"
            raise self.complaint(
                f"{what}: {self._shown(start + wrong)} is not {bound}.", start + wrong
            )
        return values

    def integer(self, what: str, *, least: int = 0) -> int:
        """The next whole number."""
        return self.integers(1, what, least=least)[0]

    def numbers(self, count: int, what: str) -> NDArray[np.float64]:
        """The next `count` numbers."""
        return np.array(self._convert(float, self._take(count, what), f"{what} (numbers)"))

    def end(self, after: str) -> None:
        """Complains unless every token has been taken."""
        if self.left:
            raise self.complaint(
                f"{after} should end here, but {self.left} more tokens follow, the first "
                f"{self._shown(self.position)}. Are the counts before it right?",
                self.position,
            )

    def complaint(self, problem: str, position: int | None = None) -> DataError:
        """The error to raise; it names the line of a token (the last one taken by default)."""
        at = self.position - 1 if position is None else position
        return DataError(problem, path=self.path, line=self.line(at))

    def line(self, position: int) -> int:
        """The line, from 1, on which a token stands."""
        seen = 0
        for number, line in enumerate(self._content.split(b"\n"), start=1):
            seen += len(line.split())
            if seen > position:
                return number
        return 1  # a file without tokens

    def _take(self, count: int, what: str) -> list[bytes]:
        if count > self.left:
            raise self.complaint(
                f"{what}: {count} tokens expected, but only {self.left} are left. "
                "Is the file cut short, or a count before this too large?",
                len(self.tokens) - 1,
            )
        self.position += count
        return self.tokens[self.position - count : self.position]

    def _convert(
        self, kind: Callable[[bytes], Number], tokens: Sequence[bytes], what: str
    ) -> list[Number]:
        try:
            return list(map(kind, tokens))
        except ValueError as error:
            wrong = next(i for i, token in enumerate(tokens) if not _reads(kind, token))
            position = self.position - len(tokens) + wrong
            problem = f"{what}: cannot read {self._shown(position)}."
            raise self.complaint(problem, position) from error

    def _shown(self, position: int) -> str:
        token = self.tokens[position].decode("utf-8", "replace")
        return repr(token if len(token) <= 40 else token[:37] + "...")


def _reads(kind: Callable[[bytes], Number], token: bytes) -> bool:
    try:
        kind(token)
    except ValueError:
        return False
    return True
