"""`mrflearn train crf --structure factorial|skip`: CRFs beyond one chain of labels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from mrflearn.cli.answers import say, say_json
from mrflearn.cli.labelling import refuse_single_label, words_of
from mrflearn.cli.report import write_report
from mrflearn.cli.training_facts import learned_by, tell_training, training_facts

if TYPE_CHECKING:
    from mrflearn.features.recipes import Recipe


class Structure(StrEnum):
    """How the labels of a sequence are joined."""

    chain = "chain"
    factorial = "factorial"
    skip = "skip"


class Estimator(StrEnum):
    """What training makes small."""

    auto = "auto"
    ml = "ml"
    bp = "bp"
    pl = "pl"
    edge_pl = "edge-pl"
    pw = "pw"
    pwpl = "pwpl"
    pw_reweighted = "pw-reweighted"


class SkipRule(StrEnum):
    """Which tokens a skip chain joins."""

    capitalised = "capitalised"
    same_word = "same-word"


@dataclass(frozen=True)
class Layered:
    """A structure, what its CRF is made with, the rule of a skip chain, and its checkpoint."""

    structure: Structure
    settings: dict[str, Any]  # as `FactorialCRF` names them
    rule: SkipRule | None
    saved: dict[str, Any]  # as `fit` names it


def choose_structure(wanted: Structure | None, labels: int) -> Structure:
    """The structure asked for, or that which so many columns of labels need."""
    chosen = wanted or (Structure.factorial if labels > 1 else Structure.chain)
    if chosen is not Structure.factorial and labels > 1:
        raise typer.BadParameter(
            f"--structure {chosen.value} learns one label a token, and here are {labels}: name one "
            "column with --labels, or take --structure factorial."
        )
    return chosen


def train_layered(
    recipe: Recipe, file: Path, layered: Layered, output: Path, *, overwrite: bool
) -> tuple[Any, dict[str, Any]]:
    """Trains and saves the model; gives it, and what there is to say of it."""
    examples = recipe.layered(file)
    items = [example.items for example in examples]
    for layer, name in enumerate(recipe.layers):
        own = (example.layers[layer] for example in examples if example.layers)
        refuse_single_label(own, file, name if recipe.columns else "")
    model: Any
    if layered.structure is Structure.skip:
        from mrflearn.estimators.skip_chain_crf import SkipChainCRF

        rule = (layered.rule or SkipRule.capitalised).value
        # Without the chain's weights to begin with, messages may not converge.
        by_messages = layered.settings["estimator"] == "bp"
        start: Literal["zero", "chain"] = "chain" if by_messages else "zero"
        # The words come with the file, whatever features are made of them.
        model = SkipChainCRF(rule=rule, word=None, start=start, **layered.settings)
        labels = [example.labels for example in examples]
        model.fit(items, labels, words=words_of(examples, file), **layered.saved)
    else:
        from mrflearn.estimators.factorial_crf import FactorialCRF

        model = FactorialCRF(**layered.settings)
        model.fit(items, [example.layers for example in examples], **layered.saved)
    model.recipe_ = recipe
    model.save(output, overwrite=overwrite)
    answer = _answer(model, recipe, layered, output)
    write_report(model, output, answer, quiet=not layered.settings["verbose"])
    return model, answer


def _answer(model: Any, recipe: Recipe, layered: Layered, output: Path) -> dict[str, Any]:
    names = dict(zip(recipe.layers, map(list, model.names_), strict=True))
    return {
        "model": str(output),
        "class": type(model).__name__,
        "structure": layered.structure.value,
        "estimator": learned_by(model, quiet=not layered.settings["verbose"]),
        "format": recipe.format,
        "columns": recipe.columns,
        "labels": names,
        "attributes": model.num_attributes_,
        "weights": sum(len(own) for own in model.model_.weights),
        **training_facts(model.outcome_),
    }


def tell(answer: dict[str, Any], as_json: bool) -> None:
    """What was learned, for people or as JSON."""
    if as_json:
        say_json(answer)
        return
    layers = ", ".join(f"{name} ({len(own)} labels)" for name, own in answer["labels"].items())
    structure = "skip-chain" if answer["structure"] == "skip" else answer["structure"]
    say(f"{answer['model']}: {structure} CRF of {layers}")
    say(
        f"{answer['attributes']:,} attributes, {answer['weights']:,} weights, learned by "
        f"{answer['estimator']} in {answer['seconds']:.2f} s"
    )
    tell_training(answer)
