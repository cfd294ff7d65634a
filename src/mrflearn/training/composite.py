"""EM for the composite model: its two kinds of phases, and their alternation.

In one phase words, rules and topic shares are learned from the text, weights of levels held; in the
other the weights are learned from each part of the text under a model of the others, everything
else held.  Within a phase no step makes its text less probable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.execution.executor import Executor
from mrflearn.models.composite_lm import CompositeModel, maximise_rules, maximise_tables
from mrflearn.models.hidden_backoff import normalised_weights
from mrflearn.objectives.expected_counts import Batch, Expected, ExpectedCounts
from mrflearn.training.em import Parameters

Figures: TypeAlias = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class RulePrior:
    """Uses of rules and start symbols that a grammar is taken to have seen before the text.

    A Dirichlet prior: beside an n-gram model words say little of trees, and EM alone would forget
    what a treebank said of them.
    """

    rules: Float[Tensor, "r"]
    start: Float[Tensor, "s"]

    @classmethod
    def around(cls, model: CompositeModel, uses: float) -> RulePrior:
        """So many uses of each phrase, and as many sentences, by the rules of a model."""
        return cls(uses * model.rules.exp(), uses * model.start.exp())

    def added(self, found: Expected) -> Expected:
        """The counts with these uses."""
        return replace(found, rules=found.rules + self.rules, start=found.start + self.start)

    def log_density(self, model: CompositeModel) -> float:
        """The logarithm of the prior of a model's rules, up to a constant."""
        pairs = ((self.rules, model.rules), (self.start, model.start))
        return sum(float((uses * logs)[uses > 0].sum()) for uses, logs in pairs)


@final
@dataclass(frozen=True, eq=False)
class TextStep:
    """One EM step for words, rules and topic shares; the weights of levels stay as they are."""

    model: CompositeModel
    batches: Sequence[Batch]
    executor: Executor
    remembered: RulePrior

    def start(self, documents: Float[Tensor, "d h"]) -> Parameters:
        """The parameters to begin with."""
        return {**self.model.tensors(), "documents": documents}

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        model, documents = self.model.with_tensors(parameters), parameters["documents"]
        found = checked(self.executor.total(ExpectedCounts(model, documents), self.batches))
        drawn = found.documents.sum(dim=1, keepdim=True)
        shares = found.documents / torch.where(drawn > 0, drawn, 1.0)
        new = {**parameters, **maximised(model, self.remembered.added(found)).tensors()}
        new["documents"] = torch.where(drawn > 0, shares, documents)
        return -found.log_likelihood - self.remembered.log_density(model), new


def maximised(model: CompositeModel, found: Expected) -> CompositeModel:
    """[Wang 2005, eq. 4] Normalised expected counts for words and rules."""
    shape = model.shape
    tables = maximise_tables(shape, found.tables, model.tables)
    rules, start = model.rules, model.start
    if shape.grammar is not None:
        rules = maximise_rules(shape.grammar, found.rules, rules)
        total = found.start.sum()
        start = (found.start / total).log() if total > 0 else start
    return replace(model, tables=tables, rules=rules, start=start)


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """Text for which a model is to have the right weights, and its topic shares."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    batches: Sequence[Batch]


class Seen(NamedTuple):
    """What a step for weights found: the log-likelihood, without the prior, and uses of levels."""

    value: float
    used: Float[Tensor, "b a l"]


@final
@dataclass(frozen=True, eq=False)
class WeightStep:
    """One EM step for weights that several models share, after a Dirichlet prior around `centre`.

    Tied, they are the same for all preterminals.
    """

    trials: Sequence[Trial]
    executor: Executor
    centre: Float[Tensor, "b a l"]
    prior: float
    tied: bool = False
    seen: list[Seen] = field(default_factory=list)

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        weights, centre = parameters["weights"], self.centre
        value, used = self.total(weights)
        self.seen.append(Seen(value, used))
        kept = centre > 0
        penalty = self.prior * float((centre[kept] * weights[kept].log()).sum())
        new = normalised_weights(used, centre, self.prior, self.tied)
        return -value - penalty, {"weights": new}

    def total(self, weights: Float[Tensor, "b a l"]) -> tuple[float, Float[Tensor, "b a l"]]:
        """(log-likelihood, how often levels are used) over all trials."""
        value, used = 0.0, torch.zeros_like(weights)
        for trial in self.trials:
            task = ExpectedCounts(replace(trial.model, weights=weights), trial.documents)
            found = checked(self.executor.total(task, trial.batches))
            value, used = value + found.log_likelihood, used + found.weights
        return value, used


def checked(found: Expected) -> Expected:
    """The counts, or an error where a sentence cannot be produced."""
    if found.impossible:
        raise TrainingError(
            f"{found.impossible} sentences cannot be produced by the grammar at all: no derivation "
            "has their length. Give it rules for them, or start from a latent grammar, which has "
            "every rule."
        )
    return found
