"""BIF files: Bayesian networks with named variables and labelled states.

The Interchange Format, version 0.15, as bnlearn's repository, GeNIe, pgmpy and pyAgrum write it.
A table of a variable with parents stands row by row, `(parents' labels) p, p;`, with a `default`
for the rows left out, or in one run behind `table`, in which the last parent changes fastest and
the variable itself slowest.  Properties and comments are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, to_number, write_text
from mrflearn.io.uai import MOST_AXES, Table, UaiNetwork

TOKEN = re.compile(r'"[^"]*"|//.*|/\*|[{}()\[\]|,;]|(?:(?!//|/\*)[^\s{}()\[\]|,;"])+|"')
MARKS = set("{}()[]|,;")
MOST_ENTRIES = 2**26  # of one table that a few lines ask for, by a default
SUM_TOLERANCE = 0.01  # published figures are rounded


class BifTokens:
    """The tokens of a BIF file, one by one; quotation marks are taken off."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._tokens = self._found(lines)
        self._seen: list[str | None] = []  # read no further than asked: errors name the line

    @staticmethod
    def _found(lines: Iterable[str]) -> Iterator[str]:
        inside = False  # of a comment
        for line in lines:
            rest = line
            if inside:
                _, end, rest = line.partition("*/")
                inside = not end
            place = 0
            while not inside and (token := TOKEN.search(rest, place)):
                word, place = token[0], token.end()
                if word == "/*":
                    end_at = rest.find("*/", place)
                    inside, place = end_at < 0, end_at + 2
                elif word == '"':
                    raise DataError("a quotation mark is not closed on its line.")
                elif not word.startswith("//"):
                    yield word

    @property
    def coming(self) -> str | None:
        """The next token, which stays; None at the end."""
        if not self._seen:
            self._seen.append(next(self._tokens, None))
        return self._seen[0]

    def take(self, wanted: str = "") -> str:
        """The next token, which must be the wanted one where there is one."""
        token = self.coming
        if token is None:
            raise DataError(f"the file ends where {wanted or 'more'} should be. Is it cut short?")
        if wanted and token != wanted:
            raise DataError(f"here should be {wanted!r}, not {token[:40]!r}.")
        self._seen.clear()
        return token

    def name(self, what: str) -> str:
        """The next token, which must be a name."""
        token = self.take()
        if token in MARKS:
            raise DataError(f"here should be {what}, not {token!r}.")
        return token[1:-1] if token.startswith('"') else token

    def names(self, what: str, closing: str) -> list[str]:
        """Names up to a closing mark, with or without commas between them."""
        found = []
        while self.coming != closing:
            found.append(self.name(what))
            if self.coming == ",":
                self.take()
        self.take(closing)
        return found

    def numbers(self, count: int) -> Table:
        """So many probabilities, and the semicolon behind them."""
        words = self.names("a probability", ";")
        values = np.array([to_number(word) for word in words])
        if len(values) != count:
            raise DataError(f"{count} probabilities are needed here, not {len(values)}.")
        if not np.isfinite(values).all() or (values < 0).any():
            wrong = words[int(np.flatnonzero(~np.isfinite(values) | (values < 0))[0])]
            raise DataError(f"{wrong[:40]!r} is no probability.")
        return values

    def skip(self) -> None:
        """Takes all up to the next semicolon."""
        while self.take() != ";":
            pass


def read_bif(path: PathLike) -> UaiNetwork:
    """The Bayesian network of a `.bif` file, with its names and labels.

    Axes of a table are the parents in the order of the file, then the variable itself.
    """
    labels: dict[str, tuple[str, ...]] = {}
    number: dict[str, int] = {}
    found: dict[str, tuple[tuple[int, ...], Table]] = {}
    with Lines(path) as lines:
        tokens = BifTokens(lines)
        if str(tokens.coming) != "network":
            raise DataError("the file should start with 'network'. Is it in BIF?")
        while tokens.coming is not None:
            block = tokens.take()
            if block == "network":
                while tokens.take() != "{":
                    pass
                _properties(tokens)
            elif block == "variable":
                name = tokens.name("the name of a variable")
                if name in labels:
                    raise DataError(f"the variable {name!r} is there twice.")
                number[name] = len(labels)
                labels[name] = _labels(tokens, name)
            elif block == "probability":
                child, scope = _scope(tokens, number)
                if child in found:
                    raise DataError(f"the probabilities of {child!r} are there twice.")
                axes = tuple(labels[name] for name in scope)
                table = _table(tokens, axes)
                check_sums(child, table)
                found[child] = tuple(number[name] for name in scope), table
            else:
                blocks = "'variable' or 'probability'"
                raise DataError(f"a block is called {blocks}, not {block[:40]!r}.")
        return assembled(labels, found)


def assembled(
    labels: dict[str, tuple[str, ...]], found: dict[str, tuple[tuple[int, ...], Table]]
) -> UaiNetwork:
    """The network of some variables and the scope and table of each."""
    for name in labels:
        if name not in found:
            raise DataError(f"the variable {name!r} has no probabilities. Is the file cut short?")
    scopes, tables = zip(*(found[name] for name in labels), strict=True) if labels else ((), ())
    states = tuple(map(len, labels.values()))
    network = UaiNetwork("BAYES", states, scopes, tables, tuple(labels), tuple(labels.values()))
    network.conditionals()  # no circle among them
    return network


def check_sums(child: str, table: Table) -> None:
    """Raises `DataError` where probabilities of a variable given others do not sum to 1."""
    sums = table.sum(axis=-1)
    if not np.allclose(sums, 1.0, rtol=0.0, atol=SUM_TOLERANCE):
        worst = float(sums.flat[np.abs(sums - 1.0).argmax()])
        raise DataError(
            f"probabilities of {child!r} given its parents sum to {worst:.6g}, not to 1. Is the "
            "order of the table another?"
        )


def _properties(tokens: BifTokens) -> None:
    """Skips the properties up to the end of a block."""
    while tokens.coming != "}":
        tokens.take("property")
        tokens.skip()
    tokens.take("}")


def _labels(tokens: BifTokens, name: str) -> tuple[str, ...]:
    """The labels in the block of a variable."""
    labels: tuple[str, ...] = ()
    tokens.take("{")
    while tokens.coming != "}":
        if tokens.take() == "property":
            tokens.skip()
            continue
        tokens.take("discrete")
        tokens.take("[")
        count = tokens.name("the number of states")
        tokens.take("]")
        tokens.take("{")
        labels = tuple(tokens.names("the label of a state", "}"))
        tokens.take(";")
        if count != str(len(labels)):
            raise DataError(f"{name!r} is said to have {count} states, but {len(labels)} labels.")
    tokens.take("}")
    if not labels or len(set(labels)) < len(labels):
        raise DataError(f"the states of {name!r} need labels, each its own.")
    return labels


def _scope(tokens: BifTokens, known: dict[str, int]) -> tuple[str, list[str]]:
    """The variable of a block of probabilities; the same after its parents."""
    tokens.take("(")
    child = tokens.name("the name of a variable")
    parents = []
    if tokens.coming in ("|", ","):
        tokens.take()
        parents = tokens.names("the name of a parent", ")")
    else:
        tokens.take(")")
    scope = [*parents, child]
    for name in scope:
        if name not in known:
            raise DataError(f"no variable is called {name!r}.")
    if len(set(scope)) < len(scope):
        raise DataError(f"a variable stands twice in the probabilities of {child!r}.")
    if len(scope) > MOST_AXES:
        raise DataError(f"{child!r} has {len(parents)} parents; {MOST_AXES - 1} is the most.")
    return child, scope


def _table(tokens: BifTokens, axes: tuple[tuple[str, ...], ...]) -> Table:
    """The table of a block, over the given labels; the last axis is the variable's own."""
    shape = tuple(map(len, axes))
    rows: dict[tuple[int, ...], Table] = {}
    default: Table | None = None
    table: Table | None = None
    places = [{label: i for i, label in enumerate(own)} for own in axes[:-1]]
    tokens.take("{")
    while tokens.coming != "}":
        word = tokens.take()
        if word == "property":
            tokens.skip()
        elif word == "table":
            own_first = tokens.numbers(math.prod(shape)).reshape(shape[-1], *shape[:-1])
            table = np.ascontiguousarray(np.moveaxis(own_first, 0, -1))
        elif word == "default":
            default = tokens.numbers(shape[-1])
        elif word == "(":
            given = tokens.names("the label of a parent's state", ")")
            if len(given) != len(places):
                raise DataError(f"{len(places)} parents, but the row of {len(given)} labels.")
            for label, place in zip(given, places, strict=True):
                if label not in place:
                    known = ", ".join(list(place)[:8])
                    raise DataError(f"{label!r} is no state of this parent; there are {known}.")
            row = tuple(place[label] for label, place in zip(given, places, strict=True))
            if row in rows:
                raise DataError(f"the row ({', '.join(given)}) is there twice.")
            rows[row] = tokens.numbers(shape[-1])
        else:
            raise DataError(f"here should be 'table', 'default' or a row, not {word[:40]!r}.")
    tokens.take("}")
    if table is not None and not rows and default is None:
        return table
    left = math.prod(shape[:-1]) - len(rows)
    if table is not None or (default is None and left):
        problem = f"{left} rows are missing" if table is None else "both a table and rows are there"
        raise DataError(f"{problem}. A block has a table, or a row for all states of the parents.")
    if math.prod(shape) > MOST_ENTRIES:
        raise DataError(f"a table of {math.prod(shape):,} entries; the most is {MOST_ENTRIES:,}.")
    filled = np.zeros(shape) if default is None else np.broadcast_to(default, shape).copy()
    for row, values in rows.items():
        filled[row] = values
    return filled


def write_bif(path: PathLike, network: UaiNetwork) -> None:
    """Writes a `.bif` file that reads back to exactly the same figures.

    Only a Bayesian network can be written, one table for each variable; variables and states
    without names are called x0, x1, ... and 0, 1, ...
    """
    conditionals = network.conditionals()
    with write_text(path) as stream:
        stream.write("network unknown {\n}\n")
        for v, count in enumerate(network.states):
            labels = ", ".join(map(_quoted, network.labels_of(v)))
            stream.write(f"variable {_quoted(network.name(v))} {{\n")
            stream.write(f"  type discrete [ {count} ] {{ {labels} }};\n}}\n")
        for v in range(len(network.states)):
            scope, table = conditionals[v]
            names = [_quoted(network.name(u)) for u in scope]
            given = f" | {', '.join(names[:-1])}" if names[1:] else ""
            stream.write(f"probability ( {names[-1]}{given} ) {{\n")
            labels_of = [[_quoted(own) for own in network.labels_of(u)] for u in scope[:-1]]
            for row in np.ndindex(*table.shape[:-1]):
                values = ", ".join(map(repr, table[row].tolist()))
                here = ", ".join(own[i] for own, i in zip(labels_of, row, strict=True))
                stream.write(f"  ({here}) {values};\n" if row else f"  table {values};\n")
            stream.write("}\n")


def _quoted(name: str) -> str:
    """A name as a token, between quotation marks where it would be taken for something else."""
    if '"' in name or "\n" in name or "\r" in name:
        raise DataError(f"the name {name!r} has a quotation mark or a line end; BIF has no room.")
    found = TOKEN.fullmatch(name)
    return name if found and name not in MARKS and not name.startswith("//") else f'"{name}"'
