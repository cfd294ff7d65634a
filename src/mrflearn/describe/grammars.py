"""Models with a grammar: PCFGs read off a treebank, and composite language models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mrflearn.describe.blocks import Block, Data, Facts, Note, Percent, Table, Text, TreeDrawing
from mrflearn.describe.description import Answers, Task
from mrflearn.describe.language_models import NextWordDescription, perplexity
from mrflearn.errors import DataError
from mrflearn.io.corpus import UNKNOWN

AT_ONCE = 2000  # sentences parsed together: enough of each length, and the first trees come soon
LONGEST = 10  # words of an example
DRAWN = 10  # sentences to take an example from
MOST_WORDS = 150  # of a sentence on the page: time grows with the third power of its length
TREES = 3  # on the page
WITHOUT = "sentences cannot be produced by the grammar and"
Document = list[list[str]]


class ParserDescription(NextWordDescription):
    """A model that draws trees over sentences."""

    def evaluate(self, file: Path) -> list[Block]:
        """Labelled brackets of the most probable trees, as evalb counts them."""
        from mrflearn.evaluation.brackets import bracket_report
        from mrflearn.io.ptb import read_trees
        from mrflearn.io.trees import remove_traces

        truth = [tree for tree in map(remove_traces, read_trees(file)) if tree is not None]
        if not truth:
            raise DataError("there are no trees in it.", path=file)
        report = bracket_report(truth, self.model.parse([tree.words for tree in truth]))
        shares = ("precision", "recall", "f1")
        facts: dict[str, Any] = {"sentences": report.sentences, "unparsed": report.unparsed}
        facts |= {name: Percent(getattr(report.total, name)) for name in shares}
        facts |= {"exact": Percent(report.exact), "tagging": Percent(report.tagging)}
        common = sorted(report.by_label.items(), key=lambda item: -item[1].actual)[:10]
        rows = [
            [name, *(Percent(getattr(own, share)) for share in shares), own.actual]
            for name, own in common
        ]
        missed = f"{report.unparsed} sentences have no parse; their brackets count as missed"
        return [
            *([Note(missed)] if report.unparsed else []),
            Facts(facts),
            Data({"labels": {name: own.f1 for name, own in report.by_label.items()}}),
            Table(("label", *shares, "true"), rows, title="Labelled brackets"),
        ]

    def parse(self, file: Path) -> Answers:
        """The most probable tree of each sentence."""
        from mrflearn.io.corpus import read_documents

        documents = read_documents(file)
        if getattr(self.model, "topics", 1) == 1:
            documents = _pieces(documents)
        missing = 0
        for portion in _portions(documents):
            for sentences, trees in zip(portion, self.model.parse_documents(portion), strict=True):
                for words, tree in zip(sentences, trees, strict=True):
                    missing += tree is None
                    data = {"words": words, "tree": None if tree is None else str(tree)}
                    yield [Data(data), TreeDrawing(tree)]
        if missing:
            yield [Note(f"{missing} {WITHOUT} have no tree")]


class GrammarDescription(ParserDescription):
    """A grammar read off a treebank."""

    def facts(self) -> dict[str, Any]:
        shape, size = self.model.model_.shape, len(self.model.vocabulary_)
        facts = {"class": self.kind, "phrases": shape.phrases, "preterminals": shape.preterminals}
        return {**facts, "rules": len(shape), "vocabulary": size}

    def learned(self, n: int) -> list[Block]:
        """The size of the grammar and the most probable rules at the root."""
        header = ("rule at the root", "probability")
        table = Table(header, self.model.first_rules(n), key="first_rules", title="Rules")
        return [Facts(self.facts()), table]

    def score(self, file: Path) -> list[Block]:
        """The perplexity of a text; sentences without a parse are left out, and reported."""
        from mrflearn.estimators.text_score import TextScore
        from mrflearn.io.corpus import read_sentences

        sentences = list(read_sentences(file))
        values = self.model.score_samples(sentences)
        possible = np.isfinite(values)
        if not possible.any():
            raise DataError(
                "the grammar can produce none of the sentences. Is there one sentence a line, in "
                "words like the treebank's?",
                path=file,
            )
        parsed = [words for words, can in zip(sentences, possible, strict=True) if can]
        found = TextScore.of_sentences(values[possible], parsed, self.model.vocabulary_)
        missing = len(sentences) - len(parsed)
        notes = [Note(f"{missing} {WITHOUT} are left out")] if missing else []
        return [*notes, *perplexity(found, {"without_parse": missing, **self._counted()})]

    def sample(self, n: int, seed: int, output: Path | None) -> list[Block]:
        """New trees, written to a file where one is named."""
        from mrflearn.io.ptb import write_trees

        write_trees("-" if output is None else output, self.model.sample(n, random_state=seed))
        return []

    def tasks(self) -> list[Task]:
        """Best trees and next words."""
        drawn = self.model.sample(DRAWN)
        usual = [tree.words for tree in drawn if UNKNOWN not in tree.words] or [drawn[0].words]
        example = min(usual, key=lambda words: abs(len(words) - LONGEST))

        def parse(words: list[str]) -> list[Block]:
            (found,) = self.model.n_best([words], TREES)
            trees: list[Block] = [
                TreeDrawing(tree, title=f"tree {number}, probability {share:.3f} given the words")
                for number, (tree, share) in enumerate(found, start=1)
            ]
            return trees or [TreeDrawing(None)]

        return [
            Task("parse", "a sentence", " ".join(example), parse, most=MOST_WORDS),
            self._next_word_task(example[0], MOST_WORDS),
        ]


class CompositeDescription(ParserDescription):
    """A composite language model: n-grams, a grammar, topics."""

    curve: ClassVar = "em_curve"
    curve_shows: ClassVar = (
        "The log-likelihood of the training text, and of a treebank's rules under their prior, "
        "step by step of expectation-maximisation: it never falls within a round; between rounds, "
        "weights of back-off levels are estimated again."
    )

    def facts(self) -> dict[str, Any]:
        model, grammar = self.model, self.model.fit_.model.shape.grammar
        return {
            "class": self.kind,
            "order": model.order,
            "phrases": 0 if grammar is None else grammar.phrases,
            "preterminals": 0 if grammar is None else grammar.preterminals,
            "topics": model.topics,
            "vocabulary": len(model.vocabulary_),
        }

    def learned(self, n: int) -> list[Block]:
        """The parts of the model, the weights of its levels, its topics, and a sample."""
        model, composite = self.model, self.model.fit_.model
        names = [str(level) or "words alone" for level in composite.shape.levels]
        names += ["n-gram", "n-gram, blind to A", "uniform"]
        weights = composite.weights.double().mean(dim=(0, 1)).tolist()
        levels = dict(zip(names, weights, strict=True))
        words = model.topic_words(n) if model.topics > 1 else []
        (document,) = model.sample(1, sentences=5, random_state=0, longest=40)
        return [
            Facts(self.facts()),
            Data({"levels": levels, "topic_words": words}),
            Table(("level", "mean weight"), [*levels.items()], floats=".3f", title="Levels"),
            *self._topics(words),
            Text("\n".join(map(" ".join, document)), title="A sample"),
        ]

    def _topics(self, words: list[list[tuple[str, float]]]) -> list[Block]:
        shares = self.model.fit_.prior.tolist()
        rows = [
            (number, share, ", ".join(word for word, _ in own))
            for number, (share, own) in enumerate(zip(shares, words, strict=False), start=1)
        ]
        header = ("topic", "share", "words that distinguish it")
        return [Table(header, rows, floats=".3f", title="Topics")] if rows else []

    def _history(self) -> Sequence[Any]:
        history: Sequence[Any] = self.model.fit_.history
        return history

    def score(self, file: Path) -> list[Block]:
        """The perplexity of documents, and what it is counted over."""
        how = "topic proportions are inferred from the sentences before, in the same document"
        return [*super().score(file), Note(how)]

    def next_word(
        self, words: list[str] | None, n: int, document: Path | None = None
    ) -> list[Block]:
        """The next words of a sentence, given those before it in its document."""
        from mrflearn.io.corpus import read_documents

        documents = [] if document is None else list(read_documents(document))
        return self._asked(words, n, document=documents[-1] if documents else [])

    def sample(self, n: int, seed: int, output: Path | None) -> list[Block]:
        """New documents, written to a file where one is named."""
        from mrflearn.io.corpus import write_documents

        write_documents("-" if output is None else output, self.model.sample(n, random_state=seed))
        return []

    def tasks(self) -> list[Task]:
        """The best tree where there is a grammar, next words, topics."""
        model = self.model
        (drawn,) = model.sample(1, sentences=DRAWN, longest=LONGEST)  # without empty sentences
        usual = [*sorted(drawn, key=lambda words: UNKNOWN in words), model.vocabulary_.words[-1:]]
        example = usual[0]

        def parse(words: list[str]) -> list[Block]:
            return [TreeDrawing(*model.parse([words]), title="most probable tree")]

        def topics(_: list[str]) -> list[Block]:
            return self._topics(model.topic_words(10))

        found = [self._next_word_task(example[0], MOST_WORDS)]
        if model.fit_.model.shape.grammar is not None:
            found.insert(0, Task("parse", "a sentence", " ".join(example), parse, most=MOST_WORDS))
        if model.topics > 1:
            found.append(Task("topics", "nothing to fill in", "", topics, most=0, least=0))
        return found


def _pieces(documents: Iterable[Document]) -> Iterator[Document]:
    """Documents in pieces, where nothing of a document helps its later sentences."""
    for document in documents:
        for first in range(0, len(document), AT_ONCE):
            yield document[first : first + AT_ONCE]


def _portions(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Some documents at a time, as many as have enough sentences."""
    portion: list[Document] = []
    for document in documents:
        portion.append(document)
        if sum(map(len, portion)) >= AT_ONCE:
            yield portion
            portion = []
    if portion:
        yield portion
