"""EM for the composite model: its two kinds of phases, and their alternation.

In one phase words, rules and topic shares are learned from the training text, weights of levels
held; in the other the weights are learned from held-out text, everything else held.  Within a
phase no step makes its text less probable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

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
class TextStep:
    """One EM step for words, rules and topic shares; the weights of levels stay as they are."""

    model: CompositeModel
    batches: Sequence[Batch]
    executor: Executor

    def start(self, documents: Float[Tensor, "d h"]) -> Parameters:
        """The parameters to begin with."""
        return {**self.model.tensors(), "documents": documents}

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        model = self.model.with_tensors(parameters)
        task = ExpectedCounts(model, parameters["documents"])
        found = checked(self.executor.total(task, self.batches))
        return -found.log_likelihood, self.maximise(model, parameters["documents"], found)

    def maximise(
        self, model: CompositeModel, documents: Float[Tensor, "d h"], found: Expected
    ) -> Parameters:
        """[Wang 2005, eq. 4] Normalised expected counts."""
        shape = model.shape
        tables = maximise_tables(shape, found.tables, model.tables)
        rules, start = model.rules, model.start
        if shape.grammar is not None:
            rules = maximise_rules(shape.grammar, found.rules, rules)
            total = found.start.sum()
            start = (found.start / total).log() if total > 0 else start
        drawn = found.documents.sum(dim=1, keepdim=True)
        shares = found.documents / torch.where(drawn > 0, drawn, 1.0)
        new = replace(model, tables=tables, rules=rules, start=start)
        return {**new.tensors(), "documents": torch.where(drawn > 0, shares, documents)}


@final
@dataclass(frozen=True, eq=False)
class WeightStep:
    """One EM step for the weights of levels, after a Dirichlet prior around those at the start."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    batches: Sequence[Batch]
    executor: Executor
    prior: float = 5.0
    tied: bool = False
    seen: list[float] = field(default_factory=list)  # log-likelihoods, without the prior

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        weights, centre = parameters["weights"], self.model.weights
        task = ExpectedCounts(replace(self.model, weights=weights), self.documents)
        found = checked(self.executor.total(task, self.batches))
        self.seen.append(found.log_likelihood)
        kept = centre > 0
        penalty = self.prior * float((centre[kept] * weights[kept].log()).sum())
        new = normalised_weights(found.weights, centre, self.prior, self.tied)
        return -found.log_likelihood - penalty, {"weights": new}


def checked(found: Expected) -> Expected:
    """The counts, or an error where a sentence cannot be produced."""
    if found.impossible:
        raise TrainingError(
            f"{found.impossible} sentences cannot be produced by the grammar at all: no derivation "
            "has their length. Give it rules for them, or start from a latent grammar, which has "
            "every rule."
        )
    return found


def tags_of_words(
    model: CompositeModel,
    documents: Float[Tensor, "d h"],
    batches: Sequence[Batch],
    executor: Executor,
) -> Float[Tensor, "w a"]:
    """How often each word of a text has each preterminal."""
    return executor.total(ExpectedCounts(model, documents), batches).tags
