"""The texts of the experiments: built-in English to try, the Penn Treebank in earnest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrflearn.data.english import sample_documents
from mrflearn.data.text import read_sentences

Sentences = list[list[str]]


@dataclass(frozen=True)
class Split:
    """Training and validation text, probe words, and a folder of word-likeness sets."""

    name: str
    train: Sentences
    valid: Sentences
    probes: tuple[str, ...]
    likeness: Path | None = None


def split(scale: str, data: Path | None) -> Split:
    """The text for a scale; `full` needs the folder with `ptb-lm` in it."""
    if scale == "full":
        if data is None or not (data / "ptb-lm").is_dir():
            raise SystemExit("the full scale needs --data FOLDER (or MRFLEARN_DATA) with ptb-lm")
        train, valid = (list(read_sentences(data / "ptb-lm" / f)) for f in _FILES)
        likeness = data / "word-similarity"
        probes = ("company", "red", "has", "dollar", "jack")
        return Split("Penn Treebank", train, valid, probes, likeness if likeness.is_dir() else None)
    train, valid = (_english(documents, seed) for documents, seed in ((20, 0), (5, 1)))
    return Split("built-in English", train, valid, ("the", "was", "he"))


_FILES = ("train.txt.gz", "valid.txt")


def _english(documents: int, seed: int) -> Sentences:
    drawn = sample_documents(documents, sentences=20, seed=seed)
    return [list(sentence.words) for document in drawn for sentence in document.sentences]
