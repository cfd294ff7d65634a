"""`WordVectors` on a text whose words fall into two kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import mrflearn
from mrflearn.errors import DataError, NotFittedError, SettingsError, StorageError
from mrflearn.estimators.word_vectors import WordVectors
from mrflearn.io.vectors import read_vectors
from mrflearn.models.storage import read_model, write_model

SEA, LAND = ["ship", "sail", "wave", "salt"], ["hill", "tree", "path", "deer"]


def sentences(count: int = 300, seed: int = 0) -> list[list[str]]:
    """Sentences of the sea or of the land; `the` stands in both."""
    draw = np.random.default_rng(seed)
    kinds = [SEA, LAND]
    return [["the", *map(str, draw.choice(kinds[draw.integers(2)], 3))] for _ in range(count)]


@pytest.fixture(scope="module")
def fitted() -> WordVectors:
    return WordVectors(dims=2, context=4).fit(sentences())


def test_words_of_a_kind_are_neighbours(fitted):
    for kind in (SEA, LAND):
        for word in kind:
            assert {other for other, _ in fitted.neighbors(word, 3)} == set(kind) - {word}
    assert "<S>" not in dict(fitted.neighbors("ship", 20))
    assert fitted.analogy("ship", "hill", "sail", 1)[0][0] in LAND
    with pytest.raises(DataError, match="'whale'"):
        fitted.neighbors("whale")


def test_a_file_its_moments_and_its_shards_give_the_same_vectors(fitted, tmp_path):
    lines = [" ".join(words) + "\n" for words in sentences()]
    paths = [tmp_path / "whole.txt", tmp_path / "first.txt", tmp_path / "second.txt"]
    for path, part in zip(paths, (lines, lines[:100], lines[100:]), strict=True):
        path.write_text("".join(part))
    model = clone(fitted)
    moments = model.count_shards(paths[1:])
    for source in (paths[0], moments, moments + moments):
        np.testing.assert_allclose(clone(fitted).fit(source).vectors_, fitted.vectors_, atol=1e-5)
    with pytest.raises(DataError, match="context of 4"):
        WordVectors(context=2).fit(moments)


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    again = mrflearn.load(tmp_path / "m")
    assert again.get_params() == fitted.get_params()
    assert again.neighbors("deer") == fitted.neighbors("deer")
    for model in (fitted, again):
        check_is_fitted(model)
        assert {"vocabulary_", "vectors_"} <= vars(model).keys()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(WordVectors())
    fitted.export(tmp_path / "vectors.txt")
    names = read_vectors(tmp_path / "vectors.txt").names
    assert names == tuple(word for word in fitted.vocabulary_.words if word != "<S>")
    with pytest.raises(DataError, match="ARPA"):
        fitted.export(tmp_path / "m.arpa")


def test_damaged_models_are_told(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    stored = read_model(tmp_path / "m")
    for learned in ({"words": ["<S>", "<unk>"]}, {}):
        with pytest.raises(StorageError, match="contradicts itself"):
            WordVectors.from_stored(replace(stored, learned=learned))
    write_model(tmp_path / "m", replace(stored, kind="CRF"), overwrite=True)
    with pytest.raises(StorageError, match="not a WordVectors"):
        WordVectors.load(tmp_path / "m")


def test_mistakes():
    with pytest.raises(NotFittedError, match="fit"):
        WordVectors().neighbors("a")
    with pytest.raises(SettingsError, match="dims must be >= 1; got 0"):
        WordVectors(0).fit(sentences(5))
    with pytest.raises(DataError, match="no words"):
        WordVectors().fit([])
    with pytest.raises(DataError, match="by chance"):
        WordVectors().fit([["a", "a", "a"]])


def test_rare_words_are_unknown():
    model = WordVectors(2, min_count=2).fit([*sentences(50), ["once", "ship"]])
    assert "once" not in model.vocabulary_
    assert np.abs(model.vectors_[model.vocabulary_.unknown]).max() > 0
    assert not model.vectors_[model.vocabulary_.separator].any()


def test_agreement_with_people(data_folder):
    """At least gensim's CBOW of 30 dimensions after 20 epochs: .292 and .229."""
    from mrflearn.evaluation.similarity import CosineSpace, word_similarity
    from mrflearn.io.similarity import read_pairs

    model = WordVectors(30).fit(data_folder / "ptb-lm" / "train.txt.gz")
    space = CosineSpace(model.vocabulary_.words, model.vectors_)
    folder = data_folder / "word-similarity"
    for name, wanted in {"WS-353-ALL": 0.292, "MEN-TR-3k": 0.229}.items():
        assert word_similarity(space, read_pairs(folder / f"EN-{name}.txt")).spearman >= wanted
