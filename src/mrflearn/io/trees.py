"""Parse trees as plain records, and the usual clean-up of treebank trees.

Nothing here recurses, so a tree may be as deep as memory allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from mrflearn.errors import DataError

TRACE = "-NONE-"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A constituent with children, or a tag with its word; `str()` of it is in brackets."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None

    def __post_init__(self) -> None:
        if bool(self.children) == (self.word is not None):
            raise DataError(f"node '{self.label}' needs children or a word, and not both.")

    def nodes(self) -> Iterator[Tree]:
        """The node itself and all below it, parents before children, left before right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    @property
    def words(self) -> tuple[str, ...]:
        """The words, from left to right."""
        return tuple(node.word for node in self.nodes() if node.word is not None)

    @property
    def tags(self) -> tuple[str, ...]:
        """The labels right above the words, from left to right."""
        return tuple(node.label for node in self.nodes() if node.word is not None)

    def __str__(self) -> str:
        pieces: list[str] = []
        stack: list[Tree | None] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                pieces.append(")")
            elif node.word is not None:
                pieces.append(f" ({node.label} {node.word})")
            else:
                pieces.append(f" ({node.label}")
                stack.append(None)
                stack.extend(reversed(node.children))
        return "".join(pieces)[1:]

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._flat() == other._flat()

    def __hash__(self) -> int:
        return hash(self._flat())

    def __reduce__(self) -> tuple[object, ...]:
        return _from_flat, (self._flat(),)

    def _flat(self) -> tuple[tuple[str, str | None, int], ...]:
        """The nodes without their nesting: enough to compare, hash, copy and rebuild a tree."""
        return tuple((node.label, node.word, len(node.children)) for node in self.nodes())


def rebuild(
    tree: Tree, change: Callable[[Tree, tuple[Tree, ...]], tuple[Tree, ...]]
) -> tuple[Tree, ...]:
    """What becomes of a tree when each node, from the bottom up, is replaced by some trees.

    `change` sees a node of the old tree and its new children, and gives what stands in its place:
    no tree to delete it, several to put them among its parent's children.
    """
    done: list[tuple[Tree, ...]] = []
    for node in reversed(list(tree.nodes())):  # children before parents, the first on top
        children = tuple(chain.from_iterable([done.pop() for _ in node.children]))
        done.append(change(node, children))
    return done.pop()


def remove_traces(tree: Tree) -> Tree | None:
    """The tree without empty elements (`-NONE-`) and constituents left empty; None if all are."""

    def keep(node: Tree, children: tuple[Tree, ...]) -> tuple[Tree, ...]:
        if node.word is not None:
            return () if node.label == TRACE else (node,)
        return (Tree(node.label, children),) if children else ()

    kept = rebuild(tree, keep)
    return kept[0] if kept else None


def strip_functions(tree: Tree) -> Tree:
    """The tree with bare categories: NP-SBJ-1 and NP=2 become NP; tags stay (`-LRB-`)."""

    def strip(node: Tree, children: tuple[Tree, ...]) -> tuple[Tree, ...]:
        if node.word is not None:
            return (node,)
        return (Tree(_category(node.label), children),)

    return rebuild(tree, strip)[0]


def _category(label: str) -> str:
    found = re.match(r".[^-=]*", label)
    return found[0] if found else label


def _from_flat(flat: tuple[tuple[str, str | None, int], ...]) -> Tree:
    done: list[Tree] = []
    for label, word, count in reversed(flat):
        done.append(Tree(label, tuple([done.pop() for _ in range(count)]), word))
    return done.pop()
