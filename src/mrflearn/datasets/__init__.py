"""Built-in corpora and generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.datasets.docstrings import docstring_documents, docstring_sentences
    from mrflearn.datasets.english import (
        Document,
        Entropy,
        Sentence,
        document_log_probability,
        entropy_per_sentence,
        sample_documents,
    )

__all__ = [
    "Document",
    "Entropy",
    "Sentence",
    "docstring_documents",
    "docstring_sentences",
    "document_log_probability",
    "entropy_per_sentence",
    "sample_documents",
]

__getattr__, __dir__ = lazy(__name__)
