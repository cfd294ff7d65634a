"""What a fitted field answers: likelihoods, samples, strongest couplings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import networkx as nx
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator
from mrflearn.estimators.field_inputs import TakesTables, answer_rows
from mrflearn.estimators.field_output import row_writer
from mrflearn.estimators.field_queries import FieldQueries
from mrflearn.features.observations import check_states
from mrflearn.graph.gauges import zero_sum_gauge
from mrflearn.graph.networks import to_uai
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.sampling import Drawing
from mrflearn.io.alignments import Molecule
from mrflearn.io.answers import MISSING
from mrflearn.io.files import PathLike
from mrflearn.io.samples import column_order
from mrflearn.io.state_codes import StateCodes
from mrflearn.io.uai import write_network
from mrflearn.objectives.pseudolikelihood import log_conditionals

Method = Literal["exact", "ais", "pl"]
PartitionMethod = Literal["auto", "exact", "ais"]


class FieldSamples(NamedTuple):
    """Rows as those a field was learned from (states, codes or spins), and how they were made."""

    samples: NDArray[Any]
    method: str


class LogPartition(NamedTuple):
    """log Z in nats, whether that is exact, and its standard error (0 where it is)."""

    value: float
    kind: Literal["exact", "approximation"]
    standard_error: float = 0.0

    def __float__(self) -> float:
        return self.value


def _log_partition(potentials: Potentials, method: PartitionMethod, seed: int) -> LogPartition:
    """log Z of all components together, by junction tree or annealed importance sampling."""
    exact = JunctionTree()
    if method == "auto":
        method = "exact" if exact.refuses(potentials.graph) is None else "ais"
    if method == "exact":
        return LogPartition(float(exact(potentials).log_partition.sum()), "exact")
    if method != "ais":
        raise SettingsError(f"method {method!r} is not one of 'auto', 'exact', 'ais'.")
    generator = torch.Generator(device=potentials.graph.device).manual_seed(seed)
    found = AnnealedImportance().estimate(potentials, generator)
    error = float(found.standard_error.square().sum().sqrt())
    return LogPartition(float(found.log_partition.sum()), "approximation", error)


def _array(values: Tensor) -> NDArray[np.float64]:
    return np.asarray(values.detach().cpu(), dtype=np.float64)


class FieldQuestions(FieldQueries, TakesTables, Estimator):
    """The questions that `MarkovField` and `PottsField` share."""

    usual_method: ClassVar[Method]  # of `log_likelihood`
    random_state: int
    spins_: bool = False  # learned from spins: -1 and 1 stand for the states 0 and 1
    codes_: StateCodes | None = None  # of columns whose states are not counted from 0
    molecule_: Molecule | None = None  # of an alignment, whose letters its states number

    def _name_columns(self, names: Sequence[str] | None) -> None:
        """Keeps the names of the columns, where there are any, as scikit-learn does."""
        if names is not None:
            self.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        else:
            self.__dict__.pop("feature_names_in_", None)

    def log_likelihood(self, X: ArrayLike, method: Method | None = None) -> NDArray[np.float64]:
        """The log-probability of each row, in nats.

        Parameters
        ----------
        X
            Rows as those learned from, without missing values.
        method
            `"exact"` by junction tree; `"ais"` with log Z estimated by annealed importance
            sampling; `"pl"` the sum of the log-probabilities of each variable given all the others;
            None is the `usual_method`.

        Returns
        -------
        ndarray of float
            One value per row.

        """
        chosen = self.usual_method if method is None else method
        potentials = self.potentials_
        rows = torch.as_tensor(self.encode(X, complete=True), device=potentials.graph.device)
        if chosen == "pl":
            return _array(log_conditionals(potentials, rows).sum(dim=-1))
        if chosen not in ("exact", "ais"):
            raise SettingsError(f"method {chosen!r} is not one of 'exact', 'ais', 'pl'.")
        total = _log_partition(potentials, chosen, self.random_state).value
        return _array(potentials.score(rows).sum(-1)) - total

    def log_partition(self, method: PartitionMethod = "auto") -> LogPartition:
        """log Z in the gauge in which `fields_` and `couplings_` are shown, and its kind.

        For two states this is the spin form: Z is the sum over all s in {-1, 1}^n of
        exp(sum_i h_i s_i + sum_ij J_ij s_i s_j).  `potentials_`, `export` and `mrflearn infer` have
        another constant: their log Z is smaller by `gauge_constant_`.

        Parameters
        ----------
        method
            `"exact"` by junction tree, `"ais"` by annealed importance sampling; `"auto"` is exact
            where the width of the graph allows.

        Returns
        -------
        LogPartition
            `value` in nats, `kind` (`"exact"` or `"approximation"`) and `standard_error`.

        """
        return _log_partition(zero_sum_gauge(self.potentials_), method, self.random_state)

    @property
    def gauge_constant_(self) -> float:
        """log Z as `log_partition` counts it, minus log Z of `potentials_`; in nats."""
        # The two gauges differ by one number for every assignment.
        potentials = self.potentials_
        row = potentials.graph.states.new_zeros(1, potentials.graph.variables)
        return float((zero_sum_gauge(potentials).score(row) - potentials.score(row)).sum())

    @property
    def fields_(self) -> NDArray[np.float64]:
        """Zero-sum scores of each variable's states; for two states the spin field h.

        Where numbers of states differ: an array of objects, one table per variable.
        """
        return self._zero_sum_tables(1)

    @property
    def couplings_(self) -> NDArray[np.float64]:
        """Zero-sum scores of each edge's states; for two states the spin coupling J.

        Where numbers of states differ: an array of objects, one table per edge.
        """
        return self._zero_sum_tables(2)

    @property
    def edges_(self) -> NDArray[np.int64]:
        """The two variables of each edge, in the order of `couplings_`."""
        groups = self.potentials_.graph.groups
        scopes = [group.scope.cpu().numpy() for group in groups if group.arity == 2]
        return np.concatenate([np.zeros((0, 2), dtype=np.int64), *scopes])

    @property
    def strengths_(self) -> NDArray[np.float64]:
        """One number per edge: the spin coupling, or with more states the norm of its table."""
        parts = [
            table[:, 1, 1] if table.shape[1:] == (2, 2) else np.linalg.norm(table, axis=(1, 2))
            for table in self._gauged(2)
        ]
        return np.concatenate([np.zeros(0), *parts])

    @property
    def signed_(self) -> NDArray[np.bool_]:
        """Which of `strengths_` are couplings with a sign: those of two variables of two states."""
        parts = [np.full(len(table), table.shape[1:] == (2, 2)) for table in self._gauged(2)]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    @property
    def strength_matrix_(self) -> NDArray[np.float64]:
        """`strengths_` as a symmetric matrix of all variables; 0 where there is no edge."""
        size = self.potentials_.graph.variables
        matrix = np.zeros((size, size))
        first, second = self.edges_.T
        matrix[first, second] = matrix[second, first] = self.strengths_
        return matrix

    def _gauged(self, arity: int) -> list[NDArray[np.float64]]:
        """Zero-sum scores of all factors of that arity, an array for each group that has any."""
        gauged = zero_sum_gauge(self.potentials_)
        groups = enumerate(gauged.graph.groups)
        return [
            _array(gauged.factor_scores(i)) for i, own in groups if own.arity == arity and len(own)
        ]

    def _zero_sum_tables(self, arity: int) -> NDArray[np.float64]:
        """The same in one array; one number each where there are two states.

        Tables of unequal shapes come as an array of objects.
        """
        tables = self._gauged(arity)
        if not tables:
            return np.zeros(0)
        if len({table.shape[1:] for table in tables}) > 1:
            entries = [table for group in tables for table in group]
            if arity == 1:  # in the order of the variables, not of their numbers of states
                singles = [
                    own.scope[:, 0] for own in self.potentials_.graph.groups if own.arity == 1
                ]
                entries = [entries[k] for k in torch.cat(singles).argsort(stable=True).tolist()]
            listed = np.empty(len(entries), dtype=object)
            listed[:] = entries
            return listed
        stacked = np.concatenate(tables)
        if stacked.shape[1:] != (2,) * arity:
            return stacked
        return stacked.reshape(len(stacked), -1)[:, -1]  # state 1 of every variable

    @property
    def variable_names_(self) -> list[str]:
        """The names of the columns learned from, or their numbers from `counted_from_`."""
        numbers = range(self.counted_from_, self.counted_from_ + self.potentials_.graph.variables)
        return [str(name) for name in getattr(self, "feature_names_in_", numbers)]

    @property
    def counted_from_(self) -> int:
        """The number of the first column where columns have none: 1 in an alignment, else 0."""
        return int(self.molecule_ is not None)

    def strongest(self, n: int) -> NDArray[np.int64]:
        """The positions in `edges_` of the couplings of largest magnitude.

        Parameters
        ----------
        n
            How many.

        Returns
        -------
        ndarray of int
            Positions, strongest first.

        """
        order: NDArray[np.int64] = (-np.abs(self.strengths_)).argsort(kind="stable")
        return order[:n]

    def edge_table(self) -> dict[str, list[Any]]:
        """All edges by the names of their variables, strongest first: `pd.DataFrame` takes them.

        Returns
        -------
        dict of lists
            `variable` and `and`, the names; `strength`, as in `strengths_`.

        """
        order, names = self.strongest(len(self.edges_)), np.array(self.variable_names_)
        first, second = names[self.edges_[order].T].tolist()
        return {"variable": first, "and": second, "strength": self.strengths_[order].tolist()}

    def to_networkx(self) -> nx.Graph:
        """The field's edges as a graph of networkx, whose nodes are the names of the variables.

        Returns
        -------
        networkx.Graph
            Each edge has a `strength`, as in `strengths_`, and its magnitude as `weight`.

        """
        names, graph = self.variable_names_, nx.Graph()
        graph.add_nodes_from(names)
        for (one, two), strength in zip(
            self.edges_.tolist(), self.strengths_.tolist(), strict=True
        ):
            graph.add_edge(names[one], names[two], strength=strength, weight=abs(strength))
        return graph

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """`log_likelihood` of each row by its usual method, in nats.

        Parameters
        ----------
        X
            Rows as those learned from, without missing values.

        Returns
        -------
        ndarray of float
            One value per row.

        """
        return self.log_likelihood(X)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean of `score_samples`, in nats per row.

        Parameters
        ----------
        X
            Rows as those learned from, without missing values.
        y
            Ignored.

        Returns
        -------
        float
            Nats per row.

        """
        del y  # scikit-learn passes it to every estimator
        return float(self.score_samples(X).mean())

    def sample(self, n: int = 1, *, random_state: int | None = None) -> NDArray[Any]:
        """New rows: exact samples where the treewidth allows, else by Gibbs sampling.

        Parameters
        ----------
        n
            How many.
        random_state
            The seed; None is that of the estimator.

        Returns
        -------
        ndarray
            Rows as those learned from: spins where these were spins, words where they were words,
            and a column's own codes where its states are not counted from 0.

        """
        return self.draw(n, random_state=random_state).samples

    def draw(self, n: int = 1, *, random_state: int | None = None) -> FieldSamples:
        """`sample`, together with how the rows were made.

        Parameters
        ----------
        n
            How many.
        random_state
            The seed; None is that of the estimator.

        Returns
        -------
        FieldSamples
            `samples`, and the `method` in words.

        """
        seed = self.random_state if random_state is None else random_state
        drawn = Drawing()(self.potentials_, n, seed=seed)
        return FieldSamples(self.decode(np.asarray(drawn.samples.cpu())), drawn.method)

    def write_rows(self, rows: NDArray[Any], path: PathLike) -> None:
        """Writes rows to a file, with the names of their columns, or as sequences of a family.

        Parameters
        ----------
        rows
            Rows as `sample` and `impute` give them.
        path
            A name in .csv, .npy, .dat, .digits or .txt; of an alignment's field .fasta, .a3m,
            .sto or .aln too.

        """
        row_writer(self, path)(rows)

    def decode(self, states: NDArray[np.int64]) -> NDArray[Any]:
        """Rows as those learned from: states, codes or spins.

        Parameters
        ----------
        states
            Rows of states, counted from 0.

        Returns
        -------
        ndarray
            What `encode` made these states of: numbers, truth values, or objects.

        """
        if self.spins_:
            return 2 * states - 1
        return states if self.codes_ is None else self.codes_.decode(states)

    def encode(self, X: ArrayLike, *, complete: bool = False) -> NDArray[np.int64]:
        """The states of rows, counted from 0.

        Parameters
        ----------
        X
            Rows as those learned from: states, codes or spins.  Named columns are put in the order
            learned from; other names than those are refused.
        complete
            Whether missing values are refused.

        Returns
        -------
        ndarray of int
            States; -1 is a missing value.

        """
        columns, codes = self.n_features_in_, self.codes_
        given = answer_rows(X, () if codes is None else codes.spin_columns)
        if given.spins and not self.spins_:  # -1 is missing, then
            unsure = np.where(given.values == 0, MISSING, given.values.astype(np.int64))
            given = given._replace(values=unsure)
        names = getattr(self, "feature_names_in_", None)
        given = given.reordered(column_order(names, given.names))
        rows = given.values.astype(np.int64, copy=False)
        if rows.shape[1] != columns:
            raise DataError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{columns} features as input. Is the table transposed?"
            )
        if codes is None:
            codes = StateCodes(
                (None,) * rows.shape[1], tuple(self.potentials_.graph.states.tolist())
            )
        states: Any = codes.encode(rows, names, given.labels)
        sizes = self.potentials_.graph.states.cpu()
        check_states(torch.as_tensor(states), sizes, missing_allowed=not complete, names=names)
        return np.asarray(states)

    def export(self, path: PathLike) -> None:
        """Writes the field as a network in UAI format, which other inference programs read.

        It has the tables of `potentials_`, so its log Z is less than `log_partition` by
        `gauge_constant_`; states are numbered from 0, in the order of their codes.

        Parameters
        ----------
        path
            The file to write: a name in .uai, or .uai.gz.

        """
        if not str(path).removesuffix(".gz").endswith(".uai"):
            raise SettingsError(f"{path}: a field is exported to a name in .uai.")
        write_network(path, to_uai(self.potentials_))
