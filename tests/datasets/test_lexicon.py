"""Lexicons in text: shares, weights, forms, and complaints."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.datasets.english import Lexicon, read_lexicon
from mrflearn.errors import DataError

TEXT = """# a comment
noun per 0.25
  any    man/men
  sport  runner man/men
  music  singer

verb x
  any    win/won/won forget/forgot/forgotten/forgetting walk

mass stuff 0
  sport  mud
  music  jazz
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "words.lexicon"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_shares_and_weights(written):
    lexicon = read_lexicon(written(TEXT))
    assert lexicon.topics == ("sport", "music")
    people = lexicon.classes["NN[per]"]
    assert people.words == ("man", "runner", "singer")
    assert people.topical
    # Of two words the first weighs 1/2 and the second 1/3, that is 0.6 and 0.4.
    expected = [[0.25 + 0.75 * 0.4, 0.75 * 0.6, 0.0], [0.25, 0.0, 0.75]]
    assert people.probabilities == pytest.approx(np.array(expected))
    assert people.mixed([0.5, 0.5]).tolist() == pytest.approx([0.4, 0.225, 0.375])
    assert lexicon.classes["NN[stuff]"].probabilities.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_forms(written):
    classes = read_lexicon(written(TEXT)).classes
    assert classes["NNS[per]"].words == ("men", "runners", "singers")
    assert "NNS[stuff]" not in classes
    assert {
        tag: classes[f"{tag}[x]"].words for tag in ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG")
    } == {
        "VB": ("win", "forget", "walk"),
        "VBP": ("win", "forget", "walk"),
        "VBZ": ("wins", "forgets", "walks"),
        "VBD": ("won", "forgot", "walked"),
        "VBN": ("won", "forgotten", "walked"),
        "VBG": ("winning", "forgetting", "walking"),
    }
    assert not classes["VB[x]"].topical


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("  any  man\n", r"words\.lexicon:1: words come before any section"),
        ("noun per 1 2\n", r"words\.lexicon:1: 'noun per 1 2' is not a section"),
        ("noun per much\n", r"words\.lexicon:1: 'noun per much' is not a section"),
        ("noun per 2\n  any man\n", r"words\.lexicon:1: 'noun per 2' is not a section"),
        ("noun a 0.5\n any x\n s y\nnoun b 0.5\n any z\n", r"class 'b' has no words for 's'"),
    ],
)
def test_complaints(written, text, complaint):
    with pytest.raises(DataError, match=complaint):
        read_lexicon(written(text))


@given(text=st.lists(st.sampled_from([*"ab01.\n /#", "noun ", "verb ", "any "])).map("".join))
def test_any_text_gives_a_lexicon_or_a_data_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "words.lexicon"
    path.write_text(text, encoding="utf-8")
    with suppress(DataError):
        assert isinstance(read_lexicon(path), Lexicon)
