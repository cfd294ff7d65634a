"""Every file format the library reads and writes, one entry each, for the contract tests.

To add a format: append one `Format` to `FORMATS`; `tests/contracts/test_every_reader.py` does the
rest (round trip, gzip, streaming, missing files, junk, and mutated files).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mrflearn.io.alignments import Alignment, read_alignment, write_alignment
from mrflearn.io.arpa import read_arpa, write_arpa
from mrflearn.io.bif import read_bif, write_bif
from mrflearn.io.conllu import read_conllu, write_conllu
from mrflearn.io.corpus import read_sentences, write_sentences
from mrflearn.io.crfsuite_text import read_crfsuite, write_crfsuite
from mrflearn.io.formats import read_columns, read_tagged, write_columns, write_tagged
from mrflearn.io.graphs import read_graphs, write_graphs
from mrflearn.io.grmm import read_grmm, write_grmm
from mrflearn.io.ptb import read_trees, write_trees
from mrflearn.io.samples import read_sample_chunks, read_samples, write_samples
from mrflearn.io.seminars import read_seminar, write_seminar
from mrflearn.io.similarity import read_analogies, read_pairs, write_analogies, write_pairs
from mrflearn.io.uai import (
    read_evidence,
    read_marginals,
    read_network,
    read_partition,
    write_evidence,
    write_marginals,
    write_network,
    write_partition,
)
from mrflearn.io.vectors import read_vectors, write_vectors
from mrflearn.io.xmlbif import read_xmlbif, write_xmlbif
from support.same_records import same_records


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


def _same_letters(copy: Alignment, original: Alignment) -> bool:
    # Letters outside the alphabet are counted and then gone, so a copy has none to count; FASTA and
    # Stockholm number sequences without names.
    names = None if original.names is None else copy.names
    counted = {"unknown": 0, "inserts": 0, "lowered": 0}
    return same_records(replace(copy, names=names, **counted), replace(original, **counted))


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
    Format(
        "GRMM",
        b"DT B-NP ---- w=The caps\nNN\tI-NP  ---- \n\n\n. O ---- ---- w=.\n\n",
        read=lambda path: list(read_grmm(path)),
        write=write_grmm,
        suffix=".grmm",
        stream=read_grmm,
    ),
    Format(
        "graphs",
        (
            '{"nodes": [{"id": "a", "features": ["\u00e9"], "label": "x"}, {"id": 2, "label": '
            '["x", "y"]}], "links": [{"source": 2, "target": "a", "features": {"near": 0.5}}]}\n\n'
            '{"directed": true, "nodes": [], "graph": {}}\n'
        ).encode(),
        read=lambda path: list(read_graphs(path)),
        write=write_graphs,
        suffix=".jsonl",
        stream=read_graphs,
    ),
    Format(
        "UAI network",
        b"BAYES\n3\n2 1 3\n4\n1 0\n2 0\t2\n0\n1 1\n\n2\n .25 0.75\n6 0 1 1e-3\n 1 0 1\n1 2.5\n1 1 ",
        read=read_network,
        write=write_network,
        suffix=".uai",
        same=same_records,
    ),
    Format(
        "BIF",
        (
            b'network "a b" { // a comment\n  property version 1;\n}\n/* two\nlines */\n'
            b"variable rain {\n  type discrete [ 2 ] { no, 1-3 };\n  property p = (1,2);\n}\n"
            b'variable "wet grass" { type discrete[3] { a "b c" d }; }\n'
            b'probability ( rain | "wet grass" ) {\n  (a) 0.1, .9;\n  default 0.5 0.5;\n}\n'
            b'probability ( "wet grass" ) { table 0.2, 3e-1, 0.5; }\n'
        ),
        read=read_bif,
        write=write_bif,
        suffix=".bif",
        same=same_records,
    ),
    Format(
        "XMLBIF",
        (
            '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE BIF [ <!ELEMENT BIF (NETWORK)*> ]>\n'
            '<BIF VERSION="0.3"><NETWORK><NAME>n</NAME>\n<VARIABLE TYPE="nature"><NAME>caf\u00e9'
            "</NAME><OUTCOME>&lt;1</OUTCOME><OUTCOME>b c</OUTCOME><PROPERTY>x</PROPERTY></VARIABLE>"
            "\n<VARIABLE><NAME>b</NAME><OUTCOME>t</OUTCOME><OUTCOME>f</OUTCOME></VARIABLE>\n"
            "<DEFINITION><FOR>b</FOR><GIVEN>caf\u00e9</GIVEN><TABLE>.1 .9 <!-- row --> 0.25 0.75"
            "</TABLE></DEFINITION>\n<DEFINITION><FOR>caf\u00e9</FOR><TABLE>1 0</TABLE></DEFINITION>"
            "\n</NETWORK></BIF>\n"
        ).encode(),
        read=read_xmlbif,
        write=write_xmlbif,
        suffix=".xmlbif",
        same=same_records,
    ),
    Format(
        "UAI evidence", b"1\n2 0 1\n7 0\n", read=read_evidence, write=write_evidence, suffix=".evid"
    ),
    Format(
        "UAI partition function",
        b"PR\n-5.86181\n",
        read=read_partition,
        write=write_partition,
        suffix=".PR",
    ),
    Format(
        "UAI marginals",
        b"MAR\n3 2 0.25 0.75 1 1\n3 0.1 0.2 0.7\n",
        read=read_marginals,
        write=write_marginals,
        suffix=".MAR",
        same=same_records,
    ),
    Format(
        "samples as csv",
        '\ufeffday,"b, c",\u00e9\r\n0,NA,12\r\n\r\n1.0,,0\r\n'.encode(),
        read=read_samples,
        write=write_samples,
        suffix=".csv",
        same=same_records,
    ),
    Format(
        "samples as text",
        b"0 1\tNA\n\n10 2 3 \n",
        read=lambda path: read_samples(path, "text"),
        write=lambda path, table: write_samples(path, table, "text"),
        stream=lambda path: read_sample_chunks(path, rows=1, format="text"),
        same=same_records,
    ),
    Format(
        "samples as digits",
        b"0102\n 1111\n\n9000\n",
        read=lambda path: read_samples(path, "digits"),
        write=lambda path, table: write_samples(path, table, "digits"),
        stream=lambda path: read_sample_chunks(path, rows=1, format="digits"),
        same=same_records,
    ),
    Format(
        "samples as npy",
        b"\x93NUMPY\x01\x00\x46\x00"
        + b"{'descr': '<i2', 'fortran_order': True, 'shape': (3, 2), }".ljust(69)
        + b"\n\x00\x00\x01\x00\xff\xff\x02\x00\x03\x00\x04\x00",
        read=read_samples,
        write=write_samples,
        suffix=".npy",
        same=same_records,
    ),
    Format(
        "FASTA",
        b"> first/1-6 \nACDEFG\nHI-\n\n>second\nACDef.\nGhX\n",
        read=lambda path: read_alignment(path, "protein"),
        write=write_alignment,
        suffix=".fasta",
        same=_same_letters,
    ),
    Format(
        "a2m",
        b">first\nacGU..-A\n>second\nGTaaacA-\n",
        read=lambda path: read_alignment(path, "rna", drop_inserts=True),
        write=write_alignment,
        suffix=".a2m",
        same=_same_letters,
    ),
    Format(
        "Stockholm",
        b"# STOCKHOLM 1.0\n#=GF ID x\nfirst  ACDE\nsecond AC-e\n\nfirst  FG\nsecond .G\n//\n",
        read=lambda path: read_alignment(path, "protein"),
        write=write_alignment,
        suffix=".sto",
        same=_same_letters,
    ),
    Format(
        "sequences one a line",
        b"ACGT-\nacguN\n",
        read=lambda path: read_alignment(path, "dna"),
        write=write_alignment,
        suffix=".aln",
        same=_same_letters,
    ),
    Format(
        "ARPA",
        "made by hand\n\\data\\\nngram 1=4\nngram 2=2\nngram 3=1\n\n\\1-grams:\n-1\t<unk>\n"
        "-99 <s> -0.3\n-0.5\t</s>\t0\n-2.25 caf\u00e9\u00a0x\n\n"
        "\\2-grams:\n-1e-3\t<s> caf\u00e9\u00a0x\t0.125\n-0.7 caf\u00e9\u00a0x </s>\n"
        "\\3-grams:\n0 <s> caf\u00e9\u00a0x </s>\n\n\\end\\\n".encode(),
        read=read_arpa,
        write=write_arpa,
        suffix=".arpa",
        same=same_records,
    ),
    Format(
        "word pairs",
        "tiger\tcat\t7.35\n\nJerusalem Isra\u00ebl 8 more\n".encode(),
        read=lambda path: list(read_pairs(path)),
        write=write_pairs,
        stream=read_pairs,
    ),
    Format(
        "analogies",
        b"x y z w\n: capital  cities\nAthens Greece Paris France\n\n: b\n: c\na b c d\n",
        read=lambda path: list(read_analogies(path)),
        write=write_analogies,
        stream=read_analogies,
    ),
    Format(
        "word2vec text",
        "2 3\n</s> 0.5 -1e-3 2 \ncaf\u00e9\u00a0x 1 2 3\n".encode(),
        read=read_vectors,
        write=write_vectors,
        same=same_records,
    ),
    Format(
        "word2vec binary",
        b"2 2\n</s> \x00\x00\x80?\x00\x00\x00\xbf\nb \x00 \n?\xcd\xcc\xcc=\n",
        read=lambda path: read_vectors(path, "binary"),
        write=lambda path, vectors: write_vectors(path, vectors, "binary"),
        suffix=".bin",
        same=same_records,
    ),
]
