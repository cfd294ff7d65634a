"""Names and parts of speech for neural CRFs: sentences, features, and text to learn vectors from.

Nothing but the data sets of the other experiments is read.  Vectors of words are learned from the
training sentences and from the text of the corpora that have no part in the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mrflearn import WordVectors
from mrflearn.features.recipes import word_shape
from mrflearn.features.word_numbers import word_form
from mrflearn.io.conllu import read_conllu
from mrflearn.io.corpus import read_sentences
from mrflearn.io.formats import read_columns, read_tagged
from mrflearn.io.spans import convert_tags

Row = tuple[str, ...]
DOCUMENT = "-DOCSTART-"
COLUMNS = ("word", "pos", "chunk", "name")
NAMES = {"train": "train.txt.gz", "test": "testa.txt"}


@dataclass(frozen=True)
class Part:
    """Sentences of rows (the word first, then what is known of its document) and their labels."""

    X: list[list[Row]]
    y: list[list[str]]

    def taken(self, places: list[int]) -> Part:
        return Part([self.X[i] for i in places], [self.y[i] for i in places])


def names(data: Path, part: str) -> Part:
    """The sentences of CoNLL-2003, with tags in BIOES; document marks are read and left out."""
    found = Part([], [])
    document: list[tuple[Row, Row]] = []

    def end() -> None:
        found.X.extend(in_document([words for words, _ in document]))
        found.y.extend(list(convert_tags(tags, to="BIOES")) for _, tags in document)
        document.clear()

    for sentence in read_columns(data / "conll2003" / NAMES[part], COLUMNS):
        if sentence["word"][0] == DOCUMENT:
            end()
        else:
            document.append((sentence["word"], sentence["name"]))
    end()
    return found


def in_document(sentences: list[Row]) -> list[list[Row]]:
    """Each word with how the document has it elsewhere.

    Cells: whether it is written with a capital inside other sentences (`cap`), small (`low`), both
    or neither; the words around its first mention between others, where that is another one.
    """
    inside: dict[str, set[str]] = {}
    first: dict[str, tuple[int, int]] = {}
    for i, words in enumerate(sentences):
        shouted = " ".join(words).isupper()
        for t, word in enumerate(words):
            if t and not shouted and word[:1].isalpha():
                inside.setdefault(word.lower(), set()).add("cap" if word[0].isupper() else "low")
            if word[:1].isupper() and not shouted:
                first.setdefault(word.lower(), (i, t))
    found = []
    for i, words in enumerate(sentences):
        rows = []
        for t, word in enumerate(words):
            seen = "+".join(sorted(inside.get(word.lower(), ()))) or "no"
            before = after = "-"
            place = first.get(word.lower())
            if place is not None and place != (i, t) and word[:1].isupper():
                there = ("<s>", *sentences[place[0]], "</s>")
                before, after = there[place[1]], there[place[1] + 2]
            rows.append((word, seen, before, after))
        found.append(rows)
    return found


def parts_of_speech(data: Path, part: str) -> Part:
    """The sentences of EWT with their universal parts of speech."""
    file = f"en_ewt-ud-{part}.conllu" + (".gz" if part == "train" else "")
    sentences = list(read_conllu(data / "ud-ewt" / file))
    rows = [[(form.replace(" ", "_"),) for form in own.forms] for own in sentences]
    return Part(rows, [list(own.upos) for own in sentences])


def features(rows: list[Row]) -> list[list[str]]:
    """Words, shapes and affixes at the offsets -2 to 2; what the document has at -1 to 1."""
    atoms = [_atoms(row[0]) for row in rows]
    further = [_further(row) for row in rows]
    items: list[list[str]] = []
    for t in range(len(rows)):
        own = ["bias"]
        for offset in (-2, -1, 0, 1, 2):
            if 0 <= t + offset < len(rows):
                own += [f"{offset}@{atom}" for atom in atoms[t + offset]]
                if abs(offset) < 2:
                    own += [f"{offset}@{atom}" for atom in further[t + offset]]
            else:
                own.append(f"{offset}@end")
        items.append(own)
    for t in range(1, len(rows)):
        pair = f"{rows[t - 1][0]}|{rows[t][0]}"
        items[t].append(f"-1,0@{pair}")
        items[t - 1].append(f"0,1@{pair}")
    return items


def _atoms(word: str) -> list[str]:
    found = [f"w={word}", f"l={word_form(word)}", f"s={word_shape(word)}"]
    for size in range(1, min(5, len(word))):
        found += (f"p{size}={word[:size]}", f"f{size}={word[-size:]}")
    return found


def _further(row: Row) -> list[str]:
    if len(row) == 1:
        return []
    _, seen, before, after = row
    shapes = (f"docs-={word_shape(before)}", f"docs+={word_shape(after)}")
    return [f"doc={seen}", f"doc-={before}", f"doc+={after}", *shapes]


def vectors(data: Path, dims: int = 100, context: int = 4, least: int = 3) -> WordVectors:
    """Vectors of the words of all training text and of the text of other corpora."""
    return WordVectors(dims, context, min_count=least, random_state=0).fit(list(text(data)))


def text(data: Path) -> Iterator[list[str]]:
    """Sentences in the form in which words are looked up."""
    sources: list[Iterator[tuple[str, ...]]] = [
        (own["word"] for own in read_columns(data / "conll2003" / NAMES["train"], COLUMNS)),
        (own.forms for own in read_conllu(data / "ud-ewt" / "en_ewt-ud-train.conllu.gz")),
        (own["word"] for own in read_columns(data / "conll2000" / "train.txt")),
        (own.words for own in read_tagged(data / "brown" / "brown-tagged.txt.gz")),
        (own for own in map(tuple, read_sentences(data / "wikitext-2" / "wiki.train.tokens.gz"))),
        (own for own in map(tuple, read_sentences(data / "ptb-lm" / "train.txt.gz"))),
    ]
    for source in sources:
        for words in source:
            yield [word_form(word) for word in words if word != "<unk>"]
