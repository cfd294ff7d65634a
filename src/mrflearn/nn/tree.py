"""A weighted context-free grammar as the last layer of a network: `TreeCRF`.

Letters in shapes: b: sentences; n: words; p: preterminals; a: phrases; s: symbols (phrases, then
preterminals); t: tokens, sentences end to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mrflearn.errors import DataError, SettingsError
from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import log_partition
from mrflearn.inference.parses import best_parses
from mrflearn.kernels.rules import RuleShape
from mrflearn.nn.batches import Reduction, precise, reduced

Tree = Sequence[tuple[int, int, int]]  # first word, word after the last, symbol: of every node


@final
class TreeCRF(nn.Module):
    """A conditional random field over the binary trees of sentences.

    Symbols are phrases, each rewritten as two symbols, and preterminals, each rewritten as a word;
    phrases are numbered first.  A tree scores the sum of its rules, of its root, and of the
    preterminals of its words, which a network scores.  With rules and words that are normalised
    log-probabilities this is a neural PCFG, and `log_partition` its log-likelihood.

    Parameters
    ----------
    phrases
        The number of phrase symbols.
    preterminals
        The number of preterminals.

    Attributes
    ----------
    rules
        Scores of rules parent -> left right (phrases, symbols, symbols).
    start
        Scores of the root's symbol (symbols).

    Examples
    --------
    >>> import torch
    >>> from mrflearn.nn import TreeCRF
    >>> crf = TreeCRF(phrases=2, preterminals=3)
    >>> words = torch.zeros(1, 3, 3, requires_grad=True)
    >>> tree = [(0, 3, 0), (0, 1, 2), (1, 3, 1), (1, 2, 4), (2, 3, 3)]
    >>> loss = crf.loss(words, [tree])
    >>> loss.backward()
    >>> len(crf.decode(words)[0])
    5

    """

    def __init__(self, phrases: int, preterminals: int) -> None:
        if phrases < 1 or preterminals < 1:
            raise SettingsError(
                f"phrases={phrases}, preterminals={preterminals}: both are at least 1."
            )
        super().__init__()
        self.phrases, self.preterminals = phrases, preterminals
        self.shape = RuleShape.full(phrases, preterminals)
        symbols = phrases + preterminals
        self.rules = nn.Parameter(torch.empty(phrases, symbols, symbols))
        self.start = nn.Parameter(torch.empty(symbols))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters uniformly between -0.1 and 0.1."""
        for own in self.parameters():
            nn.init.uniform_(own, -0.1, 0.1)

    def extra_repr(self) -> str:
        return f"phrases={self.phrases}, preterminals={self.preterminals}"

    def forward(
        self,
        words: Tensor,
        trees: Sequence[Tree],
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        rules: Tensor | None = None,
        start: Tensor | None = None,
        spans: Tensor | None = None,
    ) -> Tensor:
        """The log-likelihood of trees: minus `loss`."""
        return -self.loss(words, trees, mask, reduction, rules, start, spans)

    @precise
    def loss(
        self,
        words: Tensor,
        trees: Sequence[Tree],
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        rules: Tensor | None = None,
        start: Tensor | None = None,
        spans: Tensor | None = None,
    ) -> Tensor:
        """Minus the log-likelihood of trees, in nats.

        Parameters
        ----------
        words
            Scores of the preterminals of words (batch, words, preterminals).
        trees
            For each sentence its nodes (first word, word after the last, symbol), preterminals too,
            in any order; words are counted without those that the mask takes out.
        mask
            Which positions are words (batch, words); None: all of them.
        reduction
            `"none"` (a number for each sentence), `"sum"`, `"mean"` (over sentences) or
            `"token_mean"`.
        rules, start
            Scores that a network computes, in place of the module's own.
        spans
            Scores of phrases over spans, which count beside those of their rules (batch, words,
            words, phrases): at (first word, last word), with the first before the last.

        Returns
        -------
        Tensor
            In nats.

        """
        potentials = self.potentials(words, mask, rules, start, spans)
        lost = log_partition(potentials) - self._scores(potentials, trees)
        return reduced(lost, reduction, len(potentials.words))

    @precise
    def log_partition(
        self,
        words: Tensor,
        mask: Tensor | None = None,
        rules: Tensor | None = None,
        start: Tensor | None = None,
        spans: Tensor | None = None,
    ) -> Tensor:
        """The log-sum of the scores of all trees of each sentence (batch); differentiable."""
        return log_partition(self.potentials(words, mask, rules, start, spans))

    @precise
    @torch.no_grad()
    def decode(
        self,
        words: Tensor,
        mask: Tensor | None = None,
        rules: Tensor | None = None,
        start: Tensor | None = None,
        spans: Tensor | None = None,
    ) -> list[list[tuple[int, int, int]]]:
        """A best tree of each sentence, parents before children; empty where there is none."""
        found = best_parses(self.potentials(words, mask, rules, start, spans), 1)
        return [[(*span,) for span in own[0].spans] if own else [] for own in found]

    @precise
    def marginals(
        self,
        words: Tensor,
        mask: Tensor | None = None,
        rules: Tensor | None = None,
        start: Tensor | None = None,
        spans: Tensor | None = None,
    ) -> Tensor:
        """The probability of each preterminal at each word, shaped as words; it has no gradient."""
        leaf = words.detach().to(torch.promote_types(words.dtype, torch.float32))
        leaf.requires_grad_(True)
        with torch.enable_grad():
            total = log_partition(self.potentials(leaf, mask, rules, start, spans)).sum()
        return torch.autograd.grad(total, leaf)[0]

    @precise
    def span_marginals(
        self,
        words: Tensor,
        mask: Tensor | None = None,
        rules: Tensor | None = None,
        start: Tensor | None = None,
        spans: Tensor | None = None,
    ) -> Tensor:
        """The probability of each phrase over each span, shaped as `spans`; it has no gradient."""
        shape = *words.shape[:2], words.shape[1], self.phrases
        dtype = torch.promote_types(words.dtype, torch.float32)
        leaf = words.new_zeros(shape, dtype=dtype) if spans is None else spans.detach().to(dtype)
        leaf.requires_grad_(True)
        with torch.enable_grad():
            total = log_partition(self.potentials(words, mask, rules, start, leaf)).sum()
        return torch.autograd.grad(total, leaf)[0]

    def potentials(
        self,
        words: Tensor,
        mask: Tensor | None = None,
        rules: Tensor | None = None,
        start: Tensor | None = None,
        spans: Tensor | None = None,
    ) -> ChartPotentials:
        """The library's potentials of these scores, for any of its chart inferences."""
        if words.ndim != 3 or words.shape[2] != self.preterminals:
            raise DataError(
                "scores of words have three axes, the last of preterminals="
                f"{self.preterminals} entries, not shape {tuple(words.shape)}."
            )
        rules, start = (
            own if given is None else given
            for own, given in ((self.rules, rules), (self.start, start))
        )
        for name, given, own in (("rules", rules, self.rules), ("start", start, self.start)):
            if given.shape != own.shape:
                raise DataError(
                    f"{name} have shape {tuple(given.shape)}; this grammar needs "
                    f"{tuple(own.shape)}."
                )
        shape = words.shape[:2]
        if mask is not None and mask.shape != shape:
            raise DataError(f"the mask has shape {tuple(mask.shape)}, not {tuple(shape)}.")
        inside = words.new_ones(shape, dtype=torch.bool) if mask is None else mask.bool()
        dtype = torch.promote_types(words.dtype, torch.float32)
        tokens, lengths = words[inside].to(dtype), inside.sum(dim=1)
        scores = rules.flatten().to(dtype), start.to(dtype)
        nodes = None if spans is None else self._nodes(spans.to(dtype), inside)
        return ChartPotentials(self.shape.to(words.device), tokens, lengths, *scores, nodes)

    def _nodes(self, spans: Tensor, inside: Tensor) -> Float[Tensor, "b n+1 n+1 a"]:
        """Scores by first and last word as scores by first word and width."""
        b, n = inside.shape
        if spans.shape != (b, n, n, self.phrases):
            raise DataError(
                f"scores of spans have shape {tuple(spans.shape)}; {(b, n, n, self.phrases)} is "
                "needed here."
            )
        longest = int(inside.sum(dim=1).max()) if b else 0
        kept = inside.int().argsort(dim=1, descending=True, stable=True)[:, :longest]
        place = torch.arange(longest + 1, device=spans.device)
        last = place[:, None] + place - 1
        exists = (place[:, None] < longest) & (place > 1) & (last < longest)
        row = torch.arange(b, device=spans.device)[:, None, None]
        ends = place.clamp(max=max(longest - 1, 0)), last.clamp(0, max(longest - 1, 0))
        found = spans[row, kept[:, ends[0]][:, :, None], kept[:, ends[1]]] if longest else spans
        return torch.where(exists[:, :, None], found, 0.0)

    def _scores(self, potentials: ChartPotentials, trees: Sequence[Tree]) -> Float[Tensor, " b"]:
        """The score of each tree: its root, rules and words, found by their places."""
        lengths = potentials.lengths.tolist()
        if len(trees) != len(lengths):
            raise DataError(f"{len(trees)} trees for {len(lengths)} sentences.")
        roots, rules, words, nodes, first = [], [], [], [], 0
        wide = 0 if potentials.nodes is None else potentials.nodes.shape[1]
        for number, (tree, length) in enumerate(zip(trees, lengths, strict=True)):
            symbols = self._checked(number, tree, length)
            for (start, stop), symbol in symbols.items():
                if stop - start == 1:
                    place = (first + start) * self.preterminals + symbol - self.phrases
                    words.append((number, place))
                    continue
                middles = (k for k in range(start + 1, stop) if (start, k) in symbols)
                middle = next((k for k in middles if (k, stop) in symbols), None)
                if middle is None:
                    raise DataError(f"tree {number}: the node {(start, stop)} has no two parts.")
                rules.append(
                    (number, self._rule(symbol, symbols[start, middle], symbols[middle, stop]))
                )
                place = (number * wide + start) * wide + stop - start
                nodes.append((number, place * self.phrases + symbol))
            if length:
                roots.append((number, symbols[0, length]))
            first += length
        total = potentials.words.new_zeros(len(lengths))
        parts = [
            (potentials.start, roots),
            (potentials.rules, rules),
            (potentials.words.flatten(), words),
        ]
        if potentials.nodes is not None:
            parts.append((potentials.nodes.flatten(), nodes))
        for scores, places in parts:
            table = torch.tensor(places, dtype=torch.int64, device=total.device).reshape(-1, 2)
            total = total.index_add(0, table[:, 0], scores[table[:, 1]])
        return total

    def _checked(self, number: int, tree: Tree, length: int) -> dict[tuple[int, int], int]:
        """The symbol of each span of a tree."""
        symbols = {(start, stop): symbol for start, stop, symbol in tree}
        wanted = max(2 * length - 1, 0)
        if (
            len(symbols) != len(tree)
            or len(tree) != wanted
            or (length and (0, length) not in symbols)
        ):
            raise DataError(
                f"tree {number} has {len(tree)} nodes; a binary tree of {length} words has "
                f"{wanted}, each over a span of its own, one of them over all words."
            )
        for (start, stop), symbol in symbols.items():
            low, high = (0, self.phrases) if stop - start > 1 else (self.phrases, len(self.start))
            if not (low <= symbol < high and 0 <= start < stop <= length):
                raise DataError(
                    f"tree {number} has the node {(start, stop, symbol)}; over {stop - start} of "
                    f"{length} words stand the symbols {low} to {high - 1}."
                )
        return symbols

    def _rule(self, parent: int, left: int, right: int) -> int:
        return (parent * len(self.start) + left) * len(self.start) + right
