"""Phrase-structure trees, and their binarisation.

Nothing here recurses, so a tree may be as deep as memory allows.

`collapse_unaries` and then `binarise` leave only binary nodes above words; `unbinarise` and then
`expand_unaries` give exactly the tree one began with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from mrflearn.errors import DataError

# Parse trees as plain records, and the usual clean-up of treebank trees.


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
        return tree_of_nodes, (self._flat(),)

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
        return (Tree(re.sub(r"(?<=.)[-=].*", "", node.label), children),)

    return rebuild(tree, strip)[0]


def tree_of_nodes(nodes: Sequence[tuple[str, str | None, int]]) -> Tree:
    """The tree of labels, words and numbers of children, parents first and left before right."""
    done: list[Tree] = []  # the leftmost on top
    for label, word, count in reversed(nodes):
        done.append(Tree(label, tuple([done.pop() for _ in range(count)]), word))
    return done.pop()


# Trees without unary chains and with at most two children (Chomsky normal form), and back.


JOINT = "+"  # S+VP: an S whose only child is a VP
PARENT = "^"  # NP^S: an NP below an S
PART = "@"  # @NP>DT_JJ: the rest of an NP after DT and JJ


def collapse_unaries(tree: Tree) -> Tree:
    """The tree with each chain of only children made one node, down to and with the tag.

    (S (VP (VB Go))) becomes (S+VP+VB Go).
    """

    def collapse(node: Tree, children: tuple[Tree, ...]) -> tuple[Tree, ...]:
        _refuse(JOINT in node.label, node.label, f"'{JOINT}' joins collapsed labels; rename it")
        if len(children) != 1:
            return (Tree(node.label, children, node.word),)
        child = children[0]
        return (Tree(node.label + JOINT + child.label, child.children, child.word),)

    return rebuild(tree, collapse)[0]


def expand_unaries(tree: Tree) -> Tree:
    """The tree with every collapsed chain drawn out again."""

    def expand(node: Tree, children: tuple[Tree, ...]) -> tuple[Tree, ...]:
        *above, lowest = node.label.split(JOINT)
        result = Tree(lowest, children, node.word)
        for label in reversed(above):
            result = Tree(label, (result,))
        return (result,)

    return rebuild(tree, expand)[0]


def binarise(
    tree: Tree,
    side: Literal["left", "right"] = "right",
    horizontal: int | None = None,
    vertical: int = 0,
    *,
    chains: bool = True,
) -> Tree:
    """The tree with new nodes such that none has more than two children.

    Right: (NP DT JJ NN) becomes (NP DT (@NP>DT JJ NN)), and left it becomes
    (NP (@NP>NN DT JJ) NN).  A new node remembers the `horizontal` last children split off before
    it (None: all of them), and labels of constituents get the `vertical` nearest ancestors
    (NP^S^ROOT): the Markov orders of Klein and Manning (2003), "Accurate unlexicalized parsing".
    Without `chains` collapsed children are remembered by the first label alone: NP of NP+PRP.
    """
    if side not in ("left", "right") or vertical < 0 or (horizontal is not None and horizontal < 0):
        given = f"side={side!r}, horizontal={horizontal}, vertical={vertical}"
        raise DataError(f"{given}: side is 'left' or 'right', orders are 0 or more.")
    labels = reversed(list(_with_ancestors(tree, vertical)))  # as rebuild goes

    def split(node: Tree, children: tuple[Tree, ...]) -> tuple[Tree, ...]:
        label = next(labels)
        if node.word is not None:
            return (node,)
        reserved = node.label.startswith(PART) or PARENT in node.label
        _refuse(reserved, node.label, f"{PART} and {PARENT} mark binarised labels; rename it")
        names = [_plain(child.label, PARENT if chains else JOINT) for child in children]
        return (_split(label, children, names, side, horizontal),)

    return rebuild(tree, split)[0]


def unbinarise(tree: Tree) -> Tree:
    """The tree without the nodes and marks of `binarise`, whatever its options were."""

    def join(node: Tree, children: tuple[Tree, ...]) -> tuple[Tree, ...]:
        if node.word is not None:
            return (node,)
        if node.label.startswith(PART):
            return children
        return (Tree(_plain(node.label), children),)

    joined = rebuild(tree, join)
    if len(joined) != 1:
        raise DataError(f"the root '{tree.label}' is a part of a binarised node, not a whole tree.")
    return joined[0]


def _split(
    label: str, children: tuple[Tree, ...], names: list[str], side: str, horizontal: int | None
) -> Tree:
    """A node with children of these names, as a chain of binary ones built from its far end."""
    if len(children) <= 2:
        return Tree(label, children)
    step = 1 if side == "right" else -1
    outward, names = children[::step], names[::step]
    rest = outward[-1]
    for position in range(len(outward) - 2, -1, -1):
        first = 0 if horizontal is None else max(0, position - horizontal)
        memory = "_".join(names[first:position])
        name = label if position == 0 else f"{PART}{label}>{memory}" if memory else PART + label
        pair = (outward[position], rest)
        rest = Tree(name, pair if side == "right" else pair[::-1])
    return rest


def _with_ancestors(tree: Tree, order: int) -> Iterator[str]:
    """The labels of `tree.nodes()`, each with up to `order` ancestors behind it."""
    stack: list[tuple[Tree, tuple[str, ...]]] = [(tree, ())]
    while stack:
        node, ancestors = stack.pop()
        yield PARENT.join((node.label, *ancestors))
        below = (node.label, *ancestors)[:order]
        stack.extend((child, below) for child in reversed(node.children))


def _plain(label: str, mark: str = PARENT) -> str:
    return label.partition(PARENT)[0].partition(mark)[0]


def _refuse(reserved: bool, label: str, reason: str) -> None:
    if reserved:
        raise DataError(f"label '{label}' cannot be taken: {reason}.")
