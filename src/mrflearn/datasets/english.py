"""English-like text with known truth: sampled from a grammar with topics and a lexicon.

How a document comes about.  It gets one of 30 mixtures of topics, each as likely as the next: a
main topic with weight 0.85 and another with 0.15.  Each sentence is a derivation of the grammar in
`english.pcfg`, the same for all topics.  Each content word draws a topic from the mixture, then
itself from the list of its class and topic in `english.lexicon`; function words know no topic.
Last, "a" before a vowel sound is written "an".

What a model can learn from it: phrase structure and agreement; the topics of content words; and,
finer than tags and topics, which verbs take which objects and which adjectives go with which
nouns.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain, permutations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from mrflearn.datasets.grammar import (
    DerivationStep,
    Grammar,
    cumulative,
    derivation_sampler,
    label,
    literal,
    read_grammar,
    uniform_numbers,
)
from mrflearn.errors import DataError
from mrflearn.io.spans import Span, spans_to_tags
from mrflearn.io.trees import Tree

# Vowels are sounds, not letters: an hour, a unit, a European, a one-off.
_VOWEL = re.compile(r"(?!uni(?!m)|us[eu]|eu|one)[aeiou]|hour|hono|honest|heir", re.IGNORECASE)


def indefinite_article(following: str) -> str:
    """The word "an" before a vowel sound and "a" before any other."""
    return "an" if _VOWEL.match(following) else "a"


# The words of a grammar's word classes, by topic; `english.lexicon` explains the notation.


ANY = "any"
# Where the form of each tag stands in the entries of a kind of words.
FORMS = {
    "mass": {"NN": 0},
    "noun": {"NN": 0, "NNS": 1},
    "adjective": {"JJ": 0},
    "verb": {"VB": 0, "VBP": 0, "VBZ": 1, "VBD": 2, "VBN": 3, "VBG": 4},
}


@dataclass(frozen=True, eq=False)
class WordClass:
    """Words and their probabilities, one row a topic, or one row for all of them."""

    words: tuple[str, ...]
    probabilities: NDArray[np.float64]

    @property
    def topical(self) -> bool:
        return len(self.probabilities) > 1

    @cached_property
    def column(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def joint(self, mixture: Sequence[float]) -> NDArray[np.float64]:
        """The probabilities of topics (or of one row for all) and words."""
        return self.probabilities * (np.asarray(mixture)[:, None] if self.topical else 1.0)


def read_lexicon(text: str) -> tuple[tuple[str, ...], dict[str, WordClass]]:
    """Topics in the order in which a text names them, and its word classes.

    A class stands under a symbol such as `NN[per]` or `VBZ[t.obj]`.
    """
    sections: list[tuple[list[str], dict[str, list[str]]]] = []
    for line in text.splitlines():
        words = line.partition("# ")[0].split()
        if words and line[0].isspace():
            sections[-1][1][words[0]] = words[1:]
        elif words and line[0] != "#":
            sections.append((words, {}))
    named = (topic for _, entries in sections for topic in entries if topic != ANY)
    topics = tuple(dict.fromkeys(named))
    classes = {}
    for (kind, name, *share), entries in sections:
        for tag, form in FORMS.get(kind, {kind: 0}).items():
            own = _inflected(entries, float(share[0]) if share else 1.0, topics, form)
            classes[f"{tag}[{name}]"] = own
    return topics, classes


def _inflected(
    entries: dict[str, list[str]], any_share: float, topics: Sequence[str], form: int
) -> WordClass:
    """The class of the form at one position of the entries."""
    column: dict[str, int] = {}
    rows = []
    for topic in topics if any_share < 1 else (ANY,):
        row: dict[str, float] = {}
        for source, share in ((ANY, any_share), (topic, 1 - any_share)):
            words = entries[source] if share else []
            # Sums by fsum are the same on every machine, so that samples are too.
            total = math.fsum(1 / (rank + 1) for rank in range(1, len(words) + 1))
            for rank, word in enumerate(words, start=1):
                written = word.split("/")[form]
                row[written] = row.get(written, 0.0) + share / (rank + 1) / total
                column.setdefault(written, len(column))
        rows.append(row)
    probabilities = np.array([[row.get(word, 0.0) for word in column] for row in rows])
    return WordClass(tuple(column), probabilities)


# The built-in grammar and lexicon of English, and how topics are mixed in its documents.


MAIN_TOPIC = 0.85  # the rest is the weight of the second topic


@dataclass(frozen=True, eq=False)
class English:
    """A grammar, the words of each of its terminals, and the topics they know."""

    grammar: Grammar
    topics: tuple[str, ...]
    word_classes: dict[str, WordClass]

    @cached_property
    def mixtures(self) -> tuple[tuple[float, ...], ...]:
        """The mixtures of topics that a document may have, each as likely as the next."""
        pairs = permutations(np.eye(len(self.topics)), 2)
        weights = (MAIN_TOPIC * main + (1 - MAIN_TOPIC) * second for main, second in pairs)
        return tuple(tuple(row.tolist()) for row in weights)

    @cached_property
    def derive(self) -> Callable[[Iterator[float]], list[DerivationStep]]:
        """Draws a derivation."""
        return derivation_sampler(self.grammar)

    @cached_property
    def drawn_from(self) -> dict[str, tuple[tuple[str, ...], list[list[float]]]]:
        """The words of each terminal, and for each topic their cumulated probabilities."""
        return {
            symbol: (known.words, [cumulative(row) for row in known.probabilities.tolist()])
            for symbol, known in self.word_classes.items()
        }


@cache
def english() -> English:
    """The built-in English, read once."""
    folder = files("mrflearn.datasets")
    grammar = read_grammar((folder / "english.pcfg").read_text("utf-8"))
    topics, lexicon = read_lexicon((folder / "english.lexicon").read_text("utf-8"))
    classes = {}
    for symbol in grammar.terminals:
        word = literal(symbol)
        one = None if word is None else WordClass((word[1],), np.ones((1, 1)))
        classes[symbol] = one or lexicon[symbol]
    return English(grammar, topics, classes)


# Built-in English text whose truth is known: words, tags, chunks, trees, topics, probabilities.


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
            f"count={count}, sentences={sentences}, seed={seed}: these must be at least 0, 1 and 0."
        )
    mixtures = english().mixtures
    documents = []
    for index in range(count):
        numbers = uniform_numbers((seed, index))
        mixture = mixtures[int(next(numbers) * len(mixtures))]
        drawn = tuple(_sentence(mixture, numbers) for _ in range(sentences))
        documents.append(Document(mixture, drawn))
    return documents


def _sentence(mixture: tuple[float, ...], numbers: Iterator[float]) -> Sentence:
    source = english()
    steps = source.derive(numbers)
    classes = tuple(step.symbol for step in steps if not step.children)
    mixing = cumulative(list(mixture))
    words, topics = [], []
    for symbol in classes:
        known, rows = source.drawn_from[symbol]
        topic = bisect_right(mixing, next(numbers)) if len(rows) > 1 else 0
        words.append(known[bisect_right(rows[topic], next(numbers))])
        topics.append(source.topics[topic] if len(rows) > 1 else None)
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


def _tree(steps: list[DerivationStep], words: tuple[str, ...]) -> tuple[Tree, list[Span]]:
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


# The exact entropy of the text, and the probability of documents.  Given a document's mixture,
# sentences are independent, and the topic of a word, drawn for that word alone, is summed out at
# the word: sentences come from a plain grammar.  As no sentence has two derivations, the entropy of
# sentences as strings is that of derivations without topics, which a linear system gives exactly.
# Spelling "an" for "a" follows from the next word and changes nothing.  A reader who does not know
# the mixture of a document needs at most log 30 nats more for the whole document.


Mixture = Sequence[float]


@dataclass(frozen=True, slots=True)
class Entropy:
    """Nats per sentence, and over how many words, punctuation included, they are spread."""

    per_sentence: float
    words_per_sentence: float

    @property
    def per_word(self) -> float:
        return self.per_sentence / self.words_per_sentence

    @property
    def perplexity(self) -> float:
        """The lowest perplexity per word that a model can reach."""
        return math.exp(self.per_word)


def entropy_per_sentence(
    mixture: Mixture | None = None, *, of: Literal["strings", "derivations"] = "strings"
) -> Entropy:
    """The exact entropy of a sentence given its document's mixture; None: the mean over mixtures.

    Derivations include the topic of every content word, strings do not.
    """
    source = english()
    totals = []
    for weights in source.mixtures if mixture is None else [checked_mixture(mixture)]:
        entropies = {}
        for symbol, word_class in source.word_classes.items():
            joint = word_class.joint(weights)
            drawn = joint if of == "derivations" else joint.sum(axis=0)
            entropies[symbol] = float(entr(drawn).sum())
        totals.append(source.grammar.entropy(entropies))
    return Entropy(math.fsum(totals) / len(totals), source.grammar.expected_length)


def document_log_probability(document: Document) -> float:
    """log p(all sentences) of a sampled document, in nats, its mixture and topics summed out.

    It goes by the sentences' recorded derivations, which is fast and, as they are the only
    ones, exact.
    """
    source = english()
    mixtures = np.array(source.mixtures)
    total = np.full(len(mixtures), math.fsum(s.log_structure for s in document.sentences))
    for sentence in document.sentences:
        for word, symbol in zip(without_articles(sentence.words), sentence.classes, strict=True):
            known = source.word_classes[symbol]
            column = known.probabilities[:, known.column[word]]
            with np.errstate(divide="ignore"):
                total += np.log(mixtures @ column if known.topical else column)
    return float(logsumexp(total) - math.log(len(mixtures)))


def without_articles(words: Sequence[str]) -> tuple[str, ...]:
    """The words with "an" written as "a", as the grammar has it."""
    return tuple("a" if word == "an" else word for word in words)


def checked_mixture(mixture: Mixture) -> Mixture:
    """The weights of topics, or an error where they are none."""
    topics = english().topics
    weights = np.asarray(mixture, dtype=np.float64)
    if weights.shape != (len(topics),) or (weights < 0).any() or abs(weights.sum() - 1) > 1e-9:
        raise DataError(
            f"{list(mixture)} is not a mixture of topics: it takes {len(topics)} weights that are "
            f"not negative and sum to 1, for {', '.join(topics)}."
        )
    return mixture
