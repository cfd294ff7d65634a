"""`NeuralCRF`: its likelihood against enumeration, what it learns, what it refuses."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mrflearn
from mrflearn import Constraints, NeuralCRF, WordVectors
from mrflearn.errors import DataError, SettingsError, StorageError
from mrflearn.estimators.neural_training import NetworkLikelihood, Reading, Sentences
from mrflearn.features.features import Numbering, compile_labels
from mrflearn.features.word_numbers import UNSEEN, WordNumbers
from mrflearn.training.outcome import EarlyStopping
from support import own_encoders
from support.toy_language import toy_sentences

WORDS, TAGS = toy_sentences(60, seed=0)
SMALL: dict[str, Any] = {"dims": 12, "char_dims": 6, "char_filters": 12, "hidden": 12}
SMALL |= {"learning_rate": 0.02, "batch_size": 20, "max_iterations": 8, "held_out": 0.0}


@pytest.fixture(scope="module")
def fitted() -> NeuralCRF:
    return NeuralCRF(features="words", **SMALL).fit(WORDS, TAGS)


def likelihood(
    y: list[list[Any]], words: list[list[str]] = WORDS, **settings: Any
) -> NetworkLikelihood:
    """That of a network in double precision without dropout, of sentences with features."""
    numbers = WordNumbers.of(words)
    items = [[[f"w={word}", f"e={word[-1]}"] for word in own] for own in words]
    reading, features = Reading.of(numbers, items, 0.0)
    labels = compile_labels(y, numbers(words).lengths, Numbering(("the", "noun", "verb", "adverb")))
    model = NeuralCRF(**SMALL | {"dropout": 0.0, "feature_dropout": 0.0} | settings)
    model.reading_, model.labels_ = reading, labels.names
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = model._blank(12).double()
        torch.nn.init.normal_(network.state)
    return NetworkLikelihood(network, Sentences(numbers(words), features, labels), 4, seed=0)


def by_enumeration(objective: NetworkLikelihood, sentence: int, allowed: list[Any]) -> float:
    """-log of the share that the allowed labellings of a sentence have among all of them."""
    network, own = objective.model.eval(), objective.sentences
    batch = own.batch(torch.tensor([sentence]))
    with torch.no_grad():
        scores, crf = network.scores(batch), network.chain_crf
        totals: dict[bool, list[float]] = {True: [], False: []}
        for labels in itertools.product(range(scores.shape[1]), repeat=len(scores)):
            value = crf.start_transitions[labels[0]] + crf.end_transitions[labels[-1]]
            value = value + sum(scores[t, label] for t, label in enumerate(labels))
            value = value + sum(crf.transitions[a, b] for a, b in itertools.pairwise(labels))
            fits = all(label in own for label, own in zip(labels, allowed, strict=True))
            totals[fits].append(float(value))
    every = np.logaddexp.reduce(totals[True] + totals[False])
    return float(every - np.logaddexp.reduce(totals[True]))


def test_the_loss_is_that_of_enumeration() -> None:
    gaps: list[list[Any]] = [[None, *own[1:]] for own in TAGS[:4]]
    gaps[1][-1] = {"noun", "verb"}
    for y in (TAGS[:4], gaps):
        objective = likelihood(y, WORDS[:4])
        names = list(objective.sentences.labels.names)
        expected = 0.0
        for sentence, own in enumerate(y):
            sets = [names if tag is None else {tag} if isinstance(tag, str) else tag for tag in own]
            allowed = [{names.index(tag) for tag in tags} for tags in sets]
            expected += by_enumeration(objective, sentence, allowed)
        found = objective.part(0, objective.start)
        assert float(found.value) == pytest.approx(expected, rel=1e-6)


def test_gradients_are_those_of_differences() -> None:
    objective = likelihood(TAGS[:4], WORDS[:4])
    start = objective.start.clone()
    gradient = objective.part(0, start).gradient
    draw = torch.Generator().manual_seed(0)
    for _ in range(5):
        direction = torch.randn(start.shape, generator=draw, dtype=start.dtype)
        for name, piece in objective.layout.unflatten(direction).items():
            if name in ("encoder.word.weight", "encoder.character.weight"):
                piece[0] = 0.0  # padding is no parameter
        ends = [float(objective.part(0, start + h * direction).value) for h in (1e-5, -1e-5)]
        slope = (ends[0] - ends[1]) / 2e-5
        assert float(gradient @ direction) == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_every_sentence_is_in_one_minibatch_of_each_epoch() -> None:
    objective = likelihood(TAGS, WORDS)
    epochs = [objective._shuffled(epoch) for epoch in range(2)]
    for batches in epochs:
        assert len(batches) == objective.parts
        assert sorted(torch.cat(batches).tolist()) == list(range(len(WORDS)))
    assert [own.tolist() for own in epochs[0]] != [own.tolist() for own in epochs[1]]


def test_endings_and_neighbours_are_learned(fitted: NeuralCRF) -> None:
    X, y = toy_sentences(40, seed=9)
    assert fitted.score(X, y) > 0.9
    assert fitted.network_.training is False


def test_words_alone_are_enough_without_features() -> None:
    model = NeuralCRF(**SMALL).fit(WORDS, TAGS)
    assert model.attributes_ == []
    assert model.top_features() == []
    assert model.score(WORDS, TAGS) > 0.8


def test_a_sentence_has_its_answers_in_any_company(fitted: NeuralCRF) -> None:
    together = fitted.predict_proba([*WORDS[:6], [], ["incomprehensibilities" * 3]])
    assert together[6].shape == (0, 4)
    for words, table in zip(WORDS[:6], together, strict=False):
        np.testing.assert_allclose(fitted.predict_proba([words])[0], table, atol=1e-5)


def test_answers_agree_with_each_other(fitted: NeuralCRF) -> None:
    X, y = WORDS[:5], TAGS[:5]
    best = fitted.n_best(X, 3)
    for words, tags, found, surprise in zip(X, y, best, fitted.log_prob(X, y), strict=True):
        assert found[0][0] == fitted.predict_single(words)
        chances = {tuple(labels): p for labels, p in fitted.n_best([words], 4**5)[0]}
        assert chances[tuple(tags)] == pytest.approx(np.exp(surprise), rel=1e-4)
        assert sum(chances.values()) == pytest.approx(1.0, abs=1e-4)


def test_constraints_hold(fitted: NeuralCRF) -> None:
    found = fitted.predict(WORDS, Constraints(forbidden=[("noun", "verb")]))
    assert not any(("noun", "verb") in itertools.pairwise(own) for own in found)
    known = [[None] * len(own) for own in WORDS]
    known[0][0] = "adverb"
    assert fitted.predict(WORDS, constraints=known)[0][0] == "adverb"


def test_the_largest_weights_are_listed(fitted: NeuralCRF) -> None:
    every = fitted.top_features(n=10**9)
    assert len(every) == 4 * len(fitted.attributes_)
    assert [abs(w) for _, _, w in every] == sorted((abs(w) for _, _, w in every), reverse=True)
    of_nouns = [row for row in every if row[1] == "noun"][:7]
    assert fitted.top_features("noun", 7) == of_nouns
    assert len(fitted.top_transitions(100)) == 16


def test_calibration_changes_probabilities_alone(fitted: NeuralCRF) -> None:
    model = NeuralCRF(features="words", **SMALL).fit(WORDS, TAGS)
    before = [list(own) for own in model.predict(WORDS)]
    model.calibrate(*toy_sentences(30, seed=5))
    assert model.temperature_ != 1.0
    assert [list(own) for own in model.predict(WORDS)] == before


def test_unknown_labels_are_summed_over() -> None:
    y = [[None if k % 3 == 0 else tag for k, tag in enumerate(own)] for own in TAGS]
    model = NeuralCRF(features="words", **SMALL).fit(WORDS, y)
    assert model.score(WORDS, TAGS) > 0.8


def test_the_best_epoch_on_held_out_sentences_is_kept() -> None:
    held_out = toy_sentences(20, seed=7)
    model = NeuralCRF(**SMALL | {"max_iterations": 12, "patience": 2})
    model.fit(WORDS, TAGS, validation=held_out)
    scores = [row.validation for row in model.outcome_.history]
    assert max(scores) == model.score(*held_out)
    own = NeuralCRF(**SMALL | {"held_out": 0.2, "patience": 3}).fit(WORDS, TAGS)
    assert all(row.validation is not None for row in own.outcome_.history)


def test_callbacks_see_epochs_and_end_training() -> None:
    seen: list[int] = []

    def stop(step: Any) -> str | None:
        seen.append(step.iteration)
        return "enough" if step.iteration == 2 else None

    model = NeuralCRF(callbacks=[stop, EarlyStopping(lambda _: 0.0)], **SMALL).fit(WORDS, TAGS)
    assert seen == [1, 2]
    assert model.outcome_.ending == "callback"


def test_seeds_decide() -> None:
    def scores(seed: int) -> Any:
        model = NeuralCRF(random_state=seed, **SMALL | {"max_iterations": 2}).fit(WORDS, TAGS)
        return model.predict_proba(WORDS[:1])[0]

    state = torch.random.get_rng_state()
    np.testing.assert_array_equal(scores(1), scores(1))
    assert not np.array_equal(scores(1), scores(2))
    assert torch.equal(state, torch.random.get_rng_state())  # nobody else's numbers are touched


def test_vectors_are_a_start(tmp_path: Path) -> None:
    vectors = WordVectors(5).fit([*WORDS, ["NEVER", "seen", "Seen"]])
    vectors.save(tmp_path / "vectors")
    tables = []
    for given in (vectors, tmp_path / "vectors", str(tmp_path / "vectors")):
        settings = SMALL | {"max_iterations": 1, "learning_rate": 1e-9}
        model = NeuralCRF(vectors=given, **settings).fit(WORDS, TAGS)
        tables.append(model.network_.encoder.word.weight.detach())
    assert torch.equal(tables[0], tables[1])
    assert torch.equal(tables[0], tables[2])
    number = model.reading_.words.word_number
    assert {"never", "seen"} <= number.keys()
    theirs = vectors.vectors_[vectors.vocabulary_.words.index("the")]
    mine = tables[0][number["the"]].numpy()
    cosine = np.dot(mine, theirs) / np.linalg.norm(mine) / np.linalg.norm(theirs)
    assert cosine == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(SettingsError, match="fitted WordVectors"):
        NeuralCRF(vectors=WordVectors(5), **SMALL).fit(WORDS, TAGS)


def test_a_vocabulary_can_be_given() -> None:
    settings = SMALL | {"max_iterations": 1}
    model = NeuralCRF(vocabulary=["The", "Ball", "7"], **settings).fit(WORDS, TAGS)
    assert model.words_ == ["the", "ball", "0"]
    rare = NeuralCRF(min_count=3, **settings).fit(WORDS, TAGS)
    assert 0 < len(rare.words_) < len(NeuralCRF(**settings).fit(WORDS, TAGS).words_)
    numbered = rare.reading_.words([["xyz", "the", "THE"]])
    assert numbered.words.tolist() == [UNSEEN, *[rare.reading_.words.word_number["the"]] * 2]


def test_an_own_encoder_is_trained_and_named_in_files(tmp_path: Path) -> None:
    model = NeuralCRF(own_encoders.bag, features="words", **SMALL).fit(WORDS, TAGS)
    assert isinstance(model.network_.encoder, own_encoders.Bag)
    assert model.score(WORDS, TAGS) > 0.8
    model.save(tmp_path / "model")
    loaded = mrflearn.load(tmp_path / "model")
    assert loaded.encoder == "support.own_encoders:bag"
    assert loaded.predict(WORDS).tolist() == model.predict(WORDS).tolist()
    loaded.save(tmp_path / "again")
    with pytest.raises(SettingsError, match="scores of shape"):
        NeuralCRF(own_encoders.wrong, **SMALL).fit(WORDS, TAGS)
    with pytest.raises(SettingsError, match="torch module"):
        NeuralCRF(lambda *_: 3, **SMALL).fit(WORDS, TAGS)  # type: ignore[arg-type, return-value]
    nameless = NeuralCRF(lambda *sizes: own_encoders.bag(*sizes), **SMALL | {"max_iterations": 1})
    with pytest.raises(SettingsError, match="imported by a name"):
        nameless.fit(WORDS, TAGS).save(tmp_path / "nameless")


def test_loading_imports_no_encoder(tmp_path: Path) -> None:
    NeuralCRF(own_encoders.bag, **SMALL | {"max_iterations": 1}).fit(WORDS, TAGS).save(
        tmp_path / "model"
    )
    script = (
        "import sys, mrflearn\n"
        f"model = mrflearn.load({str(tmp_path / 'model')!r})\n"
        "assert 'support.own_encoders' not in sys.modules\n"
        f"try: model.predict([['the']])\n"
        "except mrflearn.errors.SettingsError as error: assert 'own_encoders' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    root = Path(mrflearn.__file__).parents[1]
    subprocess.run(
        [sys.executable, "-c", script], check=True, cwd=tmp_path, env={"PYTHONPATH": str(root)}
    )


def test_transitions_take_no_features_here() -> None:
    items = [[["w", mrflearn.edge("w")]] * len(own) for own in WORDS]
    given = dict(zip(map(tuple, WORDS), items, strict=True))
    model = NeuralCRF(features=lambda words: given[tuple(words)], **SMALL)
    with pytest.raises(SettingsError, match="edge"):
        model.fit(WORDS, TAGS)


def test_dense_features_have_weights() -> None:
    def dense(words: list[str]) -> list[dict[str, Any]]:
        return [{"v": np.array([float(word == "the"), 1.0]), "b": 2.0} for word in words]

    model = NeuralCRF(features=dense, **SMALL).fit(WORDS, TAGS)
    assert model.attributes_ == ["b", "v[0]", "v[1]"]
    assert {row[0] for row in model.top_features(n=12)} == {"b", "v[0]", "v[1]"}
    assert model.score(WORDS, TAGS) > 0.8


def test_rare_features_are_left_out() -> None:
    settings = SMALL | {"max_iterations": 1}
    all_of_them = NeuralCRF(features="words", **settings).fit(WORDS, TAGS).attributes_
    often = NeuralCRF(features="words", min_freq=5.0, **settings).fit(WORDS, TAGS).attributes_
    assert set(often) < set(all_of_them)


@pytest.mark.parametrize(
    ("X", "y", "error"),
    [
        (WORDS, TAGS[:-1], DataError),
        ([["a"]], [[None]], DataError),
        ([[]], [[]], DataError),
        (["a b"], [["x", "y"]], DataError),
        ([[("a", "NN")]], [["x"]], DataError),
        ([[3]], [["x"]], DataError),
    ],
    ids=["fewer labels", "no label", "no words", "text", "cells without features", "number"],
)
@pytest.mark.filterwarnings("ignore:y has one label")
def test_bad_data_are_refused(X: Any, y: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        NeuralCRF(**SMALL).fit(X, y)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dims": 0},
        {"hidden": 0},
        {"dropout": 1.0},
        {"held_out": -0.1},
        {"learning_rate": 0.0},
        {"batch_size": 0},
        {"max_iterations": 0},
        {"word_dropout": -1.0},
        {"dtype": "float16"},
        {"device": "abacus"},
    ],
    ids=str,
)
def test_settings_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        NeuralCRF(**SMALL | wrong).fit(WORDS, TAGS)


def test_a_file_of_other_sizes_is_refused(fitted: NeuralCRF, tmp_path: Path) -> None:
    from dataclasses import replace

    from mrflearn.models.storage import read_model, write_model

    fitted.save(tmp_path / "model")
    stored = read_model(tmp_path / "model")
    for settings in ({"hidden": 5}, {"char_dims": 0}, {"layers": 2}):
        other = replace(stored, settings=stored.settings | settings)
        write_model(tmp_path / "other", other, overwrite=True)
        with pytest.raises(StorageError):
            mrflearn.load(tmp_path / "other")
