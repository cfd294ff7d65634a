"""Readers and writers of files: one module per format, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.io.alignments import Alignment, read_alignment, write_alignment
    from mrflearn.io.arpa import Arpa, read_arpa, write_arpa
    from mrflearn.io.conllu import ConlluRow, ConlluSentence, read_conllu, write_conllu
    from mrflearn.io.contacts import read_contacts, write_contacts
    from mrflearn.io.corpus import (
        Vocabulary,
        count_words,
        read_documents,
        read_sentences,
        write_documents,
        write_sentences,
    )
    from mrflearn.io.crfsuite_text import AttributeSequence, read_crfsuite, write_crfsuite
    from mrflearn.io.files import read_lines, write_text
    from mrflearn.io.formats import (
        ColumnSentence,
        TaggedSentence,
        convert_file,
        read_columns,
        read_tagged,
        write_columns,
        write_tagged,
    )
    from mrflearn.io.graphs import LabelledGraph, read_graphs, write_graphs
    from mrflearn.io.grmm import LayeredSequence, read_grmm, write_grmm
    from mrflearn.io.ptb import read_trees, write_trees
    from mrflearn.io.samples import SampleTable, read_sample_chunks, read_samples, write_samples
    from mrflearn.io.seminars import Seminar, read_seminar, read_seminars, write_seminar
    from mrflearn.io.similarity import (
        Analogy,
        WordPair,
        read_analogies,
        read_pairs,
        write_analogies,
        write_pairs,
    )
    from mrflearn.io.spans import Span, convert_tags, spans_to_tags, tags_to_spans
    from mrflearn.io.state_codes import StateCodes
    from mrflearn.io.trees import Tree
    from mrflearn.io.uai import (
        UaiNetwork,
        read_evidence,
        read_marginals,
        read_network,
        read_partition,
        write_evidence,
        write_marginals,
        write_network,
        write_partition,
    )
    from mrflearn.io.vectors import NamedVectors, read_vectors, write_vectors

__all__ = [
    "Alignment",
    "Analogy",
    "Arpa",
    "AttributeSequence",
    "ColumnSentence",
    "ConlluRow",
    "ConlluSentence",
    "LabelledGraph",
    "LayeredSequence",
    "NamedVectors",
    "SampleTable",
    "Seminar",
    "Span",
    "StateCodes",
    "TaggedSentence",
    "Tree",
    "UaiNetwork",
    "Vocabulary",
    "WordPair",
    "convert_file",
    "convert_tags",
    "count_words",
    "read_alignment",
    "read_analogies",
    "read_arpa",
    "read_columns",
    "read_conllu",
    "read_contacts",
    "read_crfsuite",
    "read_documents",
    "read_evidence",
    "read_graphs",
    "read_grmm",
    "read_lines",
    "read_marginals",
    "read_network",
    "read_pairs",
    "read_partition",
    "read_sample_chunks",
    "read_samples",
    "read_seminar",
    "read_seminars",
    "read_sentences",
    "read_tagged",
    "read_trees",
    "read_vectors",
    "spans_to_tags",
    "tags_to_spans",
    "write_alignment",
    "write_analogies",
    "write_arpa",
    "write_columns",
    "write_conllu",
    "write_contacts",
    "write_crfsuite",
    "write_documents",
    "write_evidence",
    "write_graphs",
    "write_grmm",
    "write_marginals",
    "write_network",
    "write_pairs",
    "write_partition",
    "write_samples",
    "write_seminar",
    "write_sentences",
    "write_tagged",
    "write_text",
    "write_trees",
    "write_vectors",
]

__getattr__, __dir__ = lazy(__name__)
