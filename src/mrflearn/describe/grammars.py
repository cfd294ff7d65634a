"""Models with a grammar: PCFGs read off a treebank, and composite language models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mrflearn import plots
from mrflearn.describe.blocks import Data, Facts, Note, Table, Text, TreeDrawing, shares
from mrflearn.describe.description import Answers, Blocks, Task, batches
from mrflearn.describe.language_models import NextWordDescription, Ranked, perplexity, unknown_words
from mrflearn.errors import DataError
from mrflearn.estimators.text_score import TextScore
from mrflearn.evaluation.brackets import bracket_report
from mrflearn.io.corpus import UNKNOWN, read_documents, read_sentences, write_documents
from mrflearn.io.ptb import read_trees, write_trees
from mrflearn.io.trees import remove_traces

AT_ONCE = 2000  # sentences parsed together: enough of each length, and the first trees come soon
LONGEST = 10  # words of an example
DRAWN = 10  # sentences to take an example from
MOST_WORDS = 150  # of a sentence on the page: time grows with the third power of its length
WITHOUT = "sentences cannot be produced by the grammar and"


class ParserDescription(NextWordDescription):
    """A model that draws trees over sentences."""

    trees: ClassVar[dict[str, Any]] = {}  # options of the page: how many

    def evaluate(self, file: Path) -> Blocks:
        """Labelled brackets of the most probable trees, as evalb counts them."""
        truth = [tree for tree in map(remove_traces, read_trees(file)) if tree is not None]
        if not truth:
            raise DataError("there are no trees in it.")
        report = bracket_report(truth, self.model.parse([tree.words for tree in truth]))
        total = shares(report.total)
        facts = {"sentences": report.sentences, "unparsed": report.unparsed}
        facts |= total | shares(report, "exact", "tagging")
        common = sorted(report.by_label.items(), key=lambda item: -item[1].actual)[:10]
        rows = [[name, *shares(own).values(), own.actual] for name, own in common]
        missed = f"{report.unparsed} sentences have no parse; their brackets count as missed"
        notes = [Note(missed)] if report.unparsed else []
        scores = Data({"labels": {name: own.f1 for name, own in report.by_label.items()}})
        table = Table(("label", *total, "true"), rows, title="Labelled brackets")
        return [*notes, Facts(facts), scores, table]

    def parse(self, file: Path) -> Answers:
        """The most probable tree of each sentence."""
        return self._parsed(file)

    def _parsed(self, file: Path, n: int = 1) -> Answers:
        """The trees of each sentence; of several each has a headline."""
        documents, missing = read_documents(file), 0
        read: dict[str, None] = {}  # every word once
        size = max(1, AT_ONCE // 20)  # documents
        if getattr(self.model, "topics", 1) == 1:  # nothing of a document helps later sentences
            documents, size = ([words] for own in documents for words in own), AT_ONCE
        for portion in batches(documents, size):
            sentences = list(chain.from_iterable(portion))
            if n > 1:
                ranked = self.model.n_best(sentences, n)
            else:
                trees = chain.from_iterable(self.model.parse_documents(portion))
                ranked = [[] if tree is None else [(tree, None)] for tree in trees]
            for words, best in zip(sentences, ranked, strict=True):
                missing += not best
                read.update(dict.fromkeys(words))
                listed = [{"tree": str(tree), "probability": share} for tree, share in best]
                data = {"words": words, "tree": listed[0]["tree"] if best else None}
                shown: Blocks = [] if best else [TreeDrawing(None)]
                for rank, (tree, share) in enumerate(best):
                    shown += [Text(f"# {rank} {share:.6f}")] if n > 1 else []
                    shown.append(TreeDrawing(tree))
                yield [Data(data | ({"nbest": listed} if n > 1 else {})), *shown]
        if missing:
            yield [Note(f"{missing} {WITHOUT} have no tree")]
        yield unknown_words(self.model, read)

    def tasks(self) -> list[Task]:
        """The best trees of a sentence, and next words."""
        drawn = self._drawn() or [self.model.vocabulary_.words[-1:]]
        example = next((words for words in drawn if UNKNOWN not in words), drawn[0])
        parse = Task("parse", " ".join(example), self._trees, MOST_WORDS, options=self.trees)
        return [parse, self._next_word_task(example[0], MOST_WORDS)]

    @abstractmethod
    def _drawn(self) -> Sequence[Sequence[str]]:
        """Some sentences of the model, none of them empty."""

    @abstractmethod
    def _trees(self, words: list[str], n: int = 1) -> Blocks:
        """The best trees of a sentence, and a remark on words that are not known."""


class GrammarDescription(ParserDescription):
    """A grammar read off a treebank."""

    trees: ClassVar = {"n": (3, range(1, 11))}

    write: ClassVar = staticmethod(write_trees)

    def facts(self) -> dict[str, Any]:
        shape = self.model.model_.shape
        size = {"phrases": shape.phrases, "preterminals": shape.preterminals, "rules": len(shape)}
        return {**super().facts(), **size}

    def learned(self, n: int) -> Blocks:
        """The size of the grammar and the most probable rules at the root."""
        header = ("rule at the root", "probability")
        table = Table(header, self.model.first_rules(n), key="first_rules", title="Rules")
        return [Facts(self.facts()), table]

    def parse(self, file: Path, n: int) -> Answers:  # type: ignore[override]  # alone has n
        """The most probable tree of each sentence, or the `n` most probable ones."""
        return self._parsed(file, n)

    def score(self, file: Path) -> Blocks:
        """The perplexity of a text; sentences without a parse are left out, and reported."""
        sentences = list(read_sentences(file))
        values = self.model.score_samples(sentences)
        possible = np.isfinite(values)
        if not possible.any():
            raise DataError(
                "the grammar can produce none of the sentences. Is there one sentence a line, in "
                "words like the treebank's?"
            )
        parsed = [words for words, can in zip(sentences, possible, strict=True) if can]
        found = TextScore.of_sentences(values[possible], parsed, self.model.vocabulary_)
        missing = len(sentences) - len(parsed)
        notes = [Note(f"{missing} {WITHOUT} are left out")] if missing else []
        return [*notes, *perplexity(found, {"without_parse": missing, **self._counted()})]

    def _drawn(self) -> Sequence[Sequence[str]]:
        return [tree.words for tree in self.model.sample(DRAWN)]

    def _trees(self, words: list[str], n: int = 1) -> Blocks:
        (found,) = self.model.n_best([words], n)
        trees: Blocks = [
            TreeDrawing(tree, title=f"tree {number}, probability {share:.3f} given the words")
            for number, (tree, share) in enumerate(found, start=1)
        ]
        return [*(trees or [TreeDrawing(None)]), *unknown_words(self.model, words)]


class CompositeDescription(ParserDescription):
    """A composite language model: n-grams, a grammar, topics."""

    settings: ClassVar = ("order", "topics")
    write: ClassVar = staticmethod(write_documents)
    curve_shows: ClassVar = (
        "The log-likelihood of the training text, and of a treebank's rules under their prior, "
        "step by step of expectation-maximisation: it never falls within a round; between rounds, "
        "weights of back-off levels are estimated again."
    )

    def facts(self) -> dict[str, Any]:
        grammar = self.model.fit_.model.shape.grammar
        names = ("phrases", "preterminals")
        return {**super().facts(), **{name: getattr(grammar, name, 0) for name in names}}

    def learned(self, n: int) -> Blocks:
        """The parts of the model, the weights of its levels, its topics, and a sample."""
        levels = self.model.level_weights()
        (document,) = self.model.sample(1, sentences=5, random_state=0, longest=40)
        data = Data({"levels": levels, "topic_words": self._topic_words(n)})
        table = Table(("level", "mean weight"), [*levels.items()], floats=".3f", title="Levels")
        sample = Text("\n".join(map(" ".join, document)), title="A sample")
        return [Facts(self.facts()), data, table, *self._topics(n), sample]

    def _topic_words(self, n: int) -> list[Ranked]:
        """The words that distinguish each topic; the mark of unknown words is none."""
        found = self.model.topic_words(n + 1) if self.model.topics > 1 else []
        return [[pair for pair in own if pair[0] != UNKNOWN][:n] for own in found]

    def _topics(self, n: int) -> Blocks:
        found = self._topic_words(n)
        topics = enumerate(zip(self.model.fit_.prior.tolist(), found, strict=False), start=1)
        rows = [(k, share, ", ".join(word for word, _ in own)) for k, (share, own) in topics]
        header = ("topic", "share", "words that distinguish it")
        return [Table(header, rows, floats=".3f", title="Topics")] if rows else []

    def _curve(self, history: Sequence[Any]) -> Any:
        return plots.em_curve(history)

    def score(self, file: Path) -> Blocks:
        """The perplexity of documents, and what it is counted over."""
        how = "topic proportions are inferred from the sentences before, in the same document"
        return [*super().score(file), Note(how)]

    def next_word(self, words: list[str] | None, n: int, document: Path | None = None) -> Blocks:
        """The next words of a sentence, given those before it in its document."""
        documents = [] if document is None else list(read_documents(document))
        return self._asked(words, n, document=documents[-1] if documents else [])

    def _drawn(self) -> Sequence[Sequence[str]]:
        (drawn,) = self.model.sample(1, sentences=DRAWN, longest=LONGEST)  # no empty sentences
        lengths = [len(words) + 1 for words in drawn]  # with the sentence's end
        ones = [[words] for words in drawn]  # as documents, all at once
        values = self.model.score_samples(ones) if drawn else np.zeros(0)
        return [drawn[k] for k in np.argsort(-values / lengths)]  # the most usual first

    def _trees(self, words: list[str], n: int = 1) -> Blocks:
        trees = self.model.parse([words])[:n]
        drawing = TreeDrawing(*trees, title="most probable tree")
        return [drawing, *unknown_words(self.model, words)]

    def tasks(self) -> list[Task]:
        """The best tree where there is a grammar, next words, topics."""
        model = self.model
        options = {"n": (10, range(1, 51))}
        more = Task("topics", "", self._topics, most=0, options=options)
        found = super().tasks()[0 if model.fit_.model.shape.grammar is not None else 1 :]
        return [*found, more] if model.topics > 1 else found
