from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given

from mrflearn.errors import DataError
from mrflearn.io.trees import Tree, rebuild, remove_traces, strip_functions
from support.trees import spine, trees

DT, NN, VB = Tree("DT", (), "the"), Tree("NN", (), "dog"), Tree("VB", (), "barks")
TRACE = Tree("-NONE-", (), "*T*-1")
NP = Tree("NP-SBJ-1", (DT, NN))
SENTENCE = Tree("S", (NP, Tree("VP", (VB, Tree("NP", (TRACE,))))))


def test_words_tags_and_text():
    assert SENTENCE.words == ("the", "dog", "barks", "*T*-1")
    assert SENTENCE.tags == ("DT", "NN", "VB", "-NONE-")
    text = "(S (NP-SBJ-1 (DT the) (NN dog)) (VP (VB barks) (NP (-NONE- *T*-1))))"
    assert str(SENTENCE) == text
    assert repr(SENTENCE) == f"<Tree {text}>"


def test_nodes_come_parents_first_and_from_the_left():
    labels = [node.label for node in SENTENCE.nodes()]
    assert labels == ["S", "NP-SBJ-1", "DT", "NN", "VP", "VB", "NP", "-NONE-"]


@pytest.mark.parametrize("parts", [((), None), ((DT,), "word")])
def test_a_node_has_children_or_a_word(parts):
    with pytest.raises(DataError, match="children or a word"):
        Tree("X", *parts)


@given(trees(), trees())
def test_equality_is_that_of_structure(first, second):
    assert (first == second) == (nested(first) == nested(second))
    twin = pickle.loads(pickle.dumps(first))
    assert twin == first
    assert hash(twin) == hash(first)
    assert first != nested(first)


def nested(tree):
    return (tree.label, tree.word, [nested(child) for child in tree.children])


@given(trees())
def test_rebuilding_with_no_change_changes_nothing(tree):
    assert rebuild(tree, lambda node, kids: (Tree(node.label, kids, node.word),)) == (tree,)


def test_traces_go_and_what_they_leave_empty_goes_too():
    assert str(remove_traces(SENTENCE)) == "(S (NP-SBJ-1 (DT the) (NN dog)) (VP (VB barks)))"
    assert remove_traces(Tree("S", (Tree("NP", (TRACE, TRACE)),))) is None
    assert remove_traces(TRACE) is None
    assert remove_traces(DT) == DT


@given(trees())
def test_without_traces_all_other_words_stay(tree):
    kept = [(w, t) for w, t in zip(tree.words, tree.tags, strict=True) if t != "-NONE-"]
    without = remove_traces(tree)
    left = [] if without is None else list(zip(without.words, without.tags, strict=True))
    assert left == kept


@pytest.mark.parametrize(
    ("label", "bare"),
    [
        *[("NP-SBJ", "NP"), ("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("PP-TMP=3", "PP"), ("NP", "NP")],
        *[("ADVP|PRT", "ADVP|PRT"), ("", ""), ("-X-Y", "-X"), ("WHNP-1", "WHNP")],
    ],
)
def test_function_tags_are_stripped(label, bare):
    tag = Tree("-LRB-", (), "-LCB-")
    assert strip_functions(Tree(label, (tag,))) == Tree(bare, (tag,))


@pytest.mark.parametrize("branching", [False, True])
def test_deep_trees_are_no_trouble(branching):
    deep, twin = (spine(5000, branching=branching) for _ in range(2))
    assert deep == twin
    assert hash(deep) == hash(twin)
    assert pickle.loads(pickle.dumps(deep)) == copy.deepcopy(deep) == deep
    assert str(deep).count("(") == 5001 + 5000 * branching == repr(deep).count("(")
    assert strip_functions(deep) == remove_traces(deep) == deep
