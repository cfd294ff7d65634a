"""Components of one structure, found so that they can be worked on together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.graph.elimination import Structure
from mrflearn.graph.factor_graph import FactorGraph


@dataclass(frozen=True, eq=False)
class Replicas:
    """n components whose variables and factors, numbered within each, are the same.

    `variables[i, m]` is the variable of the graph that is number m in the i-th of them, and
    `factors[g][i, k]` the factor of group g that is its k-th there; `structure.scopes` names the
    factors group after group.
    """

    structure: Structure
    components: Int[Tensor, "n"]
    variables: Int[Tensor, "n m"]
    factors: tuple[Int[Tensor, "n k"], ...]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """(g, k) for every factor of the structure."""
        return [(g, k) for g, block in enumerate(self.factors) for k in range(block.shape[1])]

    def part(self, start: int, stop: int) -> Replicas:
        """Some of the components."""
        factors = tuple(numbers[start:stop] for numbers in self.factors)
        return Replicas(
            self.structure, self.components[start:stop], self.variables[start:stop], factors
        )


def find_replicas(graph: FactorGraph) -> list[Replicas]:
    """All components of a graph that have variables, those of equal structure together."""
    component = graph.component.cpu().numpy()
    members = _sorted_by(component, graph.components)
    within = np.empty(graph.variables, dtype=np.int64)
    for inside in members:
        within[inside] = np.arange(len(inside))
    states = graph.states.cpu().numpy()
    owners, scopes = [], []
    for group in graph.groups:
        scope = group.scope.cpu().numpy()
        owners.append(_sorted_by(component[scope[:, 0]], graph.components))
        scopes.append(within[scope])
    alike: dict[tuple[bytes, ...], list[int]] = {}
    for number, inside in enumerate(members):
        parts = (
            scope[owner[number]].tobytes() for scope, owner in zip(scopes, owners, strict=True)
        )
        if len(inside):
            alike.setdefault((states[inside].tobytes(), *parts), []).append(number)
    found = []
    for numbers in alike.values():
        first = numbers[0]
        rows = [scope[owner[first]] for scope, owner in zip(scopes, owners, strict=True)]
        structure = Structure(
            tuple(states[members[first]].tolist()),
            tuple(tuple(scope) for block in rows for scope in block.tolist()),
        )
        found.append(_gather(graph.device, structure, numbers, members, owners))
    return found


def _sorted_by(owner: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """For each owner the things it owns, ascending."""
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=count))
    return np.split(order, ends[:-1])


def _gather(
    device: torch.device,
    structure: Structure,
    numbers: list[int],
    members: list[NDArray[np.int64]],
    owners: list[list[NDArray[np.int64]]],
) -> Replicas:
    def stack(lists: list[NDArray[np.int64]]) -> Tensor:
        return torch.from_numpy(np.stack([lists[number] for number in numbers])).to(device)

    return Replicas(
        structure,
        torch.tensor(numbers, device=device),
        stack(members),
        tuple(stack(owner) for owner in owners),
    )
