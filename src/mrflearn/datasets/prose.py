"""Paragraphs of technical English, with reStructuredText marks in them, as tokenised sentences.

What does not read as a sentence (code, formulas, headings, fragments) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

UNREADABLE = "\x00"  # stands for a formula, an address, an expression: its sentence is dropped

ROLE = re.compile(r":(?:[a-z]+:)?([a-z]+):`([^`]*)`")
LITERAL = re.compile(r"``(.+?)``")
LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`__?")
QUOTED = re.compile(r"`([^`]+)`_{0,2}")
FOOTNOTE = re.compile(
    r"(\b(?:in|see|from|of|by|to|and|or|per|with|refs?\.)|,)?\s*\[[^\]\s]{1,20}\]_", re.I
)
STRONG = re.compile(r"(?<![\w*])(\*{1,2})(?=[^\s*])([^*]*[^\s*])\1(?![\w*])")
ADDRESS = re.compile(r"https?://\S+|www\.\S+|\S+@\S+\.\w+")
READABLE_CODE = re.compile(r"[-+]?[\w.'\"]+(?:\(\))?")

BREAK = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]?[A-Z])")
# A capital after one of these does not begin a sentence; after "etc." and "et al." it may.
SHORT = r"e\.g|i\.e|vs|cf|resp|approx|Figs?|Eqs?|Refs?|Secs?|Ch|No|Vol|pp|Dr|Mr|Mrs|Prof|St"
ABBREVIATION = re.compile(rf"\b(?:{SHORT}|[A-Z])\.[\"')]*$")
TOKEN = re.compile(
    rf"\b(?:{SHORT}|etc|al)\.(?!\w)"  # abbreviations keep their stop
    r"|(?<![\w)])-?\d+(?:[.,]\d+)*(?![-'./]?\w)%?"  # numbers
    r"|[A-Z]\.(?=\s[A-Z])"  # initials of names
    r"|(?<!\S)--?[a-zA-Z][\w-]*"  # options of programs
    r"|\w+(?:[-'./]\w+)*(?:\(\))?"  # words, compounds, dotted names
    r"|--|\.\.\.|[.,;:!?()\"'-]"
)
WORD = re.compile(r"[A-Za-z]?[a-z]+(?:[-'/][A-Za-z]?[a-z]+)*|[AI]")
STOPS = frozenset(".!?")
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by can for from has have if in into is it its may must no "
        "not of on or should so such than that the their then there these this to was we when "
        "where which will with you your",
    )
)
LEAST_TOKENS, MOST_TOKENS = 5, 60
LEAST_WORDS = 0.75  # the share of plain words among the tokens that are not punctuation


def sentences(paragraph: str) -> Iterator[list[str]]:
    """The tokens of each sentence of a paragraph, as written (no case is changed)."""
    for sentence in _split(plain(paragraph)):
        tokens = tokenise(sentence)
        if tokens is not None and is_sentence(tokens):
            yield tokens


def plain(text: str) -> str:
    """The text without its marks; what cannot be read aloud becomes `UNREADABLE`."""
    text = ROLE.sub(_role, text)
    text = LITERAL.sub(lambda match: _code(match[1]), text)
    text = LINK.sub(lambda match: match[1], text)
    text = ADDRESS.sub(UNREADABLE, text)
    text = QUOTED.sub(lambda match: _code(match[1]), text)
    text = FOOTNOTE.sub(lambda match: UNREADABLE if match[1] else "", text)
    text = STRONG.sub(lambda match: match[2], text)
    return " ".join(text.translate(_TYPOGRAPHY).split())


def tokenise(sentence: str) -> list[str] | None:
    """Words and punctuation marks; None where something is neither."""
    tokens = TOKEN.findall(sentence)
    if sum(map(len, tokens)) < len(sentence) - sentence.count(" "):
        return None
    if tokens and len(tokens[-1]) > 1 and tokens[-1][-1] == ".":  # etc. at the end of a sentence
        tokens[-1:] = [tokens[-1][:-1], "."]
    return [token.removesuffix("()") for token in tokens]


def is_sentence(tokens: list[str]) -> bool:
    """Whether the tokens look like one whole sentence of English."""
    if not LEAST_TOKENS <= len(tokens) <= MOST_TOKENS or not tokens[0][0].isupper():
        return False
    closing = 1
    while closing < len(tokens) and tokens[-closing] in "\"')":
        closing += 1
    if tokens[-closing] not in STOPS or STOPS.intersection(tokens[:-closing]):
        return False
    if tokens.count("(") != tokens.count(")") or tokens.count('"') % 2:
        return False
    words = [token for token in tokens if token[-1].isalnum()]
    plain_words = sum(1 for word in words if WORD.fullmatch(word))
    return plain_words >= LEAST_WORDS * len(words) and any(
        token.lower() in FUNCTION_WORDS for token in tokens
    )


_TYPOGRAPHY = {
    **dict.fromkeys(map(ord, "\u201c\u201d\u00ab\u00bb"), '"'),
    **dict.fromkeys(map(ord, "\u2018\u2019"), "'"),
    **dict.fromkeys(map(ord, "\u2013\u2014"), " -- "),
    0x00A0: " ",
}


def _split(text: str) -> Iterator[str]:
    start = 0
    for match in BREAK.finditer(text):
        end = match.end() - len(match[0]) + len(match[0].rstrip())
        if not ABBREVIATION.search(text, start, end):
            yield text[start:end]
            start = match.end()
    yield text[start:]


def _role(match: re.Match[str]) -> str:
    role, target = match[1], match[2]
    if role == "math":
        return _code(target)
    target = target.partition("<")[0].strip() or target
    return _code(target.rpartition(".")[2] if target.startswith("~") else target)


def _code(text: str) -> str:
    words = text.strip().lstrip("~!").split()
    return " ".join(words) if all(map(READABLE_CODE.fullmatch, words)) else UNREADABLE
