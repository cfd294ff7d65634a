"""Chunks as tags (IOB1, IOB2, BIOES) and as spans, and from each to each.

Tags are `O` or a letter, a hyphen and a label (`B-NP`; `B` alone has the empty label).  Every
sequence of such tags has a reading, that of the CoNLL shared tasks' scorer (conlleval): a chunk
begins at

- every B and S;
- an I or E after O, after E or S, or after another label;

and it ends before the next beginning, before O, and after every E and S.  So `O I-NP` begins a
chunk in every scheme, `B-NP I-VP` is two chunks, and a B that is never ended is a whole chunk.
Well-formed tags of all three schemes read right under these rules; only `scheme=...` makes a
reading strict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from mrflearn.errors import DataError

Scheme = Literal["IOB2", "IOB1", "BIOES"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


class Span(NamedTuple):
    """The tokens from `start` up to, but excluding, `end`."""

    start: int
    end: int
    label: str


def tags_to_spans(tags: Sequence[str], scheme: Scheme | None = None) -> tuple[Span, ...]:
    """The chunks that tags stand for, from left to right.

    Ill-formed tags are read as conlleval reads them; with a `scheme` they raise a `DataError`.
    """
    spans = []
    before, label_before, start = "O", "", 0
    for position, tag in enumerate(tags):
        letter, label = split_tag(tag)
        joined = letter in "IE" and before in "BI" and label == label_before
        if before != "O" and not joined:
            spans.append(Span(start, position, label_before))
        if letter != "O" and not joined:
            start = position
        before, label_before = letter, label
    if before != "O":
        spans.append(Span(start, len(tags), label_before))
    if scheme is not None:
        _check(tags, spans_to_tags(spans, len(tags), scheme), scheme)
    return tuple(spans)


def check_scheme(scheme: str) -> None:
    """Raises `DataError` where there is no such tagging scheme."""
    if scheme not in SCHEMES:
        names = ", ".join(SCHEMES)
        raise DataError(f"there is no tagging scheme '{scheme}'; there are {names}; BIO is IOB2.")


def spans_to_tags(spans: Iterable[Span], length: int, scheme: Scheme = "IOB2") -> tuple[str, ...]:
    """The tags of `length` tokens with these chunks, which may come in any order."""
    check_scheme(scheme)
    ordered = sorted(Span(*span) for span in spans)
    _check_spans(ordered, length)
    tags = ["O"] * length
    end_before, label_before = -1, ""
    for start, end, label in ordered:
        adjacent = start == end_before and label == label_before
        tags[start:end] = _chunk(end - start, f"-{label}" if label else "", scheme, adjacent)
        end_before, label_before = end, label
    return tuple(tags)


def convert_tags(tags: Sequence[str], to: Scheme, scheme: Scheme | None = None) -> tuple[str, ...]:
    """The same chunks in another scheme; `scheme`, where given, is checked to be that of `tags`."""
    return spans_to_tags(tags_to_spans(tags, scheme), len(tags), to)


def are_chunk_tags(labels: Iterable[str]) -> bool:
    """Whether labels can be read as chunks: all are chunk tags, and one at least is not O."""
    try:
        letters = {split_tag(label)[0] for label in labels}
    except DataError:
        return False
    return bool(letters - {"O"})


def _chunk(length: int, suffix: str, scheme: Scheme, adjacent: bool) -> list[str]:
    """The tags of one chunk; `adjacent`: it follows at once upon another of its label."""
    if scheme == "BIOES" and length == 1:
        return ["S" + suffix]
    tags = ["I" + suffix] * length
    if scheme != "IOB1" or adjacent:
        tags[0] = "B" + suffix
    if scheme == "BIOES":
        tags[-1] = "E" + suffix
    return tags


@lru_cache(maxsize=4096)
def split_tag(tag: str) -> tuple[str, str]:
    """The letter of a chunk tag and its label: `("B", "NP")`, `("O", "")`."""
    letter, _, label = tag.partition("-")
    if letter not in ("B", "I", "O", "E", "S") or (letter == "O" and tag != "O"):
        raise DataError(
            f"'{tag}' is no chunk tag: expected O, or one of B, I, E, S with a label, as in B-NP. "
            "Is this the right column?"
        )
    return letter, label


def _check(tags: Sequence[str], expected: Sequence[str], scheme: Scheme) -> None:
    for position, (tag, right) in enumerate(zip(tags, expected, strict=True)):
        if tag != right:
            previous = tags[position - 1] if position else "the beginning"
            raise DataError(
                f"tag {position} is '{tag}' after {previous}; {scheme} would have '{right}' "
                f"there. Is it another of the schemes {', '.join(SCHEMES)}?"
            )


def _check_spans(ordered: Sequence[Span], length: int) -> None:
    for span in ordered:
        if not 0 <= span.start < span.end <= length:
            raise DataError(f"{span} is empty or not within the {length} tokens there are.")
    for first, second in pairwise(ordered):
        if second.start < first.end:
            raise DataError(f"{first} and {second} overlap; a tag sequence holds only flat chunks.")
