"""Every file format the library reads and writes, one entry each, for the contract tests.

To add a format: append one `Format` to `FORMATS`; `tests/contracts/test_every_reader.py` does the
rest (round trip, gzip, streaming, missing files, junk, and mutated files).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrflearn.data.columns import read_columns, write_columns
from mrflearn.data.conllu import read_conllu, write_conllu
from mrflearn.data.crfsuite_text import read_crfsuite, write_crfsuite
from mrflearn.data.ptb import read_trees, write_trees
from mrflearn.data.seminars import read_seminar, write_seminar
from mrflearn.data.tagged import read_tagged, write_tagged
from mrflearn.data.text import read_sentences, write_sentences


@dataclass(frozen=True)
class Format:
    """A format's reader and writer, with a small valid file to try them on."""

    name: str
    valid: bytes  # a small file that the reader accepts, with the format's awkward things in it
    read: Callable[[Path], Any]  # exhausts the reader; gives all records
    write: Callable[[Path, Any], None]  # (path, what `read` gave)
    suffix: str = ".txt"
    gzipped: bool = True  # the reader takes gzip, and the writer makes it of a name in .gz
    stream: Callable[[Path], Iterator[Any]] | None = None  # the lazy reader, where there is one:
    # it must yield records of an endless repetition of `valid`
    same: Callable[[Any, Any], Any] = operator.eq  # equality of two results of `read`

    def __str__(self) -> str:
        return self.name


FORMATS: list[Format] = [
    Format(
        "text",
        " the cat sat \n\nle caf\u00e9\u00a0noir\n".encode(),
        read=lambda path: list(read_sentences(path)),
        write=write_sentences,
        stream=read_sentences,
    ),
    Format(
        "columns",
        (
            "-DOCSTART- -X- O\n\nThe DT B-NP\ndog\tNN I-NP \n\n\n"
            "-DOCSTART- -X- O\nna\u00efve JJ O\n\n"
        ).encode(),
        read=lambda path: list(read_columns(path)),
        write=write_columns,
        stream=read_columns,
    ),
    Format(
        "columns with tabs",
        b"New York\tNNP\nis\tVBZ\n\n#\t.\n\n",
        read=lambda path: list(read_columns(path, ("word", "pos"), separator="\t")),
        write=lambda path, records: write_columns(path, records, separator="\t"),
        stream=lambda path: read_columns(path, ("word", "pos"), separator="\t"),
    ),
    Format(
        "conllu",
        (
            "# sent_id = 1\n# text = don't go\n"
            "1-2\tdon't" + "\t_" * 8 + "\n"
            "1\tdo\tdo\tAUX\tVBP\tMood=Ind|Tense=Pres\t3\taux\t3:aux\t_\n"
            "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod\t_\n"
            "3\tgo\tgo\tVERB\tVB\t_\t0\troot\t0:root\tSpaceAfter=No\n"
            "3.1\tnow here\t_" + "\t_" * 5 + "\t3:conj\t_\n\n"
            "1\t\u00e9\t_" + "\t_" * 7 + "\n\n"
        ).encode(),
        read=lambda path: list(read_conllu(path)),
        write=write_conllu,
        suffix=".conllu",
        stream=read_conllu,
    ),
    Format(
        "tagged",
        b"1/2/cd\n#DOC\tca01\tnews\nThe/at dog/nn ./.\n\n//sym\n#DOC\tca02\tnews\nGo/vb\n",
        read=lambda path: list(read_tagged(path)),
        write=write_tagged,
        stream=read_tagged,
    ),
    Format(
        "trees",
        b"( (S \n  (NP-SBJ (-NONE- *) )\n  (VP (VB Go)\n (. .) )))\n(X (A a))( (B b) (C (D d)))\n",
        read=lambda path: list(read_trees(path)),
        write=write_trees,
        suffix=".mrg",
        stream=read_trees,
    ),
    Format(
        "seminar",
        b"Time: <stime>3:30</stime> - <etime>5</etime>\n<paragraph><sentence>In <location>DH 1"
        b"</sentence></location>. <speaker>A. <location>B</speaker> C</location><I think>\x0c",
        read=read_seminar,
        write=write_seminar,
    ),
    Format(
        "crfsuite",
        b"B-NP\tw=The\tcaps:0.25\nI-NP\tw=a\\:b\\\\\tw=a\\:b\\\\:-2e-3\n\nO\n\n",
        read=lambda path: list(read_crfsuite(path)),
        write=write_crfsuite,
        stream=read_crfsuite,
    ),
]
