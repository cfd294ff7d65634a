"""Log Z, marginals, most probable assignments and samples, from potentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.inference.annealed import AnnealedEstimate, AnnealedImportance
    from mrflearn.inference.automatic import Automatic
    from mrflearn.inference.belief_propagation import BeliefPropagation
    from mrflearn.inference.beliefs import (
        Beliefs,
        Decoding,
        Inference,
        Maximiser,
        Sampler,
        with_gradient,
    )
    from mrflearn.inference.chain import Chain
    from mrflearn.inference.decoding import best_list
    from mrflearn.inference.enumeration import Enumeration
    from mrflearn.inference.junction_tree import JunctionTree
    from mrflearn.inference.lifted import rings_of_torus
    from mrflearn.inference.mean_field import MeanField
    from mrflearn.inference.sampling import (
        Draw,
        Drawing,
        Gibbs,
        GibbsRun,
        effective_draws,
        split_r_hat,
    )
    from mrflearn.inference.tree_reweighted import TreeReweighted

__all__ = [
    "AnnealedEstimate",
    "AnnealedImportance",
    "Automatic",
    "BeliefPropagation",
    "Beliefs",
    "Chain",
    "Decoding",
    "Draw",
    "Drawing",
    "Enumeration",
    "Gibbs",
    "GibbsRun",
    "Inference",
    "JunctionTree",
    "Maximiser",
    "MeanField",
    "Sampler",
    "TreeReweighted",
    "best_list",
    "effective_draws",
    "rings_of_torus",
    "split_r_hat",
    "with_gradient",
]

__getattr__, __dir__ = lazy(__name__)
