"""What a fitted tagger is, and the way there and back to what storage keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.spelling import SpellingTable
from mrflearn.graph.tag_scores import CENTRE, PLACES, TagScores
from mrflearn.kernels.sparse_product import SparseMatrix
from mrflearn.models.joint_tagger import JointTaggerModel, places_named
from mrflearn.models.storage import record, texts
from mrflearn.objectives.tagger_normaliser import TagCeiling

SEPARATOR = "<S>"


@final
@dataclass(frozen=True, eq=False)
class LearnedTagger:
    """A tagger's words and tags, the separator first in both, its model and the bound on log Z."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    model: JointTaggerModel
    ceiling: TagCeiling
    spelling: dict[int, SpellingTable]

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each word; a text's own `<S>` is a word like any other."""
        return numbers(self.words)

    @cached_property
    def scores(self) -> TagScores:
        """Scores of the words that training saw."""
        device = self.model.transitions.device
        features = {
            place: SparseMatrix.of(table.matrix, torch.float32, device)
            for place, table in self.spelling.items()
        }
        with torch.no_grad():
            return self.model.scores(features)

    def read(self, sentences: Sequence[Sequence[str]]) -> tuple[TagScores, Int[Tensor, "n"]]:
        """Scores of all words that come in the sentences, new ones last, and their numbers."""
        known, new = self.number, dict[str, int]()
        found = np.fromiter(
            (
                known[word] if word in known else new.setdefault(word, len(self.words) + len(new))
                for sentence in sentences
                for word in sentence
            ),
            np.int64,
        )
        words = torch.from_numpy(found).to(self.model.transitions.device)
        return (self._with_new(list(new)) if new else self.scores), words

    def _with_new(self, words: list[str]) -> TagScores:
        transitions, known = self.scores
        tables = {id(table): table for table in self.spelling.values()}
        rows = {
            key: SparseMatrix.of(table.rows(words), torch.float32, transitions.device)
            for key, table in tables.items()
        }
        added = {p: rows[id(self.spelling[p])] @ own for p, own in self.model.weights.items()}
        return TagScores(transitions, {p: torch.cat([known[p], added[p]]) for p in known})


def numbers(words: Sequence[str]) -> dict[str, int]:
    """The number of each word but the separator's, which comes first."""
    return {word: index for index, word in enumerate(words) if index}


def spelling_tables(
    words: Sequence[str], places: Sequence[int], rare_from: int
) -> dict[int, SpellingTable]:
    """The features of a vocabulary at each place; those beside a tag have one table."""
    beside = SpellingTable.of(words, None) if len(places) > 1 else None
    below = SpellingTable.of(words, rare_from)
    return {place: below if place == CENTRE or beside is None else beside for place in places}


def store(learned: LearnedTagger) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What goes into a model directory."""
    kept = {
        "words": list(learned.words),
        "tags": list(learned.tags),
        "rare_from": learned.spelling[CENTRE].rare_from,
        "ceiling": asdict(learned.ceiling),
    }
    return kept, learned.model.parameters()


def restore(kept: dict[str, Any], tensors: dict[str, Tensor]) -> LearnedTagger:
    """What came out of a model directory, checked to be whole."""
    words, tags = texts(kept, "words"), texts(kept, "tags")
    places = places_named(list(tensors))
    template = JointTaggerModel(tensors["transitions"], {place: torch.empty(0) for place in places})
    model = template.with_parameters(tensors)
    spelling = spelling_tables(words, places, int(kept["rare_from"]))
    learned = LearnedTagger(words, tags, model, record(TagCeiling, kept["ceiling"]), spelling)
    _check(learned)
    return learned


def _check(learned: LearnedTagger) -> None:
    model, tags = learned.model, len(learned.tags)
    sizes = {place: len(table.number) for place, table in learned.spelling.items()}
    sound = (
        learned.words[:1] == learned.tags[:1] == (SEPARATOR,)
        and model.places in PLACES.values()
        and model.transitions.shape[1:] == (tags, tags)
        and all(w.shape == (sizes[p], tags) for p, w in model.weights.items())
    )
    if not sound:
        raise DataError("words, tags and weights do not belong together")
