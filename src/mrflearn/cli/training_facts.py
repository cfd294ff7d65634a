"""How a training by an optimiser went, as the commands that train report it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli.answers import remark, say

if TYPE_CHECKING:
    from mrflearn.training.outcome import Outcome

INTERRUPTED = 130  # what shells give for a command that Ctrl-C ended


def training_facts(outcome: Outcome[Any]) -> dict[str, Any]:
    """What there is to say of how it ended."""
    return {
        "objective": outcome.value,
        "iterations": outcome.iterations,
        "evaluations": outcome.evaluations,
        "converged": outcome.converged,
        "ending": outcome.ending,
        "reason": outcome.reason,
        "seconds": round(outcome.seconds, 4),
    }


def tell_training(facts: dict[str, Any]) -> None:
    """The same for people, who were told the seconds before."""
    say(
        f"objective {facts['objective']:.6g} nats after {facts['iterations']} iterations: "
        f"{facts['reason']}"
    )


def conclude(outcome: Outcome[Any]) -> None:
    """Ends the command as its training ended: nobody takes half a training for a whole one."""
    if outcome.failed:
        remark("training failed; the model that was saved is where it got to.")
        raise typer.Exit(1)
    if outcome.ending == "interrupted":
        remark("training was interrupted; the model that was saved is where it got to.")
        raise typer.Exit(INTERRUPTED)


def learned_by(model: Any, *, quiet: bool) -> str:
    """The estimator that a model was trained by; of one chosen for it, it is said why."""
    choice = getattr(model, "choice_", None)
    if choice is None:
        return str(model.estimator)
    if not quiet:
        remark(f"--estimator auto: {choice.estimator}, since {choice.reason}")
    return str(choice.estimator)
