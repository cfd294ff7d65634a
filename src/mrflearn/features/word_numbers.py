"""Words and their characters by number, as neural encoders take them.

Number 0 is padding and number 1 stands for everything that training has not seen, for words and
for characters alike.  A word is looked up in lower case and with 0 for every digit; its characters
are taken as they are.

Letters in shapes: b: sentences; n: positions; k: tokens, all sentences end to end; t: distinct
words; c: characters of the longest word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import final

import torch
from jaxtyping import Int64
from torch import Tensor

PADDING, UNSEEN = 0, 1
NUMBERED_FROM = 2
LONGEST_WORD = 24  # characters; of a longer word both ends are read
_DIGIT = re.compile(r"\d")


def word_form(word: str) -> str:
    """The form in which words are looked up: lower case, 0 for every digit."""
    return _DIGIT.sub("0", word.lower())


@final
@dataclass(frozen=True, eq=False)
class NumberedWords:
    """Sentences by number: which distinct word each token is, and what is known of that word."""

    lengths: Int64[Tensor, " b"]
    tokens: Int64[Tensor, " k"]
    words: Int64[Tensor, " t"]
    characters: Int64[Tensor, "t c"]


@final
@dataclass(frozen=True, eq=False)
class WordNumbers:
    """The words and characters that an encoder knows, in the order of their numbers from 2 on."""

    words: tuple[str, ...]
    characters: tuple[str, ...]

    @classmethod
    def of(
        cls, sentences: Iterable[Sequence[str]], min_count: int = 1, known: Iterable[str] = ()
    ) -> WordNumbers:
        """Words seen `min_count` times, the most frequent first, the known ones, and characters."""
        counts = Counter(chain.from_iterable(sentences))
        forms: Counter[str] = Counter()
        letters: Counter[str] = Counter()
        for word, count in counts.items():
            forms[word_form(word)] += count
            for letter in word:
                letters[letter] += count
        often = [form for form, count in forms.most_common() if count >= min_count]
        return cls(tuple(dict.fromkeys((*often, *known))), tuple(sorted(letters)))

    @cached_property
    def word_number(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.words, NUMBERED_FROM)}

    @cached_property
    def character_number(self) -> dict[str, int]:
        """The number of each character."""
        return {letter: number for number, letter in enumerate(self.characters, NUMBERED_FROM)}

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers words have and how many characters, 0 and 1 among them."""
        return len(self.words) + NUMBERED_FROM, len(self.characters) + NUMBERED_FROM

    def __call__(self, sentences: Sequence[Sequence[str]]) -> NumberedWords:
        """The sentences by number."""
        types: dict[str, int] = {}
        tokens = [types.setdefault(word, len(types)) for own in sentences for word in own]
        forms = [self.word_number.get(word_form(word), UNSEEN) for word in types]
        spelled = [self._spelled(word) for word in types]
        width = max(map(len, spelled), default=1)
        padded = [own + [PADDING] * (width - len(own)) for own in spelled]
        return NumberedWords(
            torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64),
            torch.tensor(tokens, dtype=torch.int64),
            torch.tensor(forms, dtype=torch.int64),
            torch.tensor(padded, dtype=torch.int64).reshape(len(types), width),
        )

    def _spelled(self, word: str) -> list[int]:
        half = LONGEST_WORD // 2
        letters = word if len(word) <= LONGEST_WORD else word[:half] + word[-half:]
        return [self.character_number.get(letter, UNSEEN) for letter in letters] or [UNSEEN]
