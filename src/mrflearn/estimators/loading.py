"""Any saved model by its path: models say what they are."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from mrflearn.errors import StorageError
from mrflearn.models.storage import read_model

# Where each class lives; only the one that is asked for is imported.
HOMES = {
    "CRF": "mrflearn.estimators.crf",
    "CompositeLanguageModel": "mrflearn.estimators.composite",
    "FactorialCRF": "mrflearn.estimators.factorial_crf",
    "GraphCRF": "mrflearn.estimators.graph_crf",
    "HMMTagger": "mrflearn.estimators.hmm_tagger",
    "JointTagger": "mrflearn.estimators.tagger",
    "LanguageModel": "mrflearn.estimators.language_model",
    "MarkovField": "mrflearn.estimators.field",
    "NgramLanguageModel": "mrflearn.estimators.ngram",
    "PCFG": "mrflearn.estimators.pcfg",
    "PottsField": "mrflearn.estimators.potts",
    "SkipChainCRF": "mrflearn.estimators.skip_chain_crf",
    "WordVectors": "mrflearn.estimators.word_vectors",
}


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> Any:
    """The fitted estimator that was saved there, whichever class it is."""
    stored = read_model(path, device=device)
    if stored.kind not in HOMES:
        known = ", ".join(sorted(HOMES))
        raise StorageError(
            f"{path} holds a '{stored.kind}', which this version does not know (it knows {known})."
        )
    kind = getattr(import_module(HOMES[stored.kind]), stored.kind)
    return kind.from_stored(stored, device=device)
