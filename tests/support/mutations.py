"""Damaged files: a valid file's bytes after a few small accidents."""

from __future__ import annotations

from collections.abc import Callable

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

Edit = Callable[[list[bytes], int, int], list[bytes]]
EDITS: dict[str, Edit] = {
    "delete": lambda parts, i, j: parts[:i] + parts[j:],
    "duplicate": lambda parts, i, j: parts[:j] + parts[i:],
    "truncate": lambda parts, i, _: parts[:i],
    "swap ends": lambda parts, i, _: parts[i:] + parts[:i],
    "reverse": lambda parts, i, j: parts[:i] + parts[i:j][::-1] + parts[j:],
}


def _insert(content: bytes, piece: bytes, place: int) -> bytes:
    return content[:place] + piece + content[place:]


def _flip(content: bytes, bit: int, place: int) -> bytes:
    if not content:
        return content
    place %= len(content)
    return content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """The bytes after one to four accidents to bytes or lines."""
    content = valid
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["insert", "flip", "bytes", "lines"]))
        place = draw(st.integers(0, len(content)))
        if kind == "insert":
            piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)))
            content = _insert(content, piece, place)
        elif kind == "flip":
            content = _flip(content, draw(st.integers(0, 7)), place)
        else:
            parts = content.splitlines(keepends=True) if kind == "lines" else _bytes(content)
            first, second = sorted(draw(st.integers(0, len(parts))) for _ in range(2))
            content = b"".join(EDITS[draw(st.sampled_from(sorted(EDITS)))](parts, first, second))
    return content


def _bytes(content: bytes) -> list[bytes]:
    return [content[i : i + 1] for i in range(len(content))]
