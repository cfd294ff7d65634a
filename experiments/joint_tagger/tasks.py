"""The tagged texts and how they are split; nothing is ever chosen on a test part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mrflearn.datasets.english import sample_documents
from mrflearn.io.conllu import read_conllu
from mrflearn.io.formats import read_columns


@dataclass(frozen=True)
class Sentence:
    """Words and their tags."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Parts:
    """What is learned from, chosen on, and looked at in the end."""

    train: list[Sentence]
    valid: list[Sentence]
    test: list[Sentence]


def _cut(sentences: Sequence[Sentence]) -> Parts:
    """The last fifth to test, the tenth before it to choose on."""
    first, last = len(sentences) * 7 // 10, len(sentences) * 8 // 10
    return Parts(list(sentences[:first]), list(sentences[first:last]), list(sentences[last:]))


def _treebank_sample(data: Path) -> list[Sentence]:
    path = data / "treebank-sample" / "tagged.txt"
    return [Sentence(s["word"], s["tag"]) for s in read_columns(path, ("word", "tag"), "\t")]


def _first_3000(data: Path) -> Parts:
    """The split that hunpos and NLTK were measured on; it leaves nothing to choose on."""
    found = _treebank_sample(data)
    return Parts(found[:3000], [], found[3000:])


def _ewt(data: Path, column: str) -> Parts:
    files = (f"en_ewt-ud-{part}.conllu" for part in ("train", "dev", "test"))
    parts = [
        [
            Sentence(s.forms, getattr(s, column))
            for s in read_conllu(_stored(data / "ud-ewt" / file))
        ]
        for file in files
    ]
    return Parts(*parts)


def _stored(path: Path) -> Path:
    return path if path.exists() else path.with_name(path.name + ".gz")


def _english(data: Path) -> Parts:
    del data  # made up, so that the experiment runs anywhere
    documents = sample_documents(40, seed=1)
    return _cut([Sentence(s.words, s.tags) for d in documents for s in d.sentences])


TASKS: dict[str, Callable[[Path], Parts]] = {
    "treebank": lambda data: _cut(_treebank_sample(data)),
    "treebank-3000": _first_3000,
    "ewt-upos": lambda data: _ewt(data, "upos"),
    "ewt-xpos": lambda data: _ewt(data, "xpos"),
    "english": _english,
}
