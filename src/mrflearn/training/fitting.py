"""Entries of training: `fit` for models, `minimise` for functions of one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.io.files import PathLike
from mrflearn.models.parameters import Layout, Model
from mrflearn.objectives.objective import Loss, ValueAndGradient
from mrflearn.objectives.penalties import NoPenalty, Penalty
from mrflearn.training.callbacks import Callback, Watcher
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.loop import run
from mrflearn.training.outcome import Outcome
from mrflearn.training.problem import Optimiser, Plan

# The estimator of training: a model, batches, an objective and an optimiser meet here.


__all__ = ["Outcome", "fit"]

M = TypeVar("M", bound=Model)
NO_PENALTY = NoPenalty()


def fit(
    model: M,
    batches: Any,
    objective: Loss,
    optimiser: Optimiser[Any],
    *,
    penalty: Penalty = NO_PENALTY,
    callbacks: Sequence[Callback | Watcher] = (),
    progress: bool = False,
    checkpoint: PathLike | Checkpoint | None = None,
    resume: bool = False,
    seed: int = 0,
) -> Outcome[M]:
    """The model whose objective, summed over all batches, plus the penalty is least.

    `batches` is a `Sequence` of batches (a list, or an own one that loads them when asked) or else
    one batch.  Training shows itself on standard error where `progress` is set.  Ctrl-C ends it
    after the current evaluation with all that was reached; a second one interrupts at once.  With
    `checkpoint` it is saved every minute and at its end; with `resume` it goes on from there, to
    the same bits as if it had never stopped.  `seed` orders the minibatches.
    """
    parameters = model.parameters()
    layout = Layout.of(parameters)
    functions = _functions(model, layout, batches, objective)
    start = layout.flatten(parameters).detach()

    def rebuild(vector: Tensor) -> M:
        return model.with_parameters(layout.unflatten(vector))

    plan = Plan(functions, start, layout, rebuild, type(model).__name__, optimiser, penalty, seed)
    return run(plan, callbacks, progress, checkpoint, resume)


def _functions(
    model: Model, layout: Layout, batches: Any, objective: Loss
) -> list[ValueAndGradient]:
    """One function of the flat vector for each batch, differentiated by autograd."""
    # A named tuple is one batch, though Python calls it a sequence.
    many = isinstance(batches, Sequence) and not hasattr(batches, "_fields")
    held: Sequence[Any] = batches if many else (batches,)

    def function(index: int) -> ValueAndGradient:
        def value_and_gradient(vector: Tensor) -> tuple[Tensor, Tensor]:
            leaf = vector.detach().requires_grad_(True)
            with torch.enable_grad():
                value = objective(model.with_parameters(layout.unflatten(leaf)), held[index])
            if not value.requires_grad:
                raise TrainingError(
                    f"{type(objective).__name__} on batch {index} does not depend on any "
                    "parameter. Was the value detached, or computed under no_grad?"
                )
            return value.detach(), torch.autograd.grad(value, leaf)[0]

        return value_and_gradient

    return [function(index) for index in range(len(held))]


# Making a function of one flat vector small, with no model and no autograd around it.


def minimise(
    functions: ValueAndGradient | Sequence[ValueAndGradient],
    start: Float[Tensor, " p"],
    optimiser: Optimiser[Any],
    *,
    penalty: Penalty = NO_PENALTY,
    callbacks: Sequence[Callback | Watcher] = (),
    progress: bool = False,
    checkpoint: PathLike | Checkpoint | None = None,
    resume: bool = False,
    seed: int = 0,
    in_double: Callable[[], ValueAndGradient] | None = None,
) -> Outcome[Tensor]:
    """The vector (as `outcome.model`) where the functions' sum plus the penalty is least.

    A function takes the flat vector (float32 or float64, on any device) and gives value and
    gradient; it must not keep or change the vector, and may give the gradient in a buffer that it
    writes again at the next call.  `in_double` makes the same function for float64 vectors, with
    which training goes on where float32 gets stuck.  For the other arguments see `fit`.
    """
    many = functions if isinstance(functions, Sequence) else [functions]
    layout = Layout(("vector",), (start.shape,))
    plan = Plan(
        many,
        start,
        layout,
        _itself,
        "vector",
        optimiser,
        penalty,
        seed,
        in_double=None if in_double is None else lambda: [in_double()],
    )
    return run(plan, callbacks, progress, checkpoint, resume)


def _itself(vector: Tensor) -> Tensor:
    return vector
