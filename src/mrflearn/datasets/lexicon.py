"""The words of a grammar's word classes, by topic; `english.lexicon` explains the notation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrflearn.datasets.inflection import gerund, past, plural
from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, read_lines

ANY = "any"


@dataclass(frozen=True, eq=False)
class WordClass:
    """Words and their probabilities, one row a topic, or one row for all of them."""

    words: tuple[str, ...]
    probabilities: NDArray[np.float64]

    @property
    def topical(self) -> bool:
        return len(self.probabilities) > 1

    @cached_property
    def column(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def mixed(self, mixture: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """The words' probabilities with the topic summed out."""
        row: NDArray[np.float64] = (
            np.asarray(mixture) @ self.probabilities if self.topical else self.probabilities[0]
        )
        return row


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Topics and word classes, each under a symbol such as `NN[per]` or `VBZ[t.obj]`."""

    topics: tuple[str, ...]
    classes: dict[str, WordClass]


@dataclass
class _Section:
    kind: str
    name: str
    share: float
    entries: dict[str, list[str]] = field(default_factory=dict)


def read_lexicon(path: PathLike) -> Lexicon:
    """The lexicon of a text file; its topics are in the order in which the file names them."""
    sections = list(_sections(path))
    named = (topic for section in sections for topic in section.entries if topic != ANY)
    topics = tuple(dict.fromkeys(named))
    classes = {}
    for section in sections:
        for tag, form in _FORMS.get(section.kind, {section.kind: _as_is}).items():
            classes[f"{tag}[{section.name}]"] = _word_class(section, topics, form, path)
    return Lexicon(topics, classes)


def _sections(path: PathLike) -> Iterator[_Section]:
    section = None
    for number, line in read_lines(path):
        pieces = line.partition("# ")[0].split()
        if not pieces or line.startswith("#"):
            continue
        if not line[0].isspace():
            if section is not None:
                yield section
            section = _heading(pieces, path, number)
        elif section is None:
            raise DataError("words come before any section.", path=path, line=number)
        else:
            section.entries[pieces[0]] = pieces[1:]
    if section is not None:
        yield section


def _heading(pieces: list[str], path: PathLike, number: int) -> _Section:
    try:
        kind, name, share = (*pieces, "1") if len(pieces) == 2 else pieces
        section = _Section(kind, name, float(share))
    except ValueError:
        section = None
    if section is None or not 0 <= section.share <= 1:
        raise DataError(
            f"'{' '.join(pieces)}' is not a section: KIND CLASS, or KIND CLASS SHARE with a share "
            "from 0 to 1.",
            path=path,
            line=number,
        )
    return section


def _word_class(
    section: _Section, topics: Sequence[str], form: Callable[[list[str]], str], path: PathLike
) -> WordClass:
    """The class of one inflected form."""
    column: dict[str, int] = {}
    rows = []
    for topic in topics if section.share < 1 else (ANY,):
        row: dict[str, float] = {}
        for source, share in ((ANY, section.share), (topic, 1 - section.share)):
            if share == 0:
                continue
            words = section.entries.get(source)
            if not words:
                raise DataError(f"class '{section.name}' has no words for '{source}'.", path=path)
            # Sums by fsum are the same on every machine, so that samples are too.
            total = math.fsum(1 / (rank + 1) for rank in range(1, len(words) + 1))
            for rank, word in enumerate(words, start=1):
                written = form(word.split("/"))
                row[written] = row.get(written, 0.0) + share / (rank + 1) / total
                column.setdefault(written, len(column))
        rows.append(row)
    probabilities = np.array([[row.get(word, 0.0) for word in column] for row in rows])
    return WordClass(tuple(column), probabilities)


def _as_is(forms: list[str]) -> str:
    return forms[0]


def _listed(position: int, regular: Callable[[str], str]) -> Callable[[list[str]], str]:
    """The form at this position of the entry, or the regular one where the entry is shorter."""
    return lambda forms: forms[position] if len(forms) > position else regular(forms[0])


_FORMS: dict[str, dict[str, Callable[[list[str]], str]]] = {
    "mass": {"NN": _as_is},
    "noun": {"NN": _as_is, "NNS": _listed(1, plural)},
    "adjective": {"JJ": _as_is},
    "verb": {
        "VB": _as_is,
        "VBP": _as_is,
        "VBZ": lambda forms: plural(forms[0]),
        "VBD": _listed(1, past),
        "VBN": _listed(2, past),
        "VBG": _listed(3, gerund),
    },
}
