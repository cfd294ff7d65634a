"""A Potts field on a complete graph: free scores for every state and every pair of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.graph.builders import complete
from mrflearn.graph.potentials import DenseTable, Potentials

Couplings = Float[Tensor, "e s s"]
Pairs = Int[Tensor, "2 e"]


@dataclass(frozen=True, eq=False)
class PottsModel:
    """Fields that vanish at state 0, and full coupling tables for the pairs (0, 1), (0, 2), ...

    Coupling tables have more numbers than the distribution needs; the penalty on them picks one
    of the equivalent sets (the gauge of plmDCA, CCMpred and plmc).
    """

    fields: Float[Tensor, "v free"]  # free: one state less
    couplings: Couplings

    @classmethod
    def zeros(
        cls,
        variables: int,
        states: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> PottsModel:
        """The uniform distribution."""
        pairs = variables * (variables - 1) // 2
        return cls(
            torch.zeros(variables, states - 1, dtype=dtype, device=device),
            torch.zeros(pairs, states, states, dtype=dtype, device=device),
        )

    @property
    def pairs(self) -> Pairs:
        """First and second variable of each coupling table."""
        variables = len(self.fields)
        return torch.triu_indices(variables, variables, 1, device=self.fields.device)

    def parameters(self) -> dict[str, Tensor]:
        return {"fields": self.fields, "couplings": self.couplings}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> PottsModel:
        return PottsModel(parameters["fields"], parameters["couplings"])

    def full_fields(self) -> Float[Tensor, "v s"]:
        """The fields with the zeros of state 0."""
        return pad(self.fields, (1, 0))

    def score(self, rows: Int[Tensor, "n v"]) -> Float[Tensor, " n"]:
        """The unnormalised log-probability of each row, in float64."""
        first, second = self.pairs
        pair = torch.arange(len(first), device=rows.device)
        found = self.couplings[pair, rows[:, first], rows[:, second]].double().sum(dim=1)
        column = torch.arange(len(self.fields), device=rows.device)
        return found + self.full_fields()[column, rows].double().sum(dim=1)

    def conditional_scores(self, row: Int[Tensor, " v"]) -> Float[Tensor, "v s"]:
        """The scores of all states of each variable, the others as in a row, in float64."""
        first, second = self.pairs
        pair = torch.arange(len(first), device=row.device)
        scores = self.full_fields().double()
        scores.index_add_(0, first, self.couplings[pair, :, row[second]].double())
        return scores.index_add_(0, second, self.couplings[pair, row[first]].double())

    def potentials(self) -> Potentials:
        """The same field as any inference reads it."""
        variables, states = len(self.fields), self.fields.shape[1] + 1
        graph = complete(variables, states).to(self.fields.device)
        return Potentials(graph, (DenseTable(self.full_fields()), DenseTable(self.couplings)))


def spread(couplings: Couplings, pairs: Pairs, variables: int) -> Float[Tensor, "v s v s"]:
    """The symmetric matrix of all pairs of states: [k, b, j, a] and [j, a, k, b] are equal.

    No pair may be named twice.
    """
    states = couplings.shape[-1]
    whole = couplings.new_zeros(variables, states, variables, states)
    blocks = whole.permute(0, 2, 1, 3)
    first, second = pairs
    blocks[first, second] = couplings
    blocks[second, first] = couplings.transpose(1, 2)
    return whole


def gather_pairs(whole: Float[Tensor, "v s v s"], pairs: Pairs) -> Couplings:
    """What `spread` does to gradients, backwards: both places of each pair summed."""
    blocks = whole.permute(0, 2, 1, 3)
    first, second = pairs
    return blocks[first, second] + blocks[second, first].transpose(1, 2)
