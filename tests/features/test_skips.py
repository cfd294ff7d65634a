"""Rules that say which tokens a skip chain joins."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.estimators.layered_crf import (
    SKIP_RULES,
    apply_rule,
    same_capitalised_word,
    same_word,
)

words = st.lists(st.sampled_from(["Ann", "ann", "Bo", ",", "7", "É"]), max_size=12)


@given(words)
def test_the_same_capitalised_word_is_joined_with_itself(given_words):
    expected = {
        (u, v)
        for u, v in combinations(range(len(given_words)), 2)
        if given_words[u] == given_words[v] and given_words[u] in ("Ann", "Bo", "É")
    }
    assert set(same_capitalised_word(given_words)) == expected


@given(words)
def test_neighbours_are_left_to_the_chain_and_order_is_kept(given_words):
    for rule in SKIP_RULES.values():
        pairs = apply_rule(rule, given_words)
        assert pairs == sorted(set(pairs))
        assert all(v - u > 1 and given_words[u] == given_words[v] for u, v in pairs)


def test_signs_are_no_words():
    assert same_word([",", "a", ",", "a"]) == [(1, 3)]


@pytest.mark.parametrize("pair", [(0, 3), (-1, 2), (1, 1)])
def test_a_rule_that_joins_what_is_not_there_is_told_so(pair):
    with pytest.raises(DataError, match=rf"positions {pair[0]} and {pair[1]} of 3 words"):
        apply_rule(lambda _: [pair], ["a", "b", "c"])


def test_a_rule_may_name_a_pair_backwards_and_twice():
    assert apply_rule(lambda _: [(4, 1), (1, 4), (0, 1)], list("abcde")) == [(1, 4)]
