"""Sentences of technical English: marks off, split, tokenised, the unreadable left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.datasets.docstrings import is_sentence, plain, sentences, tokenise

READ = {
    "Returns the sum of it. The mean is not computed.": [
        "Returns the sum of it .",
        "The mean is not computed .",
    ],
    "See :class:`~torch.nn.Linear` and :func:`foo <a.b>` for the details.": [
        "See Linear and foo for the details ."
    ],
    "If ``True``, the *whole* array is **copied**.": ["If True , the whole array is copied ."],
    "It calls ``close()`` on `self.file` when it ends.": [
        "It calls close on self.file when it ends ."
    ],
    "It is used e.g. by others (i.e. in Fig. C there).": [
        "It is used e.g. by others ( i.e. in Fig. C there ) ."
    ],
    "This is due to J. Smith et al. The proof is omitted.": [
        "This is due to J. Smith et al .",
        "The proof is omitted .",
    ],
    "Works for lists, tuples, etc. The rest is not read.": [
        "Works for lists , tuples , etc .",
        "The rest is not read .",
    ],
    'It is called "junk" here. Don\'t use it now!': [
        'It is called " junk " here .',
        "Don't use it now !",
    ],
    "A 64-bit float in 0.5 of the cases.": ["A 64-bit float in 0.5 of the cases ."],
    "This is well known [1]_. It was shown in [2]_.": ["This is well known ."],
    "The option -h is not allowed here.": ["The option -h is not allowed here ."],
    "See the `guide <https://a.b/c>`__ for more.": ["See the guide for more ."],
}
DROPPED = [
    "See https://example.org/page for more of this.",  # an address
    "The value of :math:`\\frac{a}{b}` is not known.",  # a formula
    "Set ``x = 3`` for the default to be used.",  # an expression
    "x = foo(bar) + 1",
    "Default is False",  # no stop
    "returns the length of it.",  # no capital: the end of something
    "Also.",  # too short
    "Compute A_B_C x_y_z foo_bar baz_qux in_this.",  # hardly a word
    "It is open (and never closed.",
    "Frobnicate Bamboozle Quuxify Widget Gadget.",  # no word of English grammar
]


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_what_is_read(text: str, expected: list[str]) -> None:
    assert [" ".join(tokens) for tokens in sentences(text)] == expected


@pytest.mark.parametrize("text", DROPPED)
def test_what_is_left_out(text: str) -> None:
    assert list(sentences(text)) == []


def test_tokens_cover_the_text_or_there_are_none() -> None:
    assert tokenise("It's 3.5, isn't it?") == ["It's", "3.5", ",", "isn't", "it", "?"]
    assert tokenise("a + b") is None


@given(st.text(st.sampled_from("aThe is.,:()`*'\"[]_-1<>=/ "), max_size=200))
def test_whatever_comes_out_reads_like_a_sentence(text: str) -> None:
    for tokens in sentences(text):
        assert is_sentence(tokens)
        assert not set(" ".join(tokens)) & set("`*<>=[]\x00")


@given(st.text(max_size=200))
def test_taking_marks_off_ends(text: str) -> None:
    assert "  " not in plain(text)
