"""Learn Markov random fields: language models, CRFs on any graph, lattices, composite grammars.

Names are loaded on first use, so that `import mrflearn` itself costs nothing.
"""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.estimators.base import load as load
    from mrflearn.estimators.composite import CompositeLanguageModel as CompositeLanguageModel
    from mrflearn.estimators.constraints import Constraints as Constraints
    from mrflearn.estimators.crf import CRF as CRF
    from mrflearn.estimators.field import MarkovField as MarkovField
    from mrflearn.estimators.graph_crf import GraphCRF as GraphCRF
    from mrflearn.estimators.hmm_tagger import HMMTagger as HMMTagger
    from mrflearn.estimators.language_model import LanguageModel as LanguageModel
    from mrflearn.estimators.layered_crf import FactorialCRF as FactorialCRF
    from mrflearn.estimators.layered_crf import SkipChainCRF as SkipChainCRF
    from mrflearn.estimators.neural_crf import NeuralCRF as NeuralCRF
    from mrflearn.estimators.ngram import NgramLanguageModel as NgramLanguageModel
    from mrflearn.estimators.pcfg import PCFG as PCFG
    from mrflearn.estimators.potts import PottsField as PottsField
    from mrflearn.estimators.structure import FieldStructure as FieldStructure
    from mrflearn.estimators.tagger import JointTagger as JointTagger
    from mrflearn.estimators.word_vectors import WordVectors as WordVectors
    from mrflearn.features.index import edge as edge
    from mrflearn.features.recipes import word_features as word_features

__version__ = "0.2.0"

__getattr__, __dir__ = lazy(__name__)
