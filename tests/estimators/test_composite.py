"""CompositeLanguageModel: every part alone is what it says, and all answers agree."""

from __future__ import annotations

import os
import signal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import mrflearn
from mrflearn import CompositeLanguageModel, NgramLanguageModel, plots
from mrflearn.datasets.english import sample_documents
from mrflearn.errors import DataError, MrflearnError, NotFittedError, StorageError, TrainingError
from mrflearn.estimators.composite_training import folds_of
from mrflearn.execution.executor import Serial
from mrflearn.execution.held import Held, Here
from mrflearn.io.corpus import Vocabulary
from mrflearn.io.ptb import write_trees
from mrflearn.io.trees import Tree
from mrflearn.models.composite_lm import stream_of
from mrflearn.models.token_mixture import CACHES
from support.edited import drop

SAMPLED = [
    [s for s in document.sentences if len(s.words) <= 8]
    for document in sample_documents(16, sentences=12, seed=3)
]
DOCUMENTS = [[list(s.words) for s in sentences] for sentences in SAMPLED]
TRAIN, TEST = DOCUMENTS[:12], DOCUMENTS[12:]
TREES = [s.tree for sentences in SAMPLED[:12] for s in sentences]


@pytest.fixture(scope="session")
def whole() -> CompositeLanguageModel:
    """All three parts, little trained."""
    return CompositeLanguageModel(
        3, grammar=(4, 6), topics=3, max_iterations=4, rounds=2, random_state=1
    ).fit(TRAIN)


@pytest.fixture(scope="session")
def without_caches(whole: CompositeLanguageModel) -> CompositeLanguageModel:
    return clone(whole).set_params(cache=False).fit(TRAIN)


@pytest.fixture(scope="session")
def treebank() -> CompositeLanguageModel:
    return CompositeLanguageModel(2, grammar=TREES, topics=2, max_iterations=2, rounds=1).fit(TRAIN)


def test_without_grammar_and_topics_it_is_the_ngram_model() -> None:
    ours = CompositeLanguageModel(3, derivation_only=True).fit(TRAIN)
    plain = NgramLanguageModel(3).fit([words for sentences in TRAIN for words in sentences])
    flat = [words for sentences in TEST for words in sentences]
    assert np.abs(ours.score_samples(TEST) - plain.score_samples(flat)).max() < 1e-9
    mine, theirs = (dict(model.next_word(["the"], n=50)) for model in (ours, plain))
    assert mine == pytest.approx(theirs, abs=1e-12)


def test_a_grammar_knows_more_than_words_alone_and_topics_more_than_one() -> None:
    settings = {"max_iterations": 6, "rounds": 1}
    alone = CompositeLanguageModel(1, **settings).fit(TRAIN)
    grammar = CompositeLanguageModel(1, grammar=TREES, **settings).fit(TRAIN)
    assert grammar.perplexity(TEST) < alone.perplexity(TEST)
    topics = CompositeLanguageModel(1, topics=4, **settings).fit(TRAIN)
    assert topics.fit_.history[-1].value < alone.fit_.history[-1].value


def test_a_model_without_its_grammar_is_a_source(
    whole: CompositeLanguageModel, without_caches: CompositeLanguageModel
) -> None:
    plain = clone(whole).set_params(grammar=None, derivation_only=True).fit(TRAIN)
    expected = plain.source_scores(TEST).mixed
    for model in (whole, without_caches):
        found = model.source_scores(TEST).columns["without grammar"]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    names = [model.fit_.memory.mixture.names for model in (whole, without_caches)]
    assert names[0] == (*names[1], *CACHES)


def test_a_part_that_does_not_fit_the_text_costs_next_to_nothing() -> None:
    """Sentences of any length end in a full stop, which n-grams see and small grammars do not."""
    generator, documents = np.random.default_rng(7), []
    for number in range(40):
        words = [f"w{k}" for k in range(60 * (number % 2), 60 * (number % 2) + 60)]
        lengths = generator.integers(2, 16, size=6)
        documents.append([[*generator.choice(words, n).tolist(), "."] for n in lengths])
    settings = {"topics": 2, "max_iterations": 6, "rounds": 2}
    topics = CompositeLanguageModel(2, **settings)
    every = CompositeLanguageModel(2, grammar=(3, 6), **settings)
    alone = CompositeLanguageModel(2, grammar=(3, 6), derivation_only=True, **settings)
    found = [own.fit(documents[:30]).perplexity(documents[30:]) for own in (topics, every, alone)]
    assert found[1] < 1.005 * found[0] < found[2]


@pytest.mark.parametrize("fixture", ["whole", "without_caches"])
def test_next_words_multiply_to_the_score_of_the_sentence(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    whole: CompositeLanguageModel = request.getfixturevalue(fixture)
    words = TEST[0][1]
    total = 0.0
    for k in range(len(words) + 1):
        found = dict(whole.next_word(words[:k], n=10_000, document=TEST[0][:1]))
        assert sum(found.values()) == pytest.approx(1, abs=1e-9)
        word = "</s>" if k == len(words) else words[k]
        total += np.log(found.get(word, found["<unk>"]))
    assert whole.score_samples([TEST[0][:2]])[1] == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("grammar", [None, (2, 3)], ids=["plain", "latent"])
def test_probabilities_of_all_sentences_add_up_to_at_most_one(
    grammar: tuple[int, int] | None,
) -> None:
    text = [[["a", "b"], ["b"], ["a", "a", "b"]]] * 4
    model = CompositeLanguageModel(
        2, grammar=grammar, topics=2, levels=["vh", "h"], max_iterations=2
    ).fit(text)
    words = [word for word in model.vocabulary_.words if word != "<S>"]
    short = [[list(s)] for n in range(1, 6) for s in product(words, repeat=n)]
    assert 0.8 < np.exp(model.score_samples(short)).sum() < 1 + 1e-9


def test_trees_cover_their_sentences(
    whole: CompositeLanguageModel, treebank: CompositeLanguageModel
) -> None:
    for model in (whole, treebank):
        for words, tree in zip(TEST[0], model.parse(TEST[0]), strict=True):
            assert tree is not None
            assert list(tree.words) == words
    assert treebank.parse([TEST[0][0], []])[1] is None
    labels = {node.label for tree in TREES for node in tree.nodes()}
    found = {n.label for tree in treebank.parse(TEST[0]) if tree for n in tree.nodes()}
    assert found <= labels  # nothing of binarisation is left


def test_topics_of_a_document_are_told_by_its_words(whole: CompositeLanguageModel) -> None:
    shares = whole.document_topics([*TEST, []])
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(TEST) + 1))
    assert shares[-1] == pytest.approx(whole.fit_.prior)
    table = whole.topic_words(5)
    assert [len(words) for words in table] == [5, 5, 5]


def test_a_sentence_does_not_help_to_score_itself(whole: CompositeLanguageModel) -> None:
    first = whole.score_samples([TEST[0]])
    other = whole.score_samples([[*TEST[0][:2], TEST[1][0]]])
    assert other[:2] == pytest.approx(first[:2], abs=1e-12)
    assert whole.score_samples([TEST[0][:1], TEST[0][:1]])[1] == pytest.approx(first[0], abs=1e-9)


def test_no_token_looks_ahead(whole: CompositeLanguageModel) -> None:
    kept, words = TEST[0][:2], TEST[0][2]
    before = sum(len(own) + 1 for own in kept) + 2
    first = whole.source_scores([TEST[0]])
    other = whole.source_scores([[*kept, [*words[:2], "zebra", "the"]], TEST[1]])
    assert other.mixed[:before] == pytest.approx(first.mixed[:before], abs=1e-12)
    for name, column in other.columns.items():
        assert column[:before] == pytest.approx(first.columns[name][:before], abs=1e-12), name


@pytest.mark.parametrize("fixture", ["whole", "without_caches"])
def test_save_load_clone_sample(
    fixture: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole: CompositeLanguageModel = request.getfixturevalue(fixture)
    whole.save(tmp_path / "m")
    back = mrflearn.load(tmp_path / "m")
    assert isinstance(back, CompositeLanguageModel)
    assert (back.score_samples(TEST) == whole.score_samples(TEST)).all()
    assert back.sample(2, sentences=3, random_state=5) == whole.sample(
        2, sentences=3, random_state=5
    )
    assert back.parse(TEST[0][:1]) == whole.parse(TEST[0][:1])
    assert back.unknown_policy_ == whole.unknown_policy_
    assert clone(whole).get_params() == whole.get_params()
    drawn = whole.sample(1, sentences=6, random_state=2, longest=4)
    assert max(len(words) for words in drawn[0]) <= 4
    assert {w for words in drawn[0] for w in words} <= set(whole.vocabulary_.words)


def test_a_model_of_two_settings_is_refused(tmp_path: Path, whole: CompositeLanguageModel) -> None:
    whole.save(tmp_path / "m")
    drop(tmp_path / "m", "words")
    with pytest.raises(StorageError, match="contradicts itself"):
        CompositeLanguageModel.load(tmp_path / "m")


def test_weights_of_other_levels_are_refused(tmp_path: Path, whole: CompositeLanguageModel) -> None:
    whole.save(tmp_path / "m")
    drop(tmp_path / "m", "level_names", "h")
    with pytest.raises(StorageError, match="weights for other levels"):
        CompositeLanguageModel.load(tmp_path / "m")


def test_long_sentences_teach_words_and_are_scored_whole() -> None:
    text = [[["a", "b"] * 4, ["a", "b"], ["a", "b", "a"]]] * 10
    model = CompositeLanguageModel(1, grammar=(2, 2), longest=3, max_iterations=3).fit(text)
    assert np.isfinite(model.score([[["a", "b"] * 250]]))  # 500 words
    assert dict(model.next_word([], n=9))["a"] > 0.1


@pytest.mark.usefixtures("shared_processes")
def test_processes_count_as_one(whole: CompositeLanguageModel) -> None:
    again = clone(whole).set_params(n_jobs=2).fit(TRAIN)
    assert np.abs(again.score_samples(TEST) - whole.score_samples(TEST)).max() < 1e-8


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_counts_as_the_cpu(whole: CompositeLanguageModel) -> None:
    again = clone(whole).set_params(device="cuda").fit(TRAIN)
    assert np.abs(again.score_samples(TEST) - whole.score_samples(TEST)).max() < 1e-6


def test_a_training_goes_on_where_it_stopped(tmp_path: Path, whole: CompositeLanguageModel) -> None:
    path = tmp_path / "checkpoint"
    clone(whole).set_params(max_iterations=2, rounds=1).fit(TRAIN, checkpoint=path)
    longer = clone(whole).set_params(max_iterations=4, rounds=1)
    resumed = clone(longer).fit(TRAIN, checkpoint=path, resume=True)
    straight = longer.fit(TRAIN)
    assert len(resumed.fit_.history) == len(straight.fit_.history) == 4
    assert resumed.score_samples(TEST) == pytest.approx(straight.score_samples(TEST), abs=1e-9)
    with pytest.raises(TrainingError, match="another training"):
        clone(longer).set_params(random_state=8).fit(TRAIN, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="checkpoint='FILE'"):  # a setting, as of other estimators
        longer.fit(TRAIN, resume=True)


def test_words_that_one_fold_alone_has_are_unknown_where_it_is_judged() -> None:
    documents = [[["a", "b"], ["a"]], [["a", "c"]], [["b", "a"]]]
    words = Vocabulary(("<S>", "<unk>", "a", "b", "c"))
    text = stream_of(documents, words)
    folds = folds_of(text, text.document, 2, words)
    read = [[words.words[i] for i in own.new.stream[1:].tolist()] for own in folds]
    assert read == [["a", "b", "<S>", "a", "<S>"], ["a", "<unk>", "<S>"], ["b", "a", "<S>"]]
    assert (folds[1].text.stream == text.part(folds[1].sentences).stream).all()
    (alone,) = folds_of(text, np.zeros(4, int), 2, words)
    assert (alone.new.stream == text.stream).all()


@pytest.mark.parametrize(("most", "rounds", "each"), [(7, 3, [2, 2, 2]), (2, 4, [1, 1])])
def test_rounds_divide_the_iterations(capsys, most: int, rounds: int, each: list[int]) -> None:
    """No more than asked for in all; what is said while training and at its end agrees with it."""
    model = CompositeLanguageModel(2, max_iterations=most, rounds=rounds, tolerance=0, verbose=True)
    history = model.set_params(topics=2).fit(TRAIN).fit_.history
    assert [row.iteration for row in history] == [k + 1 for n in each for k in range(n)]
    assert f"all {len(each)} rounds are over, {sum(each)} iterations" in model.fit_.reason
    assert f"round 2 of {len(each)}, at most {each[1]} iterations" in capsys.readouterr().err
    drawn = plots.em_curve(history).axes[0].get_lines()
    assert [line.get_label() for line in drawn] == [f"round {k + 1}" for k in range(len(each))]


class Interrupting:
    """Sums here, and presses Ctrl-C in the middle of a training."""

    def __init__(self, after: int) -> None:
        self.left = after

    def hold(self, items: Any, make: Any) -> Held[Any]:
        return Held(self, [Here(item) for item in items]).then(make)  # type: ignore[arg-type]

    def map(self, task: Any, items: Any) -> Any:
        return Serial().map(task, items)

    def total(self, task: Any, items: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return Serial().total(task, items)


@pytest.mark.parametrize("after", [3, 8, 36])  # counts of folds, weights, words
def test_ctrl_c_ends_in_good_order(whole: CompositeLanguageModel, after: int) -> None:
    stopped = clone(whole).fit(TRAIN, executor=Interrupting(after))
    assert len(stopped.fit_.history) < len(whole.fit_.history)
    assert np.isfinite(stopped.score(TEST))


def test_unknown_words_and_empty_documents(whole: CompositeLanguageModel) -> None:
    assert np.isfinite(whole.score([[["zebra", "quux"]], []]))
    found = whole.text_score([[["zebra", "the"]], [[]]])
    assert (found.words, found.sentences, found.tokens) == (2, 1, 3)
    assert found.unknown == 1
    fitted = CompositeLanguageModel(2, topics=2, min_count=2).fit([*TRAIN, [], [[]]])
    assert "an ordinary word" in fitted.unknown_policy_
    assert np.isfinite(fitted.score(TEST))


def test_a_treebank_by_its_path(tmp_path: Path) -> None:
    write_trees(tmp_path / "trees.mrg", TREES)
    path = f"treebank:{tmp_path / 'trees.mrg'}"
    model = CompositeLanguageModel(1, grammar=path, max_iterations=1, rounds=1).fit(TRAIN)
    same = CompositeLanguageModel(1, grammar=TREES, max_iterations=1, rounds=1).fit(TRAIN)
    assert model.score(TEST) == pytest.approx(same.score(TEST), abs=1e-12)


def test_a_grammar_that_cannot_produce_the_text_is_told() -> None:
    pair = Tree("S", (Tree("A", (), "a"), Tree("B", (), "b")))
    with pytest.raises(TrainingError, match="cannot be produced by the grammar"):
        CompositeLanguageModel(1, grammar=[pair]).fit([[["a", "b"], ["a", "b", "a"]]])
    model = CompositeLanguageModel(1, grammar=[pair], max_iterations=1).fit([[["a", "b"]] * 3])
    assert model.parse([["a", "b", "a"]]) == [None]
    assert np.isfinite(model.score([[["a", "b", "a"]]]))  # its words may come from the cache
    alone = clone(model).set_params(derivation_only=True).fit([[["a", "b"]] * 3])
    assert alone.score([[["a", "b", "a"]]]) == -np.inf


def test_mistakes_are_named() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        CompositeLanguageModel().score(TEST)
    for settings, says in (
        ({"order": 0}, "order must be >= 1; got 0"),
        ({"topics": 0}, "topics must be >= 1; got 0"),
        ({"grammar": "latent:3"}, "two numbers"),
        ({"grammar": "penn"}, "not known"),
        ({"levels": ["xA"]}, "no level"),
        ({"grammar": "none"}, "or None"),
        ({"dtype": "half"}, "dtype 'half'"),
    ):
        with pytest.raises(MrflearnError, match=says):
            CompositeLanguageModel(**settings).fit(TRAIN)
    with pytest.raises(DataError, match="no words"):
        CompositeLanguageModel().fit([[[]]])
    with pytest.raises(DataError, match="not a list of sentences"):
        CompositeLanguageModel().fit([["one sentence only", "and another"]])
    with pytest.raises(MrflearnError, match="without a grammar"):
        CompositeLanguageModel(2).fit(TRAIN).parse(TEST[0])
