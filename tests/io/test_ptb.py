from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.formats import read_columns
from mrflearn.io.ptb import read_trees, write_trees
from mrflearn.io.trees import Tree, remove_traces, strip_functions
from support.trees import spine, trees


def read(tmp_path, text):
    path = tmp_path / "trees.mrg"
    path.write_text(text, encoding="utf-8")
    return list(read_trees(path))


@pytest.mark.parametrize(
    "text",
    [
        "( (S (NP (DT the) (NN dog)) (VP (VB barks))))",
        "(S (NP (DT the) (NN dog)) (VP (VB barks)))",
        "((S(NP(DT the)(NN dog))(VP(VB barks))))",
        "(\n(S\n(NP\n(DT\nthe\n)\n( NN dog )\n)\n\n(VP (VB\tbarks  ) ) )\n)\n\n",
    ],
)
def test_layout_does_not_matter(tmp_path, text):
    (tree,) = read(tmp_path, text)
    assert str(tree) == "(S (NP (DT the) (NN dog)) (VP (VB barks)))"


def test_an_outer_bracket_around_several_trees_stays(tmp_path):
    (tree,) = read(tmp_path, "( (A a) (B b))")
    assert tree == Tree("", (Tree("A", (), "a"), Tree("B", (), "b")))


def test_several_trees_may_share_a_line(tmp_path):
    assert [str(tree) for tree in read(tmp_path, "(A a)(B b) (C\n c) (D d)")] == [
        *("(A a)", "(B b)", "(C c)", "(D d)")
    ]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("(A a)\n(S (B b)\n\n", 2, "never ends: 1 brackets are open"),
        ("(A a)\n(S (NP\n (B b)\n(C c)\n(D d)", 2, r"never ends.*seems to begin in line 4\."),
        ("(A a)\n(B b))\n", 2, "a closing bracket too many"),
        ("(A a)\n\nword\n(B b)", 3, "'word' outside a tree"),
        ("(S (NN dog)\n cat)", 2, "'cat' stands beside"),
        ("(S\n(NN dog cat))", 2, "'cat' stands beside"),
        ("(NN dog\n(X x))", 2, "'dog' stands beside"),
        ("(S (A a)\n(NP))", 2, "'NP' closed here has no word"),
        ("(S (A a)\n())", 2, "'' closed here has no word"),
    ],
)
def test_broken_trees_are_named(tmp_path, text, line, problem):
    with pytest.raises(DataError, match=rf"trees\.mrg:{line}: .*{problem}"):
        read(tmp_path, text)


def test_trees_before_a_broken_one_are_given(tmp_path):
    (tmp_path / "t").write_text("(A a)\n(B b))")
    found = read_trees(tmp_path / "t")
    assert [str(next(found)), str(next(found))] == ["(A a)", "(B b)"]
    with pytest.raises(DataError, match=":2:"):
        next(found)


@given(st.lists(trees(), max_size=3))
def test_trees_are_written_and_read_back(tmp_path_factory, given_trees):
    path = tmp_path_factory.getbasetemp() / "random.mrg"
    write_trees(path, given_trees)
    expected = []
    for tree in given_trees:
        while not tree.label and len(tree.children) == 1:
            tree = tree.children[0]  # an outer unlabelled bracket is no part of a tree
        expected.append(tree)
    assert list(read_trees(path)) == expected


@pytest.mark.parametrize(
    "bad",
    [
        *(Tree("NN", (), "("), Tree("N N", (), "a"), Tree("", (), "a"), Tree("NN", (), "")),
        *(Tree("NP)", (Tree("NN", (), "a"),)), Tree("NN", (), "a\nb")),
    ],
    ids=repr,
)
def test_what_would_not_read_back_is_not_written(tmp_path, bad):
    with pytest.raises(DataError, match="-LRB-"):
        write_trees(tmp_path / "out", [Tree("A", (), "a"), Tree("S", (bad,))])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("branching", [False, True])
def test_deep_trees_are_no_trouble(tmp_path, branching):
    deep = spine(5000, branching=branching)
    write_trees(tmp_path / "deep", [deep])
    assert list(read_trees(tmp_path / "deep")) == [deep]


@pytest.mark.data
def test_treebank_sample(treebank, tmp_path):
    found = treebank
    assert len(found) == 3_914
    assert sum(len(tree.words) for tree in found) == 100_676
    assert sum(tree.tags.count("-NONE-") for tree in found) == 6_592
    write_trees(tmp_path / "out", found)
    assert list(read_trees(tmp_path / "out")) == found


@pytest.mark.data
def test_cleaned_sample_has_the_words_and_tags_of_the_tagged_file(data_folder, treebank):
    path = data_folder / "treebank-sample" / "tagged.txt"
    tagged = list(read_columns(path, ("word", "pos")))
    cleaned = [remove_traces(tree) for tree in treebank]
    assert [tree.words for tree in cleaned] == [s["word"] for s in tagged]
    assert [tree.tags for tree in cleaned] == [s["pos"] for s in tagged]
    bare = [strip_functions(tree) for tree in cleaned]
    labels = {node.label for tree in bare for node in tree.nodes() if node.children}
    assert len(labels) == 27
    assert not [label for label in labels if "-" in label or "=" in label]
