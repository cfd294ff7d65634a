"""From one file format to another: formats of one family share a record, and need nothing more.

Sentences of every linguistic format can also be had as columns, and columns written as text or
tagged text; what the target cannot hold (a tree's brackets, CoNLL-U's heads) is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mrflearn.errors import DataError
from mrflearn.io.alignments import ENDINGS, read_alignment, write_alignment
from mrflearn.io.arpa import read_arpa, write_arpa
from mrflearn.io.columns import ColumnSentence, read_columns, write_columns
from mrflearn.io.conllu import ConlluSentence, read_conllu, write_conllu
from mrflearn.io.corpus import read_sentences, write_sentences
from mrflearn.io.crfsuite_text import read_crfsuite, write_crfsuite
from mrflearn.io.files import PathLike
from mrflearn.io.graphs import SUFFIXES, read_graphs, write_graphs
from mrflearn.io.grmm import read_grmm, write_grmm
from mrflearn.io.ptb import read_trees, write_trees
from mrflearn.io.samples import read_samples, write_samples
from mrflearn.io.seminars import Seminar, read_seminar, write_seminar
from mrflearn.io.spans import Scheme, convert_tags, spans_to_tags
from mrflearn.io.tagged import TaggedSentence, read_tagged, write_tagged
from mrflearn.io.trees import Tree, remove_traces
from mrflearn.io.uai import read_network, write_network
from mrflearn.io.vectors import read_vectors, write_vectors


@dataclass(frozen=True)
class Format:
    """How a format is read and written, and the endings of its files.

    `to_columns` and `from_columns` lead from and to the common record of sentences.
    """

    read: Callable[[PathLike], Any]
    write: Callable[[PathLike, Any], None]
    suffixes: tuple[str, ...]
    family: str
    to_columns: Callable[[Any], Iterator[ColumnSentence]] | None = None
    from_columns: Callable[[Iterable[ColumnSentence]], Any] | None = None


def _of_conllu(sentences: Iterable[ConlluSentence]) -> Iterator[ColumnSentence]:
    for sentence in sentences:
        columns = (sentence.forms, sentence.upos, sentence.xpos)
        yield ColumnSentence(("word", "upos", "xpos"), columns)


def _of_tagged(sentences: Iterable[TaggedSentence]) -> Iterator[ColumnSentence]:
    for sentence in sentences:
        yield ColumnSentence(("word", "tag"), (sentence.words, sentence.tags))


def _of_trees(trees: Iterable[Tree]) -> Iterator[ColumnSentence]:
    for tree in trees:
        bare = remove_traces(tree)
        if bare is not None:
            yield ColumnSentence(("word", "tag"), (bare.words, bare.tags))


def _of_seminar(seminar: Seminar) -> Iterator[ColumnSentence]:
    tags = spans_to_tags(seminar.fields, len(seminar.tokens))
    yield ColumnSentence(("word", "field"), (seminar.tokens, tags))


def _to_text(sentences: Iterable[ColumnSentence]) -> Iterator[Sequence[str]]:
    return (sentence.columns[0] for sentence in sentences)


def _to_tagged(sentences: Iterable[ColumnSentence]) -> Iterator[TaggedSentence]:
    for sentence in sentences:
        if len(sentence.names) != 2:
            raise DataError(
                f"tagged text holds a word and one tag; there are the columns "
                f"{', '.join(sentence.names)}. Choose two: keep=..."
            )
        words, tags = sentence.columns
        yield TaggedSentence(words, tags)


def _samples(name: Literal["csv", "npy", "digits"], suffix: str) -> Format:
    read, write = partial(read_samples, format=name), partial(write_samples, format=name)
    return Format(read, write, (suffix,), "samples")


ALIGNED = tuple(ending for ending in ENDINGS if ending not in (".a2m", ".a3m"))
FORMATS: dict[str, Format] = {
    "text": Format(
        read_sentences, write_sentences, (".txt", ".tokens"), "sentences", None, _to_text
    ),
    "columns": Format(
        read_columns, write_columns, (".conll", ".iob"), "sentences", iter, lambda rows: rows
    ),
    "conllu": Format(read_conllu, write_conllu, (".conllu",), "sentences", _of_conllu),
    "tagged": Format(read_tagged, write_tagged, (".tagged",), "sentences", _of_tagged, _to_tagged),
    "ptb": Format(read_trees, write_trees, (".mrg", ".ptb"), "sentences", _of_trees),
    "seminar": Format(read_seminar, write_seminar, (".seminar",), "sentences", _of_seminar),
    "crfsuite": Format(read_crfsuite, write_crfsuite, (".crfsuite",), "attributes"),
    "grmm": Format(read_grmm, write_grmm, (".grmm",), "layers"),
    "csv": _samples("csv", ".csv"),
    "npy": _samples("npy", ".npy"),
    "samples": Format(read_samples, partial(write_samples, format="text"), (".dat",), "samples"),
    "digits": _samples("digits", ".digits"),
    "fasta": Format(read_alignment, write_alignment, ALIGNED, "alignments"),
    "a2m": Format(
        partial(read_alignment, drop_inserts=True), write_alignment, (".a2m", ".a3m"), "alignments"
    ),
    "vectors": Format(read_vectors, write_vectors, (".vec",), "vectors"),
    "binary-vectors": Format(
        read_vectors, partial(write_vectors, format="binary"), (".bin",), "vectors"
    ),
    "graphs": Format(read_graphs, write_graphs, SUFFIXES, "graphs"),
    "arpa": Format(read_arpa, write_arpa, (".arpa",), "n-grams"),
    "uai": Format(read_network, write_network, (".uai",), "networks"),
}


def guess_format(path: PathLike) -> str:
    """The format that the ending of a file's name stands for."""
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    for name, known in FORMATS.items():
        if suffix in known.suffixes:
            return name
    raise DataError(
        f"the ending '{suffix}' stands for no format. Name one: {', '.join(FORMATS)}.", path=path
    )


def sentence_format(path: PathLike, otherwise: str) -> str:
    """The format by the ending of the name; columns are kept under any (.txt, .dat, .data)."""
    try:
        kind = guess_format(path)
    except DataError:
        return otherwise
    return otherwise if kind in ("text", "samples") else kind


def convert_file(
    source: PathLike,
    target: PathLike,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    scheme: Scheme | None = None,
) -> tuple[str, str]:
    """Writes `target` with what `source` holds; gives the two formats' names.

    `columns` names the columns of a column file, `keep` those to be written, in order; the last
    kept column holds chunk tags when a `scheme` is given, and is converted to it.
    """
    reads = source_format or guess_format(source)
    writes = target_format or guess_format(target)
    for name in (reads, writes):
        if name not in FORMATS:
            raise DataError(f"no format is called '{name}'. There are {', '.join(FORMATS)}.")
    first, second = FORMATS[reads], FORMATS[writes]
    read = partial(read_columns, columns=columns) if columns and reads == "columns" else first.read
    related = first.family == second.family
    unchanged = keep is None and scheme is None
    if unchanged and (reads == writes or (related and first.family != "sentences")):
        second.write(target, read(source))
        return reads, writes
    if not related or first.to_columns is None or second.from_columns is None:
        raise DataError(
            f"'{reads}' cannot become '{writes}' so: {_within(first)}. "
            "If the file is in another format, name it: source_format=...",
            path=source,
        )
    sentences = first.to_columns(read(source))
    second.write(target, second.from_columns(_shaped(sentences, keep, scheme)))
    return reads, writes


def _within(source: Format) -> str:
    """What a format can become."""
    sentences = source.family == "sentences"
    reachable = [
        name
        for name, other in FORMATS.items()
        if other is source
        or (
            other.family == source.family
            and (not sentences or (source.to_columns and other.from_columns))
        )
    ]
    only = "" if sentences else ", and keep=... and scheme=... are for sentences"
    return f"it can become {', '.join(reachable)}{only}"


def _shaped(
    sentences: Iterable[ColumnSentence], keep: Sequence[str] | None, scheme: Scheme | None
) -> Iterator[ColumnSentence]:
    for sentence in sentences:
        names = tuple(keep) if keep is not None else sentence.names
        columns = tuple(sentence[name] for name in names)
        if scheme is not None:
            columns = (*columns[:-1], convert_tags(columns[-1], scheme))
        yield replace(sentence, names=names, columns=columns)
