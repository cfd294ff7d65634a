"""Random parse trees for tests, built without recursion so that they may be deep."""

from __future__ import annotations

from hypothesis import strategies as st

from mrflearn.io.trees import Tree

LABELS = st.sampled_from(["S", "NP", "VP", "NP-SBJ-1", "", "ADVP|PRT", "-LRB-", "X=2", ">", "_"])


@st.composite
def trees(draw: st.DrawFn, labels: st.SearchStrategy[str] = LABELS) -> Tree:
    """Any tree of at most some forty nodes: unary chains, wide nodes, odd labels."""
    word = st.sampled_from(["a", "*T*-1", "caf\u00e9", "0"])
    tag = st.sampled_from(["DT", "NN", "-NONE-", ","])
    done = [
        Tree(draw(tag), (), draw(word)) for _ in range(draw(st.integers(1, 8)))
    ]  # the top of a growing forest
    for _ in range(draw(st.integers(0, 15))):
        start = draw(st.integers(0, len(done) - 1))
        end = draw(st.integers(start + 1, len(done)))
        done[start:end] = [Tree(draw(labels), tuple(done[start:end]))]
    return done[0] if len(done) == 1 else Tree("TOP", tuple(done))


def spine(depth: int, *, branching: bool) -> Tree:
    """A tree of the given depth: a unary chain, or a chain of binary nodes."""
    tree = Tree("NN", (), "dog")
    for level in range(depth):
        children = (Tree("DT", (), "the"), tree) if branching else (tree,)
        tree = Tree("NP" if level % 2 else "VP", children)
    return tree
