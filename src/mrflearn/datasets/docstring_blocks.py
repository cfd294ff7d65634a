"""The running prose of a docstring: its paragraphs, without code, tables, field lists and headings.

Three conventions are understood: numpydoc (underlined headings), Google (`Args:` and an indented
block) and reStructuredText (directives, field lists, literal blocks).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc

# Sections that are tables or code by nature; all others (Notes, Warnings, ...) are prose.
DROPPED_SECTIONS = frozenset(
    {
        *("args", "arguments", "keyword args", "keyword arguments", "kwargs"),
        *("parameters", "other parameters", "inputs", "outputs", "shape", "fields", "options"),
        *("return", "returns", "yield", "yields", "receives", "raise", "raises", "warns"),
        *("attributes", "methods", "properties", "members", "functions", "classes", "routines"),
        *("example", "examples", "usage", "example usage", "usage example", "sample usage"),
        *("see also", "references", "authors", "author", "license", "copyright", "todo"),
    }
)
KEPT_DIRECTIVES = frozenset(
    {"note", "warning", "tip", "hint", "important", "attention", "caution", "danger", "admonition"}
)
UNDERLINE = re.compile(r"([-=~^*#\"'`])\1{2,}$")
HEADING = re.compile(r"([A-Za-z][A-Za-z ]*?)\s*(?:\([^)]*\))?\s*::?$")
DIRECTIVE = re.compile(r"\.\.\s*([\w-]+)?(?:::)?\s*(.*)")
FIELD = re.compile(r":[A-Za-z][^:`]*:(?!`)")
BULLET = re.compile(r"(?:[-*+\u2022]|\(?(?:\d{1,2}|[a-zA-Z])[.)])\s+(?=\S)")
TABLE = re.compile(r"\S\s{3,}\S|\+-{2,}|-{2,}\+|\|.*\||={3,}\s|-{4,}|={4,}")


def paragraphs(docstring: str) -> Iterator[str]:
    """The paragraphs and list items of a docstring in order, each as one line of text."""
    reader = _Blocks()
    for line in cleandoc(docstring).splitlines():
        yield from reader.read(line)
    yield from reader.flush()


class _Blocks:
    """What has to be remembered from line to line."""

    def __init__(self) -> None:
        self.lines: list[str] = []  # of the paragraph under way
        self.indent = 0  # of its lines
        self.hidden: int | None = None  # lines indented deeper than this are skipped
        self.section: int | None = None  # indentation of a dropped section's heading
        self.doctest = False
        self.above = ""  # the last line that was not blank: a heading, if this one is its underline

    def read(self, line: str) -> Iterator[str]:
        """The paragraphs that this line brings to an end."""
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text:
            self.doctest = False
            yield from self.flush()
        elif self._skips(indent, text):
            pass
        elif text.startswith(">>>"):
            self.doctest = True
            yield from self.flush()
        elif UNDERLINE.match(text):
            self._underline(indent)
        elif match := DIRECTIVE.match(text):
            yield from self.flush()
            self._directive(match, indent)
        elif FIELD.match(text):
            yield from self.flush()
            self.hidden = indent
        elif match := HEADING.match(text):
            yield from self._heading(text, match[1].lower(), indent)
        elif TABLE.search(text):
            self.lines = []  # a table spoils the lines it is glued to
        else:
            yield from self._prose(text, indent)
        self.above = text or self.above

    def flush(self) -> Iterator[str]:
        """The paragraph under way, if there is one."""
        if self.lines:
            paragraph = " ".join(self.lines)
            self.lines = []
            if paragraph.endswith("::"):
                self.hidden = self.indent
                paragraph = paragraph[:-1]
            yield paragraph

    def _skips(self, indent: int, text: str) -> bool:
        if self.hidden is not None:
            if indent > self.hidden:
                return True
            self.hidden = None
        if self.section is not None:
            # Its end is the next heading, which is known only by the line below it.
            return not (UNDERLINE.match(text) and indent <= self.section)
        return self.doctest

    def _underline(self, indent: int) -> None:
        title = self.above.lower().rstrip(":")
        self.section = indent if title in DROPPED_SECTIONS else None
        self.lines = self.lines[:-1]  # the heading itself

    def _directive(self, match: re.Match[str], indent: int) -> None:
        if match[1] in KEPT_DIRECTIVES:
            self.lines, self.indent = [match[2]] if match[2] else [], indent
        else:
            self.hidden = indent

    def _heading(self, text: str, title: str, indent: int) -> Iterator[str]:
        """`Args:` on a line of its own; but a line of prose may end in a colon too."""
        if title in DROPPED_SECTIONS:
            yield from self.flush()
            self.hidden = indent
        elif not self.lines and len(title.split()) < 3:
            if text.endswith("::") and title not in KEPT_DIRECTIVES:
                self.hidden = indent
        else:
            yield from self._prose(text, indent)

    def _prose(self, text: str, indent: int) -> Iterator[str]:
        bullet = BULLET.match(text)
        if bullet:
            yield from self.flush()
            indent += bullet.end()
            text = text[bullet.end() :]
        elif indent != self.indent:
            yield from self.flush()
        self.indent = indent
        self.lines.append(text)
