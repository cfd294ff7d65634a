"""Brackets against examples counted by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from mrflearn.errors import DataError
from mrflearn.evaluation.brackets import bracket_report, brackets
from mrflearn.io.ptb import read_trees
from mrflearn.io.trees import Tree
from support.trees import spine, trees


def read(tmp_path, text):
    path = tmp_path / "trees.mrg"
    path.write_text(text)
    return list(read_trees(path))


def test_brackets_by_hand(tmp_path):
    (tree,) = read(
        tmp_path,
        "(TOP (S (NP-SBJ-1 (DT the) (NN dog)) (, ,) (VP (VBD ran) (PRT (RP off)) (. .))"
        " (X (: --))))",
    )
    # Words without punctuation: the 0, dog 1, ran 2, off 3.
    expected = {("S", 0, 4): 1, ("NP", 0, 2): 1, ("VP", 2, 4): 1, ("ADVP", 3, 4): 1}
    assert brackets(tree) == Counter(expected)


def test_equal_brackets_count_each(tmp_path):
    true, guess = read(
        tmp_path,
        "(NP (NP (NP (NN a) (NN b)))) (NP (NP (NN a) (NN b)))",
    )
    report = bracket_report([true], [guess])
    assert (report.total.correct, report.total.predicted, report.total.actual) == (2, 2, 3)
    assert report.exact == 0


def test_scores_by_hand(tmp_path):
    truth = read(
        tmp_path,
        "(S (NP (PRP I)) (VP (VBP see) (NP (NP (NNS stars)) (PP (IN at) (NP (NN night))))))"
        " (S (NP (PRP we)) (VP (VBP go)))"
        " (FRAG (UH no))",
    )
    wrong = read(
        tmp_path,
        "(S (NP (PRP I)) (VP (VBP see) (NP (NNP stars)) (PP (IN at) (NP (NN night)))))",
    )
    report = bracket_report(truth, [wrong[0], truth[1], None])
    # True: S NP VP NP NP PP NP, S NP VP, FRAG; predicted: S NP VP NP PP NP, S NP VP.
    assert (report.total.correct, report.total.predicted, report.total.actual) == (9, 9, 11)
    assert report.total.precision == 1
    assert report.total.recall == pytest.approx(9 / 11)
    assert report.by_label["NP"].actual == 5
    assert report.by_label["NP"].correct == 4
    assert (report.sentences, report.unparsed, report.exact) == (3, 1, pytest.approx(1 / 3))
    assert report.tagging == pytest.approx(6 / 8)  # stars is NNP, and the last has no parse


@given(trees())
def test_a_tree_has_no_fault_against_itself(tree):
    report = bracket_report([tree], [tree])
    assert report.total.correct == report.total.predicted == report.total.actual
    assert report.exact == 1


def test_deep_trees_are_no_trouble():
    assert brackets(spine(5000, branching=True)).total() == 5000


def test_other_words_are_refused():
    one, other = (Tree("S", (Tree("NN", (), word),)) for word in ("dog", "cat"))
    with pytest.raises(DataError, match=r"sentence 1: .* the same words only"):
        bracket_report([one], [other])


def test_nothing_scores_nothing():
    report = bracket_report([], [])
    assert (report.total.f1, report.exact, report.tagging) == (0, 0, 0)
