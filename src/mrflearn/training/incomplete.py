"""Fields from rows in which values are missing: expectation and maximisation [Dempster 1977].

Each row stands for all its completions, weighted by how probable the current field makes them given
what was observed; that needs no log Z.  The field is then learned from these rows as from complete
ones, until it moves no more.  For maximum likelihood that is the EM algorithm; for every other
estimator it solves E[its score given what was observed] = 0, which is as consistent as the
estimator itself where what is missing does not depend on its own value.

Rows with too many completions stand for some of them, drawn by Gibbs sampling in every round;
the field is the mean of the last rounds then (stochastic EM [Celeux and Diebolt 1985]).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.features.observations import Samples
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.models.tabular import TabularModel
from mrflearn.training.outcome import Outcome

LIMITS = (4096, 1024, 256, 64, 16, 4, 1)  # completions of one row: the most that all rows can pay
DRAWS = 5  # of a row with more completions, in every round
MANY, MANY_A_ROW = 10_000, DRAWS  # completions of all rows together, the larger of the two
DRAWN_CELLS = 1 << 26
ROUNDS = 60
STOCHASTIC_ROUNDS = 20
SWEEPS = 3  # of Gibbs sampling a round, which go on from the last one
STILL = 1e-5  # a round that moves no parameter by more than this is the last

Fit = Callable[[Samples, TabularModel | None], Outcome[TabularModel]]


@dataclass(frozen=True, eq=False)
class Completions:
    """All completions of some rows, and draws of the others.

    `rows` are complete; `owner` says which sample each belongs to and `weight` is that sample's.
    The first `listed` are all completions of their samples, the rest are draws, of which `gaps`
    says what is drawn.
    """

    rows: Int[Tensor, "m v"]
    owner: Int[Tensor, " m"]
    weight: Float[Tensor, " m"]
    listed: int
    gaps: Tensor
    samples: int

    @classmethod
    def of(cls, graph: FactorGraph, samples: Samples) -> Completions:
        """The completions of incomplete samples."""
        missing = ~samples.observed()
        states = samples.states.long().masked_fill(missing, 0)
        count = torch.where(missing, graph.states, 1).double().prod(dim=1)
        most = max(MANY, MANY_A_ROW * len(states))
        limit = next(own for own in LIMITS if float(count[count <= own].sum()) <= most)
        few = count <= limit
        chosen = few.nonzero().squeeze(1)
        owner = chosen.repeat_interleave(count[few].long())
        rows = states[owner]
        begin = count[few].long().cumsum(0) - count[few].long()
        number = torch.arange(len(owner), device=owner.device)
        number -= begin.repeat_interleave(count[few].long())
        for column in missing[few].any(dim=0).nonzero().squeeze(1).tolist():
            size = torch.where(missing[owner, column], graph.states[column], 1)
            rows[:, column] = torch.where(missing[owner, column], number % size, rows[:, column])
            number = number // size
        others = (~few).nonzero().squeeze(1)
        room = DRAWN_CELLS // max(1, len(others) * graph.variables)
        drawn = others.repeat_interleave(max(1, min(DRAWS, room)))
        share = len(others) / max(1, len(drawn))
        weights = samples.row_weights
        weight = torch.cat([weights[owner], weights[drawn] * share])
        every = torch.cat([owner, drawn])
        found = torch.cat([rows, states[drawn]])
        return cls(found, every, weight, len(owner), missing[drawn], len(samples))

    @property
    def drawn(self) -> int:
        """How many samples are completed by draws."""
        return len(self.owner[self.listed :].unique())

    def weighted(self, potentials: Potentials) -> Samples:
        """Complete samples: each completion with its probability under a field."""
        end, owner = self.listed, self.owner[: self.listed]
        scores = potentials.score(self.rows[:end]).sum(dim=-1).double()
        top = scores.new_full((self.samples,), -torch.inf)
        top = top.scatter_reduce(0, owner, scores, "amax")
        masses = (scores - top[owner]).exp()
        total = masses.new_zeros(self.samples).index_add_(0, owner, masses)
        weight = self.weight.clone()
        weight[:end] *= masses / total[owner]
        if end < len(self.rows):
            self._sweep(potentials)
        return replace(Samples.of(self.rows, weight), missing=False)

    def _sweep(self, potentials: Potentials) -> None:
        """Draws what is missing, one variable after the other, given all the rest."""
        rows, graph = self.rows[self.listed :], potentials.graph
        columns = self.gaps.any(dim=0).nonzero().squeeze(1).tolist()
        tables = [potentials.factor_scores(k) for k in range(len(graph.groups))]
        # Where each variable stands: the tables with its states last, and the other variables.
        touching: dict[int, list[tuple[Tensor, list[Tensor]]]] = {column: [] for column in columns}
        for column, parts in touching.items():
            for group, table in zip(graph.groups, tables, strict=True):
                for axis in range(group.arity):
                    own = group.scope[:, axis] == column
                    others = [group.scope[own, k] for k in range(group.arity) if k != axis]
                    if bool(own.any()):
                        parts.append((table[own].movedim(axis + 1, -1), others))
        for _ in range(SWEEPS):
            for column, parts in touching.items():
                here = self.gaps[:, column].nonzero().squeeze(1)
                known = rows[here]
                scores = known.new_zeros(len(here), int(graph.states[column])).to(potentials.dtype)
                for table, others in parts:
                    each = torch.arange(len(table), device=table.device)
                    found = table[(each, *(known[:, other] for other in others))]
                    scores += found.sum(dim=-2)
                chances = scores.softmax(dim=-1).double()
                rows[here, column] = torch.multinomial(chances, 1).squeeze(1)


def learn_incomplete(
    graph: FactorGraph, completions: Completions, fit: Fit, seed: int, noisy: bool = False
) -> Outcome[TabularModel]:
    """The field whose completed samples give that same field back; `noisy`: no fit ends at rest."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _rounds(graph, completions, fit, noisy or completions.drawn > 0)


def _rounds(
    graph: FactorGraph, completions: Completions, fit: Fit, stochastic: bool
) -> Outcome[TabularModel]:
    most, still = (STOCHASTIC_ROUNDS, -1.0) if stochastic else (ROUNDS, STILL)
    model: TabularModel | None = None
    potentials = TabularModel.zeros(graph).potentials()
    mean: list[Tensor] = []
    moved = torch.inf
    for number in range(most):
        outcome = fit(completions.weighted(potentials), model)
        before, model = model, outcome.model
        if outcome.failed or outcome.ending == "interrupted":
            return outcome
        potentials = model.potentials()
        late = number - most // 2
        if stochastic and late >= 0:
            pairs = zip(mean or model.values, model.values, strict=True)
            mean = [old + (new - old) / (late + 1) for old, new in pairs]
        moved = torch.inf if before is None else _distance(before, model)
        if moved <= still:
            break
    rounds = f"rounds of {'stochastic ' * stochastic}expectation and maximisation"
    if stochastic:
        reason = f"the mean of the last {most - most // 2} of {most} {rounds}."
        return replace(outcome, model=TabularModel(graph, tuple(mean)), reason=reason)
    rest = moved <= 100 * still
    reason = (
        f"after {number + 1} {rounds}, parameters {'' if rest else 'still '}move by {moved:.1g}."
    )
    return replace(outcome, ending="value" if rest else "limit", reason=reason)


def _distance(one: TabularModel, other: TabularModel) -> float:
    pairs = zip(one.values, other.values, strict=True)
    return max((float((a - b).abs().max()) for a, b in pairs if a.numel()), default=0.0)
