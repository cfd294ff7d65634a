"""Word similarity is Spearman's correlation; analogies, neighbours are what brute force finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from mrflearn.errors import DataError
from mrflearn.evaluation.similarity import CosineSpace, analogies, spearman, word_similarity
from mrflearn.io.similarity import Analogy, WordPair

WORDS = [*"abcdefgh"]


def random_space(seed: int = 0) -> CosineSpace:
    return CosineSpace(WORDS, np.random.default_rng(seed).normal(size=(8, 3)))


def cosine(space: CosineSpace, one: str, other: str) -> float:
    u, v = (space.vectors[WORDS.index(word)] for word in (one, other))
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


ranks = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=20)


@given(ranks)
def test_spearman_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    left, right = zip(*pairs, strict=True)
    found = spearman(left, right)
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(left, right)[0])


def test_pairs_without_vectors_are_left_out_and_counted() -> None:
    space = random_space()
    scores = {"ab": 4, "cd": 1, "ef": 3, "gh": 2}
    pairs = [WordPair(*two, score) for two, score in scores.items()]
    found = word_similarity(space, [*pairs, WordPair("a", "zebra", 9)])
    expected = spearmanr([cosine(space, p.first, p.second) for p in pairs], [4, 1, 3, 2])[0]
    assert (found.pairs, found.of) == (4, 5)
    assert found.spearman == pytest.approx(expected)
    assert word_similarity(space, [WordPair("A", "B", 1.0)]).pairs == 1  # lower case serves
    assert math.isnan(word_similarity(space, pairs[:2]).spearman)


def test_neighbours_are_sorted_and_leave_the_word_out() -> None:
    space = random_space(1)
    found = space.neighbours("c", top=3)
    others = sorted((w for w in WORDS if w != "c"), key=lambda w: -cosine(space, "c", w))
    assert [word for word, _ in found] == others[:3]
    assert found[0][1] == pytest.approx(cosine(space, "c", others[0]))
    assert len(space.neighbours("c", top=99)) == 7
    with pytest.raises(DataError, match="zebra"):
        space.neighbours("zebra")


def test_analogies_by_brute_force() -> None:
    space = random_space(2)
    generator = np.random.default_rng(3)
    questions, right = [], 0
    for _ in range(40):
        a, b, c, d = (WORDS[i] for i in generator.permutation(8)[:4])
        questions.append(Analogy("", a, b, c, d))
        va, vb, vc = (space.vectors[WORDS.index(w)] for w in (a, b, c))
        rest = [w for w in WORDS if w not in (a, b, c)]
        right += d == max(rest, key=lambda w: (vb - va + vc) @ space.vectors[WORDS.index(w)])
    assert 0 < right < 40
    found = analogies(space, [*questions, Analogy("", "a", "b", "c", "zebra")])
    assert found.accuracy == right / 40
    assert (found.answerable, found.of) == (40, 41)


def test_vectors_must_fit_words_and_zeros_are_no_trouble() -> None:
    with pytest.raises(DataError, match="shape"):
        CosineSpace(WORDS, np.zeros((3, 2)))
    assert CosineSpace(["a", "b"], np.zeros((2, 3))).neighbours("a") == [("b", 0.0)]
