"""Files of sentences, and conversion between formats.

Columns as in CoNLL-2000 and CoNLL-2003 (one token a line, a blank line between sentences) are the
record that all formats of sentences share; tagged text as in the Brown corpus has `word/tag` tokens
and one sentence a line.  What the target of a conversion cannot hold (the brackets of a tree, the
heads of CoNLL-U) is left behind.  Formats of other families share a record and need no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal

from mrflearn.errors import DataError, warn_user
from mrflearn.io.alignments import WRITTEN, Alignment, read_alignment, write_alignment
from mrflearn.io.arpa import read_arpa, write_arpa
from mrflearn.io.bif import read_bif, write_bif
from mrflearn.io.conllu import ConlluSentence, read_conllu, write_conllu
from mrflearn.io.corpus import read_sentences, write_sentences
from mrflearn.io.crfsuite_text import read_crfsuite, write_crfsuite
from mrflearn.io.files import JSON_LINES, Lines, PathLike, ending, split_tokens, write_text
from mrflearn.io.graphs import read_graphs, write_graphs
from mrflearn.io.grmm import read_grmm, write_grmm
from mrflearn.io.ptb import read_trees, write_trees
from mrflearn.io.samples import read_samples, write_samples
from mrflearn.io.seminars import Seminar, read_seminar, write_seminar
from mrflearn.io.spans import Scheme, convert_tags, spans_to_tags
from mrflearn.io.trees import Tree, remove_traces
from mrflearn.io.uai import read_network, write_network
from mrflearn.io.vectors import read_vectors, write_vectors
from mrflearn.io.xmlbif import read_xmlbif, write_xmlbif

# Columns: one token a line, white space or a separator between cells.


DOCUMENT_MARK = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class ColumnSentence:
    """One sentence by columns: `sentence["word"]` has a value for each token.

    `document` counts the document marks seen so far, so it is 0 all through a file without marks.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    document: int = 0

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns}
        if len(self.names) != len(self.columns) or len(lengths) != 1 or 0 in lengths:
            raise DataError(
                f"a sentence needs one column for each of {', '.join(self.names)}, all of one "
                f"length; got {len(self.columns)} of lengths {sorted(lengths)}."
            )

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, name: str) -> tuple[str, ...]:
        if name not in self.names:
            raise DataError(f"there is no column '{name}'; there are {', '.join(self.names)}.")
        return self.columns[self.names.index(name)]

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The same by tokens."""
        return tuple(zip(*self.columns, strict=True))


def read_columns(
    path: PathLike, columns: Sequence[str] = ("word", "pos", "chunk"), separator: str | None = None
) -> Iterator[ColumnSentence]:
    """The sentences of a file, one at a time; `columns` names what stands in each column.

    Cells are set apart by any white space, or exactly by `separator` (with a tab, cells may have
    spaces inside).  A row that begins with `-DOCSTART-` is a document mark, whatever its other
    cells: it ends the sentence before it, raises `document` by one, and is no sentence itself.
    """
    with Lines(path) as lines:
        yield from parse_columns(lines, columns, separator)


def parse_columns(
    lines: Iterable[str], columns: Sequence[str], separator: str | None = None, *, note: str = ""
) -> Iterator[ColumnSentence]:
    """The sentences of lines; `note` says why just these columns were expected."""
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise DataError(f"columns needs one name for each column, all different; got {columns!r}.")
    names, split = tuple(columns), _splitter(separator)
    rows: list[list[str]] = []
    document = 0
    for line in chain(lines, [""]):
        cells = split(line)
        mark = bool(cells) and cells[0] == DOCUMENT_MARK
        if rows and (mark or not cells):
            yield ColumnSentence(names, tuple(zip(*rows, strict=True)), document)
            rows = []
        if mark:
            document += 1
        elif cells:
            if len(cells) != len(names):
                raise DataError(
                    f"{len(cells)} cells where the columns {', '.join(names)} want {len(names)}"
                    f"{note}: {cells[:8]!r}. Is the line cut off, or do these names (columns) not "
                    "fit the file?"
                )
            rows.append(cells)


def write_columns(
    path: PathLike, sentences: Iterable[ColumnSentence], separator: str = " "
) -> None:
    """Writes one token per line; where `document` rises, a document mark comes first."""
    split = _splitter(None if separator == " " else separator)
    document = 0
    with write_text(path) as stream:
        for sentence in sentences:
            if sentence.document < document:
                raise DataError(
                    f"a sentence of document {sentence.document} comes after one of document "
                    f"{document}; documents count upwards. Sort the sentences."
                )
            # As CoNLL-2003 fills the other columns of a mark.
            filling = ["-X-", *["O"] * len(sentence.names)][: len(sentence.names) - 1]
            mark = separator.join([DOCUMENT_MARK, *filling])
            stream.write(f"{mark}\n\n" * (sentence.document - document))
            document = sentence.document
            for row in sentence.rows:
                line = separator.join(row)
                broken = "\n" in line or "\r" in line or row[0] == DOCUMENT_MARK
                if broken or split(line) != list(row):
                    raise DataError(
                        f"the row {row!r} cannot be written with this separator, or would be taken "
                        "for a document mark. Try separator='\\t' if cells have spaces inside."
                    )
                stream.write(line + "\n")
            stream.write("\n")


def _splitter(separator: str | None) -> Callable[[str], list[str]]:
    if separator is None:
        return split_tokens
    if not separator:
        raise DataError("an empty separator sets nothing apart; None stands for white space.")
    return lambda line: line.split(separator) if split_tokens(line) else []


def read_shaped(path: PathLike, shapes: Sequence[tuple[str, ...]]) -> Iterator[ColumnSentence]:
    """Sentences with the first of these lists of columns that is as long as the file's first row.

    Where none is, the first is what should have been there.
    """
    with Lines(path) as lines:
        begun: list[str] = []
        width = _width(lines, begun)
        names, note = shapes[0], ""
        for own in shapes[1:] if width != len(names) else ():
            missing = " or ".join(name for name in shapes[0] if name not in own)
            if len(own) == width:
                names, note = own, f" (line {lines.number} has no {missing})"
                break
            note += f" ({len(own)} without {missing})"
        yield from parse_columns(chain(begun, lines), names, note=note)


def first_columns(path: PathLike, last: str) -> tuple[str, ...]:
    """Names for the columns of a file, as its first row has them: word, column2 ..., `last`."""
    if str(path) == "-":
        raise DataError("standard input can be read once only: name its columns, or its format.")
    with Lines(path) as lines:
        width = _width(lines, [])
    if width < 2:
        raise DataError(f"a file to learn from needs a word and a {last} on each line.", path=path)
    return ("word", *(f"column{i}" for i in range(2, width)), last)


def _width(lines: Iterable[str], begun: list[str]) -> int:
    """The number of cells in the first row, 0 without one; `begun` gets the lines up to there."""
    for line in lines:
        begun.append(line)
        cells = split_tokens(line)
        if cells and cells[0] != DOCUMENT_MARK:
            return len(cells)
    return 0


# Tagged text: one sentence a line, `word/tag` tokens, document marks.


TAGGED_MARK = "#DOC"


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """Words, one tag each, and where they come from (None above the first document mark)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    document: str | None = None
    genre: str | None = None

    def __post_init__(self) -> None:
        if len(self.words) != len(self.tags):
            raise DataError(f"{len(self.words)} words have {len(self.tags)} tags.")

    def __len__(self) -> int:
        return len(self.words)


def read_tagged(path: PathLike) -> Iterator[TaggedSentence]:
    """The sentences of a file, one at a time; tokens are split at their last `/`.

    A line `#DOC<tab>document<tab>genre` begins a document; blank lines are skipped.
    """
    document: str | None = None
    genre: str | None = None
    with Lines(path) as lines:
        for line in lines:
            if line == TAGGED_MARK or line.startswith(TAGGED_MARK + "\t"):
                document, genre = _document(line)
                continue
            parts = [token.rpartition("/") for token in split_tokens(line)]
            if not parts:
                continue
            words, _, tags = zip(*parts, strict=True)
            if "" in words or "" in tags:
                bad = next(word + slash + tag for word, slash, tag in parts if not (word and tag))
                raise DataError(
                    f"'{bad}' is no word/tag token. Is this a file of columns, not of tagged text?"
                )
            yield TaggedSentence(words, tags, document, genre)


def write_tagged(path: PathLike, sentences: Iterable[TaggedSentence]) -> None:
    """Writes one sentence per line, and a document mark wherever document or genre changes."""
    place: tuple[str | None, str | None] = (None, None)
    with write_text(path) as stream:
        for sentence in sentences:
            if (sentence.document, sentence.genre) != place:
                place = sentence.document, sentence.genre
                mark = f"{TAGGED_MARK}\t{sentence.document or ''}\t{sentence.genre or ''}"
                _document(mark)
                stream.write(mark + "\n")
            tokens = [f"{w}/{t}" for w, t in zip(sentence.words, sentence.tags, strict=True)]
            line = " ".join(tokens)
            odd = "" in sentence.words or any(not tag or "/" in tag for tag in sentence.tags)
            if odd or not tokens or split_tokens(line) != tokens:
                raise DataError(
                    f"the sentence {line[:80]!r} cannot be written as tagged text: it is empty, or "
                    "has an empty word or tag, white space in one, or `/` in a tag."
                )
            stream.write(line + "\n")


def _document(line: str) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) != 3 or not (cells[1] and cells[2]) or "\n" in line or "\r" in line:
        raise DataError(
            f"a document mark is #DOC, a tab, the document, a tab, its genre; this is {line!r}."
        )
    return cells[1], cells[2]


# Every format by name.


@dataclass(frozen=True)
class Format:
    """How a format is read and written, and the endings of its files.

    `to_columns` and `from_columns` lead from and to the common record of sentences; formats of
    any other `record` are read and written as that same record.
    """

    read: Callable[[PathLike], Any]
    write: Callable[[PathLike, Any], None]
    suffixes: tuple[str, ...]
    to_columns: Callable[[Any], Iterator[ColumnSentence]] | None = None
    from_columns: Callable[[Iterable[ColumnSentence]], Any] | None = None
    record: str = "sentence"


def _of_conllu(sentences: Iterable[ConlluSentence]) -> Iterator[ColumnSentence]:
    for sentence in sentences:
        columns = (sentence.forms, sentence.upos, sentence.xpos)
        yield ColumnSentence(("word", "upos", "xpos"), columns)


def _of_tagged(sentences: Iterable[TaggedSentence | Tree]) -> Iterator[ColumnSentence]:
    for sentence in sentences:
        yield ColumnSentence(("word", "tag"), (sentence.words, sentence.tags))


def _of_trees(trees: Iterable[Tree]) -> Iterator[ColumnSentence]:
    return _of_tagged(filter(None, map(remove_traces, trees)))


def _of_seminar(seminar: Seminar) -> Iterator[ColumnSentence]:
    tags = spans_to_tags(seminar.fields, len(seminar.tokens))
    yield ColumnSentence(("word", "field"), (seminar.tokens, tags))


def _to_text(sentences: Iterable[ColumnSentence]) -> Iterator[Sequence[str]]:
    return (sentence.columns[0] for sentence in sentences)


def _to_tagged(sentences: Iterable[ColumnSentence]) -> Iterator[TaggedSentence]:
    for sentence in sentences:
        if len(sentence.names) != 2:
            raise DataError(
                "tagged text holds a word and one tag; there are the columns "
                f"{', '.join(sentence.names)}. Choose two: keep=..."
            )
        words, tags = sentence.columns
        yield TaggedSentence(words, tags)


def _samples(name: Literal["csv", "npy", "digits", "text"], suffix: str) -> Format:
    read, write = partial(read_samples, format=name), partial(write_samples, format=name)
    return Format(read, write, (suffix,), record="samples")


def _alignments(name: str, suffixes: tuple[str, ...], *, drop_inserts: bool = False) -> Format:
    read = partial(read_alignment, drop_inserts=drop_inserts)

    def write(path: PathLike, alignment: Alignment) -> None:
        write_alignment(path, alignment, name)
        lost = {
            "in lower case, insertions, are left out": alignment.inserts,
            "in lower case are written in upper case, dots as gaps": alignment.lowered,
            f"outside the {alignment.molecule} alphabet are written as gaps": alignment.unknown,
        }
        for what, letters in lost.items():
            if letters:
                warn_user(f"{letters:,} letters {what}")

    return Format(read, write, suffixes, record="alignments")


write_binary_vectors = partial(write_vectors, format="binary")
FORMATS: dict[str, Format] = {
    "text": Format(read_sentences, write_sentences, (".txt", ".tokens"), None, _to_text),
    "columns": Format(read_columns, write_columns, (".conll", ".iob"), iter, iter),
    "conllu": Format(read_conllu, write_conllu, (".conllu",), _of_conllu),
    "tagged": Format(read_tagged, write_tagged, (".tagged",), _of_tagged, _to_tagged),
    "ptb": Format(read_trees, write_trees, (".mrg", ".ptb"), _of_trees),
    "seminar": Format(read_seminar, write_seminar, (".seminar",), _of_seminar),
    "crfsuite": Format(read_crfsuite, write_crfsuite, (".crfsuite",), record="attributes"),
    "grmm": Format(read_grmm, write_grmm, (".grmm",), record="layers"),
    "csv": _samples("csv", ".csv"),
    "npy": _samples("npy", ".npy"),
    "samples": replace(_samples("text", ".dat"), read=read_samples),
    "digits": _samples("digits", ".digits"),
    "a2m": _alignments("fasta", (".a2m", ".a3m"), drop_inserts=True),
    **{name: _alignments(name, endings) for name, endings in WRITTEN.items()},
    "vectors": Format(read_vectors, write_vectors, (".vec",), record="vectors"),
    "binary-vectors": Format(read_vectors, write_binary_vectors, (".bin",), record="vectors"),
    "graphs": Format(read_graphs, write_graphs, JSON_LINES, record="graphs"),
    "arpa": Format(read_arpa, write_arpa, (".arpa",), record="n-grams"),
    "uai": Format(read_network, write_network, (".uai",), record="networks"),
    "bif": Format(read_bif, write_bif, (".bif",), record="networks"),
    "xmlbif": Format(read_xmlbif, write_xmlbif, (".xmlbif", ".xml"), record="networks"),
}


_NETWORKS = [own for own in FORMATS.values() if own.record == "networks"]


def guess_format(path: PathLike) -> str:
    """The format that the ending of a file's name stands for."""
    suffix = ending(path)
    for name, known in FORMATS.items():
        if suffix in known.suffixes:
            return name
    problem = f"the ending '{suffix}' stands for no format. Name one: {', '.join(FORMATS)}."
    raise DataError(problem, path=path)


def network_format(path: PathLike) -> Format:
    """The format of a network by the ending of the name; under any other it is UAI's."""
    return next((own for own in _NETWORKS if ending(path) in own.suffixes), FORMATS["uai"])


def sentence_format(path: PathLike, otherwise: str) -> str:
    """The format by the ending of the name; columns are kept under any (.txt, .dat, .data)."""
    try:
        kind = guess_format(path)
    except DataError:
        return otherwise
    return otherwise if kind in ("text", "samples") else kind


def as_columns(
    path: PathLike, kind: str, shapes: Sequence[tuple[str, ...]]
) -> Iterator[ColumnSentence]:
    """The sentences of a file of any format; `shapes` are the columns that a file of them may have.

    A file of columns may lack the labels, as its first row decides.
    """
    if kind == "columns":
        return read_shaped(path, shapes)
    known = FORMATS.get(kind)
    if known is None or known.to_columns is None:
        names = ", ".join(name for name, own in FORMATS.items() if own.to_columns)
        problem = f"'{kind}' has no labels for words; there are {names}. Name one: format=..."
        raise DataError(problem, path=path)
    return known.to_columns(known.read(path))


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
    unchanged = keep is None and scheme is None
    if unchanged and _same_record(first, second):
        second.write(target, read(source))
    elif first.to_columns is not None and second.from_columns is not None:
        sentences = first.to_columns(read(source))
        second.write(target, second.from_columns(_shaped(sentences, keep, scheme)))
    else:
        reachable = [
            name
            for name, own in FORMATS.items()
            if _same_record(first, own) or (first.to_columns and own.from_columns)
        ]
        only = "" if unchanged else ", and keep=... and scheme=... are for sentences"
        raise DataError(
            f"'{reads}' cannot become '{writes}': it can become {', '.join(reachable)}{only}. "
            "If the file is in another format, name it: source_format=...",
            path=source,
        )
    return reads, writes


def _same_record(first: Format, second: Format) -> bool:
    return first is second or first.record == second.record != "sentence"


def _shaped(
    sentences: Iterable[ColumnSentence], keep: Sequence[str] | None, scheme: Scheme | None
) -> Iterator[ColumnSentence]:
    for sentence in sentences:
        names = tuple(keep) if keep is not None else sentence.names
        columns = tuple(sentence[name] for name in names)
        if scheme is not None:
            columns = (*columns[:-1], convert_tags(columns[-1], scheme))
        yield replace(sentence, names=names, columns=columns)
