"""The built-in grammar and lexicon of English, and how topics are mixed in its documents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import as_file, files
from itertools import permutations

import numpy as np

from mrflearn.datasets.grammar import Grammar
from mrflearn.datasets.grammar_text import literal, read_grammar
from mrflearn.datasets.lexicon import WordClass, read_lexicon
from mrflearn.errors import DataError

MAIN_TOPIC = 0.85  # the rest is the weight of the second topic


@dataclass(frozen=True, eq=False)
class English:
    """A grammar, the words of each of its terminals, and the topics they know."""

    grammar: Grammar
    topics: tuple[str, ...]
    word_classes: dict[str, WordClass]

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur, sorted; "an" is a spelling of "a"."""
        words = {word for known in self.word_classes.values() for word in known.words}
        return tuple(sorted(words | {"an"}))

    @cached_property
    def mixtures(self) -> tuple[tuple[float, ...], ...]:
        """The mixtures of topics that a document may have, each as likely as the next."""
        number = len(self.topics)
        weights = np.zeros((number, number, number))
        for main, second in permutations(range(number), 2):
            weights[main, second, [main, second]] = MAIN_TOPIC, 1 - MAIN_TOPIC
        return tuple(tuple(row) for row in weights.reshape(-1, number).tolist() if any(row))


@cache
def english() -> English:
    """The built-in English, read once."""
    folder = files("mrflearn.datasets")
    with as_file(folder / "english.pcfg") as path:
        grammar = read_grammar(path)
    with as_file(folder / "english.lexicon") as path:
        lexicon = read_lexicon(path)
    classes = {symbol: _word_class(symbol, lexicon.classes) for symbol in grammar.terminals}
    return English(grammar, lexicon.topics, classes)


def _word_class(symbol: str, classes: dict[str, WordClass]) -> WordClass:
    if symbol in classes:
        return classes[symbol]
    tag_and_word = literal(symbol)
    if tag_and_word is None:
        raise DataError(f"the grammar asks for '{symbol}', which has neither rules nor words.")
    return WordClass((tag_and_word[1],), np.ones((1, 1)))
