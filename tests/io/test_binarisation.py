from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.trees import (
    Tree,
    binarise,
    collapse_unaries,
    expand_unaries,
    remove_traces,
    unbinarise,
)
from support.trees import spine, trees

options = st.fixed_dictionaries(
    {
        "side": st.sampled_from(["left", "right"]),
        "horizontal": st.sampled_from([None, 0, 1, 2]),
        "vertical": st.integers(0, 2),
    }
)


def node(label, *below):
    return Tree(label, tuple(Tree(x, (), x.lower()) if isinstance(x, str) else x for x in below))


FLAT = node("S", node("NP", "A", "B", "C", "D"), "E")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({}, "(S (NP (A a) (@NP>A (B b) (@NP>A_B (C c) (D d)))) (E e))"),
        ({"side": "left"}, "(S (NP (@NP>D (@NP>D_C (A a) (B b)) (C c)) (D d)) (E e))"),
        ({"horizontal": 1}, "(S (NP (A a) (@NP>A (B b) (@NP>B (C c) (D d)))) (E e))"),
        ({"horizontal": 0}, "(S (NP (A a) (@NP (B b) (@NP (C c) (D d)))) (E e))"),
        (
            {"vertical": 1, "horizontal": 1},
            "(S (NP^S (A a) (@NP^S>A (B b) (@NP^S>B (C c) (D d)))) (E e))",
        ),
    ],
)
def test_binarised_by_hand(how, text):
    assert str(binarise(FLAT, **how)) == text
    assert unbinarise(binarise(FLAT, **how)) == FLAT


def test_siblings_are_remembered_without_their_ancestors():
    tree = node("S", node("NP", "A"), node("NP", "A"), node("VP", "B"))
    assert str(binarise(tree, vertical=1)) == ("(S (NP^S (A a)) (@S>NP (NP^S (A a)) (VP^S (B b))))")


def test_ancestors_are_the_nearest_ones():
    tree = node("A", node("B", node("C", node("D", "T"), "T"), "T"), "T")
    labels = [n.label for n in binarise(tree, vertical=2).nodes() if n.children]
    assert labels == ["A", "B^A", "C^B^A", "D^C^B"]


def test_collapsed_by_hand():
    tree = node("S", node("VP", node("NP", "A"), node("NP", node("NX", "B", "C"))))
    assert str(collapse_unaries(tree)) == "(S+VP (NP+A a) (NP+NX (B b) (C c)))"


@given(trees(), options)
def test_collapse_and_binarise_go_exactly_back(tree, how):
    collapsed = collapse_unaries(tree)
    normal = binarise(collapsed, **how)
    assert all(len(n.children) in (0, 2) for n in normal.nodes())
    assert normal.words == tree.words
    assert unbinarise(normal) == collapsed
    assert expand_unaries(unbinarise(normal)) == tree


@given(trees(), options)
def test_binarising_alone_goes_exactly_back(tree, how):
    binary = binarise(tree, **how)
    assert all(len(n.children) <= 2 for n in binary.nodes())
    assert unbinarise(binary) == tree
    # Only nodes with more than two children are given new ones.
    extra = sum(max(0, len(n.children) - 2) for n in tree.nodes())
    assert sum(1 for _ in binary.nodes()) == sum(1 for _ in tree.nodes()) + extra


@given(trees(st.text(max_size=3)), options)
def test_any_labels_go_exactly_back_or_are_refused(tree, how):
    try:
        normal = binarise(collapse_unaries(tree), **how)
    except DataError:
        assert any(sign in n.label for n in tree.nodes() for sign in "+@^")
        return
    assert expand_unaries(unbinarise(normal)) == tree


@pytest.mark.parametrize("label", ["@NP", "NP^S"])
def test_reserved_labels_are_refused(label):
    with pytest.raises(DataError, match="mark binarised labels"):
        binarise(node("S", node(label, "A"), "B"))


def test_labels_with_the_joint_in_them_are_refused():
    with pytest.raises(DataError, match="joins collapsed labels"):
        collapse_unaries(node("A+B", node("C", "T")))


@pytest.mark.parametrize("how", [{"side": "up"}, {"horizontal": -1}, {"vertical": -1}])
def test_wrong_options_are_refused(how):
    with pytest.raises(DataError, match="side is 'left' or 'right', orders are 0 or more"):
        binarise(FLAT, **how)


def test_a_part_is_no_tree():
    with pytest.raises(DataError, match="not a whole tree"):
        unbinarise(binarise(FLAT).children[0].children[1])


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_deep_trees_are_no_trouble(branching, side):
    deep = spine(5000, branching=branching)
    normal = binarise(collapse_unaries(deep), side=side, vertical=1)
    assert expand_unaries(unbinarise(normal)) == deep


def test_wide_trees_are_no_trouble():
    wide = Tree("NP", tuple(Tree("NN", (), "dog") for _ in range(5000)))
    normal = binarise(wide, horizontal=1)
    assert all(len(n.children) in (0, 2) for n in normal.nodes())
    assert unbinarise(normal) == wide


@pytest.mark.data
@pytest.mark.parametrize("how", [{}, {"side": "left", "horizontal": 2, "vertical": 1}])
def test_treebank_sample_goes_exactly_back(treebank, how):
    for tree in treebank[::5]:
        cleaned = remove_traces(tree)
        normal = binarise(collapse_unaries(cleaned), **how)
        assert all(len(n.children) in (0, 2) for n in normal.nodes())
        assert expand_unaries(unbinarise(normal)) == cleaned
