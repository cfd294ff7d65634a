"""Trees in brackets, as the Penn Treebank writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, located, write_text
from mrflearn.io.trees import Tree

_ATOM = r"[^ \t\n\r\f\v()]+"
_IS_ATOM = re.compile(_ATOM).fullmatch
# Most of a treebank is (tag word) on one line, which is worth one step instead of four.
_PIECES = re.compile(rf"\(({_ATOM})[ \t]+({_ATOM})[ \t]*\)|([()]|{_ATOM})").findall


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
    stack: list[tuple[int, list[Any]]] = []  # open brackets: their lines, what is in them
    restart = 0  # where another tree seems to begin inside an unfinished one
    for number, line in lines:
        if stack and not restart and line.startswith("("):
            restart = number
        for tag, word, piece in _PIECES(line):
            if piece == "(":
                stack.append((number, []))
                continue
            if tag:
                part: Any = Tree(tag, (), word)
            elif not stack:
                what = "a closing bracket too many" if piece == ")" else f"'{piece}' outside a tree"
                example = "(S (NP (DT the) (NN cat)) (VP (VBZ sits)))"
                problem = f"{what}: brackets are not in balance. A tree is written {example}."
                raise DataError(problem, line=number)
            elif piece == ")":
                part = _closed(stack.pop()[1], number)
            else:
                part = piece
            if stack:
                stack[-1][1].append(part)
            else:
                restart = 0
                yield _unwrapped(part)
    if stack:
        hint = f" Another tree seems to begin in line {restart}." if restart else ""
        raise DataError(
            f"the tree that begins here never ends: {len(stack)} brackets are open at the end of "
            f"the file. Is a closing bracket missing, or the file cut short?{hint}",
            line=stack[0][0],
        )


def write_trees(path: PathLike, trees: Iterable[Tree]) -> None:
    """Writes one tree per line, without an outer unlabelled bracket."""
    with write_text(path) as stream:
        for tree in trees:
            for node in tree.nodes():
                if not _can_be_written(node):
                    raise DataError(
                        f"node {node.label!r} with word {node.word!r}: neither can have white "
                        "space or brackets in it; the Penn Treebank writes ( as -LRB-."
                    )
            stream.write(f"{tree}\n")


def _closed(parts: list[Any], line: int) -> Tree:
    """The tree of a bracket: its label, if there is one, and then a word or constituents."""
    label = parts.pop(0) if parts and type(parts[0]) is str else ""
    words = [part for part in parts if type(part) is str]
    if parts and not words:
        return Tree(label, tuple(parts))
    if len(parts) == 1:
        return Tree(label, (), words[0])
    if not parts:
        raise DataError(f"the bracket '{label}' closed here has no word in it.", line=line)
    raise DataError(
        f"'{words[-1]}' stands beside a constituent or another word; a word has a bracket of its "
        "own, with its tag: (NN dog).",
        line=line,
    )


def _unwrapped(tree: Tree) -> Tree:
    while not tree.label and len(tree.children) == 1:
        tree = tree.children[0]
    return tree


def _can_be_written(node: Tree) -> bool:
    if node.word is not None:
        return bool(_IS_ATOM(node.label) and _IS_ATOM(node.word))
    return not node.label or _IS_ATOM(node.label) is not None
