from __future__ import annotations

import gzip

import pytest

from mrflearn.errors import DataError
from mrflearn.io.formats import TaggedSentence, read_tagged, write_tagged


def read(tmp_path, text):
    path = tmp_path / "brown.txt"
    path.write_text(text, encoding="utf-8")
    return list(read_tagged(path))


def test_tokens_split_at_the_last_slash(tmp_path):
    (sentence,) = read(tmp_path, " 1/2/cd  //sym \n")
    assert sentence == TaggedSentence(("1/2", "/"), ("cd", "sym"))
    assert len(sentence) == 2


def test_sentences_know_their_document(tmp_path):
    text = "a/A\n#DOC\tca01\tnews\nb/B\n\nc/C\n#DOC\tca02\tnews\n#DOC\tcb01\tpress reviews\nd/D\n"
    places = [(s.document, s.genre) for s in read(tmp_path, text)]
    assert places == [
        (None, None), ("ca01", "news"), ("ca01", "news"), ("cb01", "press reviews"),
    ]  # fmt: skip


@pytest.mark.parametrize("token", ["word", "/tag", "word/", "/"])
def test_a_token_without_word_or_tag_is_named(tmp_path, token):
    with pytest.raises(DataError, match=rf"brown\.txt:2: '{token}' is no word/tag token"):
        read(tmp_path, f"a/A\nb/B {token} c/C\n")


@pytest.mark.parametrize("mark", ["#DOC", "#DOC\t", "#DOC\tid", "#DOC\t\tgenre", "#DOC\ta\tb\tc"])
def test_a_broken_document_mark_is_named(tmp_path, mark):
    with pytest.raises(DataError, match=r"brown\.txt:2: a document mark is"):
        read(tmp_path, f"a/A\n{mark}\n")


@pytest.mark.parametrize(
    "bad",
    [
        TaggedSentence((), ()),
        TaggedSentence(("a b",), ("A",)),
        TaggedSentence(("",), ("A",)),
        TaggedSentence(("a",), ("",)),
        TaggedSentence(("a",), ("A/B",)),
        TaggedSentence(("a",), ("A",), "id", None),
        TaggedSentence(("a",), ("A",), "i\td", "news"),
        TaggedSentence(("a",), ("A",), "id", "new\ns"),
    ],
)
def test_what_would_not_read_back_is_not_written(tmp_path, bad):
    with pytest.raises(DataError):
        write_tagged(tmp_path / "out", [TaggedSentence(("a",), ("A",)), bad])
    assert list(tmp_path.iterdir()) == []


def test_a_sentence_cannot_leave_all_documents(tmp_path):
    inside, outside = (TaggedSentence(("a",), ("A",), *place) for place in [("d", "g"), ()])
    with pytest.raises(DataError, match="document mark"):
        write_tagged(tmp_path / "out", [inside, outside])


def test_words_and_tags_go_together():
    with pytest.raises(DataError, match="2 words have 1 tags"):
        TaggedSentence(("a", "b"), ("A",))


@pytest.mark.data
def test_brown(data_folder, tmp_path):
    path = data_folder / "brown" / "brown-tagged.txt.gz"
    found = list(read_tagged(path))
    words = {word for s in found for word in s.words}
    assert len({s.document for s in found}) == 500
    assert len({s.genre for s in found}) == 15
    assert len(found) == 57_340
    assert sum(map(len, found)) == 1_161_192
    assert len(words) == 56_057
    assert len({word.lower() for word in words}) == 49_815
    assert len({tag for s in found for tag in s.tags}) == 472
    write_tagged(tmp_path / "out", found)
    assert (tmp_path / "out").read_bytes() == gzip.decompress(path.read_bytes())
