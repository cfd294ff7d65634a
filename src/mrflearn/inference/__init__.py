"""Log Z, marginals, most probable assignments and samples, from potentials."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.inference.annealed import AnnealedEstimate as AnnealedEstimate
    from mrflearn.inference.annealed import AnnealedImportance as AnnealedImportance
    from mrflearn.inference.anytime import Anytime as Anytime
    from mrflearn.inference.automatic import Automatic as Automatic
    from mrflearn.inference.belief_propagation import BeliefPropagation as BeliefPropagation
    from mrflearn.inference.beliefs import Beliefs as Beliefs
    from mrflearn.inference.beliefs import Decoding as Decoding
    from mrflearn.inference.beliefs import Inference as Inference
    from mrflearn.inference.beliefs import Maximiser as Maximiser
    from mrflearn.inference.beliefs import Sampler as Sampler
    from mrflearn.inference.beliefs import with_gradient as with_gradient
    from mrflearn.inference.chain import Chain as Chain
    from mrflearn.inference.compiled_field import CompiledField as CompiledField
    from mrflearn.inference.compiled_field import Posteriors as Posteriors
    from mrflearn.inference.decoding import best_list as best_list
    from mrflearn.inference.enumeration import Enumeration as Enumeration
    from mrflearn.inference.join_graph import JoinGraphPropagation as JoinGraphPropagation
    from mrflearn.inference.junction_tree import JunctionTree as JunctionTree
    from mrflearn.inference.lifted import rings_of_torus as rings_of_torus
    from mrflearn.inference.mean_field import MeanField as MeanField
    from mrflearn.inference.mini_bucket import MiniBucket as MiniBucket
    from mrflearn.inference.sampling import Draw as Draw
    from mrflearn.inference.sampling import Drawing as Drawing
    from mrflearn.inference.sampling import Gibbs as Gibbs
    from mrflearn.inference.sampling import GibbsRun as GibbsRun
    from mrflearn.inference.sampling import effective_draws as effective_draws
    from mrflearn.inference.sampling import split_r_hat as split_r_hat
    from mrflearn.inference.search import BranchAndBound as BranchAndBound
    from mrflearn.inference.tempering import ParallelTempering as ParallelTempering
    from mrflearn.inference.tree_reweighted import TreeReweighted as TreeReweighted

__getattr__, __dir__ = lazy(__name__)
