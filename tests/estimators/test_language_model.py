"""`LanguageModel` on texts small enough to know the answers."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from sklearn.base import clone

from mrflearn.datasets import sample_documents
from mrflearn.errors import (
    DataError,
    MrflearnError,
    NotFittedError,
    OutOfMemoryError,
    StorageError,
)
from mrflearn.estimators import language_model, lifted_training
from mrflearn.estimators.base import load
from mrflearn.estimators.language_model import LanguageModel
from mrflearn.execution import resources
from mrflearn.inference.transfer import ring_log_partition
from mrflearn.io import corpus
from mrflearn.io.corpus import encode_corpus
from mrflearn.io.vectors import read_vectors
from support.edited import edit

NAMES, VERBS, THINGS = ["ann", "bob", "cy"], ["sees", "likes"], ["cats", "dogs", "tea"]


def sentences(count: int, seed: int = 0) -> list[list[str]]:
    generator = np.random.default_rng(seed)
    pick = generator.choice
    full = [[pick(NAMES), pick(VERBS), pick(THINGS)] for _ in range(count)]
    return [[*line, "today"] if generator.random() < 0.3 else line for line in full]


@pytest.fixture(scope="module", params=["chains", "stars", "windows", "windows and triples"])
def fitted(request) -> LanguageModel:
    bound, *triples = request.param.split(" and ")
    model = LanguageModel(dims=4, bound=bound, triples=bool(triples), l2=1e-5, max_iterations=150)
    return model.fit(sentences(400), validation=sentences(100, seed=1))


def test_bounds_lie_below_the_exact_ring_and_that_below_sentences(fitted):
    text = sentences(50, seed=2)
    bound, ring, exact = (
        fitted.log_likelihood(text, method).log_likelihood for method in ("bound", "ring", "exact")
    )
    assert bound <= ring <= exact
    found = fitted.text_score(text)
    assert found == fitted.log_likelihood(text)
    assert (found.kind, found.unknown, found.tokens) == ("bound", 0, found.words + 50)
    assert fitted.score(text) == found.nats_per_token == found.log_likelihood / found.tokens
    assert fitted.perplexity(text) == pytest.approx(np.exp(-fitted.score(text)))
    assert found.words == sum(map(len, text))
    assert found.sentences == 50
    assert found.per_word * found.words == pytest.approx(found.log_likelihood)
    assert found.per_sentence * found.sentences == pytest.approx(found.log_likelihood)


def test_training_raises_the_bound_well_above_independent_words(fitted):
    text = sentences(100, seed=1)
    lengths = [len(line) for line in text]
    counts = np.unique(
        [w for line in text for w in line] + ["<S>"] * 2 * len(text), return_counts=True
    )[1]
    share = counts / counts.sum()
    assert counts.sum() == sum(lengths) + 200
    assert fitted.validation_bound_ == pytest.approx(fitted.text_score(text).per_position)
    assert fitted.validation_bound_ > (share * np.log(share)).sum() + 0.2
    assert fitted.bound_ < 0


def test_shares_of_sentences_add_up_to_the_bound(fitted):
    text = [*sentences(50, seed=2), ["zebra", "sees", "tea"]]
    shares = fitted.score_samples([*text[:3], [], *text[3:]])
    assert len(shares) == 51
    assert shares.sum() == pytest.approx(fitted.text_score(text).log_likelihood, rel=1e-9)
    # Sentences of one length have one normaliser: differences are those of exact probabilities.
    alike = [n for n, words in enumerate(text) if len(words) == 3]
    exact = [fitted.log_likelihood([text[n]], "exact").log_likelihood for n in alike]
    np.testing.assert_allclose(np.diff(shares[alike]), np.diff(exact), rtol=1e-5, atol=1e-5)
    with pytest.raises(DataError, match="needs the text itself"):
        fitted.score_samples(fitted._moments(text))


def test_unknown_words_are_counted(fitted):
    found = fitted.text_score([["zebra", "sees", "tea"], ["ann", "quux"]])
    assert (found.words, found.sentences, found.unknown) == (5, 2, 2)


def test_training_stops_by_iterations_or_tolerance():
    text = sentences(100)
    assert LanguageModel(dims=3, max_iterations=7).fit(text).outcome_.iterations == 7
    for estimator in ("bound", "pl", "ml"):
        model = LanguageModel(dims=3, estimator=estimator, tolerance=1e-2).fit(text)
        assert model.outcome_.ending == "gradient"
        assert "0.01" in model.outcome_.reason


@pytest.mark.parametrize("method", ["bound", "pl"])
def test_a_text_is_encoded_once(fitted, method, monkeypatch):
    calls = []

    def counted(*given):
        calls.append(given)
        return encode_corpus(*given)

    for module in (language_model, corpus):
        monkeypatch.setattr(module, "encode_corpus", counted)
    fitted.log_likelihood(iter(sentences(10)), method)
    fitted.score_samples(iter(sentences(10)))
    assert len(calls) == 2


@pytest.mark.filterwarnings("ignore::mrflearn.errors.AccuracyWarning")
def test_annealed_estimate_is_near_the_exact_ring(fitted):
    if fitted.triples:
        pytest.skip("the bound is all but exact, and there is no such estimate")
    text = sentences(30, seed=4)
    exact = fitted.log_likelihood(text, "ring")
    found = fitted.log_likelihood(text, "ais")
    scores = fitted.model_.potentials().double()
    # The estimate is for a ring of 48 positions, which stands for the longer one of the text.
    short, long = (float(ring_log_partition(scores, n)) / n for n in (48, exact.positions))
    error = found.standard_error / found.positions
    assert abs(found.per_position - (exact.per_position + long - short)) < 4 * error
    assert 0 < error < 0.05
    assert 1 <= found.effective_chains <= 256


def test_gaps_are_filled_by_the_exact_conditional(fitted):
    found = dict(fitted.fill(["ann", "_", "tea"], n=100))
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["likes"] + found["sees"] > 0.5
    assert "<S>" not in found
    scores = {
        word: fitted.log_likelihood([["ann", word, "tea"]], "exact").log_likelihood
        for word in ("likes", "tea")
    }
    ratio = np.log(found["likes"] / found["tea"])
    assert ratio == pytest.approx(scores["likes"] - scores["tea"], rel=1e-4, abs=1e-4)
    assert fitted.fill([None, "likes", "tea"], n=1)[0][0] in NAMES


def test_pseudolikelihood_sums_the_conditionals(fitted):
    line = ["bob", "sees", "dogs"]
    parts = [
        np.log(dict(fitted.fill([*line[:k], "_", *line[k + 1 :]], n=100))[line[k]])
        for k in range(3)
    ]
    assert fitted.log_likelihood([line], "pl").log_likelihood == pytest.approx(sum(parts), rel=1e-4)


def test_samples_look_like_the_text(fitted):
    drawn = fitted.sample(300, random_state=5)
    assert drawn == fitted.sample(300, random_state=5)
    # Sentences with triples end by themselves, the others have lengths of the text.
    assert np.mean([len(line) in (3, 4) for line in drawn]) > (0.95 if fitted.triples else 0.999)
    assert 0.1 < np.mean([len(line) == 4 for line in drawn]) < 0.5
    assert np.mean([line[0] in NAMES for line in drawn]) > 0.6


def test_neighbours_and_analogies(fitted):
    names = [word for word, _ in fitted.neighbors("ann", n=2)]
    assert set(names) <= set(NAMES)
    found = fitted.analogy("ann", "bob", "cy", n=3)
    assert len(found) == 3
    assert not {"ann", "bob", "cy"} & {word for word, _ in found}
    with pytest.raises(DataError, match="'zebra' is not in the vocabulary"):
        fitted.neighbors("zebra")


def test_saved_models_come_back(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, LanguageModel)
    text = sentences(20, seed=3)
    assert again.score(text) == fitted.score(text)
    assert again.fill(["ann", "_"]) == fitted.fill(["ann", "_"])
    assert again.sample(3, random_state=1) == fitted.sample(3, random_state=1)
    assert (again.bound_, again.validation_bound_) == (fitted.bound_, fitted.validation_bound_)
    assert again.outcome_.figures() == fitted.outcome_.figures()
    fitted.export(tmp_path / "vectors.txt")
    vectors = read_vectors(tmp_path / "vectors.txt")
    kept = [i for i, word in enumerate(fitted.vocabulary_.words) if word != "<S>"]
    assert vectors.names == tuple(fitted.vocabulary_.words[i] for i in kept)
    np.testing.assert_array_equal(vectors.values, fitted.vectors_[kept])
    edit(tmp_path / "model", lambda text: text.replace('"tea"', '"cats"'))
    with pytest.raises(StorageError, match="contradicts itself"):
        load(tmp_path / "model")


def test_training_does_not_depend_on_the_size_of_the_corpus():
    model = LanguageModel(dims=3, max_iterations=20, l2=1e-5)
    once = clone(model)._moments(sentences(100))
    many = reduce(add, [once] * 16)
    first, second = clone(model).fit(once), clone(model).fit(many)
    assert first.outcome_.evaluations == second.outcome_.evaluations
    assert first.outcome_.value == pytest.approx(second.outcome_.value, abs=1e-3)


def test_a_small_text_is_not_learned_by_heart():
    text = [list(s.words) for document in sample_documents(11, seed=1) for s in document.sentences]
    few, new = text[:100], text[100:200]
    model = LanguageModel(dims=5, min_count=2, max_iterations=40)
    usual, bold = clone(model).fit(few), clone(model).set_params(l2=3e-6).fit(few)
    assert usual.perplexity(new) < 0.5 * bold.perplexity(new)
    positions = usual.text_score(few).positions
    same = clone(model).set_params(l2=lifted_training.PRIOR / positions).fit(few)
    assert same.bound_ == usual.bound_


def test_training_stops_where_little_is_gained(monkeypatch):
    monkeypatch.setattr(lifted_training, "FEW_WORDS", 10)
    text = [list(s.words) for document in sample_documents(5, seed=1) for s in document.sentences]
    outcome = LanguageModel(dims=5).fit(text).outcome_
    assert outcome.ending == "value"
    before, last = outcome.history[-11].value, outcome.history[-1].value
    assert 1e-4 < before / last - 1 < 5e-4


@pytest.mark.parametrize("form", ["bilinear", "explicit"])
def test_other_forms_learn_too(form, tmp_path):
    text = sentences(200)
    model = LanguageModel(dims=3, form=form, max_iterations=80, l2=1e-5).fit(text)
    low = LanguageModel(dims=3, max_iterations=0, l2=1e-5).fit(text)
    assert model.bound_ > low.bound_
    model.save(tmp_path / "model")
    assert LanguageModel.load(tmp_path / "model").score(text) == model.score(text)
    if form == "explicit":
        with pytest.raises(MrflearnError, match="no word vectors"):
            _ = model.vectors_


def test_direct_estimators_beat_the_bounds_at_what_they_aim_at(fitted):
    text = sentences(400)
    options = {"dims": 4, "l2": 1e-5, "max_iterations": 80}
    exact = LanguageModel(estimator="ml", **options).fit(text)
    pseudo = LanguageModel(estimator="pl", **options).fit(text)
    quick = LanguageModel(estimator="pl-sgd", **options).fit(text)
    if fitted.bound != "windows":  # which aim at the likelihood itself
        assert (
            exact.log_likelihood(text, "ring").log_likelihood
            > fitted.log_likelihood(text, "ring").log_likelihood
        )
        assert (
            pseudo.log_likelihood(text, "pl").log_likelihood
            > fitted.log_likelihood(text, "pl").log_likelihood
        )
    assert (
        quick.log_likelihood(text, "pl").log_likelihood
        > 1.3 * pseudo.log_likelihood(text, "pl").log_likelihood
    )
    for model in (exact, pseudo, quick):
        assert model.bound_ <= model.log_likelihood(text, "ring").per_position
    with pytest.raises(DataError, match="reads the text itself"):
        LanguageModel(estimator="pl").fit(exact._moments(text))
    with pytest.raises(MrflearnError, match="not one of 'bound'"):
        LanguageModel(estimator="magic").fit(text)


def test_weights_can_be_chosen_on_validation():
    text, valid = sentences(200), sentences(50, seed=1)
    options = {"dims": 3, "max_iterations": 15, "l2": 1e-5}
    best = LanguageModel(weights="validation", **options).fit(text, validation=valid)
    plain = LanguageModel(**options).fit(text, validation=valid)
    assert best.validation_bound_ >= plain.validation_bound_
    with pytest.raises(DataError, match="needs a validation text"):
        LanguageModel(weights="validation").fit(text)


@pytest.mark.parametrize("bound", ["chains", "stars"])
def test_training_goes_on_from_a_checkpoint(bound, tmp_path):
    text, valid = sentences(100), sentences(30, seed=1)
    short = LanguageModel(dims=3, bound=bound, max_iterations=10)
    first = short.fit(text, validation=valid, checkpoint=tmp_path / "half").outcome_
    longer = LanguageModel(dims=3, bound=bound, max_iterations=25)
    second = longer.fit(text, validation=valid, checkpoint=tmp_path / "half", resume=True).outcome_
    assert first.iterations == 10 < second.iterations <= 25
    assert second.history[: len(first.history)] == first.history
    assert second.history[-1].value < first.history[-1].value


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        LanguageModel().score([["a"]])
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    with pytest.raises(DataError, match="no words"):
        LanguageModel().fit(empty)
    with pytest.raises(MrflearnError, match="2 numbers above 0"):
        LanguageModel(weights=(1.0,)).fit(sentences(5))
    one = LanguageModel(max_iterations=5).fit([["word"]])
    assert one.fill(["_"])[0][0] in ("word", "<unk>")
    with pytest.raises(DataError, match="2 gaps"):
        one.fill(["_", "_"])
    assert np.isfinite(
        LanguageModel(max_iterations=5).fit([["a"]], validation=[["x"]]).validation_bound_
    )
    unknown = one.log_likelihood([["never", "seen"]], "exact")
    assert np.isfinite(unknown.log_likelihood)


def test_long_lines_and_odd_bytes(tmp_path):
    junk = tmp_path / "junk.txt"
    junk.write_bytes(b"a b " * 20_000 + b"\n" + b"c a\n")
    model = LanguageModel(dims=2, max_iterations=5).fit(junk)
    assert np.isfinite(model.bound_)
    torch.manual_seed(0)
    junk.write_bytes(bytes(range(128, 256)))
    with pytest.raises(DataError):
        LanguageModel().fit(junk)


def test_a_warm_start_goes_on_where_the_last_fit_ended():
    text = sentences(300)
    options = {"dims": 4, "l2": 1e-5, "patience": 1000}
    short = LanguageModel(**options, max_iterations=15, warm_start=True).fit(text)
    once = short.bound_
    short.fit(text)
    fresh = LanguageModel(**options, max_iterations=15).fit(text)
    assert fresh.bound_ == pytest.approx(once, abs=1e-4)
    assert short.bound_ > once + 1e-3


def test_a_warm_start_keeps_the_vocabulary():
    model = LanguageModel(dims=2, max_iterations=5, warm_start=True).fit(sentences(50))
    words = model.vocabulary_.words
    model.fit([*sentences(50, seed=3), ["ann", "sees", "zebras"]])
    assert model.vocabulary_.words == words
    other = LanguageModel(dims=2, max_iterations=5, context=1).fit(sentences(50))
    other.set_params(context=2, warm_start=True)
    with pytest.raises(MrflearnError, match="cannot go on from it"):
        other.fit(sentences(50))


def test_what_has_no_room_is_refused_before_it_is_made(monkeypatch):
    generator = np.random.default_rng(0)
    text = [[f"w{k}" for k in generator.integers(0, 300, 8)] for _ in range(200)]

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("made before it was known to fit")

    monkeypatch.setattr(resources, "_of_system", lambda: 10**6)
    monkeypatch.setattr(lifted_training, "NeighbourModel", forbidden)
    with pytest.raises(OutOfMemoryError, match="words"):
        LanguageModel(form="explicit").fit(text)
    monkeypatch.setattr(lifted_training, "spectral_start", forbidden)
    with pytest.raises(MrflearnError, match="too many to be exact"):
        LanguageModel(estimator="ml").fit(text)
