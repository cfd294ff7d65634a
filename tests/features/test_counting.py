from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.features.moments import MomentsCounter, count_text
from mrflearn.io.corpus import LINE_END_ID, Vocabulary, count_words
from support.moments import count_sentences

VOCABULARY = Vocabulary(("a", "<S>", "b", "<unk>"))
corpora = st.lists(st.lists(st.sampled_from(["a", "b", "c", "<S>"]), max_size=6), max_size=6)
contexts = st.integers(1, 4)


def ring_by_hand(sentences, context, *, multiple=1):
    """The corpus as one ring of ids: K separators before every sentence, then filler."""
    ring = []
    for sentence in sentences:
        if sentence:
            ring += [1] * context
            ring += [{"a": 0, "b": 2}.get(word, 3) for word in sentence]
    return ring + [1] * (-len(ring) % multiple)


def pairs_by_hand(ring, offset):
    pairs = Counter()
    for position, left in enumerate(ring):
        pairs[left, ring[(position + offset) % len(ring)]] += 1
    return dict(pairs)


def as_dict(pair):
    keys = zip(pair.left.tolist(), pair.right.tolist(), strict=True)
    return dict(zip(keys, pair.count.tolist(), strict=True))


def assert_is_ring(moments, ring, context):
    assert moments.positions == len(ring)
    assert moments.unary.tolist() == [ring.count(state) for state in range(4)]
    assert moments.offsets == tuple((offset,) for offset in range(1, context + 1))
    for offset, pair in enumerate(moments.pairs, start=1):
        assert as_dict(pair) == pairs_by_hand(ring, offset)
    if context == 1:
        assert moments.triples is None
        return
    three = zip(ring, ring[1:] + ring[:1], ring[2:] + ring[:2], strict=True)
    expected = Counter((x * 4 + y) * 4 + z for x, y, z in three)
    codes, counts = moments.triples.codes.tolist(), moments.triples.count.tolist()
    assert list(zip(codes, counts, strict=True)) == sorted(expected.items())


def assert_same(one, two):
    assert (one.offsets, one.separator, one.filler) == (two.offsets, two.separator, two.filler)
    np.testing.assert_array_equal(one.unary, two.unary)
    np.testing.assert_array_equal(one.lengths, two.lengths)
    np.testing.assert_array_equal(one.length_counts, two.length_counts)
    for mine, theirs in zip(one.pairs, two.pairs, strict=True):
        for field in ("left", "right", "count"):
            np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field))
    assert (one.triples is None) == (two.triples is None)
    if one.triples is not None:
        np.testing.assert_array_equal(one.triples.codes, two.triples.codes)
        np.testing.assert_array_equal(one.triples.count, two.triples.count)


@given(corpora, contexts)
def test_counts_are_those_of_the_ring(sentences, context):
    moments = count_sentences(sentences, VOCABULARY, context)
    assert_is_ring(moments, ring_by_hand(sentences, context), context)
    lengths = Counter(len(sentence) for sentence in sentences if sentence)
    seen = zip(moments.lengths.tolist(), moments.length_counts.tolist(), strict=True)
    assert dict(seen) == lengths
    assert moments.sentences == sum(lengths.values())
    assert moments.words == sum(length * count for length, count in lengths.items())


@given(corpora, contexts)
def test_rounding_up_adds_separators_to_the_ring(sentences, context):
    moments = count_sentences(sentences, VOCABULARY, context).rounded_up()
    ring = ring_by_hand(sentences, context, multiple=context + 1)
    assert_is_ring(moments, ring, context)
    assert moments.sentences == sum(map(bool, sentences))
    assert_same(moments._with_filler(0), count_sentences(sentences, VOCABULARY, context))


@given(corpora, corpora, contexts)
def test_merging_is_counting_the_concatenation(one, two, context):
    first, second = (count_sentences(own, VOCABULARY, context).rounded_up() for own in (one, two))
    whole = count_sentences(one + two, VOCABULARY, context)
    assert_same(first + second, whole)
    assert_same((first + second).rounded_up(), whole.rounded_up())


@given(corpora, contexts, st.integers(1, 5))
def test_a_corpus_may_be_cut_anywhere(sentences, context, size):
    flat = [index for s in sentences for index in [*VOCABULARY.encode(s), LINE_END_ID]]
    ids = np.array(flat, dtype=np.int32)
    counter = MomentsCounter(VOCABULARY, context)
    for start in range(0, len(ids), size):
        counter.add(ids[start : start + size])
    assert_same(counter.moments(), count_sentences(sentences, VOCABULARY, context))


def test_files_are_counted_as_their_sentences(tmp_path):
    (tmp_path / "one").write_text("a b  c\n\n \nb\n")
    (tmp_path / "two").write_text("a a")
    moments = count_text(tmp_path / "one", tmp_path / "two", vocabulary=VOCABULARY)
    assert_same(moments, count_sentences([["a", "b", "c"], ["b"], ["a", "a"]], VOCABULARY, 2))


def test_an_empty_file_has_no_positions(tmp_path):
    (tmp_path / "empty").write_text("")
    moments = count_text(tmp_path / "empty", vocabulary=VOCABULARY).rounded_up()
    assert (moments.positions, moments.sentences, moments.words) == (0, 0, 0)


def test_a_line_of_a_million_words(tmp_path):
    (tmp_path / "long").write_text("a b " * 500_000)
    moments = count_text(tmp_path / "long", vocabulary=VOCABULARY, context=1)
    assert as_dict(moments.pairs[0]) == {(0, 2): 500_000, (2, 0): 499_999, (1, 0): 1, (2, 1): 1}
    assert moments.lengths.tolist() == [1_000_000]


def test_an_open_sentence_has_no_moments_yet():
    counter = MomentsCounter(VOCABULARY, 1)
    counter.add(np.array([0], dtype=np.int32))
    with pytest.raises(DataError, match="still open"):
        counter.moments()


def test_a_context_of_nothing_is_refused():
    with pytest.raises(DataError, match="1 or more"):
        MomentsCounter(VOCABULARY, 0)


@pytest.mark.data
def test_wikitext_has_the_published_number_of_words(data_folder):
    path = data_folder / "wikitext-2" / "wiki.train.tokens.gz"
    counts = count_words(path)
    assert sum(counts.values()) == 2_051_910
    moments = count_text(path, vocabulary=Vocabulary.from_counts(counts))
    assert (moments.words, moments.sentences) == (2_051_910, 23_767)
    assert moments.positions == moments.words + 2 * moments.sentences
    assert moments.rounded_up().positions % 3 == 0
