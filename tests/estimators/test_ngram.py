"""NgramLanguageModel: the same answers by every road, and after a round trip to disk."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import mrflearn
from mrflearn import NgramLanguageModel
from mrflearn.errors import DataError, MrflearnError, NotFittedError, StorageError
from support.edited import drop, edit

TEXT = [line.split() for line in ("the cat sat", "the dog sat", "a cat ran", "the cat ran off")]


def test_scores_agree_with_each_other(tmp_path: Path) -> None:
    model = NgramLanguageModel(order=3).fit(TEXT)
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(words) for words in TEXT))
    assert NgramLanguageModel(order=3).fit(path).score(path) == model.score(TEXT)
    tokens = sum(len(words) + 1 for words in TEXT)
    assert model.score(TEXT) == pytest.approx(model.score_samples(TEXT).sum() / tokens)
    assert model.perplexity(TEXT) == pytest.approx(np.exp(-model.score(TEXT)))
    found = model.text_score(TEXT)
    assert (found.kind, found.words, found.sentences, found.unknown) == ("exact", 13, 4, 0)
    assert found.log_likelihood == pytest.approx(model.score_samples(TEXT).sum())
    by_words = 0.0
    for i, word in enumerate(["the", "dog", "ran", "</s>"]):
        by_words += np.log(dict(model.next_word(["the", "dog", "ran"][:i], n=100))[word])
    assert model.score_samples([["the", "dog", "ran"]])[0] == pytest.approx(by_words)


def test_documents_are_scored_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrflearn.estimators.ngram.TOGETHER", 4)  # words: several batches
    model = NgramLanguageModel(order=3).fit(TEXT)
    documents = [TEXT[:2], [["a", "zebra"]], [], TEXT[2:]]
    lines = [["\n".join(map(" ".join, own))] for own in documents]
    (tmp_path / "text.txt").write_text("\n\n".join(own[0] for own in lines if own[0]))
    records = (json.dumps({"id": 7, "text": own[0]}) for own in lines)
    (tmp_path / "text.jsonl").write_text("\n".join(records))
    found = list(model.document_scores(documents))
    assert list(model.document_scores(tmp_path / "text.jsonl"))[:2] == found[:2]
    assert [own.words for own in model.document_scores(tmp_path / "text.txt")] == [6, 2, 7]
    assert [own.tokens for own in found] == [8, 3, 0, 9]
    assert np.isnan(found[2].perplexity)
    for own, document in zip(found, documents, strict=True):
        if document:
            assert own.log_likelihood == pytest.approx(model.text_score(document).log_likelihood)
            assert own.unknown == model.text_score(document).unknown


RAW = "The cat sat.\r\n\u201cDon\u2019t!\u201d said THE dog, 3.5 times\n\nA cat ran: the \ufb01n\n"
BY_HAND = [
    [line.split() for line in own]
    for own in (
        ("the cat sat .", '" don\'t ! " said the dog , 3.5 times'),
        ("a cat ran : the fin",),
    )
]


def test_a_model_that_tokenizes_reads_raw_text(tmp_path: Path) -> None:
    lines = [words for own in BY_HAND for words in own]
    (tmp_path / "raw.txt").write_bytes(RAW.encode())
    records = (json.dumps({"text": own}) + "\n" for own in RAW.split("\n\n"))
    (tmp_path / "raw.jsonl").write_text("".join(records))
    plain = NgramLanguageModel(order=2).fit(lines)
    for path in (tmp_path / "raw.txt", tmp_path / "raw.jsonl"):
        NgramLanguageModel(order=2, tokenize=True).fit(path).save(tmp_path / "m", overwrite=True)
        model = mrflearn.load(tmp_path / "m")
        assert model.tokenize
        assert model.vocabulary_ == plain.vocabulary_
        for text in (path, str(path), lines):
            assert model.text_score(text) == plain.text_score(lines)
        assert model.score_samples(path).tolist() == plain.score_samples(lines).tolist()
        for documents in (path, BY_HAND):
            assert list(model.document_scores(documents)) == list(plain.document_scores(BY_HAND))
        assert model.unknown_seen_ is False
    assert model.tokens("The \ufb01nal\nDon\u2019t!") == ["the", "final", "don't", "!"]
    assert plain.tokens("The end.") == ["The", "end."]


def test_words_in_lists_are_taken_as_they_are() -> None:
    model = NgramLanguageModel(order=2, tokenize=True).fit([["The", "cat."]])
    assert {"The", "cat."} < set(model.vocabulary_.words)
    assert model.text_score([["The", "cat."]]).unknown == 0


def test_raw_standard_input_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"The cat.\nA dog.")))
    model = NgramLanguageModel(order=2, tokenize=True).fit("-")
    assert set(model.vocabulary_.words[2:]) == {"the", "cat", ".", "a", "dog"}


def test_models_of_before_the_tokenizer_are_read(tmp_path: Path) -> None:
    model = NgramLanguageModel(order=2).fit(TEXT)
    model.save(tmp_path / "m")

    def before(config: str) -> str:
        stored = json.loads(config)
        del stored["settings"]["tokenize"]
        return json.dumps(stored)

    edit(tmp_path / "m", before)
    back = NgramLanguageModel.load(tmp_path / "m")
    assert back.tokenize is False
    assert back.score(TEXT) == model.score(TEXT)


def test_scores_do_not_depend_on_what_is_scored_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model = NgramLanguageModel(order=3).fit(TEXT)
    whole = model.token_scores(TEXT * 3)
    for size in (1, 5, 13):
        monkeypatch.setattr("mrflearn.estimators.ngram.TOGETHER", size)
        parts = model.token_scores(TEXT * 3)
        assert parts.log_probability.tolist() == whole.log_probability.tolist()


def test_next_word_is_a_distribution_best_first() -> None:
    model = NgramLanguageModel(order=2).fit(TEXT)
    found = model.next_word(["the"], n=100)
    probabilities = [p for _, p in found]
    assert found[0][0] == "cat"
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1)
    assert {word for word, _ in found} >= {"</s>", "<unk>"}


def test_rare_words_become_unknown_and_are_said_to() -> None:
    model = NgramLanguageModel(order=2, min_count=2).fit(TEXT)
    assert set(model.vocabulary_.words) == {"<S>", "<unk>", "the", "cat", "sat", "ran"}
    assert "an ordinary word of the training text" in model.unknown_policy_
    assert model.token_scores([["the", "zebra"]]).unknown.tolist() == [False, True, False]
    assert len(NgramLanguageModel(vocabulary_size=3).fit(TEXT).vocabulary_) == 3
    assert "did not hold" in NgramLanguageModel().fit(TEXT).unknown_policy_


def test_save_load_clone_sample(tmp_path: Path) -> None:
    model = NgramLanguageModel(order=3, random_state=4).fit(TEXT)
    model.save(tmp_path / "m")
    for back in (NgramLanguageModel.load(tmp_path / "m"), mrflearn.load(tmp_path / "m")):
        assert back.score(TEXT) == model.score(TEXT)
        assert back.sample(5) == model.sample(5) == model.sample(5, random_state=4)
        assert back.unknown_policy_ == model.unknown_policy_
        assert back.discounts_ == model.discounts_
        assert back.fallback_orders_ == model.fallback_orders_ == [3]
    assert clone(model).get_params() == model.get_params()
    assert max(len(words) for words in model.sample(50, longest=2)) == 2


def test_a_model_of_two_settings_is_refused(tmp_path: Path) -> None:
    NgramLanguageModel(order=2).fit(TEXT).save(tmp_path / "m")
    drop(tmp_path / "m", "words")
    with pytest.raises(StorageError, match="contradicts itself"):
        NgramLanguageModel.load(tmp_path / "m")


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        NgramLanguageModel().score(TEXT)
    with pytest.raises(MrflearnError, match="order must be >= 1; got 0"):
        NgramLanguageModel(order=0).fit(TEXT)
    with pytest.raises(DataError, match="no words"):
        NgramLanguageModel().fit([])
    with pytest.raises(DataError, match="</s> 1 times"):
        NgramLanguageModel().fit([["a", "</s>"]])
    with pytest.raises(DataError, match="the text itself"):
        NgramLanguageModel(tokenize=True).fit("The cat.\nThe dog.")
    with pytest.raises(DataError, match="cannot be read"):
        NgramLanguageModel(tokenize=True).fit(tmp_path / "absent")
    model = NgramLanguageModel().fit(TEXT)
    with pytest.raises(DataError, match="nothing to score"):
        model.score([[]])
    with pytest.raises(MrflearnError, match=r"\.arpa"):
        model.export(tmp_path / "m.txt")


def test_one_long_line_and_unknown_words_only() -> None:
    model = NgramLanguageModel(order=3).fit([["a", "b"] * 300_000])
    assert model.next_word(["b", "a"], n=1)[0][0] == "b"
    assert np.isfinite(model.perplexity([["x", "y"]] * 3))
