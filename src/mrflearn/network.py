"""Small models for people: variables with names, states with labels, and questions in those words.

A `Network` is a factor graph written down by hand, or read from a file.  Every answer says whether
it is exact: the library's one policy (`inference.Automatic`) decides how it is found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from mrflearn.errors import GraphError, InferenceError
from mrflearn.estimators.field_answers import LogPartition
from mrflearn.graph.evidence import condition
from mrflearn.graph.factor_graph import FactorGroup
from mrflearn.graph.networks import from_uai
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.answering import answered
from mrflearn.inference.automatic import Automatic
from mrflearn.inference.sampling import Drawing
from mrflearn.inference.search import BranchAndBound
from mrflearn.io.files import PathLike
from mrflearn.io.formats import FORMATS, guess_format, network_format
from mrflearn.io.pgmpy_models import from_pgmpy, to_pgmpy
from mrflearn.io.uai import UaiNetwork
from mrflearn.plots.graphical_models import draw_graphical_model

Evidence = Mapping[str, Any]
Labels = tuple[str, ...]
LARGEST_JOINT = 2**20  # entries of a joint posterior
SUM_TOLERANCE = 1e-6  # of conditional probabilities that people write down


@dataclass(frozen=True, eq=False)
class Posterior:
    """Probabilities of one variable's states, or of several variables' joint states.

    Attributes
    ----------
    variables
        The names of the variables, one for each axis of `probabilities`.
    labels
        The labels of the states along each axis.
    probabilities
        An array that sums to 1.
    kind
        `"exact"` or `"approximation"`.

    Examples
    --------
    >>> from mrflearn import Network
    >>> network = Network({"rain": ["no", "yes"]}).add_factor(["rain"], [3, 1])
    >>> rain = network.query("rain")
    >>> rain["yes"], rain.kind
    (0.25, 'exact')
    >>> print(rain)
    rain  probability
    no         0.7500
    yes        0.2500

    """

    variables: tuple[str, ...]
    labels: tuple[Labels, ...]
    probabilities: NDArray[np.float64]
    kind: str

    def __getitem__(self, states: Any) -> float:
        given = states if isinstance(states, tuple) else (states,)
        if len(given) != len(self.variables):
            raise GraphError(f"a state for each of {', '.join(self.variables)} is needed.")
        place = tuple(
            _state(name, own, state)
            for name, own, state in zip(self.variables, self.labels, given, strict=True)
        )
        return float(self.probabilities[place])

    def to_dict(self) -> dict[Any, float]:
        """Labels (tuples of them, for several variables) and their probabilities."""
        return {key if len(key) > 1 else key[0]: value for key, value in self._rows()}

    def _rows(self) -> list[tuple[Labels, float]]:
        return [
            (tuple(own[i] for own, i in zip(self.labels, place, strict=True)), float(value))
            for place, value in np.ndenumerate(self.probabilities)
        ]

    def __str__(self) -> str:
        rows = [(*key, f"{value:.4f}") for key, value in self._rows()]
        head = (*self.variables, "probability")
        widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        return "\n".join(
            "  ".join(
                [cell.ljust(w) for cell, w in zip(row[:-1], widths, strict=False)]
                + [row[-1].rjust(widths[-1])]
            )
            for row in [head, *rows]
        )


@dataclass(frozen=True, eq=False)
class Explanation:
    """The most probable states of all variables, or of some.

    Attributes
    ----------
    states
        The label of each variable's state.
    log_score
        The logarithm of the product of all factors there; of some variables' states, summed over
        all others.
    kind
        `"optimal"`, or what is proved instead: within how much of the optimum.

    """

    states: dict[str, str]
    log_score: float
    kind: str

    def __getitem__(self, name: str) -> str:
        return self.states[name]


class Network:
    """A factor graph of named variables with labelled states.

    Parameters
    ----------
    variables
        The labels of each variable's states, or their number (labels are then 0, 1, ...).

    Examples
    --------
    >>> from mrflearn import Network
    >>> garden = Network({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> garden = garden.add_conditional("rain", [], [0.8, 0.2])
    >>> garden = garden.add_conditional("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
    >>> round(garden.query("rain", evidence={"wet": "yes"})["yes"], 4)
    0.6667
    >>> garden.map({"wet": "yes"}).states
    {'rain': 'yes', 'wet': 'yes'}

    """

    def __init__(self, variables: Mapping[str, Sequence[Any] | int]) -> None:
        if not hasattr(variables, "items"):
            raise GraphError(
                "variables map names to labels of states, as in {'rain': ['no', 'yes']}; "
                f"this is a {type(variables).__name__}."
            )
        self.variables: dict[str, Labels] = {
            str(name): _labels(str(name), given) for name, given in variables.items()
        }
        self._numbers = {name: i for i, name in enumerate(self.variables)}
        self._scopes: list[tuple[int, ...]] = []
        self._tables: list[NDArray[np.float64]] = []
        self._children: list[bool] = []  # whether a table is of its last variable given others

    def __repr__(self) -> str:
        names = ", ".join(list(self.variables)[:8]) + (", ..." if len(self.variables) > 8 else "")
        return (
            f"<Network of {len(self.variables)} variables ({names}), {len(self._scopes)} factors>"
        )

    # How it is made: factors, files, other libraries.

    def add_factor(self, variables: Sequence[str], table: ArrayLike) -> Self:
        """Adds a factor: how much each joint state of some variables is favoured.

        Parameters
        ----------
        variables
            Names, one for each axis of the table.
        table
            Numbers of 0 or more (not logarithms), in the order of the labels.

        Returns
        -------
        Network
            The same network.

        """
        self._add(self._scope(variables), table, child=False)
        return self

    def add_conditional(self, variable: str, given: Sequence[str], table: ArrayLike) -> Self:
        """Adds the probabilities of a variable's states given those of others.

        Parameters
        ----------
        variable
            The variable that the others influence.
        given
            The others, which may be none.
        table
            Probabilities: an axis for each of `given`, in that order, and a last one for the
            variable, along which they sum to 1.

        Returns
        -------
        Network
            The same network.

        """
        scope = self._scope([*_several(given), variable])
        if any(
            own[-1] == scope[-1] for own, c in zip(self._scopes, self._children, strict=True) if c
        ):
            raise GraphError(f"{variable!r} has its probabilities already.")
        sums = np.asarray(self._checked(scope, table)).sum(axis=-1)
        if not np.allclose(sums, 1.0, rtol=0.0, atol=SUM_TOLERANCE):
            worst = float(sums.flat[np.abs(sums - 1.0).argmax()])
            raise GraphError(
                f"probabilities of {variable!r} sum to {worst:.6g} along the last axis, not to 1. "
                "Is the variable itself the last axis? Any numbers make an `add_factor`."
            )
        self._add(scope, table, child=True)
        return self

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """The network in a file: `.bif`, `.xmlbif` or `.xml`, else in UAI format.

        Parameters
        ----------
        path
            The file; in a UAI file, which has no names, variables are x0, x1, ...

        """
        return cls.from_uai(network_format(path).read(path))

    @classmethod
    def from_uai(cls, network: UaiNetwork) -> Self:
        """The network of a record that `mrflearn.io` reads.

        Parameters
        ----------
        network
            The record.

        """
        count = range(len(network.states))
        found = cls({network.name(v): network.labels_of(v) for v in count})
        for scope, table in zip(network.scopes, network.tables, strict=True):
            found._add(scope, table, child=network.kind == "BAYES" and bool(scope))
        return found

    def to_uai(self) -> UaiNetwork:
        """The record that `mrflearn.io` writes, with names and labels.

        Returns
        -------
        UaiNetwork
            BAYES where every factor came as a conditional, else MARKOV.

        """
        states = tuple(map(len, self.variables.values()))
        kind: Any = "BAYES" if self._children and all(self._children) else "MARKOV"
        labels = tuple(self.variables.values())
        scopes, tables = tuple(self._scopes), tuple(self._tables)
        return UaiNetwork(kind, states, scopes, tables, tuple(self.variables), labels)

    def write(self, path: PathLike) -> None:
        """Writes a file: `.uai`, or of a Bayesian network `.bif`, `.xmlbif` or `.xml`.

        Parameters
        ----------
        path
            Where to; the ending says how.

        """
        form = FORMATS[guess_format(path)]
        if form.record != "networks":
            raise GraphError(f"{path}: networks are written to .uai, .bif, .xmlbif and .xml files.")
        form.write(path, self.to_uai())

    @classmethod
    def from_pgmpy(cls, model: Any) -> Self:
        """The network of a pgmpy model: a Bayesian network, a Markov network or a factor graph.

        Parameters
        ----------
        model
            What has `get_cpds()` or `get_factors()`, of tables that have `variables`, `values` and
            `state_names`.

        """
        return cls.from_uai(from_pgmpy(model))

    def to_pgmpy(self) -> Any:
        """The same network as a model of pgmpy, which must be installed.

        Returns
        -------
        object
            A `DiscreteBayesianNetwork` where every factor came as a conditional, else a
            `DiscreteMarkovNetwork`.

        """
        return to_pgmpy(self.to_uai())

    # What can be asked.

    @cached_property
    def potentials(self) -> Potentials:
        """The same as `mrflearn.graph.Potentials`; variables have the numbers of their order."""
        return from_uai(self.to_uai())

    def query(self, variables: str | Sequence[str], evidence: Evidence | None = None) -> Posterior:
        """Probabilities of one variable, or of several jointly, given what was observed.

        Parameters
        ----------
        variables
            A name, or several.
        evidence
            The observed state of each observed variable.

        Returns
        -------
        Posterior
            The probabilities, and whether they are exact.

        """
        scope = self._scope(variables)
        if not scope:
            raise GraphError("name a variable to ask for, or several.")
        joint, _, kind = self._joint(scope, evidence)
        labels = list(self.variables.values())
        names = list(self.variables)
        return Posterior(
            tuple(names[v] for v in scope), tuple(labels[v] for v in scope), joint, kind
        )

    def marginals(self, evidence: Evidence | None = None) -> dict[str, Posterior]:
        """Probabilities of every variable's states given what was observed.

        Parameters
        ----------
        evidence
            The observed state of each observed variable.

        Returns
        -------
        dict of str to Posterior
            For each variable its own.

        """
        _, beliefs = answered(Automatic(), self._given(evidence))
        return {
            name: Posterior((name,), (labels,), row[: len(labels)].numpy(), beliefs.kind)
            for (name, labels), row in zip(
                self.variables.items(), beliefs.variables.double(), strict=True
            )
        }

    def map(
        self, evidence: Evidence | None = None, variables: Sequence[str] | None = None
    ) -> Explanation:
        """The most probable states given what was observed.

        Parameters
        ----------
        evidence
            The observed state of each observed variable.
        variables
            A few names: their most probable joint state, all other variables summed out
            (marginal MAP). None: the most probable state of all variables together.

        Returns
        -------
        Explanation
            The states, their log-score, and whether they are proved to be the best.

        """
        names = list(self.variables)
        if variables is not None:
            scope = self._scope(variables)
            joint, total, kind = self._joint(scope, evidence)
            place = np.unravel_index(int(joint.argmax()), joint.shape)
            states = {
                names[v]: self.variables[names[v]][i] for v, i in zip(scope, place, strict=True)
            }
            proved = "optimal" if kind == "exact" else "not proved"
            return Explanation(states, total + math.log(joint[place]), proved)
        _, best = answered(BranchAndBound(), self._given(evidence), best=True)
        score = float(best.score.sum())
        return Explanation(self._named(best.assignment.tolist()), score, best.certificate)

    def log_partition(self, evidence: Evidence | None = None) -> LogPartition:
        """log Z: the logarithm of the sum of all factors' products, over what agrees with evidence.

        Of a Bayesian network this is the log-probability of the evidence.

        Parameters
        ----------
        evidence
            The observed state of each observed variable.

        Returns
        -------
        LogPartition
            `value` in nats, and `kind`.

        """
        beliefs = Automatic()(self._given(evidence))
        kind: Any = beliefs.kind
        return LogPartition(float(beliefs.log_partition.sum()), kind)

    def sample(
        self, n: int, evidence: Evidence | None = None, *, seed: int = 0
    ) -> dict[str, list[str]]:
        """Joint states drawn by their probability given what was observed.

        Parameters
        ----------
        n
            How many.
        evidence
            The observed state of each observed variable.
        seed
            Of the random numbers.

        Returns
        -------
        dict of str to list of str
            For each variable the labels of its states; `pd.DataFrame` takes them.

        """
        drawn = Drawing()(self._given(evidence), n, seed=seed).samples
        return {
            name: [labels[state] for state in column]
            for (name, labels), column in zip(self.variables.items(), drawn.T.tolist(), strict=True)
        }

    def draw(self, evidence: Evidence | None = None, path: str | Path | None = None) -> Any:
        """The network as a picture: a box a variable, with the probabilities of its states.

        Arrows lead to the variable of a conditional from those it is given, small squares stand
        for other factors; what is observed is grey.

        Parameters
        ----------
        evidence
            The observed state of each observed variable.
        path
            Where to write the picture; its ending says how.

        Returns
        -------
        matplotlib.figure.Figure
            The picture.

        """
        marginals = self.marginals(evidence)
        shown = {name: list(own.to_dict().items()) for name, own in marginals.items()}
        names = list(self.variables)
        factors = [
            ([names[v] for v in scope], child)
            for scope, child in zip(self._scopes, self._children, strict=True)
        ]
        return draw_graphical_model(shown, factors, set(evidence or ()), path=path)

    # Names to numbers and back.

    def _add(self, scope: tuple[int, ...], table: ArrayLike, *, child: bool) -> None:
        self._tables.append(self._checked(scope, table))
        self._scopes.append(scope)
        self._children.append(child)
        self.__dict__.pop("potentials", None)

    def _checked(self, scope: tuple[int, ...], table: ArrayLike) -> NDArray[np.float64]:
        names, labels = list(self.variables), list(self.variables.values())
        try:
            values = np.array(table, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise GraphError(f"a table is an array of numbers: {error}.") from error
        shape = tuple(len(labels[v]) for v in scope)
        if values.shape != shape:
            wanted = " x ".join(f"{names[v]} ({len(labels[v])})" for v in scope)
            raise GraphError(f"a table over {wanted} has the shape {shape}, not {values.shape}.")
        if not np.isfinite(values).all() or (values < 0).any():
            wrong = values[~np.isfinite(values) | (values < 0)].flat[0]
            raise GraphError(f"a table has numbers of 0 or more (not logarithms), not {wrong:g}.")
        return values

    def _scope(self, variables: str | Sequence[str]) -> tuple[int, ...]:
        scope = tuple(self._number(name) for name in _several(variables))
        if len(set(scope)) < len(scope):
            raise GraphError(f"a variable is named twice in {', '.join(_several(variables))}.")
        return scope

    def _number(self, name: Any) -> int:
        if name not in self._numbers:
            raise GraphError(f"no variable is called {name!r}{_instead(name, self.variables)}")
        return self._numbers[name]

    def numbered(self, evidence: Evidence | None) -> dict[int, int]:
        """Evidence by the numbers of variables and states, as `mrflearn.graph.condition` takes it.

        Parameters
        ----------
        evidence
            The observed state of each observed variable.

        Returns
        -------
        dict of int to int
            The same.

        """
        if evidence is not None and not hasattr(evidence, "items"):
            raise GraphError("evidence maps variables to states, as in {'wet': 'yes'}.")
        return {
            self._number(name): _state(str(name), self.variables[str(name)], label)
            for name, label in (evidence or {}).items()
        }

    def _given(self, evidence: Evidence | None) -> Potentials:
        return condition(self.potentials, self.numbered(evidence))

    def _named(self, states: Iterable[int]) -> dict[str, str]:
        every = zip(self.variables.items(), states, strict=True)
        return {name: labels[state] for (name, labels), state in every}

    def _joint(
        self, scope: tuple[int, ...], evidence: Evidence | None
    ) -> tuple[NDArray[np.float64], float, str]:
        """The joint probabilities of some variables, log Z and the kind of the answer."""
        given = self._given(evidence)
        sizes = [int(given.graph.states[v]) for v in scope]
        if math.prod(sizes) > LARGEST_JOINT:
            raise InferenceError(
                f"these variables have {math.prod(sizes):,} joint states; {LARGEST_JOINT:,} is the "
                "most. Ask for fewer at a time, or for samples."
            )
        # One more factor that says nothing: its belief is what is asked for.
        table = DenseTable(torch.zeros(1, *sizes, dtype=given.dtype))
        group = FactorGroup("asked for", torch.tensor([scope]))
        asked = type(given.graph)(given.graph.states, (*given.graph.groups, group))
        _, beliefs = answered(Automatic(), Potentials(asked, (*given.tables, table)))
        total = float(beliefs.log_partition.sum())
        return beliefs.factors[-1][0].double().numpy(), total, beliefs.kind


def _several(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _labels(name: str, given: Sequence[Any] | int) -> Labels:
    """The labels of a variable's states."""
    if isinstance(given, str):
        raise GraphError(f"the labels of {name!r} are a list of words, as in ['no', 'yes'].")
    labels = tuple(map(str, range(given) if isinstance(given, int) else given))
    if not labels or len(set(labels)) < len(labels):
        raise GraphError(f"the states of {name!r} need labels, each its own; these are {labels}.")
    return labels


def _state(name: str, labels: Labels, label: Any) -> int:
    """The number of a state by its label."""
    if str(label) not in labels:
        raise GraphError(f"{name!r} has no state {label!r}{_instead(label, labels)}")
    return labels.index(str(label))


def _instead(given: Any, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(str(given), names, n=1)
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"; there are {shown}." + (f" Is {close[0]!r} meant?" if close else "")
