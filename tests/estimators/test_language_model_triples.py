"""`LanguageModel(triples=True)`: the trigram field as an estimator, on texts of few words."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.errors import DataError, MrflearnError, SettingsError
from mrflearn.estimators.base import load
from mrflearn.estimators.language_model import LanguageModel
from mrflearn.execution.executor import Serial
from support.trigrams import letters


def sentences(count: int, seed: int) -> list[list[str]]:
    """The third word is told by the first two together, and by neither alone."""
    bits = np.random.default_rng(seed).integers(0, 2, (count, 2))
    return [["ab"[first], "cd"[second], "ef"[first ^ second]] for first, second in bits]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(3, triples=True, max_iterations=200).fit(sentences(300, seed=0))


@pytest.fixture(scope="module")
def mixed() -> LanguageModel:
    return LanguageModel(3, triples=True, max_iterations=100).fit(letters(60, seed=0, kinds="abcd"))


def test_triples_know_what_pairs_cannot(model):
    (word, chance), *_ = model.fill(["a", "d", "_"])
    assert (word, chance > 0.9) == ("f", True)
    (word, chance), *_ = model.next_word(["a", "d"])
    assert (word, chance > 0.9) == ("f", True)
    (words, chance), *_ = model.continuations(["a", "d"], length=3)
    assert (words, chance > 0.8) == (["f", "</s>"], True)
    chosen = model.choose(["_", "d", "f"], ["b", "a"])
    assert [word for word, _ in chosen] == ["a", "b"]
    assert sum(chance for _, chance in chosen) == pytest.approx(1)
    kept = sum(line in sentences(200, seed=2) for line in model.sample(200, random_state=3))
    assert kept > 180


def test_the_bound_is_all_but_the_exact_ring(mixed):
    text = letters(40, seed=1, kinds="abcd")
    bound, ring = (mixed.log_likelihood(text, kind) for kind in ("bound", "ring"))
    spare = 5 + 1e-5 * ring.positions  # of ends, whatever the length
    assert ring.log_likelihood - spare <= bound.log_likelihood <= ring.log_likelihood
    assert mixed.log_likelihood(text, "exact").log_likelihood >= ring.log_likelihood


def test_words_and_sentences_add_up_to_the_bound(mixed):
    text = letters(30, seed=2, kinds="abcd")
    bound = mixed.text_score(text).log_likelihood
    assert mixed.score_samples(text).sum() == pytest.approx(bound)
    words = mixed.next_word_scores(text)
    assert [len(own) for own in words] == [len(line) + 1 for line in text]
    total = sum(own.sum() for own in words)
    assert bound - 1e-9 <= total <= bound + 1e-3 * len(text)


@pytest.mark.parametrize("order", [4, 5])
def test_longer_ngrams_know_more(order, tmp_path):
    text = letters(60, seed=0, kinds="abcd")
    short, long = (
        LanguageModel(3, triples=True, order=own, max_iterations=60, l1=0.1 / 280).fit(text)
        for own in (3, order)
    )
    assert long.bound_ > short.bound_
    other = letters(30, seed=2, kinds="abcd")
    bound = long.text_score(other).log_likelihood
    assert long.score_samples(other).sum() == pytest.approx(bound)
    words = long.next_word_scores(other)
    assert bound - 1e-9 <= sum(own.sum() for own in words) <= bound + 1e-3 * len(other)
    assert sum(chance for _, chance in long.next_word(["a", "b", "c"], n=10)) == pytest.approx(1)
    assert dict(long.next_word(["a"], n=1)) == {
        words[0]: pytest.approx(chance) for words, chance in long.continuations(["a"], 1, length=1)
    }
    scores = long.word_scores([["a", "b", "c", "d"]])
    assert np.exp(scores[0][1]) == pytest.approx(dict(long.fill(["a", "_", "c", "d"]))["b"])
    assert len(long.sample(20, random_state=0)) == 20
    long.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.score(other) == long.score(other)
    assert again.sample(5, random_state=1) == long.sample(5, random_state=1)
    again.prune(120, text)
    few = load(tmp_path / "m").prune(20, text)
    assert few.model_.sparse_size < again.model_.sparse_size < long.model_.sparse_size
    assert few.bound_ < again.bound_ < long.bound_
    for pruned in (few, again):
        total = pruned.text_score(text).log_likelihood
        assert pruned.score_samples(text).sum() == pytest.approx(total)
    long.set_params(warm_start=True, max_iterations=0).fit(text)
    assert long.text_score(other).log_likelihood == pytest.approx(bound, abs=1e-3)


def test_what_longer_ngrams_need_is_said():
    text = letters(20, seed=0)
    model = LanguageModel(2, triples=True, order=4, max_iterations=2).fit(text)
    for ask, said in (
        (lambda: model.fill_gaps(["_", "_"]), "order=3"),
        (lambda: model.log_likelihood(text, "ring"), "method='bound'"),
        (lambda: model.fit(LanguageModel(2, triples=True)._counted(text, None)), "text itself"),
        (lambda: LanguageModel(2, triples=True, order=6).fit(text), "order=6"),
    ):
        with pytest.raises(MrflearnError, match=said):
            ask()


def test_next_words_are_a_distribution(mixed):
    found = mixed.next_word(["a"], n=10)
    assert sum(chance for _, chance in found) == pytest.approx(1)
    assert "</s>" in dict(found)
    assert "</s>" not in dict(mixed.next_word([], n=10))  # no sentence is empty


def test_how_well_words_fit(mixed):
    text = [["a", "b", "c"], ["d"]]
    scores = mixed.word_scores(text)
    assert [len(own) for own in scores] == [3, 1]
    found = dict(mixed.fill(["a", "_", "c"], n=10))
    assert np.exp(scores[0][1]) == pytest.approx(found["b"])
    total = mixed.log_likelihood(text, "pl").log_likelihood
    assert sum(own.sum() for own in scores) == pytest.approx(total)


def test_several_gaps_are_filled_together(mixed):
    alone = mixed.fill(["a", "_", "c"], n=3)
    together = mixed.fill_gaps(["a", None, "c"], n=3)
    for (word, chance), (words, other) in zip(alone, together, strict=True):
        assert (words, other) == ((word,), pytest.approx(chance))
    pairs = mixed.fill_gaps(["_", "_"], n=100)
    assert sum(chance for _, chance in pairs) == pytest.approx(1)
    with pytest.raises(DataError, match="no gaps"):
        mixed.fill_gaps(["a"])
    with pytest.raises(DataError, match="'zebra'"):
        mixed.choose(["a", "_"], ["b", "zebra"])


def test_what_is_saved_comes_back(mixed, tmp_path):
    mixed.save(tmp_path / "m")
    again = load(tmp_path / "m")
    text = letters(10, seed=4, kinds="abcd")
    assert again.score(text) == mixed.score(text)
    assert dict(again.next_word(["a"])) == pytest.approx(dict(mixed.next_word(["a"])))
    assert again.sample(5, random_state=1) == mixed.sample(5, random_state=1)
    np.testing.assert_array_equal(again.vectors_, mixed.vectors_)


def test_pruned_models_keep_a_bound(mixed, tmp_path):
    text = letters(60, seed=0, kinds="abcd")
    mixed.save(tmp_path / "m")
    bounds = []
    for size in (40, 10, 0):
        again = load(tmp_path / "m").prune(size, text)
        assert again.model_.sparse_size <= size
        bound, ring = (again.log_likelihood(text, kind) for kind in ("bound", "ring"))
        assert bound.log_likelihood <= ring.log_likelihood
        assert again.bound_ * bound.positions == pytest.approx(bound.log_likelihood)
        bounds.append(again.bound_)
    assert bounds == sorted(bounds, reverse=True)


def test_counts_of_more_than_few_words_have_triples_where_asked(tmp_path):
    lines = [[f"w{k}", f"w{k + 1}"] for k in range(140)]
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in lines))
    model = LanguageModel(2, triples=True, max_iterations=3)
    counted = model.count_shards([path], Serial())
    assert counted.triples is not None
    whole = model.fit(lines)
    assert LanguageModel(2, triples=True, max_iterations=3).fit(counted).bound_ == whole.bound_
    plain = LanguageModel(2, max_iterations=3).count_shards([path], Serial())
    assert plain.triples is None
    with pytest.raises(DataError, match="three words in a row"):
        model.fit(plain)


def test_training_goes_on_with_more_text():
    text = letters(40, seed=5)
    model = LanguageModel(2, triples=True, max_iterations=40).fit(text)
    first = model.bound_
    model.set_params(warm_start=True, max_iterations=0).fit(text)
    assert model.bound_ == pytest.approx(first, abs=1e-6)
    model.set_params(max_iterations=5).fit(text + letters(20, seed=6))
    assert model.bound_ > 1.2 * first


def test_the_best_model_on_held_out_text_is_kept():
    text, other = letters(30, seed=7), letters(30, seed=8)
    held_out = LanguageModel(2, triples=True, max_iterations=60).fit(text, validation=other)
    plain = LanguageModel(2, triples=True, max_iterations=60).fit(text)
    assert held_out.validation_bound_ >= plain.score(other) * plain.text_score(other).tokens / (
        plain.text_score(other).positions
    )


def test_what_it_cannot_do_is_said():
    text = sentences(20, seed=0)
    for given, said in (
        ({"context": 3}, "context of 2"),
        ({"bound": "stars"}, "bound by windows"),
        ({"weights": (0.9, 0.1)}, "no weights"),
    ):
        with pytest.raises(SettingsError, match=said):
            LanguageModel(triples=True, **given).fit(text)
    plain = LanguageModel(dims=2, max_iterations=2).fit(text)
    for ask in (plain.next_word, lambda: plain.fill_gaps(["_"]), plain.continuations):
        with pytest.raises(SettingsError, match="triples=True"):
            ask()
    with pytest.raises(SettingsError, match="cannot go on"):
        plain.set_params(warm_start=True, triples=True).fit(text)
    with pytest.raises(MrflearnError, match="no annealed estimate"):
        LanguageModel(2, triples=True, max_iterations=2).fit(text).log_likelihood(text, "ais")
    many = [[f"w{number}" for number in range(5001)]]
    with pytest.raises(SettingsError, match="Try a GPU"):
        LanguageModel(triples=True).fit(many)
