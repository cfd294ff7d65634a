"""Readers and writers of files: one module per format, without torch."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.io.alignments import Alignment as Alignment
    from mrflearn.io.alignments import Focus as Focus
    from mrflearn.io.alignments import read_alignment as read_alignment
    from mrflearn.io.alignments import write_alignment as write_alignment
    from mrflearn.io.arpa import Arpa as Arpa
    from mrflearn.io.arpa import read_arpa as read_arpa
    from mrflearn.io.arpa import write_arpa as write_arpa
    from mrflearn.io.bif import read_bif as read_bif
    from mrflearn.io.bif import write_bif as write_bif
    from mrflearn.io.conllu import ConlluRow as ConlluRow
    from mrflearn.io.conllu import ConlluSentence as ConlluSentence
    from mrflearn.io.conllu import read_conllu as read_conllu
    from mrflearn.io.conllu import write_conllu as write_conllu
    from mrflearn.io.contacts import read_contacts as read_contacts
    from mrflearn.io.contacts import write_contacts as write_contacts
    from mrflearn.io.corpus import Vocabulary as Vocabulary
    from mrflearn.io.corpus import count_words as count_words
    from mrflearn.io.corpus import read_documents as read_documents
    from mrflearn.io.corpus import read_sentences as read_sentences
    from mrflearn.io.corpus import write_documents as write_documents
    from mrflearn.io.corpus import write_sentences as write_sentences
    from mrflearn.io.crfsuite_text import AttributeSequence as AttributeSequence
    from mrflearn.io.crfsuite_text import read_crfsuite as read_crfsuite
    from mrflearn.io.crfsuite_text import write_crfsuite as write_crfsuite
    from mrflearn.io.files import read_lines as read_lines
    from mrflearn.io.files import write_text as write_text
    from mrflearn.io.formats import ColumnSentence as ColumnSentence
    from mrflearn.io.formats import TaggedSentence as TaggedSentence
    from mrflearn.io.formats import convert_file as convert_file
    from mrflearn.io.formats import read_columns as read_columns
    from mrflearn.io.formats import read_tagged as read_tagged
    from mrflearn.io.formats import write_columns as write_columns
    from mrflearn.io.formats import write_tagged as write_tagged
    from mrflearn.io.graphs import LabelledGraph as LabelledGraph
    from mrflearn.io.graphs import read_graphs as read_graphs
    from mrflearn.io.graphs import write_graphs as write_graphs
    from mrflearn.io.grmm import LayeredSequence as LayeredSequence
    from mrflearn.io.grmm import read_grmm as read_grmm
    from mrflearn.io.grmm import write_grmm as write_grmm
    from mrflearn.io.potts_files import CouplingsFile as CouplingsFile
    from mrflearn.io.potts_files import read_ccmpred as read_ccmpred
    from mrflearn.io.potts_files import read_plmc as read_plmc
    from mrflearn.io.potts_files import write_ccmpred as write_ccmpred
    from mrflearn.io.potts_files import write_plmc as write_plmc
    from mrflearn.io.ptb import read_trees as read_trees
    from mrflearn.io.ptb import write_trees as write_trees
    from mrflearn.io.samples import SampleTable as SampleTable
    from mrflearn.io.samples import read_sample_chunks as read_sample_chunks
    from mrflearn.io.samples import read_samples as read_samples
    from mrflearn.io.samples import write_samples as write_samples
    from mrflearn.io.seminars import Seminar as Seminar
    from mrflearn.io.seminars import read_seminar as read_seminar
    from mrflearn.io.seminars import read_seminars as read_seminars
    from mrflearn.io.seminars import write_seminar as write_seminar
    from mrflearn.io.similarity import Analogy as Analogy
    from mrflearn.io.similarity import WordPair as WordPair
    from mrflearn.io.similarity import read_analogies as read_analogies
    from mrflearn.io.similarity import read_pairs as read_pairs
    from mrflearn.io.similarity import write_analogies as write_analogies
    from mrflearn.io.similarity import write_pairs as write_pairs
    from mrflearn.io.spans import Span as Span
    from mrflearn.io.spans import convert_tags as convert_tags
    from mrflearn.io.spans import spans_to_tags as spans_to_tags
    from mrflearn.io.spans import tags_to_spans as tags_to_spans
    from mrflearn.io.state_codes import StateCodes as StateCodes
    from mrflearn.io.structures import Structure as Structure
    from mrflearn.io.structures import read_structure as read_structure
    from mrflearn.io.trees import Tree as Tree
    from mrflearn.io.uai import UaiNetwork as UaiNetwork
    from mrflearn.io.uai import read_evidence as read_evidence
    from mrflearn.io.uai import read_marginals as read_marginals
    from mrflearn.io.uai import read_network as read_network
    from mrflearn.io.uai import read_partition as read_partition
    from mrflearn.io.uai import write_evidence as write_evidence
    from mrflearn.io.uai import write_marginals as write_marginals
    from mrflearn.io.uai import write_network as write_network
    from mrflearn.io.uai import write_partition as write_partition
    from mrflearn.io.vectors import NamedVectors as NamedVectors
    from mrflearn.io.vectors import read_vectors as read_vectors
    from mrflearn.io.vectors import write_vectors as write_vectors
    from mrflearn.io.xmlbif import read_xmlbif as read_xmlbif
    from mrflearn.io.xmlbif import write_xmlbif as write_xmlbif

__getattr__, __dir__ = lazy(__name__)
