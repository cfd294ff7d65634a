"""`JointTagger` on a toy language: tags, probabilities, words never seen, tags that are unknown."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mrflearn.errors import DataError, MrflearnError, NotFittedError, SettingsError, StorageError
from mrflearn.estimators import tagger as module
from mrflearn.estimators.base import load
from mrflearn.estimators.tagger import JointTagger
from mrflearn.evaluation.tagging import many_to_one
from support.edited import drop
from support.toy_language import toy_sentences

SHAPES = [(1, 1), (1, 3), (2, 3)]


@pytest.fixture(scope="session")
def taggers() -> dict[tuple[int, int], JointTagger]:
    text = toy_sentences(60, seed=0)
    return {shape: JointTagger(*shape, max_iterations=40).fit(*text) for shape in SHAPES}


@pytest.mark.parametrize("shape", SHAPES)
def test_most_tags_are_right_on_new_sentences(taggers, shape):
    sentences, tags = toy_sentences(40, seed=1)
    assert taggers[shape].score(sentences, tags) > 0.95


@pytest.mark.parametrize("shape", SHAPES)
def test_new_words_have_the_tags_of_their_endings(taggers, shape):
    sentence = ["the", "zyxtion", "qwyize", "vvvly"]
    assert not taggers[shape].known_words_.intersection(sentence[1:])
    assert taggers[shape].predict([sentence]) == [["the", "noun", "verb", "adverb"]]


@pytest.mark.parametrize("shape", SHAPES)
def test_probabilities_and_lists_agree(taggers, shape):
    tagger = taggers[shape]
    sentences = [["the", "bal", "corize"], [], ["dem"], ["fon", "xize", "the", "gar"]]
    best, tables = tagger.predict(sentences), tagger.predict_proba(sentences)
    lists = tagger.n_best(sentences, 64)
    for sentence, own, table, ranked in zip(sentences, best, tables, lists, strict=True):
        assert table.shape == (len(sentence), len(tagger.classes_))
        np.testing.assert_allclose(table.sum(1), 1, atol=1e-5)
        chances = [chance for _, chance in ranked]
        assert chances == sorted(chances, reverse=True)
        assert ranked[0][0] == own
        if len(sentence) < 4:  # all sequences are in the list
            assert sum(chances) == pytest.approx(1, abs=1e-4)
            for place in range(len(sentence)):
                for number, name in enumerate(tagger.classes_):
                    share = sum(chance for tags, chance in ranked if tags[place] == name)
                    assert share == pytest.approx(table[place, number], abs=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_batches_change_nothing(taggers, shape, monkeypatch):
    sentences = toy_sentences(20, seed=2)[0] + [[], ["zug"]]
    whole = taggers[shape].predict(sentences)
    monkeypatch.setattr(module, "LARGEST_BATCH", 1)
    assert taggers[shape].predict(iter(sentences)) == whole
    assert taggers[shape].predict([]) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_long_sentences(taggers, shape):
    sentences = toy_sentences(3_000, seed=3)[0]
    long = [word for sentence in sentences for word in sentence][
        : 10_000 if shape == (1, 3) else 1_000
    ]
    tagger = taggers[shape]
    (best,), (table,) = tagger.predict([long]), tagger.predict_proba([long])
    assert len(best) == len(table) == len(long)
    assert np.isfinite(table).all()
    alone = tagger.predict([long[:50]])[0]
    assert best[:40] == alone[:40]  # what is far away does not matter


@pytest.mark.parametrize("bound", ["exact", "chains", "stars"])
def test_every_bound_learns(bound):
    tagger = JointTagger(bound=bound, max_iterations=30).fit(*toy_sentences(60, seed=0))
    assert tagger.score(*toy_sentences(40, seed=1)) > 0.9
    assert tagger.log_partition_bound_.slack < 1e-6
    assert tagger.bound_ < 0


def test_exact_training_bounds_more_than_chains_and_chains_more_than_stars():
    text = toy_sentences(60, seed=0)
    reached = [
        JointTagger(bound=bound, l2=0.5, max_iterations=80).fit(*text).bound_
        for bound in ("exact", "chains", "stars")
    ]
    assert reached == sorted(reached, reverse=True)


def test_a_repeated_text_costs_no_more_evaluations():
    sentences, tags = toy_sentences(30, seed=0)
    once = JointTagger(l2=0.1, max_iterations=25).fit(sentences, tags)
    often = JointTagger(l2=1.0, max_iterations=25).fit(sentences * 10, tags * 10)
    # The same problem, but for words that are no longer rare and the ring's ends.
    assert often.bound_ == pytest.approx(once.bound_, rel=0.05)


def test_saved_and_loaded(taggers, tmp_path):
    tagger = taggers[1, 3]
    tagger.save(tmp_path / "model")
    again = load(tmp_path / "model")
    sentences = [*toy_sentences(10, seed=4)[0], ["new", "words", "<S>"]]
    assert again.get_params() == tagger.get_params()
    assert again.predict(sentences) == tagger.predict(sentences)
    assert (again.bound_, again.log_partition_bound_) == (
        tagger.bound_,
        tagger.log_partition_bound_,
    )
    for one, other in zip(
        again.predict_proba(sentences), tagger.predict_proba(sentences), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_damaged_model_is_told(taggers, tmp_path):
    taggers[1, 1].save(tmp_path / "model")
    drop(tmp_path / "model", "words")
    with pytest.raises(StorageError, match="do not belong together"):
        JointTagger.load(tmp_path / "model")


def test_unlabelled_sentences_help():
    sentences, tags = toy_sentences(100, seed=5)
    test = toy_sentences(100, seed=6)
    few = JointTagger(max_iterations=40).fit(sentences[:3], tags[:3])
    more = JointTagger(max_iterations=40, unlabelled_weight=0.5).fit(
        sentences, tags[:3] + [None] * 97
    )
    assert more.score(*test) >= few.score(*test)
    assert more.known_words_ > few.known_words_


def test_unlabelled_sentences_of_no_weight_are_left_out():
    sentences, tags = toy_sentences(12, seed=5)
    alone = JointTagger(max_iterations=10).fit(sentences[:6], tags[:6])
    same = JointTagger(max_iterations=10, unlabelled_weight=0.0).fit(
        sentences, tags[:6] + [None] * 6
    )
    assert same.known_words_ == alone.known_words_
    assert same.bound_ == alone.bound_


def test_tags_may_be_unknown_word_by_word():
    sentences, tags = toy_sentences(80, seed=7)
    hidden = [
        [tag if (i + j) % 3 else None for i, tag in enumerate(own)] for j, own in enumerate(tags)
    ]
    tagger = JointTagger(max_iterations=40).fit(sentences, hidden)
    assert tagger.score(*toy_sentences(40, seed=8)) > 0.9


def test_no_tags_at_all():
    sentences, tags = toy_sentences(300, seed=9)
    tagger = JointTagger(words=1, tags=4, max_iterations=40, rounds=3).fit(sentences)
    assert tagger.classes_ == ["tag1", "tag2", "tag3", "tag4"]
    assert many_to_one(tags, tagger.predict(sentences)) > 0.8


def test_the_best_setting_is_chosen_on_validation_text():
    text, valid = toy_sentences(40, seed=0), toy_sentences(30, seed=1)
    tagger = JointTagger(l2=[1e4, 0.1], max_iterations=25).fit(*text, validation=valid)
    assert tagger.l2_ == 0.1
    with pytest.raises(SettingsError, match="validation="):
        JointTagger(l2=[1.0, 0.1]).fit(*text)


def test_a_trial_that_fails_leaves_the_tagger_as_it_was():
    text = toy_sentences(20, seed=0)
    short = text[0][:3], text[1][:2]
    fresh = JointTagger(l2=[0.1, 0.3], max_iterations=2)
    with pytest.raises(DataError, match="3 sequences and y has 2"):
        fresh.fit(*text, validation=short)
    assert vars(fresh) == vars(clone(fresh))
    fitted = JointTagger(max_iterations=2).fit(*text)
    before = dict(vars(fitted))
    with pytest.raises(DataError, match="3 sequences and y has 2"):
        fitted.set_params(l2=[0.2, 0.4]).fit(*text, validation=short)
    assert vars(fitted) == {**before, "l2": [0.2, 0.4]}


def test_marginals_as_dicts(taggers):
    tagger, sentences = taggers[1, 3], [["the", "zug"], []]
    for table, own in zip(
        tagger.predict_proba(sentences), tagger.predict_marginals(sentences), strict=True
    ):
        assert [dict(zip(tagger.classes_, row, strict=True)) for row in table.tolist()] == own


def test_the_tolerance_ends_training():
    text = toy_sentences(20, seed=0)
    loose = JointTagger(tolerance=0.1).fit(*text).outcome_
    assert loose.ending == "gradient"
    assert loose.iterations < JointTagger(max_iterations=20).fit(*text).outcome_.iterations == 20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"l2": [0.1, -1.0]}, "l2 must be >= 0"),
        ({"words": 2}, "1 word or 3"),
        ({"context": 3}, "1 or 2"),
        ({"bound": "x"}, "not one of"),
        ({"max_iterations": 0}, "max_iterations must be >= 1; got 0"),
    ],
)
def test_odd_settings_are_refused(settings, message):
    with pytest.raises(MrflearnError, match=message):
        JointTagger(**settings).fit([["a"]], [["x"]])


@pytest.mark.parametrize(
    ("sentences", "tags", "message"),
    [
        ([], [], "no words"),
        ([[]], [[]], "no words"),
        ([["a"]], [["x", "y"]], "1 words and 2 tags"),
        ([["a"], ["b"]], [["x"]], "2 sentences and tags for 1"),
        (["a b"], [["x"] * 3], "not a list of words"),
        ([["a"]], [None], "how many tags"),
    ],
)
def test_odd_texts_are_refused(sentences, tags, message):
    with pytest.raises(DataError, match=message):
        JointTagger().fit(sentences, tags)


def test_not_fitted_yet():
    with pytest.raises(NotFittedError):
        JointTagger().predict([["a"]])
    assert clone(JointTagger(context=2, l2=3.0)).get_params()["l2"] == 3.0


def test_tags_and_words_named_like_the_separator_are_words_and_tags():
    tagger = JointTagger(max_iterations=20).fit([["<S>", "a"], ["a", "<S>"]], [["x", "<S>"]] * 2)
    assert tagger.classes_ == ["<S>", "x"]
    assert tagger.known_words_ == {"<S>", "a"}
