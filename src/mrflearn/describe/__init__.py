"""What a fitted model learned and what it answers, as blocks: one description for all who show it.

The command line renders blocks as text or JSON, a report as HTML, and the served page by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mrflearn.errors import SettingsError

if TYPE_CHECKING:
    from mrflearn.describe.description import Description, Task

# Names, so that a question to one kind of model loads nothing of the others.
DESCRIPTIONS = {
    "CRF": "labellers:ChainDescription",
    "CompositeLanguageModel": "grammars:CompositeDescription",
    "FactorialCRF": "labellers:LayeredDescription",
    "GraphCRF": "labellers:GraphDescription",
    "HMMTagger": "labellers:TaggerDescription",
    "JointTagger": "labellers:TaggerDescription",
    "LanguageModel": "language_models:LanguageModelDescription",
    "MarkovField": "fields:FieldDescription",
    "NeuralCRF": "labellers:NeuralDescription",
    "NgramLanguageModel": "language_models:NgramDescription",
    "PCFG": "grammars:GrammarDescription",
    "PottsField": "fields:FieldDescription",
    "SkipChainCRF": "labellers:LayeredDescription",
    "WordVectors": "language_models:VectorDescription",
}


def described_by(kind: str) -> type[Description]:
    """The description of a class of estimators; `SettingsError` where it has none."""
    if kind not in DESCRIPTIONS:
        raise SettingsError(f"there is no page for a {kind}, and no verb: ask it in Python.")
    module, _, name = DESCRIPTIONS[kind].partition(":")
    found: type[Description] = getattr(import_module(f".{module}", __name__), name)
    return found


def describe(model: Any) -> Description:
    """The description of a fitted estimator; `SettingsError` where its class has none."""
    return described_by(type(model).__name__)(model)


def tasks_of(model: Any) -> list[Task]:
    """What a fitted estimator can be asked on a page."""
    return describe(model).tasks()
