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
    from mrflearn.inference.best_lists import best_list
    from mrflearn.inference.chain import Chain
    from mrflearn.inference.chain_bound import rings_of_torus
    from mrflearn.inference.diagnostics import effective_draws, split_r_hat
    from mrflearn.inference.draw import Draw, Drawing
    from mrflearn.inference.enumeration import Enumeration
    from mrflearn.inference.gibbs import Gibbs, GibbsRun
    from mrflearn.inference.junction_tree import JunctionTree
    from mrflearn.inference.mean_field import MeanField
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "AnnealedEstimate": ".annealed",
        "AnnealedImportance": ".annealed",
        "Automatic": ".automatic",
        "BeliefPropagation": ".belief_propagation",
        "Beliefs": ".beliefs",
        "Chain": ".chain",
        "Decoding": ".beliefs",
        "Draw": ".draw",
        "Drawing": ".draw",
        "Enumeration": ".enumeration",
        "Gibbs": ".gibbs",
        "GibbsRun": ".gibbs",
        "Inference": ".beliefs",
        "JunctionTree": ".junction_tree",
        "Maximiser": ".beliefs",
        "MeanField": ".mean_field",
        "Sampler": ".beliefs",
        "TreeReweighted": ".tree_reweighted",
        "best_list": ".best_lists",
        "effective_draws": ".diagnostics",
        "rings_of_torus": ".chain_bound",
        "split_r_hat": ".diagnostics",
        "with_gradient": ".beliefs",
    },
)
