"""A random field over any graph as the last layer of a network: `FactorGraphCRF`.

Every estimator of labelled fields is a loss of the same scores.  Those that need log Z ask the
library's inferences for it; the others are sums of log P(free variables | others) over the local
problems of `objectives.local_problems`, as differentiable functions of the scores.

Letters in shapes: v: variables; f: factors of a group; c: examples (components); s: states;
n: problems; m: members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, final, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from mrflearn.errors import DataError, GraphError, InferenceError, SettingsError
from mrflearn.execution.resources import moved
from mrflearn.features.index import cells_of
from mrflearn.graph.evidence import restrict
from mrflearn.graph.factor_graph import FactorGraph, disjoint_union
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.automatic import LOOPY_IN_TRAINING, Automatic
from mrflearn.inference.beliefs import Beliefs, Inference
from mrflearn.nn.batches import precise
from mrflearn.objectives.local_problems import Local, ProblemPart, Problems, problems_of

FieldEstimator = Literal["ml", "bp", "pl", "edge-pl", "pw", "pwpl", "lap"]
Graphs = FactorGraph | Sequence[FactorGraph]


@final
class FactorGraphCRF(nn.Module):
    """A conditional random field whose graph may be another for every example.

    Factors are grouped by name, as in `FactorGraph`; the score of a factor is the learned table of
    its group plus, where the network gives one, a table of its own.

    Parameters
    ----------
    shapes
        For each group of factors its name and the numbers of states of a factor's variables, in the
        order of the graphs' groups, such as `{"token": (9,), "edge": (9, 9)}`.
    estimator
        What `forward` and `loss` compute: `"ml"` (exact, where the graphs allow), `"bp"` (with
        log Z by belief propagation), or sums of local likelihoods, which need no inference: `"pl"`
        (each variable given the others), `"edge-pl"` (each factor's variables given the others),
        `"pw"` (each factor by itself), `"pwpl"` (each variable of a factor given its others; the
        cheapest where states are many) and `"lap"` (each clique given its neighbours).
    pieces
        Of `"pw"` and `"pwpl"`: `"edges"`, a factor of several variables takes the factors of its
        single variables with it, or `"factors"`.
    inference
        What computes log Z of `"bp"`, and marginals where graphs are too wide to be exact.

    Attributes
    ----------
    tables
        The learned scores of each group, by name; zero at first.

    Examples
    --------
    >>> import torch
    >>> from mrflearn.graph import FactorGraph, FactorGroup
    >>> from mrflearn.nn import FactorGraphCRF
    >>> triangle = FactorGraph(
    ...     [3, 3, 3],
    ...     [FactorGroup("node", [[0], [1], [2]]), FactorGroup("edge", [[0, 1], [1, 2], [0, 2]])],
    ... )
    >>> crf = FactorGraphCRF({"node": (3,), "edge": (3, 3)}, estimator="pwpl")
    >>> node = torch.zeros(6, 3, requires_grad=True)  # of both examples, end to end
    >>> loss = crf.loss([triangle, triangle], {"node": node}, torch.tensor([0, 1, 2, 2, 2, 1]))
    >>> loss.backward()
    >>> crf.decode([triangle, triangle], {"node": node}).shape
    torch.Size([6])

    """

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]],
        estimator: FieldEstimator = "ml",
        pieces: Literal["edges", "factors"] = "edges",
        inference: Inference = LOOPY_IN_TRAINING,
    ) -> None:
        super().__init__()
        if pieces not in ("edges", "factors"):
            raise SettingsError(f"pieces='{pieces}' is neither 'edges' nor 'factors'.")
        self.estimator, self.pieces, self.inference = _known(estimator), pieces, inference
        # One by one: a dictionary of parameters sorts what it is given at once.
        self.tables = nn.ParameterDict()
        for name, shape in shapes.items():
            self.tables[name] = nn.Parameter(torch.zeros(*shape))

    def extra_repr(self) -> str:
        return f"estimator={self.estimator!r}, pieces={self.pieces!r}"

    def forward(
        self,
        graph: Graphs,
        scores: Mapping[str, Tensor],
        labels: Tensor,
        reduction: Literal["none", "sum", "mean"] = "sum",
        estimator: FieldEstimator | None = None,
    ) -> Tensor:
        """The log-likelihood of labels, or what the estimator puts in its place: minus `loss`."""
        return -self.loss(graph, scores, labels, reduction, estimator)

    @precise
    def loss(
        self,
        graph: Graphs,
        scores: Mapping[str, Tensor],
        labels: Tensor,
        reduction: Literal["none", "sum", "mean"] = "sum",
        estimator: FieldEstimator | None = None,
    ) -> Tensor:
        """What is to be minimised.

        Parameters
        ----------
        graph
            A graph whose components are the examples, or a graph for each example.  A graph keeps
            what was planned for it, so that one used again costs less.
        scores
            By the name of a group a table for each of its factors (factors, states, ...), those of
            all examples end to end; groups may be left out.
        labels
            The states of all variables.  With `"ml"` and `"bp"` a negative one is unknown, and
            summed over.
        reduction
            `"none"` (a number for each example), `"sum"` or `"mean"` (over examples).
        estimator
            Another than the module's own.

        Returns
        -------
        Tensor
            In nats.

        """
        if reduction not in ("none", "sum", "mean"):
            raise SettingsError(f"reduction='{reduction}' is not one of 'none', 'sum', 'mean'.")
        kind = self.estimator if estimator is None else _known(estimator)
        potentials = self.potentials(graph, scores)
        labels = _checked(labels, potentials.graph)
        if kind == "ml" or kind == "bp":
            lost = _lost(potentials, labels, self._inference(potentials.graph, kind))
        else:
            with_ends = self.pieces == "edges" and "pw" in kind
            problems = potentials.graph.planned(_planned, kind, with_ends)
            lost = local_losses(potentials, labels, problems)
        if reduction == "none":
            return lost
        return lost.mean() if reduction == "mean" else lost.sum()

    @precise
    def log_partition(self, graph: Graphs, scores: Mapping[str, Tensor]) -> Tensor:
        """log Z of each example: exact where possible, else what the inference says."""
        return self._beliefs(self.potentials(graph, scores)).log_partition

    @precise
    @torch.no_grad()
    def marginals(self, graph: Graphs, scores: Mapping[str, Tensor]) -> Tensor:
        """The probability of each state of each variable (variables, states)."""
        return self._beliefs(self.potentials(graph, scores)).variables

    @precise
    @torch.no_grad()
    def decode(self, graph: Graphs, scores: Mapping[str, Tensor]) -> Tensor:
        """A best state of each variable: exact where possible, else by max-product messages."""
        return Automatic().best(self.potentials(graph, scores)).assignment

    def potentials(self, graph: Graphs, scores: Mapping[str, Tensor]) -> Potentials:
        """The library's potentials of these scores, for any of its inferences."""
        graph = graph if isinstance(graph, FactorGraph) else disjoint_union(graph)
        names = [group.name for group in graph.groups]
        if names != list(self.tables):
            raise GraphError(
                f"the graph has the groups {', '.join(names)}; this module was made for "
                f"{', '.join(self.tables)}, in this order."
            )
        if unknown := set(scores) - set(names):
            raise DataError(f"scores for '{min(unknown)}', but the groups are {', '.join(names)}.")
        graph = graph.planned(_untied)
        stacks = []
        for group in graph.groups:
            table: Tensor = self.tables[group.name]
            given = scores.get(group.name)
            wanted = len(group), *table.shape
            if given is None:
                given = table.new_zeros(())
            elif given.shape != wanted:
                raise DataError(
                    f"the scores of '{group.name}' have shape {tuple(given.shape)}; {len(group)} "
                    f"factors of these states need {wanted}."
                )
            dtype = torch.promote_types(given.dtype, table.dtype)
            dtype = torch.promote_types(dtype, torch.float32)
            stacks.append((given.to(dtype) + table.to(dtype)).expand(wanted))
        dtypes = [own.dtype for own in stacks]
        dtype = torch.float64 if torch.float64 in dtypes else torch.float32
        return Potentials(graph, tuple(DenseTable(own.to(dtype)) for own in stacks))

    def _beliefs(self, potentials: Potentials) -> Beliefs:
        return Automatic(otherwise=self.inference)(potentials)  # type: ignore[arg-type]

    def _inference(self, graph: FactorGraph, kind: str) -> Inference:
        if kind == "bp":
            return self.inference
        method, reason = Automatic().chosen(graph)
        if reason is not None:
            raise InferenceError(f"{reason} Or train with estimator='bp', 'pl' or 'pwpl'.")
        return method


def _known(estimator: FieldEstimator) -> FieldEstimator:
    if estimator not in get_args(FieldEstimator):
        known = ", ".join(get_args(FieldEstimator))
        raise SettingsError(f"estimator='{estimator}' is not one of {known}.")
    return estimator


def _untied(graph: FactorGraph) -> FactorGraph:
    """The graph whose factors have a table each."""
    groups = tuple(replace(own, table=torch.arange(len(own)).to(own.scope)) for own in graph.groups)
    return replace(graph, groups=groups)


def _planned(graph: FactorGraph, kind: Local, with_ends: bool) -> list[Problems]:
    """The problems of an estimator, where the graph is."""
    return [moved(own, graph.device) for own in problems_of(graph.to("cpu"), kind, with_ends)]


def _checked(labels: Tensor, graph: FactorGraph) -> Int64[Tensor, " v"]:
    labels = torch.as_tensor(labels, device=graph.device).long()
    if labels.shape != graph.states.shape:
        raise DataError(
            f"labels have shape {tuple(labels.shape)}, and the graph {graph.variables} variables."
        )
    wrong = (labels >= graph.states).nonzero()
    if len(wrong):
        variable = int(wrong[0])
        raise DataError(
            f"variable {variable} has the label {int(labels[variable])}, and "
            f"{int(graph.states[variable])} states."
        )
    return labels


# What is lost on labels, example by example.


def _lost(
    potentials: Potentials, labels: Int64[Tensor, " v"], inference: Inference
) -> Float[Tensor, " c"]:
    """log Z less the score of the labels, or less log Z over what they leave open."""
    # In float64: both are sums over all factors, and nearly equal once training has gone far.
    dtype = potentials.dtype
    tables = tuple(DenseTable(own.dense().double()) for own in potentials.tables)
    field = Potentials(potentials.graph, tables)
    value = inference(field).log_partition
    if bool((labels >= 0).all()):
        return (value - field.score(labels)).to(dtype)
    states = torch.arange(field.graph.most_states, device=labels.device)
    allowed = (labels.unsqueeze(1) == states) | (labels.unsqueeze(1) < 0)
    return (value - inference(restrict(field, allowed)).log_partition).to(dtype)


def local_losses(
    potentials: Potentials, labels: Int64[Tensor, " v"], problems: Sequence[Problems]
) -> Float[Tensor, " c"]:
    """Minus the sum of log P(free variables | the others) over local problems."""
    graph = potentials.graph
    if bool((labels < 0).any()):
        raise DataError(
            f"variable {int((labels < 0).int().argmax())} has an unknown label; estimators without "
            "inference need all of them. Try estimator='ml' or 'bp'."
        )
    total = torch.zeros(graph.components, dtype=potentials.dtype, device=graph.device)
    for own in problems:
        shape = tuple(int(n) for n in graph.states[own.scope[0]])
        scores = total.new_zeros(len(own), *shape)
        for part in own.parts:
            view = [n if axis in part.covers else 1 for axis, n in enumerate(shape)]
            added = _given_others(potentials, labels, part).reshape(-1, *view).expand(-1, *shape)
            scores = scores.index_add(0, part.problem, added)
        cells = cells_of(labels[own.scope], shape)
        lost = nn.functional.cross_entropy(scores.flatten(1), cells, reduction="none")
        total = total.index_add(0, graph.component[own.scope[:, 0]], lost)
    return total


def _given_others(
    potentials: Potentials, labels: Int64[Tensor, " v"], part: ProblemPart
) -> Float[Tensor, " m *free"]:
    """The scores of a factor's free states where its others have their labels."""
    group = potentials.graph.groups[part.group]
    scope, axes = group.scope[part.factor], range(group.arity)
    states = [slice(None) if axis in part.free else labels[scope[:, axis]] for axis in axes]
    picked = potentials.tables[part.group].dense()[(group.table[part.factor], *states)]
    ordered = sorted(part.free)
    return picked.permute(0, *(1 + ordered.index(axis) for axis in part.free))
