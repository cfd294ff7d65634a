"""Random fields as torch modules: exact and local losses, and answers, under any encoder."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.inference.spans import TransitionMask as TransitionMask
    from mrflearn.inference.spans import legal_chunks as legal_chunks
    from mrflearn.nn.chain import ChainCRF as ChainCRF
    from mrflearn.nn.decoder import ViterbiDecoder as ViterbiDecoder
    from mrflearn.nn.factor_graph import FactorGraphCRF as FactorGraphCRF
    from mrflearn.nn.semi_markov import SemiMarkovCRF as SemiMarkovCRF
    from mrflearn.nn.tree import TreeCRF as TreeCRF
    from mrflearn.nn.word_encoder import WordEncoder as WordEncoder

__getattr__, __dir__ = lazy(__name__)
