"""Persistent contrastive divergence: Markov chains in place of log Z.

The gradient of minus the log-likelihood of a row is (frequencies in the field) - (frequencies in
the data).  The former are those of chains that go on from where they were as the field changes
slowly [Younes 1989; Tieleman 2008]; it needs no log Z, so it is for fields of any width.  How close
the field is to the data is measured by the connected correlations of all pairs of variables,
f_ij(a, b) - f_i(a) f_j(b): their Pearson correlation, data against chains [Figliuzzi et al. 2018].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.features.observations import Samples, clique_counts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import lone_cliques
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.sampling import Conditionals
from mrflearn.kernels.potts_gibbs import Chains, PottsGibbs, joint_frequencies
from mrflearn.models.potts import spread
from mrflearn.objectives.base import Evaluation, Objective, Vector
from mrflearn.objectives.likelihood import FieldModel
from mrflearn.objectives.pseudolikelihood import is_dense

M = TypeVar("M", bound=FieldModel)
Tables = Sequence[Tensor]  # of each factor group: factors x states x states ...


@final
class GibbsChains:
    """How chains on one graph move, and the frequencies they show.

    Fields with most pairs and equal numbers of states have a kernel of their own.
    """

    def __init__(self, graph: FactorGraph) -> None:
        self.graph, self.states = graph, graph.most_states
        self.kernel: PottsGibbs | None = None

    @cached_property
    def dense(self) -> bool:
        """Whether the kernel for complete fields is used."""
        return is_dense(self.graph)

    @cached_property
    def pairs(self) -> Int[Tensor, "2 e"]:
        """All pairs of variables with a table, group by group; of dense graphs."""
        scopes = [group.scope for group in self.graph.groups if group.arity == 2]
        return torch.cat(scopes).t()

    def begin(self, potentials: Potentials, count: int, generator: torch.Generator) -> Chains:
        """Chains that start from the unary scores alone."""
        bias = potentials.unary_scores()
        weights = torch.softmax(bias.float(), dim=1)
        found = torch.multinomial(weights, count, replacement=True, generator=generator)
        return found.t().contiguous()

    def sweep(
        self, potentials: Potentials, chains: Chains, sweeps: int, generator: torch.Generator
    ) -> Chains:
        """The chains after so many sweeps over all variables."""
        if self.dense:
            scores = [potentials.factor_scores(k) for k in range(len(self.graph.groups))]
            tables = zip(self.graph.groups, scores, strict=True)
            fields = potentials.unary_scores()
            pairs = torch.cat([own for group, own in tables if group.arity == 2])
            whole = spread(pairs, self.pairs, self.graph.variables)
            if self.kernel is None:
                self.kernel = PottsGibbs(len(chains), fields)
            return self.kernel(fields, whole, chains, sweeps, generator)
        conditionals, states = Conditionals.of(potentials), chains.t().contiguous()
        for _ in range(sweeps):
            conditionals.sweep(states, generator)
        return states.t().contiguous()

    def frequencies(self, rows: Chains, weights: Float[Tensor, " n"] | None = None) -> Tables:
        """How often each factor's variables are in each joint state, in each group a stack."""
        if self.dense:
            whole = joint_frequencies(rows, self.states, weights)
            blocks = whole.permute(0, 2, 1, 3)
            single = blocks.diagonal(dim1=0, dim2=1).diagonal(dim1=0, dim2=1)  # (v, s)
            return [
                single[group.scope[:, 0]] if group.arity == 1 else blocks[tuple(group.scope.t())]
                for group in self.graph.groups
            ]
        cliques = lone_cliques(self.graph)
        shapes = [group.shape.sizes for group in cliques]
        counts = clique_counts([group.scope for group in cliques], shapes, Samples(rows, weights))
        return [table / counts.weights for table in counts.counts]


def connected_correlations(tables: Tables) -> Float[Tensor, " c"]:
    """f_ij(a, b) - f_i(a) f_j(b) of all pairs with a table, end to end."""
    parts = [
        (table - table.sum(2, keepdim=True) * table.sum(1, keepdim=True)).flatten()
        for table in tables
        if table.ndim == 3
    ]
    return torch.cat(parts) if parts else torch.zeros(0)


def pearson(one: Float[Tensor, " c"], other: Float[Tensor, " c"]) -> Float[Tensor, ""]:
    """The correlation of two vectors; 0 where one of them does not vary."""
    one, other = one.double() - one.double().mean(), other.double() - other.double().mean()
    size = (one.square().sum() * other.square().sum()).sqrt()
    return torch.where(size > 0, one.dot(other) / size, 0.0)


class PersistentContrast(Objective[M]):
    """Minus the log-likelihood as persistent chains show it: its gradient, a row of data.

    The value is 1 - the Pearson correlation of connected correlations, for the log-likelihood
    itself is not known.  Each evaluation moves the committed chains by some sweeps, with random
    numbers that depend on the seed and on the number of commits alone.
    """

    def __init__(
        self,
        model: M,
        data: Tables,
        chains: int,
        *,
        sweeps: int = 10,
        weight: float = 1.0,
        l2: float | Vector = 0.0,
        seed: int = 0,
    ) -> None:
        if min(chains, sweeps) < 1:
            raise TrainingError(f"chains={chains} and sweeps={sweeps} must be at least 1.")
        self.model, self.data, self.sweeps, self.seed = model, data, sweeps, seed
        self.weight, self.l2, self.commits = weight, l2, 0
        self.moves = GibbsChains(model.potentials().graph)
        self.connected = connected_correlations(data)
        self.chains = self.moves.begin(model.potentials(), chains, self.generator)
        self.last = self.chains

    @property
    def generator(self) -> torch.Generator:
        """The source of random numbers of the next evaluation."""
        # Some generators read 32 bits of their seed.
        (own,) = np.random.SeedSequence([self.seed, self.commits]).generate_state(1).tolist()
        return torch.Generator(self.data[0].device).manual_seed(own)

    def __call__(self, vector: Vector, /) -> Evaluation:
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            potentials = self.at(leaf).potentials()
            scores = [potentials.factor_scores(k) for k in range(len(self.data))]
        with torch.no_grad():
            self.last = self.moves.sweep(potentials, self.chains, self.sweeps, self.generator)
            seen = self.moves.frequencies(self.last)
        with torch.enable_grad():
            loss = leaf.new_zeros(())
            for own, model, data in zip(scores, seen, self.data, strict=True):
                loss = loss + (own * (model - data).to(own.dtype)).sum()
            loss = self.weight * loss + (self.l2 * leaf.square()).sum()
        (gradient,) = torch.autograd.grad(loss, leaf)
        return Evaluation(1 - pearson(connected_correlations(seen), self.connected), gradient)

    def commit(self) -> None:
        self.chains = self.last
        self.commits += 1

    def state(self) -> dict[str, Tensor]:
        return {
            "chains": self.chains.to(torch.float32),
            "commits": torch.tensor([self.commits], dtype=torch.float64),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        self.chains = state["chains"].to(self.chains)
        self.last, self.commits = self.chains, int(state["commits"])


@final
class ContrastUntil(PersistentContrast[M]):
    """The same where a value below `enough` ends the descent: the gradient is zero there.

    So what is handed out is the vector that was judged, not what a step more has made of it.
    """

    random = True  # chains that have moved on have another value

    def __init__(self, model: M, data: Tables, chains: int, *, enough: float, **more: Any) -> None:
        super().__init__(model, data, chains, **more)
        self.enough = enough

    def __call__(self, vector: Vector, /) -> Evaluation:
        found = super().__call__(vector)
        going = (found.value >= self.enough).to(found.gradient)
        return replace(found, gradient=found.gradient * going)
