from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.formats import ColumnSentence, read_columns, write_columns
from mrflearn.io.spans import tags_to_spans

NAMES = ("word", "pos")


def read(tmp_path, text, columns=NAMES, **options):
    path = tmp_path / "columns.txt"
    path.write_text(text, encoding="utf-8")
    return list(read_columns(path, columns, **options))


def test_columns_have_names(tmp_path):
    (sentence,) = read(tmp_path, "The DT\ndog NN\n")
    assert sentence["word"] == ("The", "dog")
    assert sentence["pos"] == ("DT", "NN")
    assert sentence.rows == (("The", "DT"), ("dog", "NN"))
    assert len(sentence) == 2
    with pytest.raises(DataError, match="no column 'chunk'; there are word, pos"):
        sentence["chunk"]


def test_document_marks_are_counted_wherever_they_stand(tmp_path):
    text = "a A\n-DOCSTART- -X-\nb B\n\n\n-DOCSTART-\n\n-DOCSTART- x y z\n\nc C\nd D"
    sentences = read(tmp_path, text)
    assert [s["word"] for s in sentences] == [("a",), ("b",), ("c", "d")]
    assert [s.document for s in sentences] == [0, 1, 3]


def test_documents_are_written_as_marks(tmp_path):
    sentences = [
        ColumnSentence(("word", "pos", "ner"), (("a",), ("A",), ("O",)), document)
        for document in (1, 1, 3)
    ]
    write_columns(tmp_path / "out", sentences)
    assert (tmp_path / "out").read_text() == (
        "-DOCSTART- -X- O\n\na A O\n\na A O\n\n" + "-DOCSTART- -X- O\n\n" * 2 + "a A O\n\n"
    )
    assert list(read_columns(tmp_path / "out", ("word", "pos", "ner"))) == sentences


@pytest.mark.parametrize("row", ["dog", "dog NN O", "dog\tNN\tO"])
def test_ragged_rows_are_named(tmp_path, row):
    with pytest.raises(DataError, match=r"columns\.txt:4: \d cells where the columns word, pos"):
        read(tmp_path, f"The DT\n\nA DT\n{row}\n")


def test_a_tab_separator_leaves_spaces_inside_cells(tmp_path):
    (sentence,) = read(tmp_path, "New York\tNNP\n", separator="\t")
    assert sentence["word"] == ("New York",)
    write_columns(tmp_path / "out", [sentence], separator="\t")
    with pytest.raises(DataError, match="Try separator"):
        write_columns(tmp_path / "spaces", [sentence])
    assert not (tmp_path / "spaces").exists()


@pytest.mark.parametrize("columns", [(), "word", ("word", "word")])
def test_names_are_checked(tmp_path, columns):
    with pytest.raises(DataError, match="one name for each column"):
        read(tmp_path, "a b\n", columns)


@pytest.mark.parametrize("columns", [(("a",),), (("a",), ("b", "c")), ((), ())])
def test_columns_of_a_sentence_fit_together(columns):
    with pytest.raises(DataError, match="all of one length"):
        ColumnSentence(NAMES, columns)


def test_documents_only_count_upwards(tmp_path):
    sentences = [ColumnSentence(("word",), (("a",),), document) for document in (2, 1)]
    with pytest.raises(DataError, match="of document 1 comes after one of document 2"):
        write_columns(tmp_path / "out", sentences)


def test_an_empty_separator_is_refused(tmp_path):
    with pytest.raises(DataError, match="empty separator"):
        read(tmp_path, "a b\n", separator="")


@st.composite
def tables(draw, cells):
    """Sentences of rows of these cells, in documents that follow one another."""
    rows = st.lists(st.tuples(cells, cells), min_size=1, max_size=3)
    document, sentences = 0, []
    for _ in range(draw(st.integers(0, 4))):
        document += draw(st.integers(0, 2))
        columns = tuple(zip(*draw(rows), strict=True))
        sentences.append(ColumnSentence(NAMES, columns, document))
    return sentences


separators = st.sampled_from([(" ", None), ("\t", "\t")])


@given(tables(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1)), separators)
def test_plain_cells_are_written_and_read_back(tmp_path_factory, sentences, separator):
    path = tmp_path_factory.getbasetemp() / "plain-columns"
    write_columns(path, sentences, separator[0])
    assert list(read_columns(path, NAMES, separator[1])) == sentences


@given(tables(st.text("a \t\n\r\f\u00a0-", max_size=3) | st.just("-DOCSTART-")), separators)
def test_odd_cells_are_read_back_or_refused(tmp_path_factory, sentences, separator):
    path = tmp_path_factory.getbasetemp() / "odd-columns"
    try:
        write_columns(path, sentences, separator[0])
    except DataError:
        return
    assert list(read_columns(path, NAMES, separator[1])) == sentences


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "tags", "chunks"),
    [("train.txt", 8_936, 211_727, 22, 106_978), ("test.txt", 2_012, 47_377, 19, 23_852)],
)
def test_conll2000(data_folder, tmp_path, name, sentences, tokens, tags, chunks):
    path = data_folder / "conll2000" / name
    found = list(read_columns(path))
    assert len(found) == sentences
    assert sum(map(len, found)) == tokens
    assert len({tag for s in found for tag in s["chunk"]}) == tags
    assert sum(len(tags_to_spans(s["chunk"], "IOB2")) for s in found) == chunks
    write_columns(tmp_path / "out", found)
    assert (tmp_path / "out").read_bytes() == path.read_bytes()


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "with_marks", "marks", "tokens", "entities"),
    [
        (
            "train.txt.gz",
            *(14_987, 946, 203_621, {"LOC": 7_140, "PER": 6_600, "ORG": 6_321, "MISC": 3_438}),
        ),
        ("testa.txt", 3_466, 216, 51_362, 5_942),
    ],
)
def test_conll2003(data_folder, tmp_path, name, with_marks, marks, tokens, entities):
    path = data_folder / "conll2003" / name
    found = list(read_columns(path, ("word", "pos", "chunk", "ner")))
    assert found[-1].document == marks
    assert len(found) + marks == with_marks
    assert sum(map(len, found)) == tokens
    labels = [span.label for s in found for span in tags_to_spans(s["ner"], "IOB1")]
    if isinstance(entities, dict):
        assert {label: labels.count(label) for label in set(labels)} == entities
    else:
        assert len(labels) == entities
    write_columns(tmp_path / "out", found)
    original = path.read_bytes()
    original = gzip.decompress(original) if name.endswith(".gz") else original
    assert (tmp_path / "out").read_bytes() == original


@pytest.mark.data
def test_tagged_sample_of_the_treebank(data_folder, tmp_path):
    path = data_folder / "treebank-sample" / "tagged.txt"
    for separator in (None, "\t"):
        found = list(read_columns(path, NAMES, separator=separator))
        assert len(found) == 3_914
        assert sum(map(len, found)) == 94_084
        assert len({word for s in found for word in s["word"]}) == 11_968
        assert len({tag for s in found for tag in s["pos"]}) == 45
    write_columns(tmp_path / "out", found, separator="\t")
    assert (tmp_path / "out").read_bytes() == path.read_bytes()
