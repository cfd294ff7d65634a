"""Built-in English text whose truth is known: words, tags, chunks, trees, topics, probabilities.

How a document comes about.  It gets one of 30 mixtures of topics, each as likely as the next: a
main topic with weight 0.85 and another with 0.15.  Each sentence is a derivation of the grammar in
`english.pcfg`, the same for all topics.  Each content word draws a topic from the mixture, then
itself from the list of its class and topic in `english.lexicon`; function words know no topic.
Last, "a" before a vowel sound is written "an".

What a model can learn from it: phrase structure and agreement; the topics of content words; and,
finer than tags and topics, which verbs take which objects and which adjectives go with which
nouns.  `english_truth` has the exact entropy and the probability of any text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from mrflearn.datasets.english_source import English, english
from mrflearn.datasets.grammar_sampling import Step, cumulative, derivation_sampler, uniform_numbers
from mrflearn.datasets.grammar_text import label, literal
from mrflearn.datasets.inflection import indefinite_article
from mrflearn.errors import DataError
from mrflearn.io.spans import Span, spans_to_tags
from mrflearn.io.trees import Tree

Trees = tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its truth.

    `tags` are Penn tags; `chunks` the base noun phrases (NPs without an NP inside) in IOB2;
    `topics` what each content word was drawn from, None at function words; `classes` the grammar's
    word classes, finer than tags (`NN[per]`: a noun for a person); `log_structure` the
    log-probability of the derivation's rules, in nats, to which the words' come.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    chunks: tuple[str, ...]
    tree: Tree
    topics: tuple[str | None, ...]
    classes: tuple[str, ...]
    log_structure: float

    @property
    def text(self) -> str:
        """The sentence as one would print it."""
        joined = re.sub(r" (?=[.,;?]|'s )", "", " ".join(self.words))
        return joined[0].upper() + joined[1:]


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences, and the weight of each topic, in the order of `english().topics`."""

    mixture: tuple[float, ...]
    sentences: tuple[Sentence, ...]


def sample_documents(count: int, *, sentences: int = 20, seed: int = 0) -> list[Document]:
    """Documents of this many sentences each; document i depends on the seed and i alone."""
    if count < 0 or sentences < 1 or seed < 0:
        raise DataError(
            f"cannot sample {count} documents of {sentences} sentences from seed {seed}: the "
            "numbers must be at least 0, 1 and 0."
        )
    mixtures = english().mixtures
    sampler = _sampler()
    documents = []
    for index in range(count):
        numbers = uniform_numbers((seed, index))
        mixture = mixtures[int(next(numbers) * len(mixtures))]
        drawn = tuple(sampler.sentence(mixture, numbers) for _ in range(sentences))
        documents.append(Document(mixture, drawn))
    return documents


class _Sampler:
    """Tables that make drawing a sentence a matter of look-ups."""

    def __init__(self, source: English) -> None:
        self.topics = source.topics
        self.derive = derivation_sampler(source.grammar)
        self.words = {
            symbol: (known.words, [cumulative(row) for row in known.probabilities.tolist()])
            for symbol, known in source.word_classes.items()
        }

    def sentence(self, mixture: tuple[float, ...], numbers: Iterator[float]) -> Sentence:
        steps = self.derive(numbers)
        classes = tuple(step.symbol for step in steps if not step.children)
        mixing = cumulative(list(mixture))
        words, topics = [], []
        for symbol in classes:
            known, rows = self.words[symbol]
            topic = bisect_right(mixing, next(numbers)) if len(rows) > 1 else 0
            words.append(known[bisect_right(rows[topic], next(numbers))])
            topics.append(self.topics[topic] if len(rows) > 1 else None)
        written = with_articles(words)
        tree, chunks = _tree(steps, written)
        return Sentence(
            written,
            tuple(_tag(symbol) for symbol in classes),
            spans_to_tags(chunks, len(written)),
            tree,
            tuple(topics),
            classes,
            sum(step.log_probability for step in steps),
        )


@cache
def _sampler() -> _Sampler:
    return _Sampler(english())


def with_articles(words: Sequence[str]) -> tuple[str, ...]:
    """The words with "a" written as the next word's sound asks."""
    return tuple(
        indefinite_article(words[i + 1]) if word == "a" and i + 1 < len(words) else word
        for i, word in enumerate(words)
    )


@cache
def _tag(symbol: str) -> str:
    tag_and_word = literal(symbol)
    return label(symbol) if tag_and_word is None else tag_and_word[0]


def _tree(steps: list[Step], words: tuple[str, ...]) -> tuple[Tree, list[Span]]:
    """The tree of a derivation, hidden phrases dissolved in their parents, and its base NPs."""
    chunks: list[Span] = []
    done: list[tuple[Trees, int, bool]] = []  # trees, where they end, whether an NP is in them
    start = len(words)
    for symbol, arity, _ in reversed(steps):  # children before parents, the first on top
        name = _tag(symbol)
        hidden = name[0] == "_"
        if not arity:
            start -= 1
            done.append(((_leaf(name, words[start]),), start + 1, False))
        elif arity > 1 or not hidden:
            parts = [done.pop() for _ in range(arity)]
            trees = tuple(chain.from_iterable([part[0] for part in parts]))
            end, has_np = parts[-1][1], any([part[2] for part in parts])  # noqa: C419 - is quicker
            if name == "NP" and not has_np:
                chunks.append(Span(start, end, "NP"))
            done.append((trees if hidden else (Tree(name, trees),), end, has_np or name == "NP"))
    ((tree,), _, _) = done.pop()
    return tree, chunks


@cache
def _leaf(tag: str, word: str) -> Tree:
    return Tree(tag, (), word)
