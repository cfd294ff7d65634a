"""`PCFG`: a grammar read off a treebank, to parse with."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.composite_trees import tree_of
from mrflearn.execution.threads import one_thread
from mrflearn.features.treebank import Side, TreebankCounts, usual_form
from mrflearn.inference.inside_outside import InsideOutside
from mrflearn.inference.parses import ParseSearch
from mrflearn.inference.prefix import Prefix
from mrflearn.io.ptb import held_trees, read_trees
from mrflearn.io.trees import Tree
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.kernels.rule_shape import RuleShape
from mrflearn.models.ngram_arpa import END
from mrflearn.models.pcfg import GrammarModel
from mrflearn.models.pcfg_sampling import TreeSampler
from mrflearn.models.storage import texts

Trees: TypeAlias = Iterable[Tree | str] | str | os.PathLike[str]
Sentences: TypeAlias = Sequence[Sequence[str]]
TENSORS = ("parent", "left", "right", "rules", "start", "words")


class PCFG(Estimator):
    """A probabilistic context-free grammar of trees: parses, probabilities, next words, samples.

    side, horizontal, vertical: how nodes of many children are split, how many sisters the new
        nodes remember (None: all) and how many ancestors labels carry [Klein and Manning 2003].
    minimum_count: rarer words are read as `<unk>`, which is how unknown words find their tags.
    smoothing: how often every word is taken to have been seen besides, with tags in their common
        shares; 0 rules out every tag that a word never had.

    To learn a grammar from text without trees, see `CompositeLanguageModel(grammar="latent:...")`.
    """

    def __init__(
        self,
        *,
        side: Side = "right",
        horizontal: int | None = 1,
        vertical: int = 0,
        minimum_count: int = 2,
        smoothing: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.side = side
        self.horizontal = horizontal
        self.vertical = vertical
        self.minimum_count = minimum_count
        self.smoothing = smoothing
        self.random_state = random_state

    def fit(self, X: Trees, y: object = None) -> Self:
        """Reads the grammar off trees: records, texts in brackets, or the path of a file."""
        del y  # scikit-learn passes it to every estimator
        if self.smoothing < 0:
            raise SettingsError(f"smoothing={self.smoothing}: must be 0 or more.")
        trees = read_trees(X) if isinstance(X, (str, os.PathLike)) else held_trees(X)
        counts = TreebankCounts.of(
            trees, side=self.side, horizontal=self.horizontal, vertical=self.vertical
        )
        seen: Counter[str] = Counter()
        for (_, word), times in counts.words.items():
            seen[word] += times
        vocabulary = Vocabulary.from_counts(seen, minimum_count=self.minimum_count)
        self.model_ = GrammarModel.from_counts(counts, vocabulary, self.smoothing)
        self.prefix_: Prefix | None = None  # made when a next word is first asked for
        return self

    @one_thread()
    def parse(self, X: Sentences, *, document: object = ()) -> list[Tree | None]:
        """The most probable tree of each sentence, or None where the grammar has none.

        `document` is for models with topics, and changes nothing here.
        """
        del document
        model = self._fitted()
        parses = ParseSearch(model.shape).best(*self._arguments(X))
        pairs = zip(parses, X, strict=True)
        return [tree_of(parse, words, model.names, True) for parse, words in pairs]

    def parse_documents(self, X: Iterable[Sentences]) -> list[list[Tree | None]]:
        """The most probable tree of each sentence of each document, all parsed together."""
        held = list(X)
        found = iter(self.parse([words for sentences in held for words in sentences]))
        return [[next(found) for _ in sentences] for sentences in held]

    @one_thread()
    def parse_n(self, X: Sentences, count: int) -> list[list[tuple[Tree, float]]]:
        """The `count` most probable trees of each sentence, with their share of its probability."""
        model = self._fitted()
        arguments = self._arguments(X)
        parses = ParseSearch(model.shape).best_n(*arguments, count=count)
        totals = InsideOutside(model.shape).log_likelihood(*arguments).tolist()
        found: list[list[tuple[Tree, float]]] = []
        for words, ranked, total in zip(X, parses, totals, strict=True):
            trees = (tree_of(parse, words, model.names, True) for parse in ranked)
            shares = (float(np.exp(parse.score - total)) for parse in ranked)
            found.append([pair for pair in zip(trees, shares, strict=True) if pair[0] is not None])  # type: ignore[misc]
        return found

    @one_thread()
    def score_samples(self, X: Sentences) -> NDArray[np.float64]:
        """The log-probability of each sentence in nats, all its trees summed; -inf without any."""
        charts = InsideOutside(self._fitted().shape)
        return charts.log_likelihood(*self._arguments(X)).numpy()

    def score(self, X: Sentences, y: object = None) -> float:
        """The mean log-probability of a token, in nats; sentence ends count as tokens."""
        del y
        tokens = sum(len(words) + 1 for words in X)
        if not tokens:
            raise DataError("there is nothing to score: no sentences.")
        return float(self.score_samples(X).sum() / tokens)

    def perplexity(self, X: Sentences) -> float:
        """The perplexity per token; sentence ends and unknown words count as tokens."""
        return float(np.exp(-self.score(X)))

    @one_thread()
    def next_word(self, words: Sequence[str] = (), top: int = 10) -> list[tuple[str, float]]:
        """The most probable continuations of a sentence's beginning; `</s>` is its end."""
        model = self._fitted()
        scores, _ = model.scores([words])
        prefix: Prefix | None = getattr(self, "prefix_", None)
        if prefix is None:
            prefix = self.prefix_ = Prefix.of(model.rules, model.start, model.shape)
        beliefs = prefix(scores)
        if beliefs.begins[-1] == -torch.inf:
            raise DataError(
                f"no sentence of this grammar begins with {' '.join(words)!r}; with smoothing "
                "above 0, words can have tags they never had."
            )
        chances = model.words.exp() @ beliefs.follows[-1].exp()
        chances[model.vocabulary.separator] = beliefs.ends[-1].exp()
        best = torch.argsort(-chances, stable=True)[:top].tolist()
        names = {model.vocabulary.separator: END}
        return [(names.get(i, model.vocabulary.words[i]), float(chances[i])) for i in best]

    @one_thread()
    def sample(self, count: int = 1, *, seed: int | None = None, longest: int = 200) -> list[Tree]:
        """New trees of at most `longest` words; longer ones are drawn again."""
        sampler = TreeSampler(self._fitted())
        generator = np.random.default_rng(self.random_state if seed is None else seed)
        drawn: list[Tree] = []
        while len(drawn) < count:
            tree = sampler.draw(generator, longest)
            drawn += [] if tree is None else [usual_form(tree)]
        return drawn

    def first_rules(self, n: int = 20) -> list[tuple[str, float]]:
        """The most probable (rule, probability) at the root of a sentence."""
        model = self._fitted()
        shape, names = model.shape, model.names
        joint = (model.start[: shape.phrases][shape.parent] + model.rules).exp()
        best = joint.argsort(descending=True, stable=True)[:n].tolist()
        columns = (shape.parent[best], shape.left[best], shape.right[best])
        rules = zip(*(column.tolist() for column in columns), joint[best].tolist(), strict=True)
        return [(f"{names[a]} -> {names[b]} {names[c]}", chance) for a, b, c, chance in rules]

    def _learned_parts(self) -> Parts:
        model = self._fitted()
        learned = {
            "phrases": list(model.phrases),
            "preterminals": list(model.preterminals),
            "words": list(model.vocabulary.words),
        }
        wiring = (model.shape.parent, model.shape.left, model.shape.right)
        numbers = (model.rules, model.start, model.words)
        return learned, dict(zip(TENSORS, (*wiring, *numbers), strict=True))

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        phrases, preterminals, words = (
            texts(learned, name) for name in ("phrases", "preterminals", "words")
        )
        # Charts are faster on the CPU.
        parent, left, right, *numbers = (tensors[name].cpu() for name in TENSORS)
        shape = RuleShape(len(phrases), len(preterminals), parent, left, right)
        self.model_ = GrammarModel(phrases, preterminals, Vocabulary(words), shape, *numbers)

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<unk>` for any other word."""
        return self._fitted().vocabulary

    def _arguments(self, X: Sentences) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What charts are given: scores and lengths of sentences, rules and start symbols."""
        model = self._fitted()
        if isinstance(X, str) or any(isinstance(words, str) for words in X):
            raise DataError(
                "sentences are given as a list of them, each a list of words; this is text. "
                "Write [sentence.split()] for a single one."
            )
        return (*model.scores(X), model.rules, model.start)

    def _fitted(self) -> GrammarModel:
        model: GrammarModel = self._after_fit("model_")
        return model
