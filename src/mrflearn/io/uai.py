"""UAI files: networks, evidence, results.

Figures in a network file are plain (not logarithms), and the last variable of a scope changes
fastest.  All four formats are white-space separated and know no comments.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from reprlib import repr as shortened
from typing import Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, located, read_bytes, write_text

Kind = Literal["MARKOV", "BAYES"]
Table = NDArray[np.float64]
Number = TypeVar("Number", int, float)
LARGEST_COUNT = 2**31 - 1  # no count, state or variable number in any such file is larger
MOST_AXES = 32  # of an array in the oldest numpy supported


class UaiTokens:
    """The tokens of one file in a `with` block, taken from front to back.

    Data errors of the block name the file and the line of the last token taken.  Line numbers are
    found only then, so that reading stays fast.
    """

    def __init__(self, path: PathLike) -> None:
        self._content = read_bytes(path).removeprefix(codecs.BOM_UTF8)
        self.path = path
        self.position = 0
        self.tokens = self._content.split()
        if b"_" in self._content:  # Python would read 1_000 as a number
            wrong = next(i for i, token in enumerate(self.tokens) if b"_" in token)
            with located(path):
                raise self.error("this is not a number:", wrong)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DataError):
            error.locate(self.path, self.line(self.position - 1))

    @property
    def left(self) -> int:
        """How many tokens have not been taken yet."""
        return len(self.tokens) - self.position

    def keyword(self, *known: str) -> str:
        """The next token, which must be one of these."""
        word = self._take(1, known[0])[0].decode("utf-8", "replace")
        if word not in known:
            raise DataError(f"the file should start with {' or '.join(known)}, not {word[:40]!r}.")
        return word

    def integers(self, count: int, what: str, *, least: int = 0) -> list[int]:
        """The next `count` whole numbers, each at least `least`."""
        start = self.position
        values = self._convert(int, count, f"{what} (whole numbers)")
        if values and not least <= min(values) <= max(values) <= LARGEST_COUNT:
            wrong = next(i for i, n in enumerate(values, start) if not least <= n <= LARGEST_COUNT)
            limits = f"at least {least} and at most {LARGEST_COUNT}"
            raise self.error(f"{what}: a number should be {limits}, not", wrong)
        return values

    def integer(self, what: str, *, least: int = 0) -> int:
        """The next whole number."""
        return self.integers(1, what, least=least)[0]

    def numbers(self, count: int, what: str) -> Table:
        """The next `count` numbers."""
        return np.array(self._convert(float, count, f"{what} (numbers)"))

    def end(self, after: str) -> None:
        """Complains unless every token has been taken."""
        if self.left:
            problem = f"{after} should end here, but {self.left} more tokens follow, the first"
            raise self.error(problem, self.position, " Are the counts before it right?")

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
            raise DataError(
                f"{what}: {count} tokens expected, but only {self.left} are left. "
                "Is the file cut short, or a count before this too large?",
                line=self.line(len(self.tokens) - 1),
            )
        self.position += count
        return self.tokens[self.position - count : self.position]

    def _convert(self, kind: Callable[[bytes], Number], count: int, what: str) -> list[Number]:
        tokens = self._take(count, what)
        values: list[Number] = []
        try:
            values.extend(map(kind, tokens))  # what was read before an error stays
        except ValueError as error:
            wrong = self.position - count + len(values)
            raise self.error(f"{what}: cannot read", wrong) from error
        return values

    def error(self, problem: str, position: int, hint: str = "") -> DataError:
        """The error about a token, which names its line."""
        token = self.tokens[position].decode("utf-8", "replace")[:40]
        return DataError(f"{problem} {token!r}.{hint}", line=self.line(position))


@dataclass(frozen=True, eq=False)
class UaiNetwork:
    """State counts, and one table of non-negative figures (not logarithms) for every scope.

    Axis k of `tables[i]` runs over the states of variable `scopes[i][k]`.  In a BAYES network
    the last variable of a scope is the child, and its table is p(child | the others).

    Formats that give variables names and their states labels (BIF, XMLBIF) fill in `names` and
    `labels`; a UAI file holds neither.
    """

    kind: Kind
    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[Table, ...]
    names: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        self._check_names()
        if len(self.scopes) != len(self.tables):
            raise DataError(f"{len(self.scopes)} scopes, but {len(self.tables)} tables.")
        for i, (scope, table) in enumerate(zip(self.scopes, self.tables, strict=True)):
            _check_scope(i, scope, self.states)
            shape = tuple(self.states[v] for v in scope)
            if table.shape != shape:
                raise DataError(
                    f"factor {i} has variables of {shape} states, but a table of shape "
                    f"{table.shape}."
                )

    def _check_names(self) -> None:
        counts = tuple(map(len, self.labels)) or self.states
        if counts != self.states or len(self.names or counts) != len(self.states):
            raise DataError(
                f"{len(self.states)} variables of {shortened(self.states)} states, but "
                f"{len(self.names)} names, and labels for {shortened(counts)} states."
            )
        for what, own in (("variables", self.names), *(("labels", own) for own in self.labels)):
            if len(set(own)) < len(own):
                twice = next(name for i, name in enumerate(own) if name in own[:i])
                raise DataError(f"two {what} are called {twice!r}; each needs a name of its own.")

    def conditionals(self) -> dict[int, tuple[tuple[int, ...], Table]]:
        """The scope and the table of every child, where each variable is the child of one."""
        found = {scope[-1]: (scope, t) for scope, t in zip(self.scopes, self.tables, strict=True)}
        if self.kind != "BAYES" or len(found) < max(len(self.states), len(self.scopes)):
            raise DataError(
                "this is no Bayesian network, in which each variable has one table of its "
                "probabilities given others; UAI files hold any network."
            )
        parents = {child: scope[:-1] for child, (scope, _) in found.items()}
        try:
            TopologicalSorter(parents).prepare()
        except CycleError as error:
            names = " -> ".join(map(self.name, error.args[1]))
            raise DataError(f"variables depend on each other in a circle: {names}.") from error
        return found

    def name(self, variable: int) -> str:
        """The name of a variable, x and its number where it has none."""
        return self.names[variable] if self.names else f"x{variable}"

    def labels_of(self, variable: int) -> tuple[str, ...]:
        """The labels of a variable's states, their numbers where they have none."""
        return (
            self.labels[variable] if self.labels else tuple(map(str, range(self.states[variable])))
        )


def read_network(path: PathLike) -> UaiNetwork:
    """The network in a `.uai` file."""
    with UaiTokens(path) as tokens:
        kind = cast(Kind, tokens.keyword("MARKOV", "BAYES"))
        variables = tokens.integer("number of variables")
        states = tuple(tokens.integers(variables, "state counts", least=1))
        factors = tokens.integer("number of factors")
        if 2 * factors > tokens.left:
            raise DataError(
                f"{factors} factors are announced, but only {tokens.left} tokens follow. "
                "Is the file cut short?"
            )
        scopes = []
        for i in range(factors):
            arity = tokens.integer(f"number of variables of factor {i}")
            scopes.append(tuple(tokens.integers(arity, f"variables of factor {i}")))
            _check_scope(i, scopes[-1], states)
        tables = _read_tables(tokens, [tuple(states[v] for v in scope) for scope in scopes])
        tokens.end("the network")
        return UaiNetwork(kind, states, tuple(scopes), tables)


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
    evidence: dict[int, int] = {}
    with UaiTokens(path) as tokens:
        count = tokens.integer("number of observations")
        # The forms cannot be confused: the newer has an odd number of tokens, the older an even.
        if count == 1 and tokens.left % 2:
            count = tokens.integer("number of observations")
        if tokens.left != 2 * count:
            raise DataError(
                f"{count} observations are announced, but {tokens.left} tokens follow, not "
                f"{2 * count}. Each is a variable and its state; several samples in one file "
                "are not supported."
            )
        for _ in range(count):
            variable, state = tokens.integers(2, "an observed variable and its state")
            if variable in evidence:
                raise DataError(f"variable {variable} is observed twice.")
            seen = f"variable {variable} is observed in state {state} (counted from 0), but"
            if states is not None and variable >= len(states):
                raise DataError(
                    f"{seen} the network has {len(states)} variables. Does this evidence belong to "
                    "another network?"
                )
            if states is not None and state >= states[variable]:
                raise DataError(f"{seen} has {states[variable]} states.")
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
    with UaiTokens(path) as tokens:
        tokens.keyword("PR")
        value = float(tokens.numbers(1, "log of the partition function")[0])
        if math.isnan(value) or value == math.inf:
            raise DataError(f"the log of a partition function cannot be {value}.")
        tokens.end("the result")
        return value


def write_partition(path: PathLike, value: float) -> None:
    """Writes a `.PR` file; the competition's files hold log10 Z."""
    with write_text(path) as stream:
        stream.write(f"PR\n{float(value)!r}\n")


def read_marginals(path: PathLike) -> tuple[Table, ...]:
    """The marginal distribution of every variable in a `.MAR` file."""
    marginals = []
    with UaiTokens(path) as tokens:
        tokens.keyword("MAR")
        for variable in range(tokens.integer("number of variables")):
            what = f"marginal of variable {variable}"
            states = tokens.integer(f"state count of variable {variable}", least=1)
            values = tokens.numbers(states, what)
            _check_figures(tokens, values, what)
            # Published figures are rounded, to six digits as a rule.
            if abs(float(values.sum()) - 1) > 1e-3 + 1e-6 * states:
                raise DataError(f"the {what} sums to {values.sum():.6g}, not to 1.")
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


def _check_scope(factor: int, scope: Sequence[int], states: Sequence[int]) -> None:
    if scope and not 0 <= min(scope) <= max(scope) < len(states):
        raise DataError(
            f"factor {factor} reads variables {min(scope)} to {max(scope)}, but there are "
            f"{len(states)} (counted from 0). Does the file count from 1?"
        )
    if len(set(scope)) < len(scope):
        names = " ".join(map(str, scope))[:60]
        raise DataError(f"factor {factor} names a variable twice in {names}.")
    if len(scope) > MOST_AXES:
        raise DataError(
            f"factor {factor} reads {len(scope)} variables; a table may have {MOST_AXES} axes at "
            "most. Leave variables of one state out of its scope."
        )


def _read_tables(tokens: UaiTokens, shapes: Sequence[tuple[int, ...]]) -> tuple[Table, ...]:
    """Tables, as views of one long array: a network may have very many of them."""
    sizes = [math.prod(shape) for shape in shapes]
    first = tokens.position
    values = tokens.numbers(min(tokens.left, len(sizes) + sum(sizes)), "tables")
    tables, start = [], 0
    for factor, (shape, size) in enumerate(zip(shapes, sizes, strict=True)):
        stop = start + 1 + size
        if start >= len(values) or values[start] != size or stop > len(values):
            announced = values[start] if start < len(values) else size
            raise DataError(
                f"the table of factor {factor} should have {size} entries; it announces "
                f"{announced:g} entries, and {max(len(values) - start - 1, 0)} figures are left. "
                "Is the file cut short?",
                line=tokens.line(first + min(start, len(values) - 1)),
            )
        tables.append(values[start + 1 : stop].reshape(shape))
        start = stop
    _check_figures(tokens, values, "tables")
    return tuple(tables)


def _check_figures(tokens: UaiTokens, values: Table, what: str) -> None:
    """Complains where one of the figures just taken is not a finite number of at least 0."""
    wrong = ~(values >= 0) | (values == math.inf)
    if wrong.any():
        entry = int(wrong.argmax())
        raise tokens.error(
            f"{what}: figures are finite and not negative, unlike",
            tokens.position - len(values) + entry,
            " Are these logarithms? Then write their exponentials.",
        )
