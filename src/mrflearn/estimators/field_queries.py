"""Questions to a fitted field about some of its variables, given others.

Answers are exact where the width of the graph that is left allows, else by loopy belief propagation
(`mrflearn.inference.Automatic`); each says which.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.graph.evidence import condition, touching
from mrflearn.graph.potentials import Potentials, batch
from mrflearn.inference.automatic import Automatic
from mrflearn.io.alignments import ALPHABETS, Molecule
from mrflearn.io.answers import Label, translated
from mrflearn.io.state_codes import StateCodes

Evidence = Mapping[Any, Any]
LISTED = 4096  # joint states of what is missing in a row, below which all are gone through
SCORED = 1 << 22  # cells of rows that are scored at once; bounds memory, changes no result
TOGETHER = 64  # rows whose fields are answered in one graph


class FieldMarginals(NamedTuple):
    """Probabilities of every variable's states by names and labels, and what they are worth.

    `log_evidence` is the log-probability of the evidence, in nats; `kind` is `"exact"` or
    `"approximation"`, and of the latter `converged` says whether its messages came to an end.
    """

    probabilities: dict[str, dict[Label, float]]
    log_evidence: float
    kind: str
    converged: bool


class FieldMode(NamedTuple):
    """The most probable state of every variable by names, and what that is worth.

    `log_ratio` is its log-probability but for log Z: differences of two such are what matters.
    """

    states: dict[str, Label]
    log_ratio: float
    kind: str


class FieldQueries(ABC):
    """Marginals, most probable states and missing values of a fitted field."""

    spins_: bool
    codes_: StateCodes | None
    molecule_: Molecule | None
    model_: Any  # its class says which

    @property
    @abstractmethod
    def potentials_(self) -> Potentials:
        """The learned field."""

    @property
    @abstractmethod
    def variable_names_(self) -> list[str]:
        """The names of the columns learned from."""

    @abstractmethod
    def encode(self, X: ArrayLike, *, complete: bool = False) -> NDArray[np.int64]:
        """The states of rows, counted from 0."""

    @abstractmethod
    def decode(self, states: NDArray[np.int64]) -> NDArray[Any]:
        """Rows as those learned from."""

    @property
    def labels_(self) -> list[tuple[Label, ...]]:
        """What the states of each variable stand for: words, codes, spins, letters or numbers."""
        sizes = self.potentials_.graph.states.tolist()
        if self.spins_:
            return [(-1, 1)] * len(sizes)
        if self.molecule_ is not None and max(sizes) <= len(ALPHABETS[self.molecule_]):
            return [tuple(ALPHABETS[self.molecule_][:size]) for size in sizes]
        codes = [None] * len(sizes) if self.codes_ is None else self.codes_.codes
        pairs = zip(codes, sizes, strict=True)
        return [tuple(range(size)) if own is None else own for own, size in pairs]

    def marginals(self, evidence: Evidence | None = None) -> FieldMarginals:
        """The probability of every state of every variable, given the states of some.

        Parameters
        ----------
        evidence
            States by the names (or numbers) of their columns, as the table has them:
            `{"sleep": "yes"}`.

        Returns
        -------
        FieldMarginals
            `probabilities[name][label]`, `log_evidence`, `kind` and `converged`.

        """
        potentials, seen = self.potentials_, self._evidence(evidence)
        found = Automatic()(condition(potentials, seen))
        log_evidence, kind, converged = 0.0, found.kind, found.converged
        if seen:
            whole = Automatic()(potentials)
            log_evidence = float(found.log_partition.sum() - whole.log_partition.sum())
            kind = kind if whole.kind == "exact" else whole.kind
            converged &= whole.converged
        rows = zip(self.variable_names_, self.labels_, found.variables.tolist(), strict=True)
        probabilities = {name: dict(zip(labels, own, strict=False)) for name, labels, own in rows}
        return FieldMarginals(probabilities, log_evidence, kind, converged)

    def most_probable(self, evidence: Evidence | None = None) -> FieldMode:
        """The most probable joint state of all variables, given the states of some.

        Parameters
        ----------
        evidence
            States by the names (or numbers) of their columns.

        Returns
        -------
        FieldMode
            `states[name]`, `log_ratio` and `kind`.

        """
        found = Automatic().best(condition(self.potentials_, self._evidence(evidence)))
        rows = zip(self.variable_names_, self.labels_, found.assignment.tolist(), strict=True)
        states = {name: labels[state] for name, labels, state in rows}
        return FieldMode(states, float(found.score.sum()), found.kind)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each state of each entry, given all that its row has.

        Parameters
        ----------
        X
            Rows as those learned from; missing entries are predicted.

        Returns
        -------
        ndarray of float
            Rows x variables x states, in the order of `labels_`; 0 beyond a variable's own states.
            An entry that was observed has the probability 1 where it is.

        """
        return self._completed(self.encode(X))[0]

    def impute(self, X: Any, method: Literal["marginal", "joint"] = "marginal") -> Any:
        """The rows with their missing entries filled in.

        Parameters
        ----------
        X
            Rows as those learned from.
        method
            `"marginal"` takes the most probable state of each entry, which is right most often;
            `"joint"` the most probable states of all that a row lacks, together.

        Returns
        -------
        ndarray or DataFrame
            A frame of pandas where X is one; else rows as those learned from.

        """
        if method not in ("marginal", "joint"):
            raise SettingsError(f"method {method!r} is not one of 'marginal', 'joint'.")
        encoded = self.encode(X)
        if method == "marginal":
            found = self._completed(encoded)[0].argmax(axis=-1)
        else:
            found = self._completed(encoded, joint=True)[1]
        states = np.where(encoded < 0, found, encoded)
        rows = self.decode(states)
        if not hasattr(X, "iloc"):
            return rows
        frame: Any = X.copy()
        names = {name: place for place, name in enumerate(self.variable_names_)}
        for place, name in enumerate(map(str, frame.columns)):
            column = names.get(name, place)
            gaps = encoded[:, column] < 0
            if gaps.any():
                filled = frame.iloc[:, place].astype(object).to_numpy(copy=True)
                filled[gaps] = rows[gaps, column]
                whole = type(frame)({"filled": filled}, index=frame.index)["filled"]
                frame[frame.columns[place]] = whole.infer_objects()
        return frame

    def at_temperature(self, temperature: float) -> Self:
        """The field at another temperature: all its fields and couplings divided by it.

        Parameters
        ----------
        temperature
            1 is the temperature of the samples; above, variables are less coupled.

        Returns
        -------
        MarkovField or PottsField
            A field that answers, samples and has a log Z as this one does.

        Examples
        --------
        >>> from mrflearn import MarkovField
        >>> field = MarkovField("chain:2").fit([[-1, -1], [1, 1], [1, 1], [-1, 1], [1, -1]])
        >>> warmer = field.at_temperature(2)
        >>> bool(abs(warmer.couplings_[0] - field.couplings_[0] / 2) < 1e-12)
        True

        """
        if not (math.isfinite(temperature) and temperature > 0):
            raise SettingsError(f"a temperature must be a finite number > 0; got {temperature}.")
        own = copy.copy(self)
        parameters = self.model_.parameters()
        cooler = {name: value / temperature for name, value in parameters.items()}
        own.model_ = self.model_.with_parameters(cooler)
        own.__dict__.pop("outcome_", None)  # no training led there
        return own

    def _evidence(self, evidence: Evidence | None) -> dict[int, int]:
        """Variables and states by their numbers."""
        if evidence is not None and not hasattr(evidence, "items"):
            raise DataError("evidence maps names of columns to their states, as in {'sleep': 1}.")
        names, labels = self.variable_names_, self.labels_
        places = {name: place for place, name in enumerate(names)}
        seen = {}
        for given, answer in (evidence or {}).items():
            place = places.get(str(given))
            if place is None:
                shown = ", ".join(names[:20])
                raise DataError(f"there is no column {given!r}; there are {shown}.")
            value = answer.item() if isinstance(answer, np.generic) else answer
            state = int(translated(np.zeros(1, dtype=np.int64), [value], labels[place])[0])
            if state < 0:
                listed = ", ".join(map(str, labels[place]))
                raise DataError(
                    f"{value!r} is not a state of column {names[place]!r}, which has {listed}."
                )
            seen[place] = state
        return seen

    def _completed(
        self, encoded: NDArray[np.int64], *, joint: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Probabilities of the states of all entries, and the best joint state of each row."""
        potentials = self.potentials_
        graph = potentials.graph
        rows = torch.as_tensor(encoded, device=graph.device)
        chances = torch.zeros(*rows.shape, graph.most_states, dtype=torch.float64)
        best = rows.clone()
        for missing, members in _patterns(rows):
            sizes = graph.states[missing].tolist()
            if not sizes:
                continue
            if math.prod(sizes) <= LISTED:
                found, mode = _listed(potentials, rows[members], missing, sizes)
            else:
                found, mode = _inferred(potentials, rows[members], missing, joint=joint)
            places = members.unsqueeze(1), missing.unsqueeze(0)
            chances[places] = found.to(chances).cpu()
            best[places] = mode
        seen = (rows >= 0).cpu()
        chances[seen] = torch.nn.functional.one_hot(rows.cpu()[seen], graph.most_states).to(chances)
        return chances.numpy(), np.asarray(best.cpu())


def _patterns(rows: Int[Tensor, "n v"]) -> Iterator[tuple[Tensor, Tensor]]:
    """Which variables are missing together, and the rows in which they are."""
    patterns, inverse = (rows < 0).unique(dim=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield pattern.nonzero().squeeze(1), (inverse == number).nonzero().squeeze(1)


def _listed(
    potentials: Potentials, rows: Int[Tensor, "n v"], missing: Int[Tensor, " m"], sizes: list[int]
) -> tuple[Float[Tensor, "n m s"], Int[Tensor, "n m"]]:
    """By going through all joint states of what is missing."""
    own = touching(potentials, missing)
    axes = [torch.arange(size, device=rows.device) for size in sizes]
    joint = torch.cartesian_prod(*axes).reshape(-1, len(sizes))
    one_hot = torch.nn.functional.one_hot(joint, own.graph.most_states).double()
    chances, modes = [], []
    for part in rows.split(max(1, SCORED // (len(joint) * rows.shape[1]))):
        whole = part.unsqueeze(1).repeat(1, len(joint), 1)
        whole[:, :, missing] = joint
        masses = own.score(whole).sum(dim=-1).double().softmax(dim=-1)
        chances.append(torch.einsum("nx,xms->nms", masses, one_hot))
        modes.append(joint[masses.argmax(dim=-1)])
    return torch.cat(chances), torch.cat(modes)


def _inferred(
    potentials: Potentials, rows: Int[Tensor, "n v"], missing: Int[Tensor, " m"], *, joint: bool
) -> tuple[Float[Tensor, "n m s"], Int[Tensor, "n m"]]:
    """By inference in the field that is left, that of many rows in one graph."""
    variables, answering = potentials.graph.variables, Automatic()
    chances, modes = [], []
    for part in rows.split(TOGETHER):
        seen = ({v: s for v, s in enumerate(row) if s >= 0} for row in part.tolist())
        fields = batch([condition(potentials, own) for own in seen])
        if joint:
            found = answering.best(fields).assignment.view(len(part), variables)[:, missing]
            modes.append(found)
            states = potentials.graph.most_states
            chances.append(torch.nn.functional.one_hot(found, states).double())
        else:
            beliefs = answering(fields).variables.view(len(part), variables, -1)[:, missing]
            chances.append(beliefs.double())
            modes.append(beliefs.argmax(dim=-1))
    return torch.cat(chances), torch.cat(modes)
