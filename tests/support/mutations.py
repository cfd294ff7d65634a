"""Damaged files: a valid file's bytes after a few small accidents."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

# What breaks parsers of text: separators, brackets, escapes, odd numbers, odd bytes.
PIECES = [
    *(b"\n", b"\r\n", b"\n\n", b"\t", b" ", b"\x0c", b"\x00", b"\xff", b"\xc3", b"\xe2\x80\xa8"),
    *(
        b"(",
        b")",
        b"(()",
        b"<stime>",
        b"</speaker>",
        b"/",
        b"\\",
        b":",
        b"#",
        b"-",
        b">",
        b",",
        b".",
    ),
    *(b"0", b"-1", b"1", b"99999999999999999999", b"9" * 5000, b"1e999", b"nan", b"-inf", b"_"),
]

# What replaces a number: sizes that no memory holds, signs and kinds that should not be there.
NUMBERS = [
    *(b"0", b"-1", b"1", b"2147483648", b"1000000000000", b"18446744073709551615", b"-0", b"007"),
    *(b"9" * 30, b"9" * 5000, b"1e999", b"1e-999", b"nan", b"-inf", b"0x10", b"1_0", b"1.5", b""),
]

Integer = Callable[[int, int], int]  # one of low, ..., high
EDITS: dict[str, Callable[[Any, int, int], Any]] = {
    "delete": lambda parts, i, j: parts[:i] + parts[j:],
    "duplicate": lambda parts, i, j: parts[:j] + parts[i:],
    "truncate": lambda parts, i, _: parts[:i],
    "swap ends": lambda parts, i, _: parts[i:] + parts[:i],
    "reverse": lambda parts, i, j: parts[:i] + parts[i:j][::-1] + parts[j:],
}
_KINDS = ("insert", "flip", "number", "bytes", "lines")
_DIGITS = re.compile(rb"[0-9.]+")


def damage(valid: bytes, integer: Integer) -> bytes:
    """The bytes after one to four accidents to bytes, numbers or lines, as `integer` chooses."""
    content = valid
    for _ in range(integer(1, 4)):
        kind = _KINDS[integer(0, len(_KINDS) - 1)]
        place = integer(0, len(content))
        if kind == "insert":
            pick = integer(0, len(PIECES) + 3)
            known = pick < len(PIECES)
            piece = PIECES[pick] if known else bytes(integer(0, 255) for _ in range(integer(0, 6)))
            content = content[:place] + piece + content[place:]
        elif kind == "flip" and content:
            place %= len(content)
            flipped = content[place] ^ (1 << integer(0, 7))
            content = content[:place] + bytes([flipped]) + content[place + 1 :]
        elif kind == "number" and (found := _DIGITS.search(content, place)):
            other = NUMBERS[integer(0, len(NUMBERS) - 1)]
            content = content[: found.start()] + other + content[found.end() :]
        else:
            lines = kind == "lines"
            parts: Any = content.splitlines(keepends=True) if lines else content
            first, second = sorted((integer(0, len(parts)), integer(0, len(parts))))
            changed = list(EDITS.values())[integer(0, len(EDITS) - 1)](parts, first, second)
            content = b"".join(changed) if lines else changed
    return content


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """The bytes after one to four accidents, which hypothesis chooses and makes small."""
    return damage(valid, lambda low, high: draw(st.integers(low, high)))
