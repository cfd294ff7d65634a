"""Parses of a chart as trees with names, as a treebank has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mrflearn.features.treebank import usual_form
from mrflearn.io.trees import Tree


class Spans(Protocol):
    """A parse: (start, end, symbol) of every constituent, parents first, left before right."""

    @property
    def spans(self) -> Sequence[tuple[int, int, int]]: ...


def tree_of(
    parse: Spans | None, words: Sequence[str], names: Sequence[str], binarised: bool
) -> Tree | None:
    """The tree of a parse; the nodes that binarisation put into treebank trees are taken out."""
    if parse is None or not parse.spans:
        return None
    done: list[tuple[int, Tree]] = []  # with where they start, the leftmost on top
    for start, end, symbol in reversed(parse.spans):
        name = names[symbol]
        if end - start == 1:
            done.append((start, Tree(name, (), words[start])))
            continue
        children = []
        while done and done[-1][0] < end:
            children.append(done.pop()[1])
        done.append((start, Tree(name, tuple(children))))
    ((_, tree),) = done
    return usual_form(tree) if binarised else tree
