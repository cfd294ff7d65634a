"""The texts of the experiments: built-in English to try, the Penn Treebank in earnest."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mrflearn.datasets.english import sample_documents
from mrflearn.io.corpus import read_sentences

Sentences = list[list[str]]


@dataclass(frozen=True)
class Split:
    """Training and validation text, probe words, and a folder of word-likeness sets."""

    name: str
    train: Sentences
    valid: Sentences
    probes: tuple[str, ...]
    likeness: Path | None = None
    test: Sentences = field(default_factory=list)

    def parts(self) -> dict[str, Sentences]:
        """The texts that are there, by name."""
        every = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: own for name, own in every.items() if own}


def split(scale: str, data: Path | None) -> Split:
    """The text for a scale; `full` needs the folder with `ptb-lm` in it."""
    if scale == "full":
        if data is None or not (data / "ptb-lm").is_dir():
            raise SystemExit("the full scale needs --data FOLDER (or MRFLEARN_DATA) with ptb-lm")
        train, valid, test = (list(read_sentences(data / "ptb-lm" / f)) for f in _FILES)
        likeness = data / "word-similarity"
        probes = ("company", "red", "has", "dollar", "jack")
        known = likeness if likeness.is_dir() else None
        return Split("Penn Treebank", train, valid, probes, known, test)
    drawn = ((20, 0), (5, 1), (5, 2))
    train, valid, test = (_english(documents, seed) for documents, seed in drawn)
    return Split("built-in English", train, valid, ("the", "was", "he"), None, test)


def larger(scale: str, data: Path | None) -> Split:
    """WikiText-2 at the full scale, a paragraph a line; there is no test text of it here."""
    if scale == "smoke":
        train, valid = (_english(documents, seed) for documents, seed in ((20, 0), (5, 1)))
        return Split("built-in English, larger", train, valid, ("the",))
    if data is None or not (data / "wikitext-2").is_dir():
        raise SystemExit("this needs --data FOLDER (or MRFLEARN_DATA) with wikitext-2")
    files = ("wiki.train.tokens.gz", "wiki.valid.tokens")
    train, valid = (list(read_sentences(data / "wikitext-2" / f)) for f in files)
    likeness = data / "word-similarity"
    known = likeness if likeness.is_dir() else None
    return Split("WikiText-2", train, valid, ("company", "red", "has"), known)


_FILES = ("train.txt.gz", "valid.txt", "test.txt")


def _english(documents: int, seed: int) -> Sentences:
    drawn = sample_documents(documents, sentences=20, seed=seed)
    return [list(sentence.words) for document in drawn for sentence in document.sentences]
