"""Every way to learn a field: graph and samples (or counts, or files) in, outcome out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import (
    DataError,
    GraphError,
    SettingsError,
    TrainingError,
    TrainingWarning,
    warn_user,
)
from mrflearn.execution.held import Held
from mrflearn.execution.resources import require_memory
from mrflearn.features.observations import CliqueCounts, CountShard, Samples, clique_counts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import reference_gauge
from mrflearn.graph.neighbourhood import (
    Auxiliary,
    Neighbourhoods,
    blankets,
    degree_limit_error,
    lone_cliques,
    neighbourhoods,
)
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.io.files import PathLike
from mrflearn.io.samples import SampleTable
from mrflearn.io.state_codes import column_name
from mrflearn.models.tabular import (
    FullTables,
    ParameterLayout,
    TabularModel,
    feature_covariance,
    parameter_count,
)
from mrflearn.objectives.base import Autograd, Objective
from mrflearn.objectives.independent import independent_coordinates, independent_field
from mrflearn.objectives.likelihood import Likelihood
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood, LocalTables
from mrflearn.objectives.problem import Cholesky, Penalty, Scaling
from mrflearn.objectives.pseudolikelihood import (
    BlanketPseudolikelihood,
    Blankets,
    Pseudolikelihood,
    coded_samples,
    dense_pseudolikelihood,
    has_most_pairs,
    is_dense,
    one_hot_pseudolikelihood,
)
from mrflearn.training import boltzmann, lap
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.incomplete import Completions, Fit, learn_incomplete
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.newton import LocalNewton, LocalSolution
from mrflearn.training.outcome import Outcome
from mrflearn.training.owlqn import OWLQN

if TYPE_CHECKING:
    from mrflearn.estimators.field import MarkovField

FieldCriterion = Literal["lap", "pl", "ml", "bp", "pcd", "pw", "pmm", "consensus"]
Fitted = Outcome[TabularModel]
COUNTS_ALONE = ("ml", "bp", "pcd", "pw", "pmm")  # need but how often each clique was in each state
_Seen = tuple[Samples, BlanketPseudolikelihood | None]  # complete rows, and counts of blankets
# Rows of samples handled at once by pseudolikelihood; bounds memory, changes no result.
CHUNK = 16_384
CODED = 4096  # the same for dense graphs: such a block of scores stays in cache
MOST_PARAMETERS = 1000  # of a search in coordinates of their covariance, a square table
RIDGE, RIDGE_OF_CHAINS = 0.1, 1.0  # the least curvature that a parameter's unit is chosen by
# Loopy messages on strongly coupled fields circle without damping.  Those that converge do so
# within a few dozen sweeps of the last evaluation's; others need not take long to be refused.
LOOPY = BeliefPropagation(damping=0.3, max_sweeps=200)
UNBOUNDED = 20.0  # nats; no data can support such a parameter, so it was on its way to infinity
NAMED = 3  # states that a warning lists
REMEDY = "Give a penalty (l2=0.1), more samples, or fewer edges."
# Where values are missing the field is fitted in many rounds, each from where the last one ended.
# What would take long need not be finished in each of them.
ITERATIONS_A_ROUND, OF_BP = 50, 10
TOLERANCE_A_ROUND = 3e-5  # some thousandths of a standard error
OF_DRAWS = 1e-3  # where completions are drawn, which alone moves the field by more


@dataclass(frozen=True)
class FieldTraining:
    """One training of a field: its settings, its estimator, where it runs and is saved."""

    settings: MarkovField
    estimator: FieldCriterion
    mapper: lap.Mapper = map
    checkpoint: PathLike | Checkpoint | None = None
    resume: bool = False
    counts_alone: bool = False  # the samples themselves are not at hand
    # Of repeated fits: the parameters of the last one, and start and scaling once they are known.
    begin: tuple[Tensor | None, list[tuple[Tensor, Scaling]]] = field(
        default_factory=lambda: (None, [])
    )

    def __post_init__(self) -> None:
        name, auxiliary = self.estimator, self.settings.auxiliary
        l1, l2 = self.settings.l1, self.settings.l2
        if name not in get_args(FieldCriterion):
            known = ", ".join(get_args(FieldCriterion))
            raise SettingsError(f"estimator {name!r} is not one of {known}.")
        if auxiliary not in get_args(Auxiliary):
            known = ", ".join(get_args(Auxiliary))
            raise SettingsError(f"auxiliary {auxiliary!r} is not one of {known}.")
        if min(l1, l2) < 0:
            raise SettingsError(f"l1 and l2 must be >= 0; got {l1} and {l2}.")
        if (self.resume or self.checkpoint is not None) and name in ("pw", "pmm", "consensus"):
            raise SettingsError(f"estimator '{name}' is over in one step and keeps no checkpoint.")
        if l2 and name == "pmm":
            raise SettingsError("estimator 'pmm' is a closed form and takes no l2; 'pw' does.")
        if l1 and name in ("pw", "pmm", "consensus", "pcd"):
            raise SettingsError(f"estimator '{name}' takes no l1; 'lap' and 'pl' do.")

    def __call__(self, graph: FactorGraph, samples: Samples) -> Fitted:
        """The field learned from samples of all its variables."""
        self._check_size(graph)
        if self.estimator in COUNTS_ALONE and not samples.missing:
            return self.from_counts(graph, _all_counts(graph, samples), samples)
        cliques = lone_cliques(graph)
        scopes, sizes = [group.scope for group in cliques], [group.shape.sizes for group in cliques]
        # Where values are missing, LAP sums over what may have occurred.
        summed = samples.missing and self.estimator == "lap" and not self.settings.l1
        warned = not summed and self._warn_of_unseen(graph, map(samples.support, scopes, sizes))
        if samples.missing and self.estimator in ("pw", "pmm"):
            outcome = self._pairwise_complete(graph, samples)
        elif samples.missing and not summed:
            outcome = self._completed(graph, samples)
        else:
            outcome = self._from_samples(graph, samples)
        return outcome if warned else self._bounded(outcome)

    def _pairwise_complete(self, graph: FactorGraph, samples: Samples) -> Fitted:
        """Each clique from the rows in which all its variables were observed."""
        cliques = lone_cliques(graph)
        tables = tuple(
            samples.count_known(own.scope, own.shape.sizes).T.reshape(len(own), *own.shape.sizes)
            for own in cliques
        )
        seen = [float(own.flatten(1).sum(dim=1).min()) for own in tables if len(own)]
        warn_user(
            f"values are missing: '{self.estimator}' learns each clique from the rows in which all "
            f"its variables are observed; the fewest are {min(seen, default=0.0):,.6g} of "
            f"{samples.total:,.6g}"
        )
        weight = torch.tensor([samples.total], dtype=torch.float64)
        return self._solve_counts(graph, CliqueCounts(tables, weight), None)

    def _completed(self, graph: FactorGraph, samples: Samples) -> Fitted:
        """From all completions of each row, as probable as the field itself says they are."""
        if self.checkpoint is not None:
            raise SettingsError(
                f"estimator '{self.estimator}' keeps no checkpoint where values are missing; 'lap' "
                "does."
            )
        completions = Completions.of(graph, samples)
        noisy = self.estimator == "pcd"
        if completions.drawn:
            warn_user(
                f"values are missing: {completions.drawn:,} of {len(samples):,} rows have so many "
                "completions that some of them are drawn (stochastic EM); random_state seeds that"
            )
        fit, seed = self._again(graph, completions.drawn > 0), self.settings.random_state
        return learn_incomplete(graph, completions, fit, seed, noisy)

    def _again(self, graph: FactorGraph, drawn: bool) -> Fit:
        """Fits of one field to ever other weights of its rows, each from where the last ended."""
        scalings: list[tuple[Tensor, Scaling]] = []
        settings = copy(self.settings)
        most = OF_BP if self.estimator == "bp" else ITERATIONS_A_ROUND
        settings.max_iterations = min(settings.max_iterations, most)
        settings.tolerance = max(settings.tolerance, OF_DRAWS if drawn else TOLERANCE_A_ROUND)

        def fit(samples: Samples, last: TabularModel | None) -> Fitted:
            flat = None if last is None else torch.cat([own.reshape(-1) for own in last.values])
            training = replace(self, settings=settings, begin=(flat, scalings))
            if self.estimator in COUNTS_ALONE:
                return training._solve_counts(graph, _all_counts(graph, samples), samples)
            return training._from_samples(graph, samples)

        return fit

    def _from_samples(self, graph: FactorGraph, samples: Samples) -> Fitted:
        if self.estimator == "pl":
            return self._pseudolikelihood(graph, samples)
        if self.estimator == "lap":
            blocks = self.lap_blocks(graph, samples.missing)
            # What cliques share is a mean of what each says, and says with its precision.
            weigh = not samples.missing and any(map(lap.has_ties, graph.groups))
            task = lap.SolveBlock(self.newton, samples, samples.missing, weigh)
            return lap.fit_locally(graph, blocks, task, self.mapper, self.checkpoint, self.resume)
        task = lap.SolveBlock(self.newton, samples, weigh=True)
        return lap.fit_locally(graph, lap.problem_blocks(blankets(graph)), task, self.mapper)

    def _pseudolikelihood(self, graph: FactorGraph, samples: Samples) -> Fitted:
        model, counted = TabularModel.zeros(graph), count_blankets(graph, samples)
        objective: Objective[TabularModel]
        if counted is not None:
            objective = counted
        else:
            rows = Samples.distinct(samples.states.long(), samples.weights)
            if is_dense(graph):
                coded = coded_samples(rows, graph.most_states, CODED)
                objective = Autograd(model, coded, dense_pseudolikelihood)
            elif has_most_pairs(graph):
                objective = Autograd(model, list(rows.chunks(CHUNK)), one_hot_pseudolikelihood)
            else:
                objective = Autograd(model, list(rows.chunks(CHUNK)), Pseudolikelihood())
        at = self._begin(graph, samples.total, samples, counted=counted)
        return self._minimise(objective, *at)

    def from_counts(
        self, graph: FactorGraph, counts: CliqueCounts, some: Samples | None = None
    ) -> Fitted:
        """The field learned from nothing but the counts of its own cliques.

        `some` of the rows, where they are at hand, make the search quicker and change no answer.
        """
        self._check_size(graph)
        if self.estimator not in ("ml", "bp", "pcd", "pw", "pmm"):
            raise SettingsError(
                f"estimator '{self.estimator}' needs counts of whole neighbourhoods, not of "
                "cliques; give it samples, or use 'ml', 'bp', 'pcd' or 'pw'."
            )
        warned = self._warn_of_unseen(graph, counts.counts)
        outcome = self._solve_counts(graph, counts, some)
        closed = self.estimator in ("pw", "pmm")
        return outcome if warned or closed else self._bounded(outcome)

    def _solve_counts(
        self, graph: FactorGraph, counts: CliqueCounts, some: Samples | None
    ) -> Fitted:
        if self.estimator == "pw":
            return lap.pieces(graph, counts, self.newton)
        if self.estimator == "pmm":
            return lap.pseudo_moments(graph, counts)
        if self.estimator == "pcd":
            return self._boltzmann(graph, counts, some)
        inference = JunctionTree() if self.estimator == "ml" else LOOPY
        objective = Autograd(TabularModel.zeros(graph), [counts], Likelihood(inference))
        at = self._begin(graph, float(counts.weights.sum()), some, counts)
        if self.estimator == "ml":
            return self._minimise(objective, *at)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)  # the error says it
            outcome = self._minimise(objective, *at)
        if outcome.failed:
            other = self._for_wide if JunctionTree().refuses(graph) else "ml"
            raise TrainingError(
                "no field was found: loopy belief propagation leaps between fixed points where "
                f"variables are coupled this strongly. Use the estimator '{other}'; 'bp' itself "
                f"ended so: {outcome.reason}"
            )
        return outcome

    def from_noisy_counts(
        self, graph: FactorGraph, counts: CliqueCounts, variances: Sequence[Tensor]
    ) -> Fitted:
        """The field of most entropy and least weighted squares of what it misses of the counts.

        It maximises N H(mu) - sum (N mu - counts)^2 / (2 variance) over marginals mu, whose dual is
        the likelihood with an L2 penalty of half the variance on each entry of full tables
        [Dudik, Phillips & Schapire 2007].
        """
        own = self.settings
        if self.estimator not in ("ml", "bp") or own.l1:
            raise SettingsError("noisy counts are for the estimators 'ml' and 'bp', without l1.")
        if any(len(group.table.unique()) < len(group) for group in graph.groups):
            raise SettingsError("noisy counts are for graphs whose factors have their own tables.")
        if any(not bool((noise >= 0).all() & noise.isfinite().all()) for noise in variances):
            raise SettingsError("variances must be finite and >= 0.")
        self.check_memory(sum(table.numel() for table in counts.counts), graph.device)
        likelihood = Likelihood(JunctionTree() if self.estimator == "ml" else LOOPY)
        total = float(counts.weights.sum())

        def loss(model: FullTables, batch: CliqueCounts) -> Tensor:
            pairs = zip(model.values, batch.counts, variances, strict=True)
            value = total * likelihood.inference(model.potentials()).log_partition.sum()
            for values, seen, noise in pairs:
                value = value + ((noise / 2 + own.l2) * values.square() - seen * values).sum()
            return value

        start = FullTables(graph, tuple(map(torch.zeros_like, counts.counts)))
        outcome: Outcome[Any] = minimise(
            Autograd(start, [counts], loss),
            LBFGS(max_iterations=own.max_iterations, tolerance=own.tolerance),
            progress=own.verbose,
        )
        gauged = reference_gauge(outcome.model.potentials())
        return replace(outcome, model=TabularModel.from_potentials(gauged))

    def _boltzmann(self, graph: FactorGraph, counts: CliqueCounts, some: Samples | None) -> Fitted:
        """The field by persistent contrastive divergence."""
        own = self.settings
        start, scaling = self._begin(graph, float(counts.weights.sum()), some, counts)
        return boltzmann.learn(
            graph,
            counts,
            start,
            scaling,
            l2=own.l2,
            iterations=own.max_iterations,
            seed=own.random_state,
            progress=own.verbose,
            checkpoint=self.checkpoint,
            resume=self.resume,
        )

    def check_shards(self, count: CountShard) -> None:
        """Raises an error where counts of files are not enough to learn from."""
        if self.estimator == "lap":
            return
        if count.missing:
            raise DataError(
                "missing values in several files can be learned from by 'lap' alone, not by "
                f"'{self.estimator}'; in one file by every estimator."
            )
        if self.estimator not in ("ml", "bp", "pcd", "pw"):
            raise SettingsError(
                f"estimator '{self.estimator}' needs whole rows, which shards do not hand out; "
                "give it samples in one file, or use 'lap', 'ml', 'bp', 'pcd' or 'pw'."
            )

    def from_shards(
        self,
        graph: FactorGraph,
        count: CountShard,
        rows: Held[PathLike | SampleTable],
        first: Samples | None,
    ) -> Fitted:
        """The field that all rows held together give; no row travels, only histograms do.

        `first` are the rows that were looked at for the columns: the search for "ml" and "bp" takes
        its coordinates from them.
        """
        if self.estimator == "lap":
            return self._lap_of_shards(graph, count, rows)
        cliques = lone_cliques(graph)
        task = replace(count, scopes=[(group.scope, group.shape.sizes) for group in cliques])
        seen = list(rows.map_totals(task, itemgetter(1)))
        pairs = zip(seen, cliques, strict=True)
        tables = tuple(own.T.reshape(len(group), *group.shape.sizes) for own, group in pairs)
        return self.from_counts(graph, CliqueCounts(tables, seen[0].sum(dim=0)[:1]), first)

    def _lap_of_shards(
        self, graph: FactorGraph, count: CountShard, rows: Held[PathLike | SampleTable]
    ) -> Fitted:
        """Counts of a block are added up and solved where they are: only parameters come home."""
        task = lap.SolveBlock(self.newton, missing=count.missing)

        def solved(_: object, items: Iterable[Neighbourhoods]) -> Iterable[LocalSolution]:
            blocks = list(items)
            scopes = [(block.scope, block.shape.sizes) for block in blocks]
            finish = partial(_solve_counted, task, blocks)
            return rows.map_totals(replace(count, scopes=scopes), finish)

        blocks = self.lap_blocks(graph, count.missing)
        return self._bounded(lap.fit_locally(graph, blocks, task, solved))

    def _warn_of_unseen(self, graph: FactorGraph, tables: Iterable[Tensor]) -> bool:
        """Warns where a state never occurs that only a penalty keeps from infinite parameters.

        `tables` are the counts of each group of cliques.
        """
        own = self.settings
        for variables, states in () if own.l2 else unseen_cells(graph, tables):
            scopes = variables[:NAMED].cpu().numpy()
            if own.l1 and scopes.shape[1] > 1:  # the penalty of couplings
                continue
            rows = np.zeros((len(scopes), graph.variables), dtype=np.int64)
            np.put_along_axis(rows, scopes, states[:NAMED].cpu().numpy(), axis=1)
            shown = [
                " and ".join(f"{self._column(column)} = {row[column]}" for column in scope)
                for row, scope in zip(own.decode(rows), scopes, strict=True)
            ]
            more = f"; nor {len(states) - NAMED:,} more such states" if len(states) > NAMED else ""
            problem = f"no row has {'; nor '.join(shown)}{more}"
            if self.estimator == "pmm":
                raise DataError(f"{problem}; 'pmm' gives -inf. Use '{self._for_wide}' and l2=0.1.")
            warn_user(
                f"{problem}: without a penalty the best parameters are infinite, and those "
                f"learned depend on where training stopped. {REMEDY}"
            )
            return True
        return False

    def _bounded(self, outcome: Fitted) -> Fitted:
        """The outcome; warns of the first clique whose parameters no samples can support."""
        for group, values in zip(outcome.model.graph.groups, outcome.model.values, strict=True):
            large = ~(values.abs() <= UNBOUNDED).flatten(1).all(dim=1)[group.table]
            if bool(large.any()) and not self.settings.l1 and not self.settings.l2:
                columns = " and ".join(map(self._column, group.scope[large][0].tolist()))
                warn_user(f"{columns}: too few samples for finite parameters. {REMEDY}")
                break
        return outcome

    def _column(self, column: int) -> str:
        return f"column {column_name(column, getattr(self.settings, 'feature_names_in_', None))}"

    @property
    def _for_wide(self) -> FieldCriterion:
        """The estimator that learns from these data whatever the width of the graph."""
        return "pcd" if self.counts_alone else "pl"

    def _check_size(self, graph: FactorGraph) -> None:
        """Raises an error where the graph is too large, or for exact likelihood too wide."""
        self.check_memory(parameter_count(graph), graph.device)
        if self.estimator == "ml" and (reason := JunctionTree().refuses(graph)) is not None:
            found = reason.partition(";")[0]
            raise GraphError(f"{found}. Use the estimator '{self._for_wide}' on such a graph.")

    def check_memory(self, parameters: int, device: torch.device, more: int = 0) -> None:
        """Raises `OutOfMemoryError` where training so many parameters, and `more`, has no room."""
        local = self.estimator in ("lap", "consensus", "pw", "pmm")
        # Each table is held once more with its state 0, at four times the size for two states.
        copies = 8 if local else 8 + LBFGS().vectors_held
        require_memory(
            8 * copies * parameters + more,
            f"training {parameters:,} parameters by '{self.estimator}'",
            "Use a graph with fewer edges, or variables with fewer states"
            + ("." if local else "; 'lap' needs less on graphs of small degree."),
            device,
        )

    @property
    def newton(self) -> LocalNewton:
        """How local problems are solved."""
        own = self.settings
        return LocalNewton(own.l2, own.l1, own.tolerance, own.max_iterations)

    def lap_blocks(self, graph: FactorGraph, missing: bool) -> list[Neighbourhoods]:
        """The local problems of every clique, each of which learns its own parameters."""
        problems = neighbourhoods(graph, self.settings.auxiliary)
        return lap.problem_blocks(problems, own=True, missing=missing)

    def _begin(
        self,
        graph: FactorGraph,
        weight: float,
        some: Samples | None,
        counts: CliqueCounts | None = None,
        counted: BlanketPseudolikelihood | None = None,
    ) -> tuple[Tensor | None, Scaling | None]:
        """Where a search begins, and coordinates that suit (some of) the samples, or their counts.

        `weight`: that of all samples of the objective.
        """
        last, known = self.begin
        if self.settings.l1 or not weight:
            return last, None
        if not known and some is not None and parameter_count(graph) <= MOST_PARAMETERS:
            counted = counted or count_blankets(graph, some)
            known.append(starting_point(self.settings, graph, (some, counted), weight))
        elif not known:
            if counts is None:
                assert some is not None  # noqa: S101 - one of them is given
                counts = _all_counts(graph, some)
            data = [table / weight for table in counts.counts]
            model = independent_field(graph, data)
            ridge = max(2 * self.settings.l2, RIDGE_OF_CHAINS if self.estimator == "pcd" else RIDGE)
            start = torch.cat([own.flatten() for own in model.values])
            known.append((start, independent_coordinates(model, data, weight, ridge)))
        start, scaling = known[0]
        if last is None:
            return start, scaling
        return last, scaling.around(last)

    def _minimise(
        self, objective: Objective[TabularModel], start: Tensor | None, scaling: Scaling | None
    ) -> Fitted:
        """The field of least value, from a start and in coordinates that suit the samples."""
        own, tolerance = self.settings, self.settings.tolerance
        optimiser = OWLQN if own.l1 else LBFGS
        if start is not None and scaling is not None:
            # One unit is about one standard error there: far below that, only rounding is left.
            tolerance *= 100
            # What is left to gain, not the whole value, is what the optimiser compares with.
            objective.origin = float(objective(start).value) + own.l2 * float(start @ start)
        groups = zip(objective.layout.names, objective.model.graph.groups, strict=True)
        couplings = [name for name, group in groups if group.arity > 1]
        return minimise(
            objective,
            optimiser(max_iterations=own.max_iterations, tolerance=tolerance),
            start=start,
            penalty=Penalty(l1=dict.fromkeys(couplings, own.l1), l2=own.l2),
            scaling=scaling,
            progress=own.verbose,
            checkpoint=self.checkpoint,
            resume=self.resume,
        )


def _all_counts(graph: FactorGraph, samples: Samples) -> CliqueCounts:
    """Counts of all cliques."""
    cliques = lone_cliques(graph)
    scopes, sizes = [group.scope for group in cliques], [group.shape.sizes for group in cliques]
    return clique_counts(scopes, sizes, samples)


def _solve_counted(
    task: lap.SolveBlock, blocks: Sequence[Neighbourhoods], summed: tuple[int, Tensor]
) -> LocalSolution:
    """The solution of the block of a given number, from what all files together have seen."""
    number, counts = summed
    return task(blocks[number], counts)


def unseen_cells(
    graph: FactorGraph, tables: Iterable[Tensor]
) -> Iterator[tuple[Int[Tensor, "k a"], Int[Tensor, "k a"]]]:
    """Variables and states, group by group, without a count where the best parameters are infinite.

    An empty cell of the table of one variable, or of two that have tables of their own too, puts
    the moments on the boundary of the marginal polytope: neither likelihood nor pseudolikelihood
    has a maximum.  In larger cliques, and in tied ones, only states above 0 have parameters of
    their own, which then fall without end.
    """
    untied = all(len(group.table.unique()) == len(group) for group in graph.groups)
    single = torch.zeros(graph.variables, dtype=torch.bool, device=graph.device)
    for group in graph.groups:
        single[group.scope[:, 0]] |= group.arity == 1
    for group, seen in zip(graph.groups, tables, strict=True):
        pairs = group.arity == 2 and untied and bool(single[group.scope].all())
        first = 0 if group.arity == 1 or pairs else 1
        seen = seen.reshape(len(group), *(graph.shape(group) if len(group) else (0,) * group.arity))
        total = torch.zeros_like(seen).index_add_(0, group.table, seen)[group.table]
        cells = (total[:, *[slice(first, None)] * group.arity] == 0).nonzero()
        if len(cells):
            yield group.scope[cells[:, 0]], cells[:, 1:] + first


# Where the search for a likelihood or pseudolikelihood begins, and how it bends there.


def count_blankets(graph: FactorGraph, samples: Samples) -> BlanketPseudolikelihood | None:
    """Counts of all variables with their neighbours; None where these are more than the samples."""
    if degree_limit_error(graph):
        return None
    problems, gap = blankets(graph), int(samples.missing)  # one more state: "not seen"
    cells = sum(len(own) * prod(size + gap for size in own.shape.sizes) for own in problems)
    if cells > samples.states.numel():
        return None
    tables = {own.shape: LocalTables(own.shape, graph.device) for own in problems}
    layout, counted = ParameterLayout.of(graph), []
    for block in lap.problem_blocks(problems):
        counts = samples.count_known(block.scope, block.shape.sizes)
        likelihood = AuxiliaryLikelihood.of(tables[block.shape], counts)
        counted.append(Blankets(likelihood, layout.terms(block.shape, block.factors)))
    return BlanketPseudolikelihood(TabularModel.zeros(graph), counted, samples.total)


def starting_point(
    settings: MarkovField, graph: FactorGraph, seen: _Seen, weight: float
) -> tuple[Float[Tensor, " p"], Cholesky]:
    """A quick estimate of a field from (some of) its samples, and the curvature there.

    The start is by consensus, where neighbourhoods were counted and no table is shared; else zeros.
    At the optimum the curvature of minus the log-likelihood is the covariance of the field's
    features, and the data have nearly that covariance themselves (pseudolikelihood counts a pair up
    to twice, and is of the same kind).  `weight`: that of all samples, those not seen too.
    """
    samples, counted = seen
    layout = ParameterLayout.of(graph)
    if counted is not None and layout.size < len(layout.start):
        counted = None
    # A start must be finite, whether or not the estimate itself is.
    limit = settings.max_iterations
    newton = LocalNewton(max(settings.l2, 0.1), tolerance=1e-4, max_iterations=limit)
    with torch.inference_mode():
        found = [
            (own.places, lap.with_precision(own.problems, newton(own.problems), newton.l2))
            for own in (() if counted is None else counted.blankets)
        ]
    start = lap.weighted_mean(layout, found)
    curvature = weight / samples.total * feature_covariance(graph, samples)
    if counted is not None:
        # Samples show their covariance once there are many more of them than parameters.
        trust = len(samples) / (len(samples) + 10 * layout.size)
        conditional = counted.hessian(start) * (weight / counted.weight)
        curvature = trust * curvature + (1 - trust) * conditional
    return start, Cholesky.of(curvature, start, settings.l2)
