"""What each kind of model can be asked on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrflearn.errors import MrflearnError
from mrflearn.serving.blocks import Block


@dataclass(frozen=True)
class Task:
    """A question in words: its name, what the field for it says, and who answers it."""

    name: str
    hint: str
    example: str
    answer: Callable[[str], list[Block]]


def tasks_of(model: Any) -> list[Task]:
    """The tasks of a fitted estimator; an error where there are none."""
    # Imported by kind, so that a page for a tagger loads nothing of the others.
    match type(model).__name__:
        case "CRF":
            from mrflearn.serving.label_tasks import crf_tasks

            return crf_tasks(model)
        case "FactorialCRF" | "SkipChainCRF":
            from mrflearn.serving.label_tasks import layered_tasks

            return layered_tasks(model)
        case "HMMTagger" | "JointTagger":
            from mrflearn.serving.label_tasks import tagger_tasks

            return tagger_tasks(model)
        case "LanguageModel":
            from mrflearn.serving.text_tasks import language_model_tasks

            return language_model_tasks(model)
        case "WordVectors":
            from mrflearn.serving.vector_tasks import vector_tasks

            return vector_tasks(model)
        case "NgramLanguageModel":
            from mrflearn.serving.text_tasks import ngram_tasks

            return ngram_tasks(model)
        case "CompositeLanguageModel":
            from mrflearn.serving.text_tasks import composite_tasks

            return composite_tasks(model)
        case "PCFG":
            from mrflearn.serving.pcfg_tasks import pcfg_tasks

            return pcfg_tasks(model)
        case "MarkovField" | "PottsField":
            from mrflearn.serving.field_tasks import field_tasks

            return field_tasks(model)
        case kind:
            raise MrflearnError(f"there is no page for a {kind}.")
