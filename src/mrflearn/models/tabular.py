"""Fields with a table for each clique or group of cliques."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.execution.resources import require_memory
from mrflearn.features.observations import Samples
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.neighbourhood import LocalShape
from mrflearn.graph.potentials import DenseTable, Potentials

CHUNK = 16_384  # rows of samples handled at once; bounds memory, changes no result

# A field with a free number for every joint state of every clique, in the reference gauge.


def parameter_count(graph: FactorGraph) -> int:
    """How many parameters all tables of a graph have."""
    return sum(map(prod, _free_shapes(graph)))


def _free_shapes(graph: FactorGraph) -> list[tuple[int, ...]]:
    """The tables of every group, and their axes, each one state less than its variable has."""
    return [
        (int(group.table.max()) + 1, *(n - 1 for n in graph.shape(group)))
        if len(group)
        else (0,) * (1 + group.arity)
        for group in graph.groups
    ]


@dataclass(frozen=True, eq=False)
class TabularModel:
    """Untied or tied tables whose entries vanish when any variable is in state 0.

    This gauge makes parameters identifiable, and is what local training (LAP, Proposition 3)
    needs: with it each clique's potential is a function of the distribution alone.
    """

    graph: FactorGraph
    values: tuple[Float[Tensor, " t *free"], ...]  # free: one state less than the table, a axes

    @classmethod
    def zeros(cls, graph: FactorGraph, dtype: torch.dtype = torch.float64) -> TabularModel:
        """The uniform distribution."""
        require_memory(
            dtype.itemsize * parameter_count(graph),
            f"a table of every clique ({parameter_count(graph):,} parameters)",
            "Use fewer edges, or variables with fewer states.",
            graph.device,
        )
        shapes = _free_shapes(graph)
        return cls(graph, tuple(torch.zeros(s, dtype=dtype, device=graph.device) for s in shapes))

    @classmethod
    def from_potentials(cls, potentials: Potentials) -> TabularModel:
        """The model of a field that is in the reference gauge already."""
        inner = (slice(None), slice(1, None))
        tables = (table.dense() for table in potentials.tables)
        values = tuple(t[inner[:1] + inner[1:] * (t.ndim - 1)].contiguous() for t in tables)
        return cls(potentials.graph, values)

    @classmethod
    def from_tensors(cls, names: list[str], tensors: Mapping[str, Tensor]) -> TabularModel:
        """The model whose `tensors()` these are."""
        groups = tuple(
            FactorGroup(name, tensors[f"scope.{i}"], tensors[f"table.{i}"])
            for i, name in enumerate(names)
        )
        values = tuple(tensors[f"values.{i}"] for i in range(len(names)))
        return cls(FactorGraph(tensors["states"], groups), values)

    def tensors(self) -> dict[str, Tensor]:
        """Graph and parameters under the names that `from_tensors` reads."""
        named = {"states": self.graph.states}
        for i, (group, value) in enumerate(zip(self.graph.groups, self.values, strict=True)):
            named |= {f"scope.{i}": group.scope, f"table.{i}": group.table, f"values.{i}": value}
        return named

    def parameters(self) -> dict[str, Tensor]:
        names = (f"{i}.{group.name}" for i, group in enumerate(self.graph.groups))
        return dict(zip(names, self.values, strict=True))

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> TabularModel:
        return TabularModel(self.graph, tuple(parameters[name] for name in self.parameters()))

    def potentials(self) -> Potentials:
        """Full tables: the parameters padded with zeros for state 0."""
        tables = (DenseTable(pad(v, (1, 0) * (v.ndim - 1))) for v in self.values)
        return Potentials(self.graph, tuple(tables))


@dataclass(frozen=True, eq=False)
class FullTables:
    """A number for every joint state of every factor, more than the distribution needs.

    Counts that contradict each other, as noisy ones do, each pull at numbers of their own.
    """

    graph: FactorGraph
    values: tuple[Float[Tensor, " f *shape"], ...]

    def parameters(self) -> dict[str, Tensor]:
        names = (f"{i}.{group.name}" for i, group in enumerate(self.graph.groups))
        return dict(zip(names, self.values, strict=True))

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> FullTables:
        return FullTables(self.graph, tuple(parameters[name] for name in self.parameters()))

    def potentials(self) -> Potentials:
        """The tables as they are."""
        return Potentials(self.graph, tuple(map(DenseTable, self.values)))


# Where the parameters of each clique of a tabular field stand in one flat vector.


@dataclass(frozen=True, eq=False)
class ParameterLayout:
    """Where the parameters of each factor, numbered through all groups, stand in one vector."""

    start: Int[Tensor, " f"]
    size: int

    @classmethod
    def of(cls, graph: FactorGraph) -> ParameterLayout:
        begin, starts = 0, []
        for group, (tables, *free) in zip(graph.groups, _free_shapes(graph), strict=True):
            starts.append(begin + group.table * prod(free))
            begin += tables * prod(free)
        none = torch.zeros(0, dtype=torch.int64, device=graph.device)
        return cls(torch.cat([none, *starts]), begin)

    def places(self, factors: Int[Tensor, " q"], free: int) -> Int[Tensor, "p q"]:
        """The places of all parameters of some factors of one shape."""
        return self.start[factors] + torch.arange(free, device=factors.device).unsqueeze(1)

    def terms(self, shape: LocalShape, factors: Int[Tensor, "q t"]) -> Int[Tensor, "p q"]:
        """The places of all parameters of the first touching cliques, in the order of terms."""
        columns = zip(factors.unbind(dim=1), shape.spans, strict=False)
        return torch.cat([self.places(own, span.stop - span.start) for own, span in columns])

    def model(self, graph: FactorGraph, flat: Float[Tensor, " p"]) -> TabularModel:
        """The model with these parameters."""
        shapes = _free_shapes(graph)
        parts = zip(flat.split(list(map(prod, shapes))), shapes, strict=True)
        return TabularModel(graph, tuple(part.reshape(shape) for part, shape in parts))


def feature_covariance(graph: FactorGraph, samples: Samples) -> Float[Tensor, "p p"]:
    """The covariance of the parameters' indicator features, summed over all samples."""
    layout = ParameterLayout.of(graph)
    size = layout.size
    second = torch.zeros(size, size, dtype=torch.float64, device=graph.device)
    first = torch.zeros(size, dtype=torch.float64, device=graph.device)
    for chunk in samples.chunks(CHUNK):
        features = _features(graph, layout, chunk.states.T)
        weighted = features if chunk.weights is None else features * chunk.weights
        second += weighted @ features.T
        first += weighted.sum(dim=1)
    return second - torch.outer(first, first) / samples.total


def _features(graph: FactorGraph, layout: ParameterLayout, states: Tensor) -> Float[Tensor, "p n"]:
    """Which parameters count in which sample: those of states that are all above 0."""
    found = torch.zeros(layout.size, states.shape[1], dtype=torch.float64, device=graph.device)
    groups = [group for group in graph.groups if len(group)]
    starts = layout.start.split([len(group) for group in groups])
    for group, start in zip(groups, starts, strict=True):
        columns = states[group.scope.T].long()  # (a, f, n)
        place = torch.zeros_like(columns[0])
        for column, size in zip(columns, graph.shape(group), strict=True):
            place = place * (size - 1) + column - 1
        here = (columns > 0).all(dim=0)
        found.scatter_add_(0, torch.where(here, start.unsqueeze(1) + place, 0), here.to(found))
    return found
