"""The hidden Markov model equals its definitions: hand counts, dictionaries, all tag sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.estimators import hmm_tagger as answers
from mrflearn.features.tagged_sentences import count_tags
from mrflearn.models import hmm as room
from mrflearn.models.hmm import HMM, endings, suffix_tree, tag_transitions
from support.slow_hmm import SlowHMM, ladder

EVERY_WORD = 10**6  # no word occurs more often, so all of them shape what endings say
TAGS = "ABC"
WORDS = ["run", "sun", "Sun", "re-run", "19", "1,9", "RUN", "fun", "x"]
NEW = ["gun", "Gun", "21", "RUNS", "x-y", "Run", "zzz"]
sentence = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(TAGS)), max_size=5)
corpora = st.lists(sentence, min_size=1, max_size=6).filter(any)
texts = st.lists(st.lists(st.sampled_from(WORDS + NEW), max_size=4), max_size=4)
HAND = [[("the", "D"), ("dog", "N"), ("ran", "V")], [("the", "D"), ("run", "N")]]


def split(pairs: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[w for w, _ in own] for own in pairs], [[t for _, t in own] for own in pairs]


def test_interpolation_weights_by_hand() -> None:
    counts = count_tags(*split(HAND))
    # Trigrams: SSD twice, SDN twice, DNV, NVS, DNS.  Left out once, SSD has 1/1 as a trigram and
    # 1/1 as a bigram (a tie), SDN the same; N was followed by V and by the edge once each, so all
    # of the others have 0 of 1 but for edges: (2 - 1) / (7 - 1) as unigrams.
    ties = 2 + 2
    unigrams, bigrams, trigrams = 1 + 1 / 3 + 2, 1 + ties / 2 + 1 / 3, 1 + ties / 2 + 1 / 3
    total = unigrams + bigrams + trigrams
    expected = [unigrams / total, bigrams / total, trigrams / total]
    table = tag_transitions(counts, 2)
    assert table.weights == pytest.approx(expected)
    d, n, v, edge = 0, 1, 2, 3
    after = np.exp(table.log_probability[table.context[d, n]])
    assert after[v] == pytest.approx(np.dot(expected, [1 / 7, 0.5, 0.5]))
    unseen = np.exp(table.log_probability[table.context[v, n]])
    short = expected[0] + expected[1]
    assert unseen[edge] == pytest.approx((expected[0] * 2 / 7 + expected[1] * 0.5) / short)


@given(corpora, st.integers(1, 2))
def test_transitions_equal_the_definition_and_sum_to_one(
    pairs: list[list[tuple[str, str]]], order: int
) -> None:
    counts = count_tags(*split(pairs))
    slow = SlowHMM(*split(pairs), order=order, suffixes=False, rare=1, longest=3)
    table = tag_transitions(counts, order)
    assert table.weights == pytest.approx(slow.weights)
    names = [*counts.tags, None]
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            found = np.exp(table.log_probability[table.context[i, j]])
            assert found.sum() == pytest.approx(1)
            expected = [slow.transition(first, second, third) for third in names]
            assert found.tolist() == pytest.approx(expected)


@given(corpora, st.lists(st.sampled_from(WORDS + NEW), min_size=1), st.integers(0, 4))
def test_what_endings_say_equals_a_dictionary(
    pairs: list[list[tuple[str, str]]], words: list[str], longest: int
) -> None:
    counts = count_tags(*split(pairs))
    slow = SlowHMM(*split(pairs), order=2, suffixes=True, rare=EVERY_WORD, longest=longest)
    tree = suffix_tree(counts.words, counts.lexicon, longest)
    found = tree.shares(words)
    expected = [[slow.guess(word, tag) for tag in counts.tags] for word in words]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@given(st.text(max_size=6), st.integers(0, 4))
def test_endings_of_any_text(word: str, longest: int) -> None:
    assert len(endings(word, longest)) == len(ladder(word, longest)) <= longest + 2


@given(corpora, texts, st.integers(1, 2), st.booleans(), st.sampled_from([1, 3]), st.integers(0, 3))
def test_answers_equal_those_of_all_tag_sequences(
    pairs: list[list[tuple[str, str]]],
    text: list[list[str]],
    order: int,
    suffixes: bool,
    rare: int,
    longest: int,
) -> None:
    model = HMM(count_tags(*split(pairs)), order, suffixes, rare, longest, None)
    slow = SlowHMM(*split(pairs), order=order, suffixes=suffixes, rare=rare, longest=longest)
    names = model.counts.tags
    laid = list(model.lattices(text))
    best = [own for part in laid for own in answers.best_tags(part, names)]
    shares = [own for part in laid for own in answers.tag_shares(part, len(names))]
    lists = [own for part in laid for own in answers.best_lists(part, names, 4)]
    assert len(best) == len(shares) == len(lists) == len(text)
    for words, tags, table, listed in zip(text, best, shares, lists, strict=True):
        truth = slow.every(words)
        assert truth[tuple(tags)] == pytest.approx(max(truth.values()))
        ranked = sorted(truth.values(), reverse=True)[:4]
        assert [chance for _, chance in listed] == pytest.approx(ranked)
        assert all(truth[tuple(own)] == pytest.approx(chance) for own, chance in listed)
        assert len({tuple(own) for own, _ in listed}) == len(listed)
        for place in range(len(words)):
            expected = [
                math.fsum(chance for own, chance in truth.items() if own[place] == tag)
                for tag in names
            ]
            assert table[place].tolist() == pytest.approx(expected, abs=1e-12)


def test_runs_of_sentences_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    model = HMM(count_tags(*split(HAND)), 2, True, 9, 3, None)
    text = [["the", "dog"], [], ["a", "run", "ran"], ["dog"], []]
    whole = list(model.lattices(text))
    monkeypatch.setattr(room, "EDGES_AT_ONCE", 1)
    parts = list(model.lattices(text))
    assert (len(whole), len(parts)) == (1, 5)
    names = model.counts.tags
    cut = [own for part in parts for own in answers.best_tags(part, names)]
    assert cut == answers.best_tags(whole[0], names)


@given(corpora, texts)
def test_a_wide_beam_changes_nothing_and_a_narrow_one_keeps_the_best_tag(
    pairs: list[list[tuple[str, str]]], text: list[list[str]]
) -> None:
    counts = count_tags(*split(pairs))
    for beam, exact in ((1e12, True), (1.0, False)):
        cut = HMM(counts, 2, True, 9, 3, beam)
        if exact:
            free = HMM(counts, 2, True, 9, 3, None)
            assert cut.known.tag.tolist() == free.known.tag.tolist()
            for one, other in zip(cut.lattices(text), free.lattices(text), strict=True):
                assert answers.best_tags(one, counts.tags) == answers.best_tags(other, counts.tags)
        else:
            shares = cut.endings.shares(NEW)
            kept = cut.unknown(NEW)
            ties = (shares == shares.max(axis=1, keepdims=True)).sum(axis=1)
            assert np.diff(kept.begin).tolist() == ties.tolist()
