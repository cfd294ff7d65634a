"""The grammar of a treebank as an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mrflearn
from mrflearn import PCFG
from mrflearn.datasets.english import sample_documents
from mrflearn.errors import DataError, MrflearnError, NotFittedError, StorageError
from mrflearn.evaluation.brackets import bracket_report
from mrflearn.features.treebank import normal_form
from mrflearn.io.ptb import held_trees, write_trees


@pytest.fixture(scope="session")
def english_trees():
    return [s.tree for d in sample_documents(60, seed=0) for s in d.sentences]


@pytest.fixture(scope="session")
def fitted(english_trees):
    return PCFG().fit(english_trees[:-40])


def test_parses_are_mostly_right(fitted, english_trees):
    held_out = english_trees[-40:]
    report = bracket_report(held_out, fitted.parse([tree.words for tree in held_out]))
    assert report.total.f1 > 0.8
    assert report.tagging > 0.85


def test_the_best_trees_come_first_and_with_their_shares(fitted, english_trees):
    words = english_trees[-1].words
    (found,) = fitted.n_best([words], 5)
    shares = [share for _, share in found]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-9
    assert all(tree.words == words for tree, _ in found)
    assert len({str(tree) for tree, _ in found}) == len(found)
    assert str(found[0][0]) == str(fitted.parse([words])[0])


def test_scores_are_of_words_and_ends(fitted, english_trees):
    sentences = [tree.words for tree in english_trees[-5:]]
    values = fitted.score_samples(sentences)
    tokens = sum(len(words) + 1 for words in sentences)
    assert fitted.score(sentences) == pytest.approx(values.sum() / tokens)
    assert fitted.perplexity(sentences) == pytest.approx(np.exp(-values.sum() / tokens))
    found = fitted.text_score([*sentences, ["unheard-of"]])
    assert (found.kind, found.tokens, found.sentences) == ("exact", tokens + 2, 6)
    known = fitted.vocabulary_
    assert found.unknown == 1 + sum(word not in known for words in sentences for word in words)


def test_next_words_are_a_distribution(fitted, english_trees):
    words = english_trees[0].words[:3]
    every = fitted.next_word(words, n=10**6)
    assert sum(chance for _, chance in every) == pytest.approx(1)
    assert every[0] == fitted.next_word(words, n=1)[0]
    assert "</s>" in {word for word, _ in every}
    # The end after these words is the sentence of these words, among all that begin so.
    first = dict(fitted.next_word((), n=10**6))
    assert sum(first.values()) == pytest.approx(1)


def test_new_trees_can_be_parsed(fitted):
    drawn = fitted.sample(20, random_state=3, longest=30)
    assert len(drawn) == 20
    assert [str(tree) for tree in drawn] == [
        str(t) for t in fitted.sample(20, random_state=3, longest=30)
    ]
    assert all(len(tree.words) <= 30 for tree in drawn)
    assert np.isfinite(fitted.score_samples([tree.words for tree in drawn])).all()


def test_saved_and_loaded_it_is_the_same(fitted, english_trees, tmp_path):
    fitted.save(tmp_path / "grammar")
    again = mrflearn.load(tmp_path / "grammar")
    sentences = [tree.words for tree in english_trees[-5:]]
    np.testing.assert_array_equal(again.score_samples(sentences), fitted.score_samples(sentences))
    assert again.get_params() == fitted.get_params()
    assert list(map(str, again.parse(sentences))) == list(map(str, fitted.parse(sentences)))


def test_trees_from_a_file_are_the_same_grammar(fitted, english_trees, tmp_path):
    write_trees(tmp_path / "trees.mrg", english_trees[:-40])
    again = clone(fitted).fit(tmp_path / "trees.mrg")
    sentences = [tree.words for tree in english_trees[-3:]]
    np.testing.assert_allclose(again.score_samples(sentences), fitted.score_samples(sentences))


def test_without_smoothing_a_sentence_may_have_no_parse(english_trees):
    model = PCFG(smoothing=0, min_count=1).fit(english_trees[:50])
    nonsense = ["unheard", "of"]
    assert model.parse([nonsense, english_trees[0].words])[0] is None
    assert model.score_samples([nonsense])[0] == -np.inf
    assert model.perplexity([nonsense]) == np.inf
    with pytest.raises(DataError, match="begins with 'unheard of'"):
        model.next_word(nonsense)


def test_empty_sentences_have_no_parse(fitted):
    assert fitted.parse([[]]) == [None]
    assert fitted.score_samples([[]]).tolist() == [-np.inf]


def test_mistakes_are_told(tmp_path, fitted):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PCFG().parse([["a"]])
    with pytest.raises(MrflearnError, match="smoothing must be >= 0; got -1"):
        PCFG(smoothing=-1).fit([])
    with pytest.raises(DataError, match="nothing to score"):
        fitted.score([])
    fitted.save(tmp_path / "grammar")
    with pytest.raises(StorageError, match="holds a PCFG"):
        mrflearn.NgramLanguageModel.load(tmp_path / "grammar")


def test_only_symbols_seen_at_a_root_begin_trees(fitted, english_trees):
    model = fitted.model_
    seen = {normal_form(tree).label for tree in english_trees[:-40]}
    chances = dict(zip(model.names, model.start.exp().tolist(), strict=True))
    assert {name for name, chance in chances.items() if chance > 0} == seen
    assert sum(chances.values()) == pytest.approx(1.0)


FEW_TREES = """
(S (NP (DT the) (NN cat)) (VP (VBZ sits) (PP (IN on) (NP (DT the) (NN mat)))) (. .))
(S (NP (DT a) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat))) (. .))
(S (NP (PRP she)) (VP (VBZ sleeps)) (. .))
(S (NP (NNP Mary)) (VP (VBZ likes) (NP (NNP John))) (. .))
(S (NP (PRP he)) (VP (VBD gave) (NP (DT the) (NN book)) (PP (IN to) (NP (NNP Mary)))) (. .))
(S (NP (PRP they)) (VP (VBP read) (NP (NNS books))) (. .))
(S (NP (DT the) (NNS dogs)) (VP (VBP bark)) (. .))
(S (NP (NNP Mary)) (VP (VBZ knows) (SBAR (IN that) (S (NP (NNP John)) (VP (VBZ sleeps))))) (. .))
(S (NP (DT the) (JJ big) (NN dog)) (VP (VBD chased) (NP (DT the) (JJ small) (NN cat))) (. .))
(S (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (NN dog)))) (VP (VBZ sings)) (. .))
"""


@pytest.mark.parametrize(
    "tree",
    [
        "(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN dog))) (. .))",
        "(S (NP (DT the) (NN man)) (VP (VBZ sleeps)))",  # with another subject than the one seen
        "(S (NP (DT the) (NN zebra)) (VP (VBZ likes) (NP (PRP she))) (. .))",
        "(S (NP (PRP he)) (VP (VBZ knows) (SBAR (IN that) (S (NP (NNP John)) (VP (VBZ sings))))))",
    ],
)
def test_few_trees_parse_sensibly(tree):
    (truth,) = held_trees([tree])
    (found,) = PCFG().fit(FEW_TREES.strip().splitlines()).parse([truth.words])
    assert str(found) == tree


def test_trees_may_be_given_in_brackets(fitted, english_trees):
    bracketed = [str(tree) for tree in english_trees]
    assert PCFG().fit(bracketed).first_rules() == PCFG().fit(english_trees).first_rules()
    with pytest.raises(DataError, match="tree 2 is a int"):
        PCFG().fit([bracketed[0], 3])
    with pytest.raises(DataError, match="tree 1:1: the tree that begins here never ends"):
        PCFG().fit(["(S (NP (DT the"])


@pytest.mark.parametrize("given", ["the cat sat", ["the", "cat"]])
def test_text_is_no_sentence(fitted, given):
    with pytest.raises(DataError, match="list of words"):
        fitted.parse(given)
