"""Where words and tags stand in files of every format."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mrflearn.errors import DataError, StorageError
from mrflearn.io.tag_files import TagSource
from mrflearn.models.storage import record

CONLLU = (
    "# text = du pain\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\t_\tADP\tP\t_\t_\t_\t_\t_\n"
    "2\tle\t_\t_\tD\t_\t_\t_\t_\t_\n3\tpain\t_\tNOUN\tN\t_\t_\t_\t_\t_\n\n"
)
FILES = {
    "a.conllu": CONLLU,
    "a.tagged": "the/D dog/N\nruns/V\n",
    "a.mrg": "( (S (D the) (N dog) (-NONE- *)) )\n",
    "a.txt": "the x D\ndog y N\n\nruns z V\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_format_gives_words_and_tags(folder: Path) -> None:
    words, tags = TagSource.of(folder / "a.conllu").tagged(folder / "a.conllu")
    assert (words, tags) == ([("de", "le", "pain")], [("ADP", None, "NOUN")])
    fine = TagSource.of(folder / "a.conllu", column="xpos")
    assert fine.tagged(folder / "a.conllu")[1] == [("P", "D", "N")]
    for name in ("a.tagged", "a.mrg", "a.txt"):
        words, tags = TagSource.of(folder / name).tagged(folder / name)
        assert (words[0], tags[0]) == (("the", "dog"), ("D", "N"))
    named = TagSource.of(folder / "a.txt", columns=["word", "kind", "pos"], column="kind")
    assert named.tagged(folder / "a.txt")[1] == [("x", "y"), ("z",)]
    assert record(TagSource, json.loads(json.dumps(asdict(named)))) == named


def test_other_files_are_read_as_what_they_are(folder: Path) -> None:
    source = TagSource.of(folder / "a.conllu")
    (folder / "b.txt").write_text("the dog\nruns\n")
    assert [e.words for e in source.read(folder / "b.txt")] == [("the", "dog"), ("runs",)]
    assert next(source.read(folder / "a.tagged")).tags == ("D", "N")
    (folder / "b.conll").write_text("the D\ndog N\n")
    assert next(source.read(folder / "b.conll")).tags == ("D", "N")
    columns = TagSource.of(folder / "a.txt")
    (folder / "b.txt").write_text("the\ndog\n")
    (first,) = columns.read(folder / "b.txt")
    assert (first.words, first.tags, first.rows) == (("the", "dog"), None, (("the",), ("dog",)))
    (folder / "b.txt").write_text("-DOCSTART- x\n\nthe x\ndog y\n")
    (first,) = columns.read(folder / "b.txt")
    assert (first.words, first.tags, first.document) == (("the", "dog"), None, 1)
    assert next(columns.read(folder / "a.conllu")).tags == ("ADP", None, "NOUN")
    assert [e.words for e in columns.read(folder / "b.txt", format="text")][1] == ("the", "x")


def test_mistakes_name_the_file(folder: Path) -> None:
    (folder / "empty.txt").write_text("\n")
    (folder / "words.txt").write_text("the\n")
    (folder / "bare.conllu").write_text(CONLLU.replace("ADP", "_").replace("NOUN", "_"))
    with pytest.raises(DataError, match=r"words.txt: a file to learn from needs a word and a tag"):
        TagSource.of(folder / "words.txt")
    with pytest.raises(DataError, match="no tags in 'feats'; columns are word, upos, xpos"):
        TagSource.of(folder / "a.conllu", column="feats")
    with pytest.raises(DataError, match="have columns of their own"):
        TagSource.of(folder / "a.conllu", columns=["word", "tag"])
    with pytest.raises(DataError, match="'text' has no tags"):
        TagSource.of(folder / "a.txt", format="text")
    with pytest.raises(DataError, match="read once only"):
        TagSource.of("-")
    with pytest.raises(DataError, match=r"bare.conllu: there are no tags in it \(column 'upos'\)"):
        TagSource.of(folder / "bare.conllu").tagged(folder / "bare.conllu")
    with pytest.raises(DataError, match=r"empty\.txt: there are no sentences"):
        TagSource.of(folder / "a.txt").tagged(folder / "empty.txt")
    with pytest.raises(DataError, match="'uai' has no labels for words"):
        TagSource.of(folder / "a.txt").read(folder / "a.txt", format="uai")
    with pytest.raises(StorageError, match="columns"):
        record(TagSource, {"format": "text", "columns": [1], "column": "tag"})
