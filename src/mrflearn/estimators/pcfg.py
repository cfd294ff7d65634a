"""`PCFG`: a grammar read off a treebank, to parse with."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.text_score import ScoresText, TextScore, best_words
from mrflearn.execution.resources import one_thread
from mrflearn.features.treebank import Side, TreebankCounts, usual_form
from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import Prefix, log_partition
from mrflearn.inference.parses import Parse, best_parses
from mrflearn.io.corpus import Vocabulary, check_sentences
from mrflearn.io.ptb import held_trees, read_trees
from mrflearn.io.trees import Tree
from mrflearn.kernels.rules import RuleShape
from mrflearn.models.pcfg import GrammarModel, named_tree, sample_trees
from mrflearn.models.storage import texts

Trees: TypeAlias = Iterable[Tree | str] | str | os.PathLike[str]
Sentences: TypeAlias = Sequence[Sequence[str]]
TENSORS = ("parent", "left", "right", "rules", "start", "words")


@dataclass(kw_only=True, eq=False, repr=False)
class PCFG(Estimator, ScoresText):
    """A probabilistic context-free grammar of a treebank: parses, probabilities, samples.

    To learn a grammar from text without trees, see `CompositeLanguageModel(grammar="latent:...")`.

    Parameters
    ----------
    side
        Which way the pairs branch that nodes of many children are split into.
    horizontal
        How many sisters the new nodes remember; None: all [Klein and Manning 2003].
    vertical
        How many ancestors labels carry.
    min_count
        Words seen less often are read as `<unk>`.
    smoothing
        How often every word is taken to have been seen besides, with any tag.  0 takes rules and
        tags of words as the treebank has them: a word has no other tag, and a new word none.
    random_state
        Seed of `sample`.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The words, with `<unk>` for any other word.
    model_ : GrammarModel
        Rules, start symbols and words of tags, with their log-probabilities.

    """

    side: Side = "right"
    horizontal: int | None = 1
    vertical: int = 0
    min_count: int = 1
    smoothing: float = 0.1
    random_state: int = 0

    def fit(self, X: Trees, y: object = None) -> Self:
        """Learns the grammar from trees.

        Parameters
        ----------
        X
            Trees, texts in brackets, or the path of a file of these.
        y
            Ignored; scikit-learn passes it to every estimator.

        Returns
        -------
        PCFG
            The estimator itself.

        """
        del y
        if self.smoothing < 0:
            raise SettingsError(f"smoothing must be >= 0; got {self.smoothing}.")
        trees = read_trees(X) if isinstance(X, (str, os.PathLike)) else held_trees(X)
        form = {"side": self.side, "horizontal": self.horizontal, "vertical": self.vertical}
        counts = TreebankCounts.of(trees, **form, chains=False)
        seen: Counter[str] = Counter()
        for (_, word), times in counts.words.items():
            seen[word] += times
        vocabulary = Vocabulary.from_counts(seen, min_count=self.min_count)
        self.model_ = GrammarModel.from_counts(counts, vocabulary, self.smoothing)
        self._prefix: Prefix | None = None  # made when a next word is first asked for
        return self

    @one_thread()
    def parse(self, X: Sentences) -> list[Tree | None]:
        """The most probable tree of each sentence.

        Parameters
        ----------
        X
            Sentences, each a list of words.

        Returns
        -------
        list of Tree or None
            None where the grammar cannot produce a sentence.

        """
        pairs = zip(best_parses(self._potentials(X), 1), X, strict=True)
        return [self._tree(best[0], words) if best else None for best, words in pairs]

    def parse_documents(self, X: Iterable[Sentences]) -> list[list[Tree | None]]:
        """The most probable tree of each sentence of each document, all parsed together.

        Parameters
        ----------
        X
            Documents, each a list of sentences.

        Returns
        -------
        list of list of Tree or None
            None where the grammar cannot produce a sentence.

        """
        held = list(X)
        found = iter(self.parse([words for sentences in held for words in sentences]))
        return [[next(found) for _ in sentences] for sentences in held]

    @one_thread()
    def n_best(self, X: Sentences, n: int) -> list[list[tuple[Tree, float]]]:
        """The most probable trees of each sentence.

        Parameters
        ----------
        X
            Sentences, each a list of words.
        n
            How many trees to return per sentence.

        Returns
        -------
        list of list of (tree, probability)
            p(tree | sentence), the most probable first; empty where there is no tree.

        """
        potentials = self._potentials(X)
        parses, totals = best_parses(potentials, n), log_partition(potentials).tolist()
        return [
            [(self._tree(parse, words), float(np.exp(parse.score - total))) for parse in ranked]
            for words, ranked, total in zip(X, parses, totals, strict=True)
        ]

    @one_thread()
    def score_samples(self, X: Sentences) -> NDArray[np.float64]:
        """Log-probability of each sentence, summed over its trees.

        Parameters
        ----------
        X
            Sentences, each a list of words.

        Returns
        -------
        ndarray of shape (sentences,)
            Nats; -inf where the grammar cannot produce a sentence.

        """
        return log_partition(self._potentials(X)).numpy()

    def text_score(self, X: Sentences) -> TextScore:
        """Log-probability of sentences, and what it is spread over.

        Parameters
        ----------
        X
            Sentences, each a list of words.

        Returns
        -------
        TextScore
            Log-likelihood in nats (-inf where the grammar cannot produce one of the sentences),
            numbers of words, sentences and unknown words, perplexity.

        """
        vocabulary = self.model_.vocabulary
        if not len(X):
            raise DataError("there is nothing to score: no sentences.")
        return TextScore.of_sentences(self.score_samples(X), X, vocabulary)

    @one_thread()
    def next_word(self, words: Sequence[str] = (), n: int = 10) -> list[tuple[str, float]]:
        """The most probable continuations of the beginning of a sentence, by prefix probability.

        Parameters
        ----------
        words
            The sentence so far.
        n
            How many words to return.

        Returns
        -------
        list of (word, probability)
            The most probable first; `</s>` is the end of the sentence.

        """
        model = self.model_
        scores = model.potentials([words]).words
        prefix: Prefix | None = getattr(self, "_prefix", None)
        if prefix is None:
            prefix = self._prefix = Prefix.of(model.rules, model.start, model.shape)
        beliefs = prefix(scores)
        if beliefs.begins[-1] == -torch.inf:
            raise DataError(
                f"no sentence of this grammar begins with {' '.join(words)!r}; with smoothing "
                "above 0, words can have tags they never had."
            )
        chances = model.words.exp() @ beliefs.follows[-1].exp()
        chances[model.vocabulary.separator] = beliefs.ends[-1].exp()
        return best_words(chances.numpy(), model.vocabulary, n)

    @one_thread()
    def sample(
        self, n: int = 1, *, random_state: int | None = None, longest: int = 200
    ) -> list[Tree]:
        """New trees.

        Parameters
        ----------
        n
            How many trees to draw.
        random_state
            Seed; None takes that of the model.
        longest
            Trees of more words are drawn again.

        Returns
        -------
        list of Tree
            The trees, with their words.

        """
        seed = self.random_state if random_state is None else random_state
        trees = sample_trees(self.model_, np.random.default_rng(seed), longest)
        return [usual_form(tree) for tree in islice(trees, n)]

    def first_rules(self, n: int = 20) -> list[tuple[str, float]]:
        """The most probable rules at the root of a sentence.

        Parameters
        ----------
        n
            How many rules to return.

        Returns
        -------
        list of (rule, probability)
            The most probable first.

        """
        model = self.model_
        shape, names = model.shape, model.names
        joint = (model.start[: shape.phrases][shape.parent] + model.rules).exp()
        best = joint.argsort(descending=True, stable=True)[:n].tolist()
        columns = (shape.parent[best], shape.left[best], shape.right[best])
        rules = zip(*(column.tolist() for column in columns), joint[best].tolist(), strict=True)
        return [(f"{names[a]} -> {names[b]} {names[c]}", chance) for a, b, c, chance in rules]

    def _learned_parts(self) -> Parts:
        model = self.model_
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
        return self.model_.vocabulary

    def _tree(self, parse: Parse, words: Sequence[str]) -> Tree:
        return named_tree(parse.spans, words, self.model_.names, binarised=True)

    def _potentials(self, X: Sentences) -> ChartPotentials:
        check_sentences(X)
        return self.model_.potentials(X)
