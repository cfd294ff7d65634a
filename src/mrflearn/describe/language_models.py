"""Models of words: the Markov random field language model, n-grams, and word vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from mrflearn import plots
from mrflearn.describe.blocks import Data, Facts, Nats, Note, Picture, Table, Text, plain, shares
from mrflearn.describe.description import Blocks, Description, OptionError, Task
from mrflearn.errors import DataError
from mrflearn.estimators.text_score import TextScore
from mrflearn.evaluation.similarity import AnalogyAccuracy, CosineSpace, judge
from mrflearn.io.corpus import UNKNOWN, refuse_documents, write_sentences
from mrflearn.io.files import JSON_LINES, ending, write_csv

WORDS_SHOWN = {"n": (10, range(1, 101))}  # on the page
SHOWN = 10  # unknown words of a note, or words whose neighbours are asked for at once
GAP = "_"
MOST_TEXT = 1000  # words for models that look at a few of them at a time
WORDS_ON_MAP = 120
MEANINGS = {
    "bound": "a proven lower bound, the text as one ring",
    "ring": "exact, the text as one ring",
    "exact": "exact, each sentence given its length",
    "ais": "an estimate, the text as one ring",
    "pl": "each word given its neighbours on both sides; no likelihood",
}
COUNTS = ("tokens", "words", "sentences", "unknown")
DOCUMENT = (*COUNTS, "log_likelihood", "perplexity")
Ranked = list[tuple[str, float]]


class TextDescription(Description):
    """A model that predicts the next word of a sentence, and draws new text."""

    write: ClassVar[Callable[..., None]] = staticmethod(write_sentences)

    def sample(self, n: int, seed: int, output: Path | None, as_json: bool = False) -> Blocks:
        """New text, written to a file where one is named."""
        drawn = self.model.sample(n, random_state=seed)
        if as_json and output is None:
            return [Data({"samples": drawn})]
        self.write("-" if output is None else output, drawn)
        return [Data({"output": str(output)})]

    def next_word(self, words: list[str] | None, n: int) -> Blocks:
        """The most probable next words, `</s>` for the end."""
        return self._asked(words, n)

    def _asked(self, words: list[str] | None, n: int, **more: Any) -> Blocks:
        asked = [word for group in words or [] for word in group.split()]  # some came as one text
        new = unknown_words(self.model, asked)
        return [self._next(asked, n, **more), Data({"words": asked}), *new]

    def _next(self, words: list[str], n: int, key: str = "next", **more: Any) -> Table:
        found = known(self.model.next_word, words, n=n, **more)
        return Table((key.replace("_words", "") + " word", "probability"), found, key=key)


class SpaceDescription(Description):
    """A model with a vector for each word."""

    pictures: ClassVar = frozenset({"inspect", "neighbors"})

    def neighbors(self, words: list[str], n: int, analogy: bool = False) -> Blocks:
        """The words nearest to each, or to where an analogy points."""
        if analogy and len(words) != 3:
            raise OptionError(f"--analogy takes three words, and these are {len(words)}.")
        ask = self.model.analogy if analogy else self.model.neighbors
        asked = [words] if analogy else [[word] for word in words]
        found = [(" ".join(own), known(ask, *own, n=n)) for own in asked]
        tables = (Table((own, "cosine"), rows, key=own, floats=".3f") for own, rows in found)
        return [*tables, self._map([*words, *(word for _, rows in found for word, _ in rows)])]

    def evaluate(self, file: Path) -> Blocks:
        """The agreement with people's scores of word pairs, or the analogies answered right."""
        try:
            found = judge(CosineSpace(self.model.vocabulary_.words, self.model.vectors_), file)
            more = shares(found, "accuracy") if isinstance(found, AnalogyAccuracy) else {}
            return [Facts(asdict(found) | more)]
        except DataError as error:
            if hasattr(self.model, "log_likelihood"):
                error.problem += (
                    " The vectors of this language model are judged; `mrflearn score` rates a text."
                )
            raise

    def _map(self, words: Sequence[str]) -> Picture:
        once = list(dict.fromkeys(words))
        vectors = self.model.vectors_[self.model.vocabulary_.encode(once)]
        caption = (
            f"{len(once)} words at the two leading principal components of their vectors: words "
            "that stand in similar places lie near each other."
        )
        return Picture(partial(plots.vector_map, once, vectors), caption=caption)

    def _words(self, n: int) -> Blocks:
        """A map of the frequent words, and the nearest to some of them."""
        shown = self.model.frequent_words(max(n, WORDS_ON_MAP))
        return [*self.nearest(shown[:n]), *([self._map(shown)] if len(shown) > 2 else [])]

    def nearest(self, words: Sequence[str]) -> Blocks:
        """Words, and the five that are nearest to each."""
        found = {word: known(self.model.neighbors, word, n=5) for word in words}
        near = {word: [other for other, _ in own] for word, own in found.items()}
        rows = [(word, ", ".join(own)) for word, own in near.items()]
        return [Table(("word", "nearest"), rows, title="Words"), Data({"nearest": near})]

    def _frequent(self) -> list[str]:
        """The three most frequent words; where there are fewer, they are repeated."""
        words: list[str] = self.model.frequent_words(3)
        return (words * 3)[:3]

    def _neighbours_task(self) -> Task:
        usual = self._frequent()[-1]
        return Task("neighbors", usual, self.neighbors, most=SHOWN, options=WORDS_SHOWN)


class VectorDescription(SpaceDescription):
    """Word vectors."""

    settings: ClassVar = ("dims", "context")

    def learned(self, n: int) -> Blocks:
        """Their size, and the most frequent words with their nearest."""
        return [Facts(self.facts()), *self._words(n)]

    def tasks(self) -> list[Task]:
        """Neighbours and analogies."""
        usual, ask = " ".join(self._frequent()), partial(self.neighbors, analogy=True)
        analogy = Task("analogy", usual, ask, most=3, least=3, options=WORDS_SHOWN)
        return [self._neighbours_task(), analogy]


class LanguageModelDescription(SpaceDescription, TextDescription):
    """A Markov random field language model."""

    settings: ClassVar = ("context", "dims", "form", "bound")
    curve_shows: ClassVar = (
        "Bounds on the log-likelihood per position: of the training text less the L2 penalty, "
        "which is what training raises, and of the validation text, whose best model is kept."
    )

    def facts(self) -> dict[str, Any]:
        found = {"train": self.model.bound_, "validation": self.model.validation_bound_}
        bounds = {f"{k}_bound_per_position": v if v is None else Nats(v) for k, v in found.items()}
        return {**super().facts(), **self._sparse(), **bounds}

    def _sparse(self) -> dict[str, Any]:
        """How many scores of their own pairs and triples have, and by what they are bounded."""
        found = getattr(self.model.model_, "sparse", {})
        counts = {f"{name}_scored": len(own) for name, own in found.items()}
        return {"bound": "windows", **counts} if found else {}

    def _curve(self, history: Sequence[Any]) -> Any:
        return plots.bound_curve(history)

    def learned(self, n: int) -> Blocks:
        """Its size, its bounds, and its words."""
        facts = {**self.facts(), "most_frequent": self.model.frequent_words(n)}
        words = self._words(n) if self.model.form != "explicit" else []  # tables have no vectors
        return [Facts(facts), *words]

    def fill(self, sentence: str, n: int) -> Blocks:
        """The words for the gap, or for several together."""
        words = sentence.split()
        if words.count(GAP) > 1:
            pairs = [(" ".join(own), chance) for own, chance in self.model.fill_gaps(words, n=n)]
        else:
            pairs = known(self.model.fill, words, n=n)
        new = unknown_words(self.model, (word for word in words if word != GAP))
        table = Table(("in the gap", "probability"), pairs, key="words")
        return [table, Data({"sentence": sentence}), *new]

    def _filled(self, words: list[str], n: int) -> Blocks:
        return self.fill(" ".join(words), n)

    def score(self, file: Path, method: str | None) -> Blocks:
        """The log-likelihood of a text, and what it is counted per."""
        method = "bound" if method is None else method
        refuse_documents(file)
        found = self.model.log_likelihood(file, method)
        rates = ("per_position", "per_word", "per_sentence")
        facts: dict[str, Any] = {name: Nats(getattr(found, name)) for name in rates}
        facts["meaning"] = MEANINGS[method]
        if found.effective_chains is not None:
            facts |= {"standard_error": Nats(found.standard_error)}
            facts |= {"effective_chains": round(found.effective_chains, 1)}
        ends = method not in ("exact", "pl")  # these predict no ends: there is no perplexity
        note = f"positions count the {self.model.context} separators of each sentence too"
        if found.unknown and not self.model.unknown_seen_:
            note += f"; the training text held no {UNKNOWN}, and so this one is hardly possible"
        return [*perplexity(found, facts, ends=ends), Note(note)]

    def sample(self, n: int, seed: int, output: Path | None, as_json: bool = False) -> Blocks:
        """New sentences, written to a file where one is named."""
        how = "lengths as in the training text; words exactly for small vocabularies, else by Gibbs"
        if self._sparse():
            how = "drawn exactly, word by word"
        unknown = f"{UNKNOWN} stands for any word outside the vocabulary"
        return [Note(f"{how}; {unknown}"), *super().sample(n, seed, output, as_json)]

    def tasks(self) -> list[Task]:
        """Gaps and neighbours."""
        first, second, _ = self._frequent()
        gap = f"{first} _ {second} {first}"  # "the _ of the", or what is most frequent elsewhere
        fill = Task("fill", gap, self._filled, most=MOST_TEXT, options=WORDS_SHOWN)
        # Tables have no vectors.
        return [fill, *([self._neighbours_task()] if self.model.form != "explicit" else [])]


class NextWordDescription(TextDescription):
    """A model that predicts word by word, and so has the perplexity of a text."""

    def score(self, file: Path) -> Blocks | Iterator[Blocks]:
        """The perplexity of a text, and what it is counted over."""
        return perplexity(self.model.text_score(file), self._counted())

    def _counted(self) -> dict[str, Any]:
        """What words outside the vocabulary are."""
        policy = getattr(self.model, "unknown_policy_", f"words outside it are {UNKNOWN}")
        policy += "; one end per sentence is counted"
        return {"vocabulary": len(self.model.vocabulary_), "policy": policy}

    def _next_word_task(self, usual: str, most: int) -> Task:
        return Task("next word", usual, self._asked, most, least=0, options=WORDS_SHOWN)


class NgramDescription(NextWordDescription):
    """An n-gram model."""

    settings: ClassVar = ("order", "tokenize")

    def score(self, file: Path, output: Path | None = None) -> Blocks | Iterator[Blocks]:
        """The perplexity of a text; of each document of JSON lines, or where a table is asked for.

        Documents of JSON lines are answered one by one, each in a line of JSON.
        """
        if output is None:
            lines = ending(file) in JSON_LINES
            return self._documents(file) if lines else super().score(file)
        found = list(self.model.document_scores(file))
        more = self._counted() | {"documents": len(found)}
        numbers = {"document": range(1, len(found) + 1)}
        write_csv(output, numbers | {n: [getattr(own, n) for own in found] for n in DOCUMENT})
        return perplexity(TextScore.total(found), more)

    def _documents(self, file: Path) -> Iterator[Blocks]:
        for number, found in enumerate(self.model.document_scores(file), start=1):
            record = plain({"document": number} | {n: getattr(found, n) for n in DOCUMENT})
            yield [Text(json.dumps(record)), Data(record)]

    def _asked(self, words: list[str] | None, n: int, **more: Any) -> Blocks:
        return super()._asked(self.model.tokens(" ".join(words or ())), n, **more)

    def learned(self, n: int) -> Blocks:
        """The size of each order, and the most probable first words."""
        model = self.model
        discounts = [*model.discounts_, *[[None] * 3] * model.order]  # none in an ARPA file
        rows = [(k + 1, count, *discounts[k]) for k, count in enumerate(model.ngrams_)]
        header = ("order", "n-grams", "discount of 1", "of 2", "of 3 and more")
        tables = [Table(header, rows, title="N-grams"), self._next([], n, "first_words")]
        return [Facts(self.facts()), *tables, Data({"ngrams": model.ngrams_})]

    def tasks(self) -> list[Task]:
        """Next words, and the log-probability of a sentence."""

        def score(asked: list[str]) -> Blocks:
            words = self.model.tokens(" ".join(asked))
            value = float(self.model.score_samples([words])[0])
            each = value / (len(words) + 1)
            facts = {"log-probability, sentence end included": Nats(value), "per token": Nats(each)}
            return [
                Facts({**facts, "perplexity per token": math.exp(-each)}),
                *unknown_words(self.model, words),
            ]

        usual = known(self.model.next_word, [], n=1)[0][0]
        first = self._next_word_task(usual, MOST_TEXT)
        return [first, Task("score", usual, score, most=MOST_TEXT)]


def known(ask: Callable[..., Ranked], *asked: Any, n: int, **more: Any) -> Ranked:
    """The `n` best words; the mark of unknown words is no answer."""
    return [pair for pair in ask(*asked, n=n + 1, **more) if pair[0] != UNKNOWN][:n]


def unknown_words(model: Any, words: Iterable[str]) -> Blocks:
    """A note that names the words which a model does not know, if there are any."""
    new = list(dict.fromkeys(word for word in words if word not in model.vocabulary_))
    more = [f"and {len(new) - SHOWN:,} more"] if len(new) > SHOWN else []
    note = f"not in the vocabulary, and read as {UNKNOWN}: {', '.join(new[:SHOWN] + more)}"
    return [Note(note)] if new else []


def perplexity(found: TextScore, more: dict[str, Any], *, ends: bool = True) -> Blocks:
    """The perplexity of a text, and what it is counted over."""
    figures = found.figures()
    shown = {"perplexity": figures["perplexity"]} if ends else {}
    shown |= {name: figures[name] for name in COUNTS}
    if found.unknown and found.known_log_likelihood is not None:
        shown["perplexity_without_unknown"] = figures["perplexity_without_unknown"]
    note = (
        f"{found.unknown:,} of {found.words:,} words are not in the vocabulary: read as {UNKNOWN}"
    )
    return [*([Note(note)] if found.unknown else []), Data(figures), Facts({**shown, **more})]
