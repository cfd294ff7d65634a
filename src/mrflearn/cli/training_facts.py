"""How a training by an optimiser went, as the commands that train report it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import remark, say

if TYPE_CHECKING:
    from mrflearn.training.outcome import Outcome


def training_facts(outcome: Outcome[Any]) -> dict[str, Any]:
    """What there is to say of how it ended."""
    return {
        "objective": outcome.value,
        "iterations": outcome.iterations,
        "evaluations": outcome.evaluations,
        "converged": outcome.converged,
        "reason": outcome.reason,
        "seconds": round(outcome.seconds, 4),
    }


def tell_training(facts: dict[str, Any]) -> None:
    """The same for people, who were told the seconds before."""
    say(
        f"objective {facts['objective']:.6g} nats after {facts['iterations']} iterations: "
        f"{facts['reason']}"
    )


def learned_by(model: Any, *, quiet: bool) -> str:
    """The estimator that a model was trained by; of one chosen for it, it is said why."""
    choice = getattr(model, "choice_", None)
    if choice is None:
        return str(model.estimator)
    if not quiet:
        remark(f"--estimator auto: {choice.estimator}, since {choice.reason}")
    return str(choice.estimator)
