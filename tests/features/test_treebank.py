"""Counts of a small treebank by hand."""

from __future__ import annotations

import math

import pytest

from mrflearn.errors import DataError
from mrflearn.features.treebank import FREE_USES, TreebankCounts, normal_form, usual_form
from mrflearn.io.ptb import held_trees, read_trees

TEXT = """
(S (NP-SBJ (DT the) (JJ old) (NN dog)) (VP (VBD slept)) (. .))
(S (NP (DT a) (NN dog)) (VP (VBD saw) (NP (DT the) (NN man)) (X (-NONE- *T*))))
(NP (NNP Rome))
"""


@pytest.fixture
def trees(tmp_path):
    path = tmp_path / "trees.mrg"
    path.write_text(TEXT)
    return list(read_trees(path))


def test_normal_form_by_hand(trees):
    assert str(normal_form(trees[0])) == (
        "(S (NP (DT the) (@NP>DT (JJ old) (NN dog))) (@S>NP (VP+VBD slept) (. .)))"
    )
    assert str(usual_form(normal_form(trees[0]))) == str(trees[0]).replace("NP-SBJ", "NP")


def test_counts_by_hand(trees):
    counts = TreebankCounts.of(trees)
    assert counts.phrases == ("@NP>DT", "@S>NP", "NP", "S", "VP")
    assert counts.preterminals == (".", "DT", "JJ", "NN", "NP+NNP", "VBD", "VP+VBD")
    number = {name: k for k, name in enumerate(counts.phrases)}
    number |= {name: k + 5 for k, name in enumerate(counts.preterminals)}
    named = {
        (parent, left, right): counts.rules[number[parent], number[left], number[right]]
        for parent, left, right in (("NP", "DT", "NN"), ("NP", "DT", "@NP>DT"), ("S", "NP", "VP"))
    }
    assert list(named.values()) == [2, 1, 1]
    assert counts.roots == {number["S"]: 2, number["NP+NNP"]: 1}
    assert counts.words["DT", "the"] == 2
    shape, rules = counts.shape, counts.log_rules()
    place = ((shape.parent == number["NP"]) & (shape.right == number["NN"])).nonzero().item()
    assert float(rules[place]) == pytest.approx(math.log(2 / 3))
    roots = counts.root_counts()
    assert float(roots[number["NP+NNP"]]) == pytest.approx(float(roots.sum()) / 3)
    assert (roots == 0).sum() == 10


def test_options_reach_the_labels(trees):
    assert "NP^S" in TreebankCounts.of(trees, vertical=1).phrases
    assert "@NP" in TreebankCounts.of(trees, horizontal=0).phrases
    assert "@NP>NN" in TreebankCounts.of(trees, side="left").phrases


def test_an_empty_treebank_is_told():
    with pytest.raises(DataError, match="no words"):
        TreebankCounts.of([])


def test_chains_of_children_are_independent_of_each_other(trees):
    """The man slept without a full stop: (S (NP DT NN) (VP VBD)), of which both parts were seen."""
    seen = TreebankCounts.of(trees, chains=False)
    counts = seen.with_free_chains()
    names = counts.phrases + counts.preterminals
    new = {tuple(names[k] for k in rule): counts.rules[rule] for rule in counts.rules - seen.rules}
    assert set(seen.rules) <= set(counts.rules)
    assert ("S", "NP", "VP+VBD") in new
    # Half of the S have NP and VP, and half of the VP are a verb alone.
    assert new["S", "NP", "VP+VBD"] == pytest.approx(FREE_USES / 4)
    added = sum(counts.rules.values()) - sum(seen.rules.values())
    assert added == pytest.approx(FREE_USES * len(counts.phrases))


def test_sisters_may_be_remembered_by_their_labels_alone(trees):
    they = next(held_trees(["(S (NP (PRP they)) (VP (VBD slept)) (. .))"]))
    assert "@S>NP+PRP" in TreebankCounts.of([they]).phrases
    assert "@S>NP" in TreebankCounts.of([they], chains=False).phrases
