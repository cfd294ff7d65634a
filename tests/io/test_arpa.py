"""ARPA files: what they may leave out, and complaints that name the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.io.arpa import Arpa, ArpaSection, read_arpa, write_arpa

GOOD = r"""
\data\
ngram 1=3
ngram 2=1

\1-grams:
-0.5 </s>
-99 <s> -0.25
-1.5 a

\2-grams:
-0.75 <s> a

\end\
"""


def read(folder: Path, text: str) -> Arpa:
    (folder / "m.arpa").write_text(text)
    return read_arpa(folder / "m.arpa")


def test_what_stands_there_is_read(tmp_path: Path) -> None:
    arpa = read(tmp_path, GOOD)
    assert arpa.words == ("</s>", "<s>", "a")
    assert arpa.sections[0].probability.tolist() == [-0.5, -99.0, -1.5]
    assert arpa.sections[0].backoff.tolist() == [0.0, -0.25, 0.0]
    assert arpa.sections[1].grams.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ("ngram 1=3", "ngram 2=3", 3, "'ngram 1=COUNT'"),
        ("ngram 1=3", "ngram 1=4", 10, "4 1-grams are announced"),
        ("-1.5 a", "-1.5 a b 0 0", 9, "not 5 fields"),
        ("-1.5 a", "-1.5 <s>", 9, "comes twice"),
        ("-1.5 a", "1.5 a", 9, "above 0"),
        ("-1.5 a", "-x a", 9, "not a finite number"),
        ("-1.5 a", "-1_5 a", 9, "not a finite number"),
        ("-99 <s> -0.25", "-99 <s> inf", 8, "finite"),
        ("-0.75 <s> a", "-0.75 <s> b", 12, "'b' is not among"),
        ("\\2-grams:", "\\3-grams:", 11, "\\2-grams: should come here"),
        ("\\end\\", "", 14, "the file ends"),
    ],
)
def test_complaints_name_the_line(
    tmp_path: Path, before: str, after: str, line: int, says: str
) -> None:
    assert before in GOOD
    with pytest.raises(DataError) as caught:
        read(tmp_path, GOOD.replace(before, after))
    assert says in str(caught.value)
    assert caught.value.line == line


def test_not_arpa_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Is this an ARPA file"):
        read(tmp_path, "the cat sat\n")
    with pytest.raises(DataError, match="no order"):
        read(tmp_path, "\\data\\\n\n")


def test_words_with_spaces_cannot_be_written(tmp_path: Path) -> None:
    figures = np.zeros(1, np.float32)
    section = ArpaSection(np.zeros((1, 1), np.int64), figures, figures)
    with pytest.raises(DataError, match="white space"):
        write_arpa(tmp_path / "m.arpa", Arpa(("New York",), (section,)))
