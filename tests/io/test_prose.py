"""Prose: what is a token, and files of it by the block against the same line by line."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io import prose
from mrflearn.io.corpus import LINE_END_ID, Vocabulary, read_documents
from mrflearn.io.files import split_tokens
from mrflearn.io.prose import Prose, normalised, tokens

TABLE = [
    ("", ""),
    (" \t\r\n\f\v\u00a0\u3000\u2028\x00", ""),
    ("The cat sat.", "the cat sat ."),
    ("Stop! (Now), she said; why?", "stop ! ( now ) , she said ; why ?"),
    # Contractions, hyphens, numbers and abbreviations are whole.
    ("don't DON\u2019T it\u00b4s o'clock rock'n'roll", "don't don't it's o'clock rock'n'roll"),
    ("the dogs' 'tis '90s", "the dogs ' ' tis ' 90s"),
    ("well-known co\u2010op -- wait - no-", "well-known co-op -- wait - no -"),
    ("3.5 1,000.25 12:30, 5. a.5 x,y -5", "3.5 1,000.25 12:30 , 5 . a . 5 x , y - 5"),
    ("$3.50, 50% #1 a_b", "$ 3.50 , 50 % # 1 a_b"),
    ("The U.S. and e.g. Mr. J. Smith... end", "the u.s. and e.g. mr . j . smith ... end"),
    ("http://a.b/c?d=1", "http : / / a . b / c ? d = 1"),
    # <unk> is one word; marks of sentences and other tags are none.
    ("a <unk> <s></s> <S>", "a <unk> < s > < / s > < s >"),
    # NFKC: ligatures, full width, powers, Roman numerals, the ellipsis.
    (
        "\ufb01nal \ufb03 \uff21\uff22\uff11\uff01 \u2163 x\u00b2 \u212b",
        "final ffi ab1 ! iv x2 \xe5",
    ),
    ("wait\u2026 caf\u00e9 cafe\u0301", "wait ... caf\xe9 caf\xe9"),
    # Capitals that compose as small letters only; the last sigma of a word; the dotted I.
    ("\u03aa\u0301 \u039f\u0394\u039f\u03a3 \u0130", "\u0390 \u03bf\u03b4\u03bf\u03c2 i\u0307"),
    # Quotation marks of typesetters, dashes, marks that are not seen.
    (
        "\u201cYes,\u201d he \u2018said\u2019\u2014\u00abno\u00bb",
        "\" yes , \" he ' said ' \u2014 \xab no \xbb",
    ),
    (
        "\ufeffco\u00adoperate \u200eleft\u2060right zero\u200bwidth",
        "cooperate leftright zero width",
    ),
    # Other scripts: words stay whole, with their marks; their punctuation is split off.
    (
        "\u5317\u4eac\u6b22\u8fce\u4f60\u3002\u300c\u597d\u300d",
        "\u5317\u4eac\u6b22\u8fce\u4f60 \u3002 \u300c \u597d \u300d",
    ),
    ("\u0928\u092e\u0938\u094d\u0924\u0947\u0964", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0964"),
    (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\u060c",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u060c",
    ),
    ("q\u0307\u0323", "q\u0323\u0307"),
    # Pictures: apart from words and each other, whole with skin, sex, flag and style.
    ("nice\U0001f600\U0001f600!", "nice \U0001f600 \U0001f600 !"),
    (
        "\U0001f44d\U0001f3fd \u2764\ufe0f\u00a9\ufe0f",
        "\U0001f44d\U0001f3fd \u2764\ufe0f \u00a9\ufe0f",
    ),
    (
        "\U0001f468\u200d\U0001f469\u200d\U0001f467ok",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 ok",
    ),
    (
        "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 1\ufe0f\u20e3",
        "\U0001f1e9\U0001f1ea \U0001f1eb\U0001f1f7 1\ufe0f\u20e3",
    ),
]

# Text with much that could go wrong side by side.
ASCII = "aAbB3.,:'-\"!<>/_ \t\r\n\x0b\x00"
MARKS = "\u0301\u0338\u0345\u200b\u200d\ufe0f\ufeff"
OTHERS = "\xa0\xad\xb4\u03a3\u2019\u3000\u5317\ufb01\U0001f600\U0001f1e9"
texts = st.text(
    st.one_of(st.sampled_from(ASCII + MARKS + OTHERS), st.characters(codec="utf-8")), max_size=40
)


@pytest.mark.parametrize(("text", "found"), TABLE)
def test_tokens_of_a_table(text: str, found: str) -> None:
    assert tokens(text) == found.split(" ") * bool(found)


@given(texts)
@example("ab.c.d. x.y..z. 3.a.b. u.s...")
def test_tokens_are_tokens_of_themselves(text: str) -> None:
    found = tokens(text)
    assert tokens(" ".join(found)) == found
    assert all(split_tokens(token) == [token] for token in found)
    assert normalised(normalised(text)) == normalised(text)


@given(texts)
def test_nothing_but_space_is_lost(text: str) -> None:
    kept = [c for c in normalised(text) if not prose.re.fullmatch(f"[{prose.SPACE}]", c)]
    assert list("".join(tokens(text))) == kept


@given(st.text(st.characters(codec="ascii")))
def test_the_short_way_for_ascii_changes_nothing(text: str) -> None:
    assert normalised(text + "\u5317") == normalised(text) + "\u5317"


def by_lines(text: str) -> list[list[str]]:
    return [found for line in text.split("\n") if (found := tokens(line))]


def decoded(ids: list[int], vocabulary: Vocabulary) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    for own in ids:
        if own == LINE_END_ID:
            lines.append([])
        else:
            lines[-1].append(vocabulary.words[own])
    assert not lines[-1]
    return [line for line in lines if line]


@given(texts, st.integers(200, 400), st.integers(1, 4))
@example("\ufeffThe end.\r\n\r\n \u201cNo\u201d\n\n\n", 200, 1)
def test_blocks_hold_what_lines_hold(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, kept: int
) -> None:
    path = tmp_path_factory.mktemp("prose") / "text.gz"
    text = f"{text}\n" * 9
    path.write_bytes(gzip.compress(text.encode()))
    lines = by_lines(text)
    source = Prose(path)
    counts = source.count()
    assert counts == Counter(token for line in lines for token in line)
    vocabulary = Vocabulary.from_counts(counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prose, "MOST_CHUNKS", kept)  # forgotten after nearly every block
        small = Prose(path, held=tuple(source.blocks(size)))
        assert decoded(small.encode(vocabulary).tolist(), vocabulary) == lines
        assert decoded(source.encode(vocabulary).tolist(), vocabulary) == lines


@given(st.lists(texts, max_size=6), st.integers(200, 400), st.booleans())
def test_documents_in_lots(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], size: int, records: bool
) -> None:
    folder = tmp_path_factory.mktemp("prose")
    path = folder / ("text.jsonl" if records else "text.txt")
    if records:
        path.write_text("".join(json.dumps({"text": own}) + "\n" for own in documents))
        parts = [by_lines(own) for own in documents]
    else:
        whole = "\n\n".join(documents) + "\n\nthe last\n"
        path.write_bytes(whole.encode())
        runs: list[list[list[str]]] = [[]]
        for line in map(tokens, whole.split("\n")):
            runs = [*runs[:-1], [*runs[-1], line]] if line else [*runs, []]
        parts = [own for own in runs if own]
    vocabulary = Vocabulary.from_counts(Prose(path).count())
    found = []
    for source in (path, folder):
        lots = list(Prose(source).documents(vocabulary, size))
        sizes = [own for lot in lots for own in lot.sizes.tolist()]
        assert sizes == [sum(len(line) + 1 for line in own) for own in parts]
        found.append([line for lot in lots for line in decoded(lot.ids.tolist(), vocabulary)])
    assert found[0] == found[1] == [line for own in parts for line in own]


@given(st.lists(texts, max_size=6), st.integers(200, 400), st.booleans())
@example(["\na b\nc\n \n\n\nd\n\n"], 200, False)
def test_documents_of_words_between_spaces_are_those_of_the_other_reader(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], size: int, records: bool
) -> None:
    path = tmp_path_factory.mktemp("prose") / ("text.jsonl" if records else "text.txt")
    if records:
        path.write_text("".join(json.dumps({"text": own}) + "\n\n" for own in documents))
    else:
        path.write_bytes("\n\n".join(documents).encode())
    expected = list(read_documents(path))
    source = Prose(path, split_tokens)
    assert source.count() == Counter(word for own in expected for line in own for word in line)
    vocabulary = Vocabulary.from_counts(source.count())
    lots = list(source.documents(vocabulary, size))
    lines = [line for lot in lots for line in decoded(lot.ids.tolist(), vocabulary)]
    assert lines == [line for own in expected for line in own]
    found = [size for lot in lots for size in lot.sizes.tolist()]
    assert found == [sum(len(line) + 1 for line in own) for own in expected]


def test_what_is_no_text_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"good line\n" * 5 + b"b\xffd line\n")
    (tmp_path / "bad.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    (tmp_path / "cut.jsonl").write_bytes(b'{"text": "a"}\n\n{"text": "b"\n')
    for name, line in (("text", 6), ("bad.jsonl", 2), ("cut.jsonl", 3)):
        with pytest.raises(DataError) as caught:
            Prose(tmp_path / name).count()
        assert str(caught.value).startswith(f"{tmp_path / name}:{line}: ")


def test_half_a_character_in_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "half.jsonl"
    path.write_text('{"text": "a \\ud83d b\\u0000c"}\n')
    assert Prose(path).count() == Counter(["a", "?", "b", "c"])
