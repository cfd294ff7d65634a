"""Single parses of sentences: the best, the best few, or drawn at random.

Letters in shapes as in `inside_outside`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.chart import chart_batches
from mrflearn.kernels.best_parses import best_scores
from mrflearn.kernels.inside import log_inside
from mrflearn.kernels.parse_forest import Forest, Parse, RuleLists, best_parses, draw_parse
from mrflearn.kernels.rule_shape import RuleShape

Chart = Callable[[Tensor, Tensor, RuleShape], Float[Tensor, "a b n+1 n+1"]]


@final
@dataclass(frozen=True, eq=False)
class ParseSearch:
    """Finds or draws parses with the rules of a grammar, whatever the scores."""

    shape: RuleShape
    numbers: int = 2**24  # how many a batch of charts may hold; one sentence is always taken

    def best(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, "b"],
        rules: Float[Tensor, "r"],
        start: Float[Tensor, "s"],
    ) -> list[Parse | None]:
        """The best parse of each sentence, or None where there is none."""
        found = self.best_n(words, lengths, rules, start, 1)
        return [parses[0] if parses else None for parses in found]

    @torch.no_grad()
    def best_n(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, "b"],
        rules: Float[Tensor, "r"],
        start: Float[Tensor, "s"],
        count: int,
    ) -> list[list[Parse]]:
        """The `count` best parses of each sentence, best first; fewer where there are fewer."""
        if count < 1:
            raise InferenceError(f"the {count} best parses were asked for; 1 is the least.")
        found: list[list[Parse]] = [[] for _ in lengths]
        for sentence, forest in self._forests(best_scores, words, lengths, rules, start):
            found[sentence] = best_parses(forest, count)
        return found

    @torch.no_grad()
    def sample(
        self,
        words: Float[Tensor, "t p"],
        lengths: Int[Tensor, "b"],
        rules: Float[Tensor, "r"],
        start: Float[Tensor, "s"],
        count: int,
        generator: np.random.Generator,
    ) -> list[list[Parse]]:
        """Parses drawn given each sentence, and their log-probabilities; none where none can be."""
        found: list[list[Parse]] = [[] for _ in lengths]
        for sentence, forest in self._forests(log_inside, words, lengths, rules, start):
            if forest.roots.max() > -np.inf:
                found[sentence] = [draw_parse(forest, generator) for _ in range(count)]
        return found

    def _forests(
        self, chart: Chart, words: Tensor, lengths: Tensor, rules: Tensor, start: Tensor
    ) -> Iterator[tuple[int, Forest]]:
        shape = self.shape.to(words.device)
        lists = RuleLists.of(shape, rules.double().cpu().numpy())
        for batch in chart_batches(lengths, self.numbers, self.shape):
            scores = words[batch.tokens]
            found = chart(scores, rules, shape)
            b, n, _ = scores.shape
            table = found.new_full((b, shape.symbols, n + 1, n + 1), -torch.inf)
            table[:, : shape.phrases] = found.transpose(0, 1)
            table[:, shape.phrases :, :n, 1] = scores.transpose(1, 2)
            roots = table[:, :, 0, n] + start
            for place, sentence in enumerate(batch.sentences.tolist()):
                numbers = table[place].double().cpu().numpy()
                yield sentence, Forest(lists, numbers, roots[place].double().cpu().numpy())
