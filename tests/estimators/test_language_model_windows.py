"""`LanguageModel` by windows, with scores of three words in a row, by every estimator."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.errors import MrflearnError
from mrflearn.estimators.base import load
from mrflearn.estimators.language_model import LanguageModel
from support.moments import count_sentences


def sentences(count: int, seed: int) -> list[list[str]]:
    """The third word is told by the first two together, and by neither alone."""
    bits = np.random.default_rng(seed).integers(0, 2, (count, 2))
    return [["ab"[first], "cd"[second], "ef"[first ^ second]] for first, second in bits]


@pytest.fixture(scope="module", params=["bound", "ml", "pl"])
def model(request) -> LanguageModel:
    settings = {"bound": "windows", "form": "explicit", "triples": True, "max_iterations": 200}
    model = LanguageModel(estimator=request.param, l2=1e-5, **settings)  # the rule has no exception
    return model.fit(sentences(300, seed=0))


def test_triples_know_what_pairs_cannot(model):
    (word, chance), *_ = model.fill(["a", "d", "_"])
    assert word == "f"
    assert chance > 0.9


def test_the_bound_is_all_but_the_exact_ring(model):
    text = sentences(40, seed=1)
    bound, ring = (model.log_likelihood(text, method) for method in ("bound", "ring"))
    spare = 2 * np.log(len(model.vocabulary_)) + 1e-5 * ring.positions
    assert ring.log_likelihood - spare <= bound.log_likelihood <= ring.log_likelihood


def test_samples_keep_the_rule(model):
    drawn = model.sample(200, random_state=3)
    kept = sum(line in sentences(200, seed=2) for line in drawn)
    assert kept > 180


def test_what_is_saved_comes_back(model, tmp_path):
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    text = sentences(20, seed=4)
    assert again.score(text) == model.score(text)
    assert again.triples is True


def test_pairs_alone_are_worse():
    text = sentences(300, seed=0)
    settings = {"bound": "windows", "form": "explicit", "max_iterations": 60}
    with_triples, without = (
        LanguageModel(triples=triples, **settings).fit(text).bound_ for triples in (True, False)
    )
    assert with_triples > without + 0.05


def test_what_windows_cannot_do_is_said():
    text = sentences(20, seed=0)
    with pytest.raises(MrflearnError, match="bounded by windows, not by chains"):
        LanguageModel(form="explicit", triples=True).fit(text)
    with pytest.raises(MrflearnError, match="context of 2, not of 3"):
        LanguageModel(context=3, bound="windows").fit(text)
    many = [[f"w{number}" for number in range(130)]]
    with pytest.raises(MrflearnError, match="at most 128 words"):
        LanguageModel(bound="windows", form="explicit", triples=True).fit(many)
    words = [[f"w{number}" for number in range(4001)]]
    with pytest.raises(MrflearnError, match="Try a GPU"):
        LanguageModel(bound="windows").fit(words)
    with pytest.raises(MrflearnError, match="not one of 'chains', 'stars', 'windows'"):
        LanguageModel(bound="trees").fit(text)
    plain = LanguageModel(bound="windows", dims=2, max_iterations=5).fit(text)
    plain.set_params(warm_start=True, triples=True)
    with pytest.raises(MrflearnError, match="training cannot go on from it"):
        plain.fit(text)


def test_triples_of_two_texts_add_up():
    vocabulary = LanguageModel(dims=2, max_iterations=1).fit(sentences(50, seed=0)).vocabulary_
    texts = [sentences(count, seed=count) for count in (10, 20)]
    parts = [count_sentences(text, vocabulary) for text in texts]
    whole = count_sentences(texts[0] + texts[1], vocabulary)
    np.testing.assert_array_equal((parts[0] + parts[1]).triples.count, whole.triples.count)
