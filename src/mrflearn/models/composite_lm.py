"""The composite language model [Wang 2005]: n-gram, grammar and topics in one directed field.

A document draws nothing but its topic shares theta(d -> h).  A sentence is a derivation of the
grammar, theta(A -> B C), down to preterminals; each preterminal A then makes a word out of the
words before it, itself and a topic, theta(u v A h -> w); see `hidden_backoff`.

Sentence ends are counted alike whatever is switched off: every variant is a distribution over
sentences of any length that sums to 1.  With a grammar the derivation says where a sentence ends,
and words are given that it goes on; without one the end is the last word, made as the others are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.ngram_index import NgramIndex
from mrflearn.kernels.rule_shape import RuleShape
from mrflearn.models.hidden_backoff import Level, Tables, normalised

RULE_COLUMNS = ("parent", "left", "right")


@final
@dataclass(frozen=True, eq=False)
class CompositeShape:
    """What training does not change: levels, the wiring of the grammar, sizes."""

    levels: tuple[Level, ...]
    index: NgramIndex
    grammar: RuleShape | None  # None: one preterminal, and no derivations
    topics: int
    buckets: int

    @property
    def tags(self) -> int:
        """The number of preterminals."""
        return 1 if self.grammar is None else self.grammar.preterminals

    @property
    def symbols(self) -> int:
        """How many words a preterminal can make: without a grammar the sentence end is one."""
        return self.index.states - (self.grammar is not None)

    def table_shape(self, level: Level) -> tuple[int, int, int]:
        """Rows (two more than n-grams), preterminals and topics of a level's table."""
        rows = self.index.size(level.words + 1) + 2
        return rows, self.tags if level.tag else 1, self.topics if level.topic else 1


@final
@dataclass(frozen=True, eq=False)
class CompositeModel:
    """A shape and its numbers: probabilities of words, weights of levels, logs of rules."""

    shape: CompositeShape
    tables: Tables
    weights: Float[Tensor, "b a l"]
    tags: Float[Tensor, "a"]  # shares of preterminals, for sentences that get no derivation
    rules: Float[Tensor, "r"]
    start: Float[Tensor, "s"]

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training moves, by name."""
        tables = {f"table.{level or '-'}": t for level, t in self._named_tables()}
        names = ("weights", "tags", "rules", "start")
        return tables | {name: getattr(self, name) for name in names}

    def with_tensors(self, tensors: dict[str, Tensor]) -> CompositeModel:
        """The same shape with other numbers."""
        tables = tuple(tensors[f"table.{level or '-'}"] for level, _ in self._named_tables())
        numbers = [tensors[name] for name in ("weights", "tags", "rules", "start")]
        return CompositeModel(self.shape, tables, *numbers)

    def to(self, device: torch.device) -> CompositeModel:
        """The same on a device."""
        moved = {name: value.to(device) for name, value in self.tensors().items()}
        wiring = self.shape.grammar
        if wiring is not None:
            columns = {name: getattr(wiring, name).to(device) for name in RULE_COLUMNS}
            wiring = replace(wiring, **columns)
        return replace(self, shape=replace(self.shape, grammar=wiring)).with_tensors(moved)

    def _named_tables(self) -> list[tuple[str, Tensor]]:
        return [(str(level), t) for level, t in zip(self.shape.levels, self.tables, strict=True)]


def maximise_tables(shape: CompositeShape, counts: Tables, before: Tables) -> Tables:
    """theta_l(context -> w) from expected counts [Wang 2005, eq. 4]."""
    result = []
    for level, own, old in zip(shape.levels, counts, before, strict=True):
        context, contexts = shape.index.contexts(level.words + 1)
        where = torch.from_numpy(context).to(own.device)
        result.append(normalised(own, old, where, contexts))
    return tuple(result)


def maximise_rules(
    wiring: RuleShape, counts: Float[Tensor, "r"], before: Float[Tensor, "r"]
) -> Float[Tensor, "r"]:
    """log theta(A -> B C) from expected counts; rules of phrases never used stay as they were."""
    parent = wiring.parent
    total = counts.new_zeros(wiring.phrases).index_add_(0, parent, counts)[parent]
    return torch.where(total > 0, (counts / torch.where(total > 0, total, 1.0)).log(), before)
