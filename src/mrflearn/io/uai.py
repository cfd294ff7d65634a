"""UAI files: networks, evidence, results.

Line numbers are found only when there is something to complain about, so that reading stays fast.

Figures in a network file are plain (not logarithms), and the last variable of a scope changes
fastest.  All four formats are white-space separated and know no comments.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, read_bytes, write_text

# Files that are one long run of numbers between white space, taken from front to back.


Number = TypeVar("Number", int, float)
LARGEST_COUNT = 2**31 - 1  # no count, state or variable number in any such file is larger


class UAITokens:
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


# The UAI competition's formats: networks, evidence, partition functions, marginals.


Kind = Literal["MARKOV", "BAYES"]
Table = NDArray[np.float64]
MOST_AXES = 32  # of an array in the oldest numpy supported


@dataclass(frozen=True, eq=False)
class UaiNetwork:
    """State counts, and one table of non-negative figures (not logarithms) for every scope.

    Axis k of `tables[i]` runs over the states of variable `scopes[i][k]`.  In a BAYES network
    the last variable of a scope is the child, and its table is p(child | the others).
    """

    kind: Kind
    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[Table, ...]

    def __post_init__(self) -> None:
        if len(self.scopes) != len(self.tables):
            raise DataError(f"{len(self.scopes)} scopes, but {len(self.tables)} tables.")
        for i, (scope, table) in enumerate(zip(self.scopes, self.tables, strict=True)):
            problem = _scope_problem(scope, self.states)
            if problem:
                raise DataError(f"factor {i}: {problem}")
            if table.shape != _shape(scope, self.states):
                raise DataError(
                    f"factor {i}: its variables have {_shape(scope, self.states)} states, "
                    f"its table the shape {table.shape}."
                )


def read_network(path: PathLike) -> UaiNetwork:
    """The network in a `.uai` file."""
    tokens = UAITokens(path)
    kind = _read_kind(tokens)
    variables = tokens.integer("number of variables")
    states = tuple(tokens.integers(variables, "state counts", least=1))
    factors = tokens.integer("number of factors")
    if 2 * factors > tokens.left:
        raise tokens.complaint(
            f"{factors} factors are announced, but only {tokens.left} tokens follow. "
            "Is the file cut short?"
        )
    scopes = tuple(_read_scope(tokens, i, states) for i in range(factors))
    tables = _read_tables(tokens, [_shape(scope, states) for scope in scopes])
    tokens.end("the network")
    return UaiNetwork(kind, states, scopes, tables)


def write_network(path: PathLike, network: UaiNetwork) -> None:
    """Writes a `.uai` file that reads back to exactly the same figures."""
    with write_text(path) as stream:
        counts = " ".join(map(str, network.states))
        stream.write(f"{network.kind}\n{len(network.states)}\n{counts}\n{len(network.scopes)}\n")
        for scope in network.scopes:
            stream.write(" ".join(map(str, (len(scope), *scope))) + "\n")
        for table in network.tables:
            stream.write(f"\n{table.size}\n{_line(table)}")


def read_evidence(path: PathLike, states: Sequence[int] | None = None) -> dict[int, int]:
    """The observed state of each observed variable in an `.evid` file.

    Reads `n variable state ...` and the older form with a leading number of samples, which must
    then be 1; a lone `0` is none.  Where the `states` of the network are given, the variables
    and states named must exist in it.
    """
    tokens = UAITokens(path)
    count = tokens.integer("number of observations")
    # The forms cannot be confused: the newer has an odd number of tokens, the older an even one.
    if count == 1 and tokens.left % 2:
        count = tokens.integer("number of observations")
    evidence: dict[int, int] = {}
    if tokens.left != 2 * count:
        raise tokens.complaint(
            f"{count} observations are announced, but {tokens.left} tokens follow, not "
            f"{2 * count}. Each is a variable and its state; several samples in one file "
            "are not supported."
        )
    for _ in range(count):
        variable, state = tokens.integers(2, "an observed variable and its state")
        if variable in evidence:
            raise tokens.complaint(f"variable {variable} is observed twice.", tokens.position - 2)
        problem = _observation_problem(variable, state, states)
        if problem:
            raise tokens.complaint(problem)
        evidence[variable] = state
    return evidence


def write_evidence(path: PathLike, evidence: Mapping[int, int]) -> None:
    """Writes an `.evid` file in the form without a number of samples."""
    with write_text(path) as stream:
        pairs = (f" {variable} {state}" for variable, state in evidence.items())
        stream.write(f"{len(evidence)}{''.join(pairs)}\n")


def read_partition(path: PathLike) -> float:
    """The figure in a `.PR` file, just as it is written there: a logarithm of Z.

    The competition asks for the logarithm to base 10 of the partition function after the evidence
    has been put in (no renormalising), and its published answers are that.  Some programs write
    natural logarithms instead, or a bound on Z, under the same name; the file does not say which.
    """
    tokens = UAITokens(path)
    _expect_word(tokens, "PR")
    value = float(tokens.numbers(1, "log of the partition function")[0])
    if math.isnan(value) or value == math.inf:
        raise tokens.complaint(f"the log of a partition function cannot be {value}.")
    tokens.end("the result")
    return value


def write_partition(path: PathLike, value: float) -> None:
    """Writes a `.PR` file; the competition's files hold log10 Z."""
    with write_text(path) as stream:
        stream.write(f"PR\n{float(value)!r}\n")


def read_marginals(path: PathLike) -> tuple[Table, ...]:
    """The marginal distribution of every variable in a `.MAR` file."""
    tokens = UAITokens(path)
    _expect_word(tokens, "MAR")
    marginals = []
    for variable in range(tokens.integer("number of variables")):
        what = f"marginal of variable {variable}"
        states = tokens.integer(f"state count of variable {variable}", least=1)
        values = tokens.numbers(states, what)
        _check_figures(tokens, values, what)
        # Published figures are rounded, to six digits as a rule.
        if abs(float(values.sum()) - 1) > 1e-3 + 1e-6 * states:
            raise tokens.complaint(f"the {what} sums to {values.sum():.6g}, not to 1.")
        marginals.append(values)
    tokens.end("the result")
    return tuple(marginals)


def write_marginals(path: PathLike, marginals: Sequence[Table]) -> None:
    """Writes a `.MAR` file that reads back to exactly the same figures."""
    with write_text(path) as stream:
        stream.write(f"MAR\n{len(marginals)}\n")
        for values in marginals:
            stream.write(f"{len(values)} {_line(values)}")


def _line(table: Table) -> str:
    return " ".join(map(repr, table.ravel().tolist())) + "\n"


def _read_kind(tokens: UAITokens) -> Kind:
    kind = tokens.word("MARKOV or BAYES")
    if kind == "MARKOV":
        return "MARKOV"
    if kind == "BAYES":
        return "BAYES"
    raise tokens.complaint(f"a network starts with MARKOV or BAYES, not with {kind[:40]!r}.")


def _expect_word(tokens: UAITokens, word: str) -> None:
    seen = tokens.word(word)
    if seen != word:
        raise tokens.complaint(f"the file should start with {word}, not with {seen[:40]!r}.")


def _shape(scope: Sequence[int], states: Sequence[int]) -> tuple[int, ...]:
    return tuple(states[v] for v in scope)


def _scope_problem(scope: Sequence[int], states: Sequence[int]) -> str | None:
    if scope and not 0 <= min(scope) <= max(scope) < len(states):
        wrong = next(v for v in scope if not 0 <= v < len(states))
        return (
            f"reads variable {wrong}, but there are {len(states)} (counted from 0). "
            "Does the file count from 1?"
        )
    if len(set(scope)) < len(scope):
        return f"names a variable twice in {' '.join(map(str, scope))[:60]}."
    if len(scope) > MOST_AXES:
        return (
            f"reads {len(scope)} variables; a table may have {MOST_AXES} axes at most. "
            "Leave variables of one state out of its scope."
        )
    return None


def _read_scope(tokens: UAITokens, factor: int, states: Sequence[int]) -> tuple[int, ...]:
    arity = tokens.integer(f"number of variables of factor {factor}")
    scope = tokens.integers(arity, f"variables of factor {factor}")
    problem = _scope_problem(scope, states)
    if problem:
        raise tokens.complaint(f"factor {factor} {problem}")
    return tuple(scope)


def _read_tables(tokens: UAITokens, shapes: Sequence[tuple[int, ...]]) -> tuple[Table, ...]:
    """Tables, as views of one long array: a network may have very many of them."""
    sizes = [math.prod(shape) for shape in shapes]
    first = tokens.position
    values = tokens.numbers(min(tokens.left, len(sizes) + sum(sizes)), "tables")
    tables, start = [], 0
    for factor, (shape, size) in enumerate(zip(shapes, sizes, strict=True)):
        stop = start + 1 + size
        if start >= len(values) or values[start] != size or stop > len(values):
            problem = _size_problem(values[start:], shape)
            position = first + min(start, len(values) - 1)
            raise tokens.complaint(f"the table of factor {factor} {problem}", position)
        tables.append(values[start + 1 : stop].reshape(shape))
        start = stop
    _check_figures(tokens, values, "tables")
    return tuple(tables)


def _size_problem(values: Table, shape: tuple[int, ...]) -> str:
    size = math.prod(shape)
    if len(values) and values[0] != size:
        states = " x ".join(map(str, shape)) or "1"
        return f"is said to have {values[0]:g} entries, but its variables have {states} states."
    left = max(len(values) - 1, 0)
    return f"has {size} entries, but only {left} figures are left. Is the file cut short?"


def _check_figures(tokens: UAITokens, values: Table, what: str) -> None:
    """Complains where one of the figures just taken is not a finite number of at least 0."""
    wrong = ~(values >= 0) | (values == math.inf)
    if wrong.any():
        entry = int(wrong.argmax())
        raise tokens.complaint(
            f"{what}: figures are finite and not negative, but this one is {values[entry]}. "
            "Are these logarithms? Then write their exponentials.",
            tokens.position - len(values) + entry,
        )


def _observation_problem(variable: int, state: int, states: Sequence[int] | None) -> str | None:
    if states is None:
        return None
    if variable >= len(states):
        return (
            f"variable {variable} is observed, but the network has {len(states)} (counted from "
            "0). Does this evidence belong to another network?"
        )
    if state >= states[variable]:
        return (
            f"variable {variable} is observed in state {state}, but has {states[variable]} "
            "states (counted from 0)."
        )
    return None
