"""`GraphCRF`: a conditional random field on graphs of any form, one per example.

An example is

- a networkx graph: `features` of a node or an edge is an item, as `mrflearn.features.features`
  describes it; factors are its nodes ("node") and edges ("edge");
- or a pair (FactorGraph, {group: items}), one item per factor of each group (a group that is not
  named has none).

Every factor also has the attribute `BIAS`, so that labels and label pairs have weights without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import DataError, GraphError
from mrflearn.estimators.field_crf import FieldCRF, marginals
from mrflearn.execution.executor import Executor
from mrflearn.features.features import (
    Numbering,
    compile_features,
    compile_labels,
    warn_of_single_label,
)
from mrflearn.features.index import FactorTemplate
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, disjoint_union
from mrflearn.graph.parts import connected_parts
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.storage import texts
from mrflearn.training.checkpoint import Checkpoint

BIAS = "bias"
NODE, EDGE = "node", "edge"


@dataclass(kw_only=True, eq=False, repr=False)
class GraphCRF(FieldCRF):
    """A CRF on any graphs: networkx graphs with features on nodes and edges, or factor graphs.

    In undirected graphs the weights of an edge do not depend on its direction; in directed ones
    they do.

    Parameters
    ----------
    estimator
        `"pw"` (each factor by itself), `"pwpl"` (each variable within each factor), `"pl"` (each
        variable given all around it), `"edge-pl"` (the variables of each factor given all around
        them), `"ml"` (exact; small width), `"bp"` (loopy belief propagation) or `"pw-reweighted"`
        (a convex combination of pieces); `"auto"` takes the one that suits the graphs and says
        why; in Python see `choice_`.
    features
        A function that gives the nodes and edges of a graph their features, as
        `"my_features:of_graph"`; in Python also the function itself.  None: they have them.
    connected
        True refuses a graph in several parts, as one with an edge forgotten; False takes it.
    pieces
        Of `"pw"` and `"pwpl"`: `"edges"` (an edge takes the features of its ends with it; the
        default) or `"factors"`; in Python also lists of kinds of factors, each list one piece per
        example, as in `[["node", "edge"]]`.
    shares
        Of `"pw-reweighted"`: `"uniform"` or `"optimised"`; in Python also {kind of factor: weight}.
    c1
        Strength of the L1 regularisation: c1 * sum |w| is added.
    c2
        Strength of the L2 regularisation: c2 * sum w^2 is added; a Gaussian prior of variance v is
        c2 = 1 / 2v.
    min_freq
        An attribute has weights for the labels that it was seen with this often.
    all_possible_pairs
        Whether every attribute has weights for all labels.
    algorithm : {"lbfgs", "l2sgd"}
        L-BFGS (OWL-QN where c1 > 0), or stochastic gradient descent.
    max_iterations, num_memories, epsilon, period, delta, batch_size
        As in `CRF`.
    inference
        Answers are `"exact"`, by `"bp"`, marginals also by `"trw"`; `"auto"` is exact wherever the
        width of a graph allows.
    callbacks, n_jobs, dtype, random_state, verbose
        As in `CRF`.

    Attributes
    ----------
    classes_
        The labels, in the order of their first appearance.
    outcome_
        How training went.
    choice_
        With `estimator="auto"`: the estimator taken, and why.

    """

    connected: bool = True

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        *,
        executor: Executor | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from graphs and the labels of their nodes.

        Parameters
        ----------
        X
            networkx graphs whose nodes and edges may have `features` (an item, as `CRF` takes
            them), or pairs (FactorGraph, {group: items}).
        y
            For each graph {node: label}, or a list in the order of the nodes; None is unknown, a
            set is any of these.
        executor
            Where value and gradient are summed; None: here, on `n_jobs` cores.
        checkpoint, resume
            As in `CRF.fit`.

        Returns
        -------
        the fitted CRF itself

        """
        examples, names = graph_examples(self._extracted(X, 0)), Numbering()
        batch = graph_batch(examples, names, y, connected=self.connected)
        warn_of_single_label(names)
        names.closed = True
        how: dict[str, Any] = {"executor": executor, "checkpoint": checkpoint, "resume": resume}
        self._train(batch, tied=mirrored if is_mirrored(examples) else None, **how)
        self.mirrored_, self.names_ = is_mirrored(examples), (names,)
        return self

    def marginal_kinds(self, X: Iterable[Any]) -> list[str]:
        """How the marginals of each graph are found: exact, a bound, or an approximation."""
        return [own.kind for own in marginals(self._fitted(), self._asked(X)[1], self.inference)]

    def _asked(
        self, X: Iterable[Any], y: Iterable[Any] | None = None
    ) -> tuple[list[GraphExample], FieldBatch]:
        model, examples = self._fitted(), graph_examples(self._items(X))
        if is_mirrored(examples) != self.mirrored_:
            raise DataError("trained on undirected graphs, asked about directed ones (or reverse).")
        names, connected = self.names_[0], self.connected
        return examples, graph_batch(examples, names, y, model.templates, connected=connected)

    def _layers(self, examples: Any, y: Iterable[Any]) -> list[list[list[Any]]]:
        return [[own] for own in labels_in_order(examples, y)]

    def _form(self, example: GraphExample, layers: Any) -> Any:
        return example.named(layers[0])

    def _axis_labels(self, template: FactorTemplate) -> list[list[str]]:
        return [self.classes_] * len(template.shape)

    def _state(self) -> dict[str, Any]:
        return {"labels": self.classes_, "mirrored": self.mirrored_}

    def _restore_inputs(self, state: dict[str, Any]) -> None:
        self.names_ = (Numbering(texts(state, "labels"), closed=True),)
        self.mirrored_ = bool(state["mirrored"])


# Graphs as users have them, packed into one batch.


class GraphExample(NamedTuple):
    """A graph, the items of its factors group by group, and the names of its variables."""

    graph: FactorGraph
    items: tuple[Sequence[Any], ...]
    nodes: tuple[Any, ...] | None  # None: variables are known by their numbers
    directed: bool

    def named(self, answers: Any) -> Any:
        """What was found for its variables: by node, or as the list or array it is."""
        return answers if self.nodes is None else dict(zip(self.nodes, answers, strict=True))


def graph_examples(X: Iterable[Any]) -> list[GraphExample]:
    """What the user gave: all directed, or all undirected, or all factor graphs."""
    examples = [_example(given, number) for number, given in enumerate(X)]
    if not examples:
        raise DataError("X is empty: there is no graph to learn from or to answer for.")
    kinds = [(own.directed, own.nodes is None) for own in examples]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DataError(f"example {number} is of another kind of graph than example 0.")
    return examples


def is_mirrored(examples: Sequence[GraphExample]) -> bool:
    """Whether edges have no direction, so that their weights must not depend on one."""
    return examples[0].nodes is not None and not examples[0].directed


def graph_batch(
    examples: Sequence[GraphExample],
    names: Numbering,
    y: Iterable[Any] | None = None,
    templates: Sequence[FactorTemplate] = (),
    *,
    connected: bool = False,
) -> FieldBatch:
    """All graphs as one, with the labels that are known; templates name the known attributes.

    New labels get numbers unless the names are closed; with `connected`, a graph in parts is a
    `GraphError`.
    """
    known = None
    if y is not None:
        lengths = torch.tensor([own.graph.variables for own in examples])
        known = compile_labels(labels_in_order(examples, y), lengths, names)
    if not names:
        raise DataError("y names no label at all; there is nothing to learn from.")
    graphs = [
        replace(own.graph, states=torch.full_like(own.graph.states, len(names))) for own in examples
    ]
    union = disjoint_union(graphs)
    groups = tuple(replace(group, table=torch.arange(len(group))) for group in union.groups)
    graph, features = replace(union, groups=groups), []
    for k in range(len(groups)):
        rows = [[_with_bias(item) for item in own.items[k]] for own in examples]
        index = (templates[k].names, templates[k].columns) if templates else ()
        features.append(compile_features(rows, *index))
    if connected:
        _check_connected(examples, graph)
    if known is None:
        return FieldBatch(graph, tuple(features), torch.zeros_like(graph.states)).unlabelled()
    return FieldBatch(graph, tuple(features), known.states, known.uncertain, known.allowed)


def labels_in_order(examples: Sequence[GraphExample], y: Iterable[Any]) -> list[list[Any]]:
    """The labels of each example in the order of its variables."""
    given, found = list(y), []
    if len(given) != len(examples):
        raise DataError(f"X has {len(examples)} graphs and y has {len(given)}.")
    for number, (labels, own) in enumerate(zip(given, examples, strict=True)):
        if isinstance(labels, Mapping):
            if own.nodes is None:
                raise DataError(f"example {number}: labels of a factor graph are a list.")
            known = set(own.nodes)
            for node in labels:
                if node not in known:
                    raise DataError(f"example {number}: there is no node {node!r} to label.")
            labels = [labels.get(node) for node in own.nodes]
        found.append(list(labels))
    return found


def _example(given: Any, number: int) -> GraphExample:
    if hasattr(given, "nodes") and hasattr(given, "edges"):
        return _from_networkx(given, number)
    graph, items = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if isinstance(graph, FactorGraph):
        return _from_factor_graph(graph, items, number)
    raise DataError(
        f"example {number} is a {type(given).__name__}; an example is a networkx graph or a pair "
        "(FactorGraph, {group: items})."
    )


def _from_networkx(graph: Any, number: int) -> GraphExample:
    if graph.is_multigraph():
        raise GraphError(f"example {number} has parallel edges. Try networkx.Graph(graph).")
    nodes = tuple(graph.nodes)
    place = {node: k for k, node in enumerate(nodes)}
    for a, b in graph.edges:
        if a == b:
            raise GraphError(f"example {number}: node {a!r} is joined to itself.")
    scope = torch.tensor([(place[a], place[b]) for a, b in graph.edges], dtype=torch.int64)
    alone = FactorGroup(NODE, torch.arange(len(nodes)).unsqueeze(1))
    states = torch.ones(len(nodes), dtype=torch.int64)
    field = FactorGraph(states, (alone, FactorGroup(EDGE, scope.reshape(-1, 2))))
    kinds = (graph.nodes, graph.edges)
    items = tuple([own for *_, own in kind(data="features", default=())] for kind in kinds)
    return GraphExample(field, items, nodes, bool(graph.is_directed()))


def _from_factor_graph(
    graph: FactorGraph, items: Mapping[str, Sequence[Any]], number: int
) -> GraphExample:
    names = [group.name for group in graph.groups]
    unknown = sorted(set(items).difference(names))
    if unknown:
        raise DataError(f"example {number} has items for '{unknown[0]}'; its groups are {names}.")
    found = []
    for group in graph.groups:
        own = items.get(group.name, [()] * len(group))
        if len(own) != len(group):
            raise DataError(
                f"example {number}: group '{group.name}' has {len(group)} factors and {len(own)} "
                "items."
            )
        found.append(own)
    if graph.components > 1:
        raise DataError(f"example {number} is a batch of {graph.components}; give each by itself.")
    return GraphExample(graph, tuple(found), None, True)


def _with_bias(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {BIAS: 1.0, **item}
    if isinstance(item, list | tuple | set | frozenset):
        return [BIAS, *item]
    return {BIAS: 1.0, "": item}


def _check_connected(examples: Sequence[GraphExample], graph: FactorGraph) -> None:
    """Raises `GraphError` for the first example in the batch's graph that is in parts."""
    part = connected_parts(graph)
    pairs = torch.stack([graph.component, part], dim=1).unique(dim=0)
    parts = torch.bincount(pairs[:, 0], minlength=graph.components)
    if not bool((parts > 1).any()):
        return
    number = int((parts > 1).int().argmax())
    inside = part[graph.component == number]
    inside -= inside.min()
    sizes = torch.bincount(inside).tolist()
    shown = ", ".join(map(str, sizes[:5])) + (", ..." if len(sizes) > 5 else "")
    names = examples[number].nodes or range(len(inside))
    first, second = (names[int((inside == k).int().argmax())] for k in (0, 1))
    raise GraphError(
        f"example {number} is not connected: it is in {len(sizes)} parts, of {shown} nodes; no "
        f"path leads from {first!r} to {second!r}. Is an edge missing, or a node spelt in two "
        "ways? If not, give the parts as examples of their own, or set connected=False to learn "
        "and label them side by side."
    )


def mirrored(
    templates: Sequence[FactorTemplate],
) -> tuple[tuple[FactorTemplate, ...], Int64[Tensor, " p"]]:
    """Templates whose edges have no direction, and of every weight the free weight that it is.

    A pair of labels (a, b) of an edge has a weight wherever (b, a) has one, and the two are one
    free weight; all others are free.
    """
    found, numbers, begin = [], [], 0
    for own in templates:
        every = turned = torch.arange(own.cells)
        if own.name == EDGE:
            turned = every.view(own.shape).t().flatten()
            code = torch.cat([own.codes, own.attribute * own.cells + turned[own.cell]]).unique()
            own = replace(own, attribute=code // own.cells, cell=code % own.cells)
        cell = torch.cat([own.cell, every.repeat(len(own.columns))])
        dense = len(own.names) + torch.arange(len(own.columns)).repeat_interleave(own.cells)
        code = torch.cat([own.attribute, dense]) * own.cells + torch.minimum(cell, turned[cell])
        free, number = torch.unique(code, return_inverse=True)
        found.append(own)
        numbers.append(number + begin)
        begin += len(free)
    return tuple(found), torch.cat(numbers)
