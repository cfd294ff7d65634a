"""A saved model for a verb that asks it: refused where it has no such answer, or no such option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from mrflearn.errors import MrflearnError

# The verbs that each kind of model answers.
VERBS: dict[str, tuple[str, ...]] = {
    "CRF": ("tag", "evaluate", "inspect"),
    "CompositeLanguageModel": ("score", "evaluate", "sample", "inspect", "parse", "next-word"),
    "FactorialCRF": ("tag", "evaluate", "inspect"),
    "GraphCRF": (),
    "HMMTagger": ("tag", "evaluate", "inspect"),
    "JointTagger": ("tag", "evaluate", "inspect"),
    "LanguageModel": ("score", "evaluate", "sample", "inspect", "fill", "neighbors"),
    "MarkovField": ("score", "evaluate", "sample", "inspect"),
    "NgramLanguageModel": ("score", "sample", "inspect", "next-word"),
    "PCFG": ("score", "evaluate", "sample", "inspect", "parse", "next-word"),
    "PottsField": ("score", "evaluate", "sample", "inspect"),
    "SkipChainCRF": ("tag", "evaluate", "inspect"),
    "WordVectors": ("evaluate", "inspect", "neighbors"),
}


def load_for(verb: str, path: Path) -> Any:
    """The model saved there; an error says what else it can be asked where not this."""
    from mrflearn.estimators.loading import load

    model = load(path)
    kind = type(model).__name__
    if verb not in VERBS[kind]:
        others = ", ".join(f"`mrflearn {other}`" for other in VERBS[kind])
        raise MrflearnError(
            f"{path} holds a {kind}, which has no answer to `mrflearn {verb}`. "
            f"Ask it otherwise: {others or 'in Python, by its methods'}."
        )
    return model


def refuse_others(context: typer.Context, model: Any, used: Iterable[str]) -> None:
    """An error where an option was given that is none of those a model of this kind uses."""
    kind = type(model).__name__
    known = {*used, "as_json"}
    names = (own.name or "" for own in context.command.params if own.param_type_name == "option")
    refuse_idle(
        context,
        {name: f"has no effect on a {kind}; leave it out." for name in names if name not in known},
    )


def refuse_idle(context: typer.Context, reasons: Mapping[str, str]) -> None:
    """An error where one of these options was given, with the reason why it would do nothing."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name in reasons:
            raise typer.BadParameter(f"{parameter.opts[0]}: {reasons[name]}")
