"""Every way to learn a field, behind one function: graph and samples in, outcome out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.field_inputs import column_name, tell
from mrflearn.execution.memory import require_memory
from mrflearn.features.observations import CliqueCounts, Columns, Samples, neighbourhood_counts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import (
    Auxiliary,
    Neighbourhoods,
    blankets,
    merged,
    neighbourhoods,
    too_crowded,
)
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.beliefs import Inference
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.models.tabular import ParameterLayout, TabularModel, parameter_count
from mrflearn.objectives.base import Autograd
from mrflearn.objectives.likelihood import Likelihood
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood
from mrflearn.objectives.penalty import Penalty
from mrflearn.objectives.pseudolikelihood import (
    AvailableCases,
    AvailablePseudolikelihood,
    BlanketCounts,
    BlanketPseudolikelihood,
    CodedSamples,
    DensePseudolikelihood,
    Pseudolikelihood,
    available_terms,
)
from mrflearn.objectives.scaling import Cholesky
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lap import (
    FormOpinion,
    LocalSolver,
    Mapper,
    ProblemBlock,
    SolveBlock,
    blocks_of,
    consensus,
    lap,
    lap_refuses,
    pieces,
)
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.newton import LocalNewton
from mrflearn.training.outcome import Outcome
from mrflearn.training.owlqn import OWLQN
from mrflearn.training.pseudo_moments import pseudo_moments
from mrflearn.training.whitened import (
    MOST_PARAMETERS,
    conditional_curvature,
    feature_covariance,
)

FieldCriterion = Literal["lap", "pl", "ml", "bp", "pw", "pmm", "consensus"]
Fitted = Outcome[TabularModel]
Loss = Callable[[Any, Any], Tensor]
Batches = (
    Sequence[CliqueCounts]
    | Sequence[Samples]
    | Sequence[AvailableCases]
    | Sequence[BlanketCounts]
    | Sequence[CodedSamples]
)
# Rows of samples handled at once by pseudolikelihood; bounds memory, changes no result.
CHUNK = 16_384
LOOPY_ADVICE = (
    "Loopy belief propagation leaps between fixed points where variables are strongly coupled: "
    "use estimator 'ml' where the graph is narrow, else 'pl'."
)
CODED = 4096  # the same for dense graphs: such a block of scores stays in cache


@dataclass(frozen=True)
class FieldTraining:
    """How a field is to be learned."""

    estimator: FieldCriterion
    auxiliary: Auxiliary = "exact"
    l2: float = 0.0
    l1: float = 0.0
    max_iterations: int = 1000
    tolerance: float = 1e-7
    verbose: bool = False
    mapper: Mapper = map
    checkpoint: Checkpoint | None = None
    resume: bool = False
    names: Sequence[str] | None = None  # of the columns, for messages

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            known = ", ".join(f"'{name}'" for name in ESTIMATORS)
            raise SettingsError(f"estimator {self.estimator!r} is not one of {known}.")
        if self.auxiliary not in ("exact", "dense", "pairwise"):
            raise SettingsError(
                f"auxiliary {self.auxiliary!r} is not one of 'exact', 'dense', 'pairwise'."
            )
        if min(self.l1, self.l2) < 0:
            raise SettingsError(f"l1 and l2 must be >= 0; got {self.l1} and {self.l2}.")
        if self.resume and self.checkpoint is None:
            raise SettingsError("resume needs the checkpoint to go on from: checkpoint='FILE'.")
        if self.checkpoint is not None and self.estimator in ("pw", "pmm", "consensus"):
            raise SettingsError(
                f"estimator '{self.estimator}' is over in one step and keeps no checkpoint."
            )
        if self.l2 and self.estimator == "pmm":
            raise SettingsError("estimator 'pmm' is a closed form and takes no l2; 'pw' does.")
        if self.l1 and self.estimator in ("pw", "pmm", "consensus"):
            raise SettingsError(f"estimator '{self.estimator}' takes no l1; 'lap' and 'pl' do.")

    def __call__(self, graph: FactorGraph, columns: Columns) -> Fitted:
        """The field learned from samples of all its variables."""
        if columns.missing and self.estimator not in ("lap", "pl"):
            other = "pl" if lap_refuses(graph, missing=True) else "lap"
            raise DataError(
                f"some values are missing, which estimator '{self.estimator}' cannot learn from. "
                f"Use the estimator '{other}', or leave these rows out."
            )
        if columns.missing and self.l1 and self.estimator == "lap":
            raise DataError(
                "some values are missing, and with missing values 'lap' has no l1 penalty. "
                "Use l2, the estimator 'pl', or leave these rows out."
            )
        self.insist_on_memory(parameter_count(graph), graph.device)
        outcome = ESTIMATORS[self.estimator](self, graph, columns)
        if self.estimator == "bp" and outcome.failed:
            return replace(outcome, reason=f"{outcome.reason} {LOOPY_ADVICE}")
        return outcome

    def insist_on_memory(self, parameters: int, device: torch.device, more: int = 0) -> None:
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

    def from_clique_counts(
        self, graph: FactorGraph, counts: CliqueCounts, some: Columns | None = None
    ) -> Fitted:
        """The field learned from nothing but the counts of its own cliques.

        `some` of the rows, where they are at hand, make the search quicker and change no answer.
        """
        self.insist_on_memory(parameter_count(graph), graph.device)
        if self.estimator == "pw":
            return pieces(graph, counts, self._newton())
        if self.estimator == "pmm":
            return pseudo_moments(graph, counts)
        if self.estimator in ("ml", "bp"):
            objective = Likelihood(self._inference())
            if some is None:
                return self._descend(graph, objective, [counts])
            share = float(counts.weights.sum()) / some.total
            return self._search(graph, some, objective, [counts], share)
        raise SettingsError(
            f"estimator '{self.estimator}' needs counts of whole neighbourhoods, not of cliques; "
            "give it samples, or use 'ml', 'bp' or 'pw'."
        )

    def _by_cliques(self, graph: FactorGraph, columns: Columns) -> Fitted:
        tables = []
        for group in graph.groups:
            shape = graph.shape(group) if len(group) else (1,) * group.arity
            seen = neighbourhood_counts(group.scope, shape, columns)
            tables.append(seen.T.reshape(len(group), *shape))
        total = torch.tensor([columns.total], dtype=torch.float64, device=graph.device)
        counts = CliqueCounts(tuple(tables), total)
        if self.estimator in ("pw", "pmm"):
            return self.from_clique_counts(graph, counts)
        return self._search(graph, columns, Likelihood(self._inference()), [counts])

    def _near(
        self, graph: FactorGraph, columns: Columns
    ) -> tuple[Float[Tensor, " p"], Float[Tensor, "p p"]]:
        """A quick estimate to start from (by consensus, else zeros), and the curvature there."""
        problems = _small_blankets(graph, columns)
        layout = ParameterLayout.of(graph)
        covariance = feature_covariance(graph, columns)
        if problems is None or layout.size < len(layout.start):
            start = torch.zeros(layout.size, dtype=torch.float64, device=graph.device)
            return start, covariance
        # A start must be finite, whether or not the estimate itself is.
        task = FormOpinion(LocalNewton(max(self.l2, 0.1), 1e-4), columns)
        model = consensus(graph, blocks_of(problems), task, self.mapper).model
        start = torch.cat([value.reshape(-1) for value in model.values])
        conditional = conditional_curvature(graph, blocks_of(problems), columns, start)
        # Samples tell their covariance once there are many more of them than parameters.
        trust = columns.states.shape[1] / (columns.states.shape[1] + 10 * layout.size)
        return start, trust * covariance + (1 - trust) * conditional

    def _inference(self) -> Inference:
        return JunctionTree() if self.estimator == "ml" else LOOPY

    def _by_neighbourhoods(self, graph: FactorGraph, columns: Columns) -> Fitted:
        problems = self.local_problems(graph, missing=columns.missing)
        blocks = blocks_of(problems, missing=columns.missing)
        task = SolveBlock(self.local_solver(), columns)
        return lap(graph, blocks, task, self.mapper, self.checkpoint, self.resume)

    def local_problems(self, graph: FactorGraph, *, missing: bool) -> list[Neighbourhoods]:
        """The problems that LAP solves, few shapes of them."""
        problems = neighbourhoods(graph, self.auxiliary)
        # A copy of a neighbour must be seen whenever that neighbour is.
        return problems if missing else merged(problems)

    def local_solver(self) -> LocalSolver:
        """How LAP solves them."""
        return LocalSolver(self.l2, self.l1, self.tolerance, self.max_iterations)

    def _by_consensus(self, graph: FactorGraph, columns: Columns) -> Fitted:
        task = FormOpinion(self._newton(), columns)
        return consensus(graph, blocks_of(blankets(graph)), task, self.mapper)

    def _by_available_cases(self, graph: FactorGraph, columns: Columns) -> Fitted:
        """Pseudolikelihood of the terms whose variable and neighbours were all observed."""
        observed = columns.observed()
        known = available_terms(graph, observed)
        self._tell_available(known)
        whole = columns.part(observed.all(dim=1))
        if not bool(known.sum() > known.all(dim=1).sum() * known.shape[1]):
            return self._by_conditionals(graph, whole)  # no other row has a term
        objective: AvailablePseudolikelihood | BlanketPseudolikelihood
        batches: Batches
        problems = _small_blankets(graph, columns)
        if problems is None:
            states = columns.states.T.long().masked_fill(~observed, 0)
            weights = columns.weights
            if weights is None:
                weights = torch.ones(len(states), dtype=torch.float64, device=graph.device)
            some = known.any(dim=1)
            cases = AvailableCases(states[some], known[some], weights[some])
            objective, batches = AvailablePseudolikelihood(), cases.chunks(CHUNK)
        else:
            layout = ParameterLayout.of(graph)
            batches = [_blanket(block, columns, layout) for block in blocks_of(problems)]
            objective = BlanketPseudolikelihood()
        if not whole.states.shape[1]:
            return self._descend(graph, objective, batches)
        return self._search(graph, whole, objective, batches, columns.total / whole.total)

    def _tell_available(self, known: Bool[Tensor, "n v"]) -> None:
        """Says how many rows there are for each variable; an error where there are none."""
        rows, used = len(known), known.sum(dim=0)
        least = int(used.argmin())
        who = f"column {column_name(least, self.names)}"
        if not int(used[least]):
            raise DataError(
                f"{who} and all its neighbours in the graph are never observed together in one "
                "row, which estimator 'pl' needs where values are missing. Use a graph with fewer "
                "edges, or the estimator 'lap' on a small one."
            )
        tell(
            "values are missing: 'pl' learns each column from the rows in which it and all its "
            f"neighbours are observed; the fewest are {int(used[least]):,} of {rows:,}, for {who}"
        )

    def _by_conditionals(self, graph: FactorGraph, columns: Columns) -> Fitted:
        if columns.missing:
            return self._by_available_cases(graph, columns)
        problems = _small_blankets(graph, columns)
        if problems is None:
            rows = Samples.distinct(columns.states.T.long(), columns.weights)
            if DensePseudolikelihood.suits(graph):
                states = int(graph.states[0])
                coded = [CodedSamples.of(part, states) for part in rows.chunks(CODED)]
                return self._search(graph, columns, DensePseudolikelihood(), coded)
            return self._search(graph, columns, Pseudolikelihood(), list(rows.chunks(CHUNK)))
        layout = ParameterLayout.of(graph)
        batches = [_blanket(block, columns, layout) for block in blocks_of(problems)]
        return self._search(graph, columns, BlanketPseudolikelihood(), batches)

    def _search(
        self,
        graph: FactorGraph,
        columns: Columns,
        objective: Loss,
        batches: Batches,
        share: float = 1.0,
    ) -> Fitted:
        """The least value, in coordinates that suit the samples where there are not too many.

        `share`: how many times the weight of these samples all of them together have.
        """
        if self.l1 or ParameterLayout.of(graph).size > MOST_PARAMETERS:
            return self._descend(graph, objective, batches)
        start, curvature = self._near(graph, columns)
        scaling = Cholesky.of(share * curvature, start, self.l2)
        return self._descend(graph, objective, batches, scaling)

    def _descend(
        self,
        graph: FactorGraph,
        loss: Loss,
        batches: Batches,
        scaling: Cholesky | None = None,
    ) -> Fitted:
        objective = Autograd(TabularModel.zeros(graph), batches, loss)
        optimiser, start, tolerance = OWLQN if self.l1 else LBFGS, None, self.tolerance
        if scaling is not None:
            # One unit is about one standard error there: far below that, only rounding is left.
            start, tolerance = scaling.origin, 100 * self.tolerance
            # What is left to gain, not the whole value, is what the optimiser compares with.
            objective.origin = float(objective(start).value) + self.l2 * float(start @ start)
        couplings = [
            name
            for name, group in zip(objective.layout.names, graph.groups, strict=True)
            if group.arity > 1
        ]
        return minimise(
            objective,
            optimiser(max_iterations=self.max_iterations, tolerance=tolerance),
            start=start,
            penalty=Penalty(l1=dict.fromkeys(couplings, self.l1), l2=self.l2),
            scaling=scaling,
            progress=self.verbose,
            checkpoint=self.checkpoint,
            resume=self.resume,
        )

    def _newton(self) -> LocalNewton:
        return LocalNewton(self.l2, self.tolerance, self.max_iterations)


def _small_blankets(graph: FactorGraph, columns: Columns) -> list[Neighbourhoods] | None:
    """The blankets of all variables, where their joint states are fewer than the samples."""
    if too_crowded(graph):
        return None
    problems = blankets(graph)
    gap = int(columns.missing)  # each variable has one more state, "not seen"
    cells = sum(len(hood) * prod(size + gap for size in hood.shape.sizes) for hood in problems)
    return problems if cells <= columns.states.numel() else None


def _blanket(block: ProblemBlock, columns: Columns, layout: ParameterLayout) -> BlanketCounts:
    hood = block.problems
    counts = neighbourhood_counts(hood.scope, hood.shape.sizes, columns)
    if columns.missing:  # only where all were seen
        sizes = hood.shape.sizes
        table = counts.view(*(size + 1 for size in sizes), len(hood))
        counts = table[tuple(slice(size) for size in sizes)].reshape(-1, len(hood))
    return BlanketCounts(AuxiliaryLikelihood.of(hood.shape, counts), layout.terms(hood))


# Loopy messages on strongly coupled fields circle without damping.
LOOPY = BeliefPropagation(damping=0.3)
ESTIMATORS: dict[str, Callable[[FieldTraining, FactorGraph, Columns], Fitted]] = {
    "lap": FieldTraining._by_neighbourhoods,
    "pl": FieldTraining._by_conditionals,
    "ml": FieldTraining._by_cliques,
    "bp": FieldTraining._by_cliques,
    "pw": FieldTraining._by_cliques,
    "pmm": FieldTraining._by_cliques,
    "consensus": FieldTraining._by_consensus,
}
