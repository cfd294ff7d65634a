"""Models survive the way through ARPA files; files that cannot be models are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.estimators.ngram import NgramLanguageModel
from mrflearn.features.ngrams import sentence_stream
from mrflearn.io.arpa import Arpa, read_arpa, write_arpa
from mrflearn.io.corpus import encode_corpus
from mrflearn.models.ngram import from_arpa, to_arpa

# Made by hand; back-offs may be missing.
SMALL = r"""\data\
ngram 1=5
ngram 2=3

\1-grams:
-1.0 <unk>
-99 <s> -0.30103
-0.69897 </s>
-0.5228787 a -0.60206
-0.39794 b

\2-grams:
-0.2218487 <s> a
-0.154902 a b
-0.30103 b </s>

\end\
"""


def read_text(folder: Path, text: str) -> Arpa:
    (folder / "m.arpa").write_text(text)
    return read_arpa(folder / "m.arpa")


def test_a_file_by_hand(tmp_path: Path) -> None:
    model = from_arpa(read_text(tmp_path, SMALL))
    stream = sentence_stream(encode_corpus([["a", "b"], ["b", "new"]], model.vocabulary), 0)
    expected = [0.6, 0.7, 0.5, 0.5 * 0.4, 0.1, 0.2]
    np.testing.assert_allclose(np.exp(model.log_probabilities(stream)), expected, rtol=1e-6)


def test_a_trained_model_there_and_back(tmp_path: Path) -> None:
    words = random.Random(0).choices("abcdefgh", weights=range(1, 9), k=4000)
    text = [words[i : i + 9] for i in range(0, len(words), 9)]
    model = NgramLanguageModel(4).fit(text[:300])
    model.export(tmp_path / "m.arpa.gz")
    back = NgramLanguageModel.from_arpa(tmp_path / "m.arpa.gz")
    assert back.ngrams_ == model.ngrams_
    np.testing.assert_allclose(back.score_samples(text), model.score_samples(text), rtol=1e-6)
    back.export(tmp_path / "again.arpa")
    model.export(tmp_path / "once.arpa")
    once, again = (read_arpa(tmp_path / f"{name}.arpa") for name in ("once", "again"))
    assert once.words == again.words
    np.testing.assert_allclose(
        again.sections[3].probability, once.sections[3].probability, rtol=1e-6
    )


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lacks <s>"):
        from_arpa(read_text(tmp_path, SMALL.replace("<s>", "x")))
    with pytest.raises(DataError, match="inside it"):
        from_arpa(read_text(tmp_path, SMALL.replace("-0.154902 a b", "-0.154902 </s> b")))
    with pytest.raises(DataError, match="must rise"):
        from_arpa(read_text(tmp_path, SMALL.replace("-0.154902 a b", "-0.154902 b </s>")))
    third = SMALL.replace("ngram 2=3\n", "ngram 2=3\nngram 3=1\n")
    third = third.replace("\\end", "\\3-grams:\n-0.1 b a b\n\n\\end")
    with pytest.raises(DataError, match="among the 2-grams"):
        from_arpa(read_text(tmp_path, third))
    with pytest.raises(DataError, match=r"m\.arpa"):
        NgramLanguageModel.from_arpa(write_without_marks(tmp_path, read_text(tmp_path, SMALL)))


def write_without_marks(folder: Path, arpa: Arpa) -> Path:
    words = tuple(word.replace("</s>", "x") for word in arpa.words)
    write_arpa(folder / "m.arpa", Arpa(words, arpa.sections[:1]))
    return folder / "m.arpa"


def test_marks_cannot_be_words() -> None:
    model = NgramLanguageModel(2).fit([["a"]]).model_
    marked = replace(model.vocabulary, words=("<S>", "<unk>", "<s>"))
    with pytest.raises(DataError, match="ordinary word"):
        to_arpa(replace(model, vocabulary=marked))
