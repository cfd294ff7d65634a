"""Markov random fields of tables of samples.

The rules follow measured trade-offs (docs/start/field-estimators.md): exact likelihood errs least
and is quick on narrow graphs; pseudolikelihood comes within a few percent of it on any graph; so
does LAP, at a cost linear in the cliques, and it learns from rows with values missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mrflearn.errors import DataError, DataWarning, GraphError, SettingsError
from mrflearn.estimators.base import Choice, Parts
from mrflearn.estimators.field_answers import FieldQuestions
from mrflearn.estimators.field_inputs import (
    Rows,
    answer_rows,
    check_observed,
    field_graph,
    molecule_of,
    sample_weights,
    shard_files,
    warn_of_codes,
)
from mrflearn.estimators.field_training import FieldCriterion, FieldTraining
from mrflearn.estimators.structure import FieldStructure
from mrflearn.execution.executor import Executor, Serial, executor_for
from mrflearn.execution.held import Held
from mrflearn.execution.resources import choose_device
from mrflearn.features.observations import (
    CliqueCounts,
    CountShard,
    FirstRows,
    Samples,
    as_table,
    check_states,
)
from mrflearn.graph.builders import BYTES_A_PAIR
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import Auxiliary, degree_limit_error
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.io.files import PathLike
from mrflearn.io.state_codes import StateCodes
from mrflearn.models.storage import texts
from mrflearn.models.tabular import TabularModel
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lap import lap_refuses
from mrflearn.training.outcome import Outcome

# Which estimator suits a field, and why: what `estimator="auto"` does.


QUICK = JunctionTree(memory_limit=64 * 2**20)  # exact inference in about a second
MANY_CLIQUES = 20_000  # from here on training every parameter at once takes minutes


def choose_estimator(
    graph: FactorGraph, *, missing: bool = False, counts_alone: bool = False
) -> Choice[FieldCriterion]:
    """The estimator for a graph, and samples with or without missing values.

    With `counts_alone` the samples themselves are not at hand, which pseudolikelihood needs.
    """
    if missing:
        refusal = None if counts_alone else lap_refuses(graph, missing=True)
        if refusal:
            return Choice(
                "pl", f"some values are missing, and lap is not for this graph: {refusal}"
            )
        return Choice("lap", "some values are missing, and lap learns from such rows")
    if QUICK.refuses(graph) is None:
        return Choice("ml", "the graph is narrow enough for exact likelihood")
    if counts_alone:
        return Choice("lap", "the graph is too wide to be exact; lap needs counts alone")
    cliques = sum(map(len, graph.groups))
    if cliques >= MANY_CLIQUES and not degree_limit_error(graph):
        reason = f"the graph is too wide to be exact; lap is linear in its {cliques:,} cliques"
        return Choice("lap", reason)
    return Choice("pl", "the graph is too wide to be exact; pseudolikelihood comes close to it")


def is_learned(graph: Any) -> bool:
    """Whether the edges of the graph are to be found in the samples."""
    return isinstance(graph, str) and graph.strip() == "learn"


# `MarkovField`: an untied Markov random field learned from samples of all its variables.


@dataclass(kw_only=True, eq=False, repr=False)
class MarkovField(FieldQuestions):
    """A Markov random field with free parameters on every variable, edge and larger clique.

    Parameters
    ----------
    graph
        `"grid:4x4"`, `"torus:4x4"`, `"cube:4x4x4"`, `"chimera:3,3,3"`, `"chain:9"`, `"complete"` or
        `"edges:FILE"`; in Python also a networkx graph whose node order is the column order, pairs
        of columns such as `[(0, 1)]`, or a `FactorGraph` (any cliques).  `"learn"` finds the edges
        first, as `FieldStructure` does; in Python one with other settings can be given.
    states
        States of every variable, counted from 0: one number, or one each.  None takes what each
        column shows: states from 0 to its largest, or, where they are not counted from 0 (items
        coded 1 and 2), its codes, which `sample` returns and `score` expects; in Python see
        `codes_`.
    estimator
        `"auto"` chooses by graph and samples, and says which and why (`choice_`); `"lap"` (each
        clique from its neighbourhood; small degree, any size), `"pl"` (pseudolikelihood, any
        graph), `"ml"` (exact maximum likelihood, small treewidth), `"bp"` (the same with loopy
        belief propagation), `"pcd"` (the same with Markov chains: persistent contrastive
        divergence), `"consensus"` (each variable by itself, then averaged), `"pw"` (each
        clique by itself) or `"pmm"` (pseudo-moment matching, in closed form).  These two and `"bp"`
        are biased, however well they converge: `"pw"` where cliques overlap, the others where the
        graph has loops.
    auxiliary
        The family that LAP assumes for the neighbours of a clique: `"exact"` (the structure of the
        true marginal), `"dense"` (any distribution) or `"pairwise"` (a pairwise field).
    l2
        L2 regularisation strength of every parameter.
    l1
        L1 regularisation strength of couplings: on the norm of each table under LAP, on every
        entry elsewhere.
    max_iterations
        Most iterations of the optimiser.
    tolerance
        Training stops where the gradient is this small.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    n_jobs
        Processes that share the local problems of `"lap"` and `"consensus"`; None is 1, -1 is all
        cores.
    random_state
        Seed of `sample`, and of annealed importance sampling.
    verbose
        Whether to show progress.

    Attributes
    ----------
    graph_
        The factor graph that was learned on.
    model_
        The parameters, as a `TabularModel`.
    choice_
        With `estimator="auto"`: the chosen `estimator`, and the `reason`.
    outcome_
        How training ended; of a loaded field, without its history.
    intervals_
        What `keep_intervals` kept: edges with intervals, as columns of a frame; else None.
    structure_
        With a learned graph: the `FieldStructure` that found its edges.
    spins_
        Whether the samples were spins (-1 and 1).
    codes_
        The codes of columns whose states are not counted from 0.
    n_features_in_
        The number of variables.
    feature_names_in_
        The names of the columns, where the samples had names.

    """

    usual_method = "exact"

    graph: Any = field(default="complete", kw_only=False)
    states: int | Sequence[int] | None = None
    estimator: FieldCriterion | Literal["auto"] = "auto"
    auxiliary: Auxiliary = "exact"
    l2: float = 0.0
    l1: float = 0.0
    max_iterations: int = 1000
    tolerance: float = 1e-7
    device: str = "cpu"
    n_jobs: int | None = None
    random_state: int = 0
    verbose: bool = False

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from rows of states (samples x variables, counted from 0), or of spins (-1 and 1).

        Parameters
        ----------
        X
            The samples.  NaN, or -1 among states, is a missing value, which `"lap"` sums over, and
            for which `"pl"` leaves out the terms of that variable and its neighbours.  One byte
            per state is enough.
        y
            Ignored.
        sample_weight
            One weight per row; distinct rows with their counts are the same as all the rows.
        checkpoint
            A file that training is saved to every minute.
        resume
            Whether to continue from the checkpoint, to the same field as without interruption.

        """
        del y  # scikit-learn passes it to every estimator
        device = choose_device(self.device)
        given = answer_rows(X)
        samples, names, self.spins_, labels = given
        self._name_columns(names)
        self.molecule_ = molecule_of(X)
        check_observed(samples, names)
        weights = sample_weights(sample_weight, len(samples), device)
        self._find_edges(X, sample_weight)
        graph, self.codes_ = self._build(given)
        states = self.codes_.encode(samples, names, labels)
        graph, table = graph.to(device), torch.as_tensor(states)
        training = self._training(graph, missing=bool((table < 0).any()))
        check_states(table, graph.states.cpu(), missing_allowed=True, names=names)
        warn_of_codes(samples, self.codes_, names)
        rows = Samples.of(table, weights, device)
        chosen = training.estimator, self.auxiliary, self.l1, self.l2
        saved = checkpoint and Checkpoint.on(checkpoint, chosen, graph, rows)
        with executor_for(self.n_jobs) as place:
            training = replace(training, mapper=place.map, checkpoint=saved, resume=resume)
            return self._keep(training(graph, rows))

    def keep_intervals(self, found: Any) -> Self:
        """Keeps the intervals of a bootstrap with the field: in its file, its report, its page.

        Parameters
        ----------
        found
            What `mrflearn.evaluation.bootstrap` or `standard_errors` gave.

        """
        self.intervals_: dict[str, Any] | None = {**found.table(), "remark": found.remark}
        return self

    def fit_shards(
        self,
        paths: Iterable[PathLike] | Held[Any],
        executor: Executor | None = None,
        *,
        columns: Sequence[str | int] | None = None,
        missing: bool = False,
    ) -> Self:
        """Learns from files of samples, each counted where the executor runs.

        For `"lap"`, `"ml"`, `"bp"`, `"pcd"` and `"pw"`, which need counts alone.  Set `states`
        where the first file may not show them all.

        Parameters
        ----------
        paths
            The files.  Where columns are named, the first file decides their order.  Or files and
            tables (`SampleTable`, or arrays) that an executor holds.
        executor
            Where they are counted: `mrflearn.execution.Serial` (default), `Processes` or
            `mrflearn.spark.Spark`.
        columns
            The columns to use, by name or number.
        missing
            Whether values may be missing.

        """
        held = paths.then(as_table) if isinstance(paths, Held) else None
        files = [] if held is not None else shard_files(paths)
        if is_learned(self.graph) or isinstance(self.graph, FieldStructure):
            raise SettingsError("edges are learned from one table, by fit; name the graph here.")
        # The first rows of the first file show the columns and, mostly, the states.
        look = FirstRows(columns)
        first = look(files[0]) if held is None else held.first(look)
        if first is None:
            raise DataError("there are no samples to learn from.")
        read = answer_rows(first)
        graph, self.codes_ = self._build(read, uniform=True)
        training = self._training(graph, missing=missing, counts_alone=True)
        count = CountShard((), graph.states, missing, columns, self.codes_, first.names)
        warn_of_codes(first.values, self.codes_, first.names)
        states = self.codes_.encode(first.values, first.names, first.labels)
        some = Samples.of(states) if len(first) else None
        self._name_columns(first.names)
        self.spins_ = first.spins
        training.check_shards(count)  # before a cluster starts
        place = Serial() if executor is None else executor
        with place.hold(files) if held is None else nullcontext(held) as rows:
            return self._keep(training.from_shards(graph, count, rows, some))

    def fit_counts(
        self, counts: Sequence[ArrayLike], variances: Sequence[ArrayLike] | None = None
    ) -> Self:
        """Learns from clique histograms, all that `"ml"`, `"bp"`, `"pcd"` and `"pw"` need.

        Parameters
        ----------
        counts
            For each factor group of the graph, in its order: how often each factor's variables
            were seen in each joint state (factors x states x states ...).
        variances
            Of `"ml"` and `"bp"`: the variance of the noise of each count, as that of counts made
            private; one number or array for each group.  Such counts may be negative and contradict
            each other: the field found is the most probable one of so many rows, whose own counts
            are close to those given.

        """
        device = choose_device(self.device)
        arrays = [np.asarray(own, dtype=np.float64) for own in counts]
        tables = tuple(torch.as_tensor(own, device=device) for own in arrays)
        graph = field_graph(self.graph, self.states or 2, None).to(device)
        self.spins_, self.codes_ = False, None
        training = self._training(graph, counts_alone=True)
        shapes = [(len(g), *(graph.shape(g) if len(g) else ())) for g in graph.groups]
        seen = [tuple(table.shape) for table in tables]
        if seen != shapes:
            raise GraphError(f"the histograms have the shapes {seen}; this graph needs {shapes}.")
        weight = tables[0][0].sum().reshape(1)
        if variances is None:
            return self._keep(training.from_counts(graph, CliqueCounts(tables, weight)))
        if len(variances) != len(tables):
            raise GraphError(f"{len(variances)} variances, for {len(tables)} groups of counts.")
        noise = [
            torch.as_tensor(np.broadcast_to(np.asarray(own, dtype=np.float64), a.shape).copy())
            for own, a in zip(variances, arrays, strict=True)
        ]
        noise = [own.to(device) for own in noise]
        return self._keep(training.from_noisy_counts(graph, CliqueCounts(tables, weight), noise))

    @property
    def graph_(self) -> FactorGraph:
        """The factor graph that was learned on."""
        graph: FactorGraph = self.model_.graph
        return graph

    @property
    def potentials_(self) -> Potentials:
        """The learned field, in the reference gauge (tables vanish at state 0).

        `couplings_`, `fields_` and `log_partition` are in the zero-sum gauge (spins) instead.
        """
        potentials: Potentials = self.model_.potentials()
        return potentials

    def _learned_parts(self) -> Parts:
        model, codes = self.model_, self.codes_
        learned = {
            "groups": [group.name for group in model.graph.groups],
            "names": list(getattr(self, "feature_names_in_", [])) or None,
            "spins": self.spins_,
            "codes": None if codes is None else codes.codes,
            "molecule": self.molecule_,
            "intervals": self.intervals_,
            **self._training_parts(),
        }
        return learned, model.tensors()

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model_ = TabularModel.from_tensors(list(texts(learned, "groups")), tensors)
        graph = self.model_.graph
        if self.graph is None:  # it was a factor graph, which the tensors hold
            self.graph = graph
        self.n_features_in_ = graph.variables
        self._name_columns(None if learned["names"] is None else texts(learned, "names"))
        self.spins_, self.molecule_ = bool(learned["spins"]), molecule_of(learned)
        self.intervals_ = learned["intervals"]
        codes, self.codes_ = learned["codes"], None
        if codes is not None:
            sizes = tuple(graph.states.tolist())
            own = tuple(None if column is None else tuple(column) for column in codes)
            self.codes_ = StateCodes(own, sizes)
        self._restore_training(self.model_, learned, get_args(FieldCriterion))

    def _stored_settings(self) -> dict[str, Any]:
        graph: Any = None  # a factor graph is among the tensors
        if isinstance(self.graph, str) and not is_learned(self.graph):
            graph = self.graph
        elif not isinstance(self.graph, FactorGraph):  # of networkx, or pairs of columns
            graph = self.edges_.tolist() or None
        states = self.states
        if isinstance(states, Sequence | np.ndarray):
            states = [int(size) for size in states]
        return {**super()._stored_settings(), "graph": graph, "states": states}

    def _find_edges(self, X: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Sets `structure_` where the edges are to be learned."""
        self.__dict__.pop("structure_", None)
        if isinstance(self.graph, FieldStructure) or is_learned(self.graph):
            chosen = self.graph
            if not isinstance(chosen, FieldStructure):
                chosen = FieldStructure(device=self.device, random_state=self.random_state)
            found: FieldStructure = FieldStructure(**chosen.get_params(deep=False))
            with warnings.catch_warnings():  # of codes, which training says too
                warnings.filterwarnings("ignore", "column", DataWarning)
                self.structure_ = found.fit(X, sample_weight=sample_weight)

    def _training(
        self, graph: FactorGraph, *, missing: bool = False, counts_alone: bool = False
    ) -> FieldTraining:
        choice, estimator = None, self.estimator
        if estimator == "auto":
            choice = choose_estimator(graph, missing=missing, counts_alone=counts_alone)
            estimator = choice.estimator
        self._keep_choice(choice)
        return FieldTraining(self, estimator, counts_alone=counts_alone)

    def _build(self, rows: Rows, *, uniform: bool = False) -> tuple[FactorGraph, StateCodes]:
        """The graph, and the codes of its states.

        With `uniform`, columns that count from 0 have as many states as the largest of all needs:
        of these rows there are more elsewhere.
        """
        table, labels = rows.values, rows.labels
        shown = StateCodes.seen(table, labels)
        sizes = shown.sizes
        if uniform:
            pairs = list(zip(shown.codes, sizes, strict=True))
            largest = max((size for own, size in pairs if own is None), default=2)
            sizes = tuple(largest if own is None else size for own, size in pairs)
        self._foresee_complete(self.states or sizes, table.shape[1])
        wanted = self.structure_.edges_ if hasattr(self, "structure_") else self.graph
        graph = field_graph(wanted, self.states or sizes, table.shape[1])
        counts = tuple(graph.states.tolist())
        if self.states is not None or len(counts) != table.shape[1]:
            own = labels if len(counts) == table.shape[1] else None
            return graph, StateCodes((None,) * len(counts), counts).named(own)
        if counts == sizes:
            return graph, StateCodes(shown.codes, sizes)
        return graph, StateCodes.fitting(table, counts, labels)

    def _foresee_complete(self, states: int | Sequence[int], columns: int) -> None:
        """Refuses a complete graph that cannot be trained before it is built."""
        if not isinstance(self.graph, str) or self.graph.strip() != "complete":
            return
        free = np.array([states] * columns if isinstance(states, int) else states, dtype=object) - 1
        parameters = int((free.sum() ** 2 - (free**2).sum()) // 2 + free.sum())
        pairs = columns * (columns - 1) // 2
        chosen: FieldCriterion = "pl" if self.estimator == "auto" else self.estimator
        training, device = FieldTraining(self, chosen), choose_device(self.device)
        training.check_memory(parameters, device, BYTES_A_PAIR * pairs)

    def _keep(self, outcome: Outcome[TabularModel]) -> Self:
        self.outcome_, self.intervals_ = outcome, None
        self.model_ = outcome.model
        self.n_features_in_ = outcome.model.graph.variables
        return self
