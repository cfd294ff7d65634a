"""Where the parameters of each clique of a tabular field stand in one flat vector."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import Neighbourhoods
from mrflearn.models.tabular import TabularModel


@dataclass(frozen=True, eq=False)
class ParameterLayout:
    """Where the parameters of each factor, numbered through all groups, stand in one vector."""

    start: Int[Tensor, "f"]
    size: int

    @classmethod
    def of(cls, graph: FactorGraph) -> ParameterLayout:
        begin, starts = 0, []
        for group in graph.groups:
            free = prod(n - 1 for n in graph.shape(group)) if len(group) else 0
            starts.append(begin + group.table * free)
            begin += (int(group.table.max()) + 1 if len(group) else 0) * free
        none = torch.zeros(0, dtype=torch.int64, device=graph.device)
        return cls(torch.cat([none, *starts]), begin)

    def places(self, factors: Int[Tensor, "q"], free: int) -> Int[Tensor, "p q"]:
        """The places of all parameters of some factors of one shape."""
        return self.start[factors] + torch.arange(free, device=factors.device).unsqueeze(1)

    def terms(self, problems: Neighbourhoods) -> Int[Tensor, "p q"]:
        """The places of all parameters of the touching cliques, in the order of their terms."""
        spans = problems.shape.spans
        columns = problems.factors.unbind(dim=1)
        return torch.cat(
            [self.places(f, s.stop - s.start) for f, s in zip(columns, spans, strict=True)]
        )

    def model(self, graph: FactorGraph, flat: Float[Tensor, "p"]) -> TabularModel:
        """The model with these parameters."""
        empty = TabularModel.zeros(graph)
        sizes = [value.numel() for value in empty.values]
        parts = zip(flat.split(sizes), empty.values, strict=True)
        return TabularModel(graph, tuple(part.reshape(value.shape) for part, value in parts))
