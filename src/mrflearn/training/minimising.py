"""Making a function of one flat vector small, with no model and no autograd around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mrflearn.io.files import PathLike
from mrflearn.models.parameters import Layout
from mrflearn.objectives.objective import ValueAndGradient
from mrflearn.objectives.penalties import NoPenalty, Penalty
from mrflearn.training.callbacks import Callback, Watcher
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.loop import run
from mrflearn.training.optimiser import Optimiser
from mrflearn.training.outcome import Outcome
from mrflearn.training.plan import Plan

NO_PENALTY = NoPenalty()


def minimise(
    functions: ValueAndGradient | Sequence[ValueAndGradient],
    start: Float[Tensor, "p"],
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
