"""Trees in brackets, as the Penn Treebank writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, located, write_text
from mrflearn.io.trees import Tree

_ATOM = r"[^ \t\n\r\f\v()]+"
_IS_ATOM = re.compile(_ATOM).fullmatch
# Most of a treebank is (tag word) on one line, which is worth one step instead of four.
_PIECES = re.compile(rf"\(({_ATOM})[ \t]+({_ATOM})[ \t]*\)|([()]|{_ATOM})").findall


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet."""

    line: int
    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)


def read_trees(path: PathLike) -> Iterator[Tree]:
    """The trees of a file, one at a time, over as many lines as each takes.

    The unlabelled bracket that the Penn Treebank puts around a tree is taken off; around several
    trees it stays, as a node with the empty label.
    """
    with Lines(path) as lines:
        yield from _trees((lines.number, line) for line in lines)


def held_trees(given: Iterable[Tree | str]) -> Iterator[Tree]:
    """Trees as users hand them over: records as they are, texts in brackets read."""
    for number, tree in enumerate(given, start=1):
        if isinstance(tree, Tree):
            yield tree
        elif isinstance(tree, str):
            with located(f"tree {number}"):
                yield from _trees(enumerate(tree.splitlines(), start=1))
        else:
            raise DataError(
                f"tree {number} is a {type(tree).__name__}; give a text in brackets, such as "
                "'(S (NP (DT the)) ...)'. NLTK's trees become one by str(tree)."
            )


def _trees(lines: Iterable[tuple[int, str]]) -> Iterator[Tree]:
    stack: list[_Open] = []
    restart = 0  # where another tree seems to begin inside an unfinished one
    for number, line in lines:
        if stack and not restart and line.startswith("("):
            restart = number
        for tag, word, piece in _PIECES(line):
            if piece == "(":
                stack.append(_Open(number))
                continue
            if tag:
                tree = Tree(tag, (), word)
            elif not stack:
                what = "a closing bracket too many" if piece == ")" else f"'{piece}' outside a tree"
                raise DataError(
                    f"{what}: brackets are not in balance. "
                    "A treebank has lines such as (S (NP (DT the) (NN cat)) (VP (VBZ sits))).",
                    line=number,
                )
            elif piece == ")":
                tree = _closed(stack.pop(), number)
            else:
                _put(stack[-1], piece, number)
                continue
            if stack:
                stack[-1].children.append(tree)
            else:
                restart = 0
                yield _unwrapped(tree)
    if stack:
        hint = f" Another tree seems to begin in line {restart}." if restart else ""
        raise DataError(
            f"the tree that begins here never ends: {len(stack)} brackets are open at the end of "
            f"the file. Is a closing bracket missing, or the file cut short?{hint}",
            line=stack[0].line,
        )


def write_trees(path: PathLike, trees: Iterable[Tree]) -> None:
    """Writes one tree a line, without an outer unlabelled bracket."""
    with write_text(path) as stream:
        for tree in trees:
            for node in tree.nodes():
                if not _can_be_written(node):
                    raise DataError(
                        f"node {node.label!r} with word {node.word!r}: neither can have white "
                        "space or brackets in it; the Penn Treebank writes ( as -LRB-."
                    )
            stream.write(f"{tree}\n")


def _put(bracket: _Open, atom: str, line: int) -> None:
    """Take an atom as the bracket's label, or else as its word."""
    if bracket.label is None and not bracket.children:
        bracket.label = atom
    elif bracket.word is None and not bracket.children:
        bracket.word = atom
    else:
        raise DataError(
            f"'{atom}' stands beside a constituent or another word; a word has a bracket of its "
            "own, with its tag: (NN dog).",
            line=line,
        )


def _closed(bracket: _Open, line: int) -> Tree:
    if bool(bracket.children) == (bracket.word is not None):
        what = "a word beside constituents" if bracket.word else "no word and no constituent in it"
        raise DataError(f"the bracket '{bracket.label or ''}' closed here has {what}.", line=line)
    return Tree(bracket.label or "", tuple(bracket.children), bracket.word)


def _unwrapped(tree: Tree) -> Tree:
    while not tree.label and len(tree.children) == 1:
        tree = tree.children[0]
    return tree


def _can_be_written(node: Tree) -> bool:
    if node.word is not None:
        return bool(_IS_ATOM(node.label) and _IS_ATOM(node.word))
    return not node.label or _IS_ATOM(node.label) is not None
