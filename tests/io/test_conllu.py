from __future__ import annotations

import gzip

import pytest

from mrflearn.errors import DataError
from mrflearn.io.conllu import ConlluRow, ConlluSentence, read_conllu, write_conllu


def row(number, form="w"):
    return ConlluRow(number, form, *"_" * 8)


def sentence(*numbers, comments=()):
    return ConlluSentence(tuple(comments), tuple(row(number) for number in numbers))


def read(tmp_path, text):
    path = tmp_path / "file.conllu"
    path.write_text(text, encoding="utf-8")
    return list(read_conllu(path))


def test_words_ranges_and_empty_nodes_are_told_apart():
    rows = (
        *(ConlluRow("1-2", "don't", *"_" * 8), ConlluRow("1", "do", "do", "AUX", "VBP", *"_" * 5)),
        *(ConlluRow("2", "n't", "not", "PART", "RB", *"_" * 5), ConlluRow("2.1", "go", *"_" * 8)),
    )
    found = ConlluSentence(("# sent_id = a", "# text = a = b", "# newpar"), rows)
    assert found.forms == ("do", "n't")
    assert found.upos == ("AUX", "PART")
    assert found.xpos == ("VBP", "RB")
    assert [r.form for r in found.multiword_tokens] == ["don't"]
    assert [r.form for r in found.empty_nodes] == ["go"]
    assert found.comment("sent_id") == "a"
    assert found.comment("text") == "a = b"
    assert found.comment("newpar") is None


@pytest.mark.parametrize(
    "numbers",
    ["1", "1 2 3", "0.1 1", "1 1.1 1.2 2", "1-2 1 2", "1 2-3 2 2.1 3", "1-2 1 2 3-4 3 4"],
)
def test_numbers_in_order_are_taken(tmp_path, numbers):
    given = sentence(*numbers.split(), comments=["# c"])
    path = tmp_path / "file.conllu"
    write_conllu(path, [given, given])
    assert list(read_conllu(path)) == [given, given]


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        *[("2", 1), ("0", 1), ("1 1", 2), ("1 3", 2), ("1 x", 2), ("1 2.1", 2), ("1 1.2", 2)],
        *[("1-2 2", 2), ("1-2 1.1", 2), ("1-1 1", 1), ("1-2 1-3 1", 2), ("1 ٢", 2), ("1 -1", 2)],
        *[("1 " + "9" * 5000, 2), ("1 2-" + "9" * 5000, 2)],
        *[("1-2 1", 3), ("1-3 1 2-3 2 3", 6), ("1-2", 2)],  # known only at the sentence's end
    ],
)
def test_numbers_out_of_order_are_named_and_not_written(tmp_path, numbers, line):
    given = sentence(*numbers.split())
    text = "".join("\t".join(cells) + "\n" for cells in given.rows) + "\n"
    with pytest.raises(DataError, match=rf"file\.conllu:{line}: "):
        read(tmp_path, text)
    with pytest.raises(DataError):
        write_conllu(tmp_path / "out", [given])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "bad", ["1\tw" + "\t_" * 7, "1\tw" + "\t_" * 9, "1\t" + "\t_" * 8, "1 w" + " _" * 8]
)
def test_rows_have_ten_filled_columns(tmp_path, bad):
    with pytest.raises(DataError, match=r"file\.conllu:2: \d+ filled columns"):
        read(tmp_path, f"# comment\n{bad}\n\n")


def test_comments_stand_above_a_sentence(tmp_path):
    line = "\t".join(row("1"))
    with pytest.raises(DataError, match=r"conllu:2: .*comments may only stand above"):
        read(tmp_path, f"{line}\n# late\n\n")
    with pytest.raises(DataError, match=r"conllu:2: comments with no sentence"):
        read(tmp_path, f"# alone\n\n{line}\n\n")


def test_blank_lines_are_not_counted(tmp_path):
    line = "\t".join(row("1"))
    assert read(tmp_path, f"\n\n{line}\n\n\n\n{line}") == [sentence("1")] * 2


@pytest.mark.parametrize(
    "bad",
    [
        sentence(),
        sentence("1", comments=["no hash"]),
        sentence("1", comments=["# two\nlines"]),
        ConlluSentence((), (row("1", "a\tb"),)),
        ConlluSentence((), (row("1", "a\nb"),)),
        ConlluSentence((), (row("1", ""),)),
    ],
)
def test_what_would_not_read_back_is_not_written(tmp_path, bad):
    with pytest.raises(DataError):
        write_conllu(tmp_path / "out", [sentence("1"), bad])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sentences", "words", "forms", "documents"),
    [
        ("en_ewt-ud-train.conllu.gz", 12_544, 204_577, 19_674, 540),
        ("en_ewt-ud-dev.conllu", 2_001, 25_147, 5_494, 318),
        ("en_ewt-ud-test.conllu", 2_077, 25_094, 5_629, 316),
    ],
)
def test_ewt(data_folder, tmp_path, name, sentences, words, forms, documents):
    path = data_folder / "ud-ewt" / name
    found = list(read_conllu(path))
    assert len(found) == sentences
    assert sum(len(s.forms) for s in found) == words
    assert len({form for s in found for form in s.forms}) == forms
    assert sum(s.comment("newdoc id") is not None for s in found) == documents
    if "train" in name:
        assert sum(len(s.multiword_tokens) for s in found) == 2_614
        assert sum(len(s.empty_nodes) for s in found) == 37
        assert len({tag for s in found for tag in s.upos}) == 17
        assert len({tag for s in found for tag in s.xpos}) == 49
        assert len({r.deprel for s in found for r in s.words}) == 51
    write_conllu(tmp_path / "out", found)
    original = path.read_bytes()
    original = gzip.decompress(original) if name.endswith(".gz") else original
    assert (tmp_path / "out").read_bytes() == original
