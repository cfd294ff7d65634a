"""Lexicons in text: shares, weights and forms."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.datasets.english import read_lexicon

TEXT = """# a comment
noun per 0.25
  any    man/men
  sport  runner/runners man/men
  music  singer/singers

verb x
  any    win/wins/won/won/winning walk/walks/walked/walked/walking

mass stuff 0
  sport  mud
  music  jazz
"""


def test_shares_and_weights():
    topics, classes = read_lexicon(TEXT)
    assert topics == ("sport", "music")
    people = classes["NN[per]"]
    assert people.words == ("man", "runner", "singer")
    assert people.topical
    # Of two words the first weighs 1/2 and the second 1/3, that is 0.6 and 0.4.
    expected = [[0.25 + 0.75 * 0.4, 0.75 * 0.6, 0.0], [0.25, 0.0, 0.75]]
    assert people.probabilities == pytest.approx(np.array(expected))
    assert people.joint([0.5, 0.5]).sum(0).tolist() == pytest.approx([0.4, 0.225, 0.375])
    assert classes["NN[stuff]"].probabilities.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_forms():
    classes = read_lexicon(TEXT)[1]
    assert classes["NNS[per]"].words == ("men", "runners", "singers")
    assert "NNS[stuff]" not in classes
    assert {
        tag: classes[f"{tag}[x]"].words for tag in ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG")
    } == {
        "VB": ("win", "walk"),
        "VBP": ("win", "walk"),
        "VBZ": ("wins", "walks"),
        "VBD": ("won", "walked"),
        "VBN": ("won", "walked"),
        "VBG": ("winning", "walking"),
    }
    assert not classes["VB[x]"].topical
