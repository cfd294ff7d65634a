"""Real English out of the docstrings of installed packages.

Three conventions are understood: numpydoc (underlined headings), Google (`Args:` and an indented
block) and reStructuredText (directives, field lists, literal blocks).

What does not read as a sentence (code, formulas, headings, fragments) is left out.

Sources are parsed, never imported.  Every machine has some; the figures vary with the versions.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from itertools import chain
from pathlib import Path

from mrflearn.errors import DataError

# The running prose of a docstring: its paragraphs, without code, tables, field lists and
# headings.


# Sections that are tables or code by nature; all others (Notes, Warnings, ...) are prose.
_DROPPED = (
    "args|arguments|keyword args|keyword arguments|kwargs|parameters|other parameters|inputs|"
    "outputs|shape|fields|options|returns?|yields?|receives|raises?|warns|attributes|methods|"
    "properties|members|functions|classes|routines|(?:sample |example )?usage|usage example|"
    "examples?|see also|references|authors?|license|copyright|todo"
)
_KEPT = "note|warning|tip|hint|important|attention|caution|danger|admonition"
_RULE = r" *(?:-{3,}|={3,}|~{3,}|\^{3,}|\*{3,}|#{3,}|\"{3,}|'{3,}|`{3,}) *$"
_DEEPER = r"\n(?:\1 +.*\n|[ \t]*\n)*"  # lines below that are indented more than the first
# Directives, comments and targets; fields.
_MARKS = rf"\.\.(?! *(?:{_KEPT})::).*|:[A-Za-z][^:`\n]*:(?!`).*"
# What is taken out of a docstring, in this order, and what is left in its place.
_REMOVED = [
    (re.compile(pattern, re.MULTILINE | re.IGNORECASE), left)
    for pattern, left in (
        (rf"^ *(?:{_DROPPED}):?\n{_RULE}\n(?:(?!.*\n{_RULE}).*\n)*", "\n"),  # numpydoc's sections
        (rf"^.*\n{_RULE}\n", "\n"),  # other underlined headings
        (r"^ *>>>.*\n(?:.*\S.*\n)*", "\n"),  # doctests
        (rf"^( *)(?:{_MARKS}|(?:{_DROPPED}) *(?:\([^)\n]*\))? *::?){_DEEPER}", "\n"),
        (rf"^( *)\.\. *(?:{_KEPT})::[ \t]*", r"\1"),
        (rf"(?<=\n\n)( *)(?!{_KEPT})[a-z]+(?: [a-z]+)? *::{_DEEPER}", "\n"),
        (r"(?<=\n\n) *[a-z]+(?: [a-z]+)? *(?:\([^)\n]*\))? *::?\n", "\n"),  # other headings
        (rf"^( *)(.*\S)::[ \t]*{_DEEPER}", r"\1\2:\n\n"),  # literal blocks
    )
]
_BULLET = re.compile(r"\s*(?:[-*+\u2022]|\(?(?:\d{1,2}|[a-zA-Z])[.)])\s+(?=\S)")
_TABLE = re.compile(r"\S\s{3,}\S|\+-{2,}|-{2,}\+|\|.*\||={3,}\s|-{4,}|={4,}")


def paragraphs(docstring: str) -> Iterator[str]:
    """The paragraphs and list items of a docstring in order, each as one line of text."""
    text = f"\n\n{cleandoc(docstring)}\n\n"
    for pattern, left in _REMOVED:
        text = pattern.sub(left, text)
    lines: list[str] = []
    indent = 0
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        own = bullet.end() if bullet else len(line) - len(line.lstrip())
        if _TABLE.search(line.strip()):
            lines = []  # a table spoils the lines it is glued to
            continue
        if lines and (bullet or own != indent or not line.strip()):
            yield " ".join(lines)
            lines = []
        if line.strip():
            lines.append(line[own:].rstrip())
            indent = own
    if lines:
        yield " ".join(lines)


# Paragraphs of technical English, with reStructuredText marks in them, as tokenised sentences.


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
FUNCTION_WORD = re.compile(
    "a|an|and|are|as|at|be|been|but|by|can|for|from|has|have|if|in|into|is|it|its|may|must|no|not|"
    "of|on|or|should|so|such|than|that|the|their|then|there|these|this|to|was|we|when|where|which|"
    "will|with|you|your",
    re.IGNORECASE,
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
    text = ADDRESS.sub(UNREADABLE, LINK.sub(r"\1", text))
    text = QUOTED.sub(lambda match: _code(match[1]), text)
    text = FOOTNOTE.sub(lambda match: UNREADABLE if match[1] else "", text)
    text = STRONG.sub(r"\2", text)
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
    is_prose = any(FUNCTION_WORD.fullmatch(token) for token in tokens)
    return is_prose and plain_words >= LEAST_WORDS * len(words)


_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("\u201c\u201d\u00ab\u00bb", '"')
    | dict.fromkeys("\u2018\u2019", "'")
    | dict.fromkeys("\u2013\u2014", " -- ")
    | {"\u00a0": " "}
)


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


# Built-in real text: the docstrings of the standard library and of installed packages.


PACKAGES = ("stdlib", "torch", "numpy", "scipy")
# Tests are repetitive, and tables of characters and help texts are no docstrings.
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    | {"encodings", "pydoc_data", "lib2to3", "turtledemo", "ensurepip"}
)
KEPT_PRIVATE_FOLDERS = frozenset({"_core"})  # where numpy's documented functions live
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class SourceText:
    """The sentences of one module's docstrings, in the order of the source."""

    module: str
    sentences: tuple[tuple[str, ...], ...]


def docstring_sentences(
    packages: Sequence[str] = PACKAGES, *, lower: bool = True
) -> Iterator[tuple[str, ...]]:
    """The tokens of every sentence, no sentence twice, in a stable order, as they are found."""
    for document in docstring_documents(packages, lower=lower):
        yield from document.sentences


def docstring_documents(
    packages: Sequence[str] = PACKAGES, *, lower: bool = True
) -> Iterator[SourceText]:
    """One document for every module that has sentences not seen in a module before it.

    `stdlib` is the standard library; any other name is an importable package.  Files come sorted
    by path within each package; those that do not parse are left out.
    """
    seen: set[tuple[str, ...]] = set()  # in lower case
    for package in packages:
        root = _root(package)
        for path in _sources(root):
            fresh = []
            prose = chain.from_iterable(map(paragraphs, _docstrings(path)))
            for sentence in chain.from_iterable(map(sentences, prose)):
                lowered = tuple(token.lower() for token in sentence)
                if lowered not in seen:
                    seen.add(lowered)
                    fresh.append(lowered if lower else tuple(sentence))
            if fresh:
                yield SourceText(_module_name(package, path.relative_to(root)), tuple(fresh))


def _root(package: str) -> Path:
    if package == "stdlib":
        return Path(sysconfig.get_path("stdlib"))
    found = importlib.util.find_spec(package) if package.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        raise DataError(
            f"there is no installed package '{package}' to read docstrings from. "
            f"Try one of {', '.join(PACKAGES)}."
        )
    return Path(next(iter(found.submodule_search_locations)))


def _sources(root: Path) -> list[Path]:
    def skipped(folder: str) -> bool:
        return folder in SKIPPED_FOLDERS or (
            folder[0] == "_" and folder not in KEPT_PRIVATE_FOLDERS
        )

    found = ((path, path.relative_to(root).parts[:-1]) for path in root.rglob("*.py"))
    return sorted(path for path, folders in found if not any(map(skipped, folders)))


def _module_name(package: str, path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if package == "stdlib" else (package, *parts))


def _docstrings(path: Path) -> list[str]:
    try:
        source = path.read_bytes()
        if b'"""' not in source and b"'''" not in source:
            return []
        with warnings.catch_warnings(action="ignore"):  # of escapes in other people's strings
            return list(_walk(ast.parse(source)))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _walk(node: ast.AST) -> Iterator[str]:
    """Docstrings of a node and of what is defined in it; expressions are not descended into."""
    if isinstance(node, (ast.Module, *DEFINITIONS)):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield text
    for block in ("body", "orelse", "handlers", "finalbody"):
        for child in getattr(node, block, ()):
            yield from _walk(child)
