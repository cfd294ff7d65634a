"""A small feature set for words: what most taggers and chunkers begin with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrflearn.errors import DataError

_SHAPE = ((re.compile(r"[A-Z]"), "A"), (re.compile(r"[a-z]"), "a"), (re.compile(r"[0-9]"), "0"))
_RUN = re.compile(r"(.)\1+")
LONGEST_AFFIX = 4
WINDOW = (-2, -1, 0, 1, 2)


def word_features(sentence: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """The attributes of each token of a sentence.

    A token is a word, or a sequence whose first cell is the word and whose other cells (a part of
    speech, say) become features too.  For each token: the word two before to two after and its
    pairs with its neighbours; its lower-case form, prefixes and suffixes of up to 4 letters,
    shape, digits and capitals; every further column in the same window, with its pairs.
    """
    tokens = [(token,) if isinstance(token, str) else tuple(token) for token in sentence]
    if not tokens:
        return []
    width = len(tokens[0])
    if not width or any(len(token) != width for token in tokens):
        raise DataError("every token needs the same number of cells, at least the word itself.")
    columns = list(zip(*tokens, strict=True))
    result = [["bias", *_spelling(word)] for word in columns[0]]
    for number, column in enumerate(columns):
        _add_window("w" if number == 0 else f"c{number}", column, result)
    return result


def _spelling(word: str) -> list[str]:
    found = [f"lower={word.lower()}", f"shape={word_shape(word)}"]
    for length in range(1, min(LONGEST_AFFIX, len(word) - 1) + 1):
        found += (f"prefix={word[:length]}", f"suffix={word[-length:]}")
    if any(letter.isdigit() for letter in word):
        found.append("digit")
    if "-" in word:
        found.append("hyphen")
    if word[:1].isupper():
        found.append("capitals" if word.isupper() else "capital")
    return found


def word_shape(word: str) -> str:
    """Capitals as A, small letters as a, digits as 0, runs of more than one cut to two."""
    for pattern, sign in _SHAPE:
        word = pattern.sub(sign, word)
    return _RUN.sub(r"\1\1", word)


def _add_window(name: str, column: Sequence[str], result: list[list[str]]) -> None:
    last = len(column) - 1
    for position, own in enumerate(result):
        for offset in WINDOW:
            place = position + offset
            if 0 <= place <= last:
                own.append(f"{name}[{offset}]={column[place]}")
            elif abs(offset) == 1:
                own.append(f"{name}[{offset}]=<end>" if offset > 0 else f"{name}[{offset}]=<start>")
        if position:
            own.append(f"{name}[-1,0]={column[position - 1]}|{column[position]}")
        if position < last:
            own.append(f"{name}[0,1]={column[position]}|{column[position + 1]}")
