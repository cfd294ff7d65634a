"""Regular English spelling of inflected forms, and the choice between "a" and "an"."""

from __future__ import annotations

import re

_SIBILANT = re.compile(r"(s|x|z|ch|sh|[^aeiou]o)$")
_CONSONANT_Y = re.compile(r"([^aeiou])y$")
# One syllable that ends in one vowel and one consonant doubles it: stop, stopped.
_DOUBLING = re.compile(r"^[^aeiou]*[aeiou][bdgklmnprt]$")
# Vowels are sounds, not letters: an hour, a unit, a European, a one-off.
_VOWEL = re.compile(r"(?!uni(?!m)|us[eu]|eu|one)[aeiou]|hour|hono|honest|heir", re.IGNORECASE)


def plural(noun: str) -> str:
    """The plural of a regular noun; the same ending makes a verb's third person."""
    if _SIBILANT.search(noun):
        return noun + "es"
    return _CONSONANT_Y.sub(r"\1ie", noun) + "s"


def past(verb: str) -> str:
    """The past tense and past participle of a regular verb."""
    if verb.endswith("e"):
        return verb + "d"
    if _DOUBLING.match(verb):
        return verb + verb[-1] + "ed"
    return _CONSONANT_Y.sub(r"\1i", verb) + "ed"


def gerund(verb: str) -> str:
    """The -ing form of a regular verb."""
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    if _DOUBLING.match(verb):
        return verb + verb[-1] + "ing"
    return verb + "ing"


def indefinite_article(following: str) -> str:
    """The word "an" before a vowel sound and "a" before any other."""
    return "an" if _VOWEL.match(following) else "a"
