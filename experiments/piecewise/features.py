"""The input features of the paper's Tables 1 to 3, as far as the data allow.

Other than the paper's: its lists of first and last names, countries, companies, honorifics and the
like are not to be had.  For the seminars the persons of CoNLL-2003's training part stand in their
place, and a few honorifics; names and noun phrases do without.  In place of the Brill tagger's
lexicon (Table 2) stand the tags of each word in those training sentences that are not trained on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from mrflearn.io.spans import tags_to_spans

Items = list[list[str]]
Atoms = Sequence[str]

# The mixed pattern is not tied to the end of the word, as in the tables.
TITLE = ("title", re.compile(r"[A-Z][a-z]+$"))
CAPITALS = ("capitals", re.compile(r"[A-Z][A-Z]+$"))
CAPITAL = ("capital", re.compile(r"[A-Z]$"))
ALL_CAPITALS = ("all-capitals", re.compile(r"[A-Z]+$"))
DASH = ("dash", re.compile(r".*-"))
MIXED = ("mixed", re.compile(r"[A-Z]+[a-z]+[A-Z]+[a-z]"))
DIGIT = ("digit", re.compile(r".*[0-9]"))

NAME_SHAPES = (TITLE, CAPITALS, CAPITAL, ALL_CAPITALS, DASH, MIXED)
CHUNK_SHAPES = (TITLE, CAPITAL, ALL_CAPITALS, MIXED, DIGIT, CAPITALS)
SEMINAR_SHAPES = (TITLE, CAPITALS, CAPITAL, ALL_CAPITALS, MIXED)
TAG_SHAPES = (TITLE, CAPITALS, CAPITAL, ALL_CAPITALS, DASH, DIGIT)
LONGEST = 5  # letters of a prefix, a suffix or an inner sequence: c_0 ... c_n, n from 0 to 4

HONORIFICS = frozenset(
    ("Dr", "Doctor", "Prof", "Professor", "Mr", "Mrs", "Ms", "Miss", "Sir", "PhD")
)

Lexicon = Mapping[str, Iterable[str]]
NameLists = Mapping[str, Set[str]]


def windowed(atoms: Sequence[Atoms], reach: int) -> Items:
    """What is known of each token and its neighbours up to `reach` away, with their distance."""
    marked = [
        {offset: [f"{offset}@{atom}" for atom in own] for offset in range(-reach, reach + 1)}
        for own in atoms
    ]
    size = len(atoms)
    return [
        [
            name
            for offset in range(-reach, reach + 1)
            if 0 <= t + offset < size
            for name in marked[t + offset][offset]
        ]
        for t in range(size)
    ]


def name_features(words: Sequence[str]) -> Items:
    """Table 1."""
    return windowed([_name_atoms(word) for word in words], 2)


def tag_features(words: Sequence[str]) -> Items:
    """For parts of speech the paper names no features: word, shapes and affixes, words around."""
    items = [list(_tag_atoms(word)) for word in words]
    around = windowed([(f"w={word}",) for word in words], 2)
    return [own + near for own, near in zip(items, around, strict=True)]


def chunk_features(words: Sequence[str], lexicon: Lexicon) -> Items:
    """Table 2, with `lexicon` for the Brill tagger's."""
    atoms = [
        [*_chunk_atoms(word), *(f"lexicon={tag}" for tag in lexicon.get(word, ()))]
        for word in words
    ]
    return windowed(atoms, 3)


def seminar_features(
    tokens: Sequence[str], text: str, offsets: Sequence[tuple[int, int]], lists: NameLists
) -> Items:
    """Table 3; what looks like a time or a date is found in the text and told to its tokens."""
    found: list[list[str]] = [
        [*_seminar_atoms(token), *(name for name, words in lists.items() if token in words)]
        for token in tokens
    ]
    for name, pattern in PATTERNS.items():
        for token in _touched(pattern, text, offsets):
            found[token].append(name)
    return windowed(found, 4)


def name_lists(sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, Set[str]]:
    """The first and the last words of persons marked in sentences, and honorifics."""
    first, last = set(), set()
    for words, tags in sentences:
        for span in tags_to_spans(tags):
            if span.label == "PER" and span.end - span.start > 1:
                first.add(words[span.start])
                last.add(words[span.end - 1])
    return {"first-name": first, "last-name": last, "honorific": HONORIFICS}


def lexicon_of(sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, list[str]]:
    """The tags that each word has in tagged sentences."""
    tags: dict[str, set[str]] = {}
    for words, own in sentences:
        for word, tag in zip(words, own, strict=True):
            tags.setdefault(word, set()).add(tag)
    return {word: sorted(found) for word, found in tags.items()}


_CLOCK = r"(?:\d{1,2}\s*:\s*\d\d|\d{1,2}(?=\s*[ap]\.?\s*m\b))(?:\s*[ap]\.?\s*m\b)?|noon|midnight"
_SPAN = r"\s*(?:-+|to|until|till)\s*"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b\.?"
_DAY = r"(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thurs|Fri|Sat|Satur|Sun)(?:day)?\b\.?"
_DATES = (
    _DAY,
    rf"\d{{1,2}}[-\s]{_MONTH}(?:[-\s]\d{{2,4}})?",
    rf"{_MONTH}\s+\d{{1,2}}(?:\s*,\s*\d{{4}})?",
    r"\d{1,2}/\d{1,2}(?:/\d{2,4})?",
)
PATTERNS = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "time": rf"\b(?:{_CLOCK})",
        "time-dash": rf"\b(?:{_CLOCK}|\d{{1,2}})(?={_SPAN}(?:{_CLOCK}))",
        "dash-time": rf"(?<=[\dmn.]){_SPAN}(?:{_CLOCK})",
        "date": rf"\b(?:{'|'.join(_DATES)})",
    }.items()
}


def _touched(
    pattern: re.Pattern[str], text: str, offsets: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """The tokens that some match of a pattern touches."""
    matches = [found.span() for found in pattern.finditer(text)]
    place = 0
    for token, (start, end) in enumerate(offsets):
        while place < len(matches) and matches[place][1] <= start:
            place += 1
        if place < len(matches) and matches[place][0] < end:
            yield token


def _shapes(word: str, shapes: Iterable[tuple[str, re.Pattern[str]]]) -> list[str]:
    return [name for name, pattern in shapes if pattern.match(word)]


def _affixes(word: str) -> Iterator[str]:
    for size in range(1, min(LONGEST, len(word)) + 1):
        yield f"prefix={word[:size]}"
        yield f"suffix={word[-size:]}"


def _inner(word: str) -> list[str]:
    starts = ((i, i + n) for n in range(1, LONGEST + 1) for i in range(len(word) - n + 1))
    return [f"in={part}" for part in dict.fromkeys(word[i:j] for i, j in starts)]


def _cached(make: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    return lru_cache(maxsize=100_000)(make)


@_cached
def _name_atoms(word: str) -> tuple[str, ...]:
    return (f"w={word}", *_shapes(word, NAME_SHAPES), *_affixes(word), *_inner(word))


@_cached
def _tag_atoms(word: str) -> tuple[str, ...]:
    return ("bias", *_shapes(word, TAG_SHAPES), *_affixes(word.lower()))


@_cached
def _chunk_atoms(word: str) -> tuple[str, ...]:
    return (f"w={word}", *_shapes(word, CHUNK_SHAPES))


@_cached
def _seminar_atoms(word: str) -> tuple[str, ...]:
    return (f"w={word}", *_shapes(word, SEMINAR_SHAPES))
