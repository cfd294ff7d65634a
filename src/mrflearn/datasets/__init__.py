"""Built-in corpora and generators."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.datasets.docstrings import docstring_documents as docstring_documents
    from mrflearn.datasets.docstrings import docstring_sentences as docstring_sentences
    from mrflearn.datasets.english import Document as Document
    from mrflearn.datasets.english import Entropy as Entropy
    from mrflearn.datasets.english import Sentence as Sentence
    from mrflearn.datasets.english import document_log_probability as document_log_probability
    from mrflearn.datasets.english import entropy_per_sentence as entropy_per_sentence
    from mrflearn.datasets.english import sample_documents as sample_documents

__getattr__, __dir__ = lazy(__name__)
