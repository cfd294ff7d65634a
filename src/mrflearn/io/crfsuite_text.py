"""CRFsuite's files: labelled sequences as text, and trained models.

Of the text an item is a line, its label and then its attributes, set apart by tabs.

An attribute may have a weight behind a colon (`w[0]=dog:0.5`); colons and backslashes in names are
written with a backslash before them.  A blank line ends a sequence.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, runs, to_number, write_text

_NAME_COLON_WEIGHT = re.compile(r"((?:\\[:\\]|[^:])*)(:?)(.*)", re.DOTALL).findall
_UNESCAPE = re.compile(r"\\([:\\])")
_ESCAPE = re.compile(r"([:\\])")

Attribute = tuple[str, float]


@dataclass(frozen=True, slots=True)
class AttributeSequence:
    """One label and any number of (name, weight) attributes for each item."""

    labels: tuple[str, ...]
    items: tuple[tuple[Attribute, ...], ...]

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.items):
            raise DataError(f"{len(self.labels)} labels for {len(self.items)} items.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def features(self) -> list[dict[str, float]]:
        """The attributes of each item by name; weights of repeated ones add up, as in CRFsuite."""
        result = []
        for item in self.items:
            features: dict[str, float] = {}
            for name, weight in item:
                features[name] = features.get(name, 0.0) + weight
            result.append(features)
        return result


def read_crfsuite(path: PathLike) -> Iterator[AttributeSequence]:
    """The sequences of a file, one at a time."""
    with Lines(path) as lines:
        for run in runs(_item(line) if line else None for line in lines):
            labels, items = [label for label, _ in run], [item for _, item in run]
            yield AttributeSequence(tuple(labels), tuple(items))


def write_crfsuite(path: PathLike, sequences: Iterable[AttributeSequence]) -> None:
    """Writes sequences, weights other than 1 in full precision."""
    with write_text(path) as stream:
        for sequence in sequences:
            for label, item in zip(sequence.labels, sequence.items, strict=True):
                fields = [_escaped(label), *(_field(*pair) for pair in item)]
                stream.write("\t".join(fields) + "\n")
            stream.write("\n")


def _item(line: str) -> tuple[str, tuple[Attribute, ...]]:
    label, *fields = line.split("\t")
    label, weight = _name_and_weight(label)
    if weight is not None:
        raise DataError(rf"label '{label}' has a weight; is ':' in it? Then it is written '\:'.")
    return label, tuple([_attribute(field) for field in fields if field])


def _attribute(field: str) -> Attribute:
    name, text = _name_and_weight(field)
    if not text:  # CRFsuite takes `name:` for `name`
        return name, 1.0
    weight = to_number(text)
    if not math.isfinite(weight):
        raise DataError(
            rf"'{text}' is no weight for attribute '{name}'. A colon in a name is written '\:'."
        )
    return name, weight


def _name_and_weight(field: str) -> tuple[str, str | None]:
    if ":" not in field and "\\" not in field:
        name, weight = field, None
    else:
        name, colon, weight = _NAME_COLON_WEIGHT(field)[0]
        name = _UNESCAPE.sub(r"\1", name)
        weight = weight if colon else None
    if not name:
        raise DataError("an empty label or attribute name. Does the line begin with a tab?")
    return name, weight


def _field(name: str, weight: float) -> str:
    if not math.isfinite(weight):
        raise DataError(f"attribute '{name}' has the weight {weight}.")
    return _escaped(name) if weight == 1 else f"{_escaped(name)}:{float(weight)!r}"


def _escaped(name: str) -> str:
    if not name or any(sign in name for sign in "\t\n\r"):
        raise DataError(f"{name!r} is empty or has a tab or line end in it.")
    return _ESCAPE.sub(r"\\\1", name)


# A model as CRFsuite writes it: a header, then weights, names of labels and names of attributes,
# each where the header says.  Numbers are little-endian and of four bytes, weights of eight.

Weights = dict[tuple[str, str], float]
_HEADER = struct.Struct("<4s I 4s I 8I")  # magic, size, type, version, counts and places
_WEIGHT = struct.Struct("<IIId")  # of a state (0) or a transition (1), from, to, weight


def read_crfsuite_model(path: PathLike) -> tuple[list[str], Weights, Weights]:
    """The labels of a model that CRFsuite wrote, and its weights of states and of transitions."""
    data = Path(path).read_bytes()
    try:
        magic, _, kind, _, *numbers = _HEADER.unpack_from(data)
        if (magic, kind) != (b"lCRF", b"FOMC"):
            raise DataError("this is no model of CRFsuite, and no directory.", path=path)
        _, labels, attributes, weights_at, labels_at, attributes_at, _, _ = numbers
        names = _names(data, labels_at, labels)
        sources = _names(data, attributes_at, attributes), names
        _, _, count = struct.unpack_from("<4s2I", data, weights_at)
        begin = weights_at + 12
        rows = _WEIGHT.iter_unpack(data[begin : begin + count * _WEIGHT.size])
        found: tuple[Weights, Weights] = ({}, {})
        for is_move, source, target, weight in rows:
            found[is_move][sources[is_move][source], names[target]] = weight
        return names, *found
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"this model of CRFsuite is damaged ({error}).", path=path) from error


def _names(data: bytes, begin: int, count: int) -> list[str]:
    """The names of a constant database (CQDB), by number."""
    _, _, _, _, size, place = struct.unpack_from("<4s5I", data, begin)
    names = []
    for offset in struct.unpack_from(f"<{min(size, count)}I", data, begin + place):
        (length,) = struct.unpack_from("<I", data, begin + offset + 4)
        start = begin + offset + 8
        names.append(data[start : start + length].rstrip(b"\0").decode("utf-8"))
    return names
