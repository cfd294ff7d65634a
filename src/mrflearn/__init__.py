"""Learn Markov random fields: language models, CRFs on any graph, lattices, composite grammars.

Names are loaded on first use, so that `import mrflearn` itself costs nothing.
"""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.estimators.base import load
    from mrflearn.estimators.composite import CompositeLanguageModel
    from mrflearn.estimators.constraints import Constraints
    from mrflearn.estimators.crf import CRF
    from mrflearn.estimators.field import MarkovField
    from mrflearn.estimators.graph_crf import GraphCRF
    from mrflearn.estimators.hmm_tagger import HMMTagger
    from mrflearn.estimators.language_model import LanguageModel
    from mrflearn.estimators.layered_crf import FactorialCRF, SkipChainCRF
    from mrflearn.estimators.ngram import NgramLanguageModel
    from mrflearn.estimators.pcfg import PCFG
    from mrflearn.estimators.potts import PottsField
    from mrflearn.estimators.structure import FieldStructure
    from mrflearn.estimators.tagger import JointTagger
    from mrflearn.estimators.word_vectors import WordVectors
    from mrflearn.features.index import edge
    from mrflearn.features.recipes import word_features

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "PCFG",
    "CompositeLanguageModel",
    "Constraints",
    "FactorialCRF",
    "FieldStructure",
    "GraphCRF",
    "HMMTagger",
    "JointTagger",
    "LanguageModel",
    "MarkovField",
    "NgramLanguageModel",
    "PottsField",
    "SkipChainCRF",
    "WordVectors",
    "__version__",
    "edge",
    "load",
    "word_features",
]

__getattr__, __dir__ = lazy(__name__, packages=True)
