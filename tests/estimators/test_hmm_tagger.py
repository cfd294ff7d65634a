"""HMMTagger as an estimator: settings, storage, odd sentences, and figures on real text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import mrflearn
from mrflearn import HMMTagger
from mrflearn.datasets.english import sample_documents
from mrflearn.errors import DataError, NotFittedError, SettingsError, StorageError
from mrflearn.evaluation.tagging import tagging_report
from mrflearn.io.conllu import read_conllu
from mrflearn.io.formats import read_columns
from mrflearn.io.tag_files import TagSource
from mrflearn.models.storage import StoredModel

Part = tuple[list[list[str]], list[list[str]]]


@pytest.fixture(scope="module")
def english() -> tuple[Part, Part]:
    documents = sample_documents(30, seed=5)
    sentences = [s for document in documents for s in document.sentences]
    pairs = [(list(s.words), list(s.tags)) for s in sentences]
    cut = len(pairs) * 4 // 5
    return tuple(
        ([w for w, _ in part], [t for _, t in part]) for part in (pairs[:cut], pairs[cut:])
    )


@pytest.fixture(scope="module")
def taggers(english: tuple[Part, Part]) -> dict[int, HMMTagger]:
    return {order: HMMTagger(order).fit(*english[0]) for order in (1, 2)}


def test_two_tags_back_are_better_than_one(
    english: tuple[Part, Part], taggers: dict[int, HMMTagger]
) -> None:
    test = english[1]
    assert taggers[2].score(*test) > taggers[1].score(*test) > 0.8


@pytest.mark.parametrize("order", [1, 2])
def test_a_saved_tagger_is_the_same_tagger(
    order: int, english: tuple[Part, Part], taggers: dict[int, HMMTagger], tmp_path: Path
) -> None:
    tagger, words = taggers[order], english[1][0]
    tagger.source_ = TagSource("conllu", ("word", "upos", "xpos"), "xpos")
    tagger.save(tmp_path / "model")
    again = mrflearn.load(tmp_path / "model")
    assert isinstance(again, HMMTagger)
    assert again.get_params() == tagger.get_params()
    assert (again.classes_, again.known_words_) == (tagger.classes_, tagger.known_words_)
    assert again.source_ == tagger.source_
    assert again.predict(words) == tagger.predict(words)
    for one, other in zip(again.predict_proba(words), tagger.predict_proba(words), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(StorageError, match="the stored HMMTagger contradicts itself"):
        HMMTagger.from_stored(StoredModel("HMMTagger", {}, {}))


def test_answers_belong_together(english: tuple[Part, Part], taggers: dict[int, HMMTagger]) -> None:
    words = [*english[1][0][:40], []]
    for tagger in taggers.values():
        best = tagger.n_best(words, 3)
        assert [own[0][0] for own in best] == tagger.predict(words)
        for sentence, table, own in zip(words, tagger.predict_proba(words), best, strict=True):
            assert table.shape == (len(sentence), len(tagger.classes_))
            np.testing.assert_allclose(table.sum(axis=1), 1.0)
            assert [chance for _, chance in own] == sorted((c for _, c in own), reverse=True)
            assert sum(chance for _, chance in own) <= 1 + 1e-9


def test_odd_sentences(taggers: dict[int, HMMTagger]) -> None:
    for tagger in taggers.values():
        assert tagger.predict([]) == tagger.predict_proba([]) == tagger.n_best([]) == []
        assert tagger.predict([[], ["the"], []]) == [[], tagger.predict([["the"]])[0], []]
        assert tagger.n_best([[]], 2) == [[([], 1.0)]]
        assert tagger.predict_proba([[]])[0].shape == (0, len(tagger.classes_))
        assert len(tagger.predict([["", " ", "\u3000"]])[0]) == 3
        long = ["the", "cat", "saw", "qwertyish", "42", "."] * 1_700
        (tags,) = tagger.predict([long])
        # Far from both ends of a long sentence, what repeats in it repeats in its tags.
        assert len(tags) == 10_200
        assert tags[600:606] == tags[5_400:5_406]
        assert tagger.predict(iter([["the"], ["cat"]])) == tagger.predict([["the"], ["cat"]])


def test_capitals_at_the_start_are_forgiven() -> None:
    tagger = HMMTagger().fit([["we", "run"], ["they", "run"]], [["P", "V"], ["P", "V"]])
    assert tagger.predict([["Run"]]) == tagger.predict([["run"]])


def test_settings_and_mistakes(taggers: dict[int, HMMTagger]) -> None:
    assert clone(HMMTagger(1, rare=3)).get_params()["rare"] == 3
    with pytest.raises(NotFittedError, match="not fitted yet"):
        HMMTagger().predict([["a"]])
    for settings, says in (
        ({"order": 3}, "order must be 1 or 2; got 3"),
        ({"unknown": "guess"}, "unknown='guess'"),
        ({"rare": 0}, "rare must be >= 1, or None; got 0"),
        ({"suffix_length": -1}, "suffix_length must be >= 0; got -1"),
        ({"beam": 0.5}, "beam must be >= 1.*; got 0.5"),
    ):
        with pytest.raises(SettingsError, match=says):
            HMMTagger(**settings).fit([["a"]], [["X"]])
    tagger = taggers[2]
    with pytest.raises(SettingsError, match="n must be >= 1; got 0"):
        tagger.n_best([["a"]], 0)
    with pytest.raises(DataError, match="not a list of words"):
        tagger.predict(["a sentence"])
    with pytest.raises(DataError, match="1 sequences and y has 0"):
        tagger.score([["a"]], [])


def test_steps_are_counted(taggers: dict[int, HMMTagger]) -> None:
    (first, second, times, share), *_ = taggers[2].top_steps(3)
    assert times > 1
    assert 0 < share <= 1
    assert {first, second} <= {*taggers[2].classes_, "<S>"}
    with pytest.warns(UserWarning, match="'X'"):
        single = HMMTagger().fit([["a"]], [["X"]])
    assert single.top_steps() == [("X", "<S>", 1, 1.0), ("<S>", "X", 1, 1.0)]


# hunpos and NLTK's TnT on the same split of the treebank sample: 95.4, 85.0 and 94.8, 79.3.
@pytest.mark.data
def test_figures_on_the_treebank_sample(data_folder: Path) -> None:
    path = data_folder / "treebank-sample" / "tagged.txt"
    found = [(s["word"], s["tag"]) for s in read_columns(path, ("word", "tag"), "\t")]
    train, test = found[:3000], found[3000:]
    tagger = HMMTagger().fit([w for w, _ in train], [t for _, t in train])
    words = [w for w, _ in test]
    report = tagging_report(
        [t for _, t in test], tagger.predict(words), words=words, known=tagger.known_words_
    )
    assert report.tokens.accuracy > 0.952
    assert report.unseen is not None
    assert report.unseen.total == 2203
    assert report.unseen.accuracy > 0.84


@pytest.mark.data
def test_figures_on_english_web_text(data_folder: Path) -> None:
    parts = {}
    for part, ending in (("train", ".gz"), ("test", "")):
        path = data_folder / "ud-ewt" / f"en_ewt-ud-{part}.conllu{ending}"
        parts[part] = [(s.forms, s.upos) for s in read_conllu(path)]
    tagger = HMMTagger().fit(*map(list, zip(*parts["train"], strict=True)))
    words, tags = map(list, zip(*parts["test"], strict=True))
    report = tagging_report(tags, tagger.predict(words), words=words, known=tagger.known_words_)
    assert report.tokens.accuracy > 0.93  # NLTK's TnT: 92.4 and 68.3
    assert report.unseen is not None
    assert report.unseen.accuracy > 0.74
