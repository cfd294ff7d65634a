"""Factor graphs, and the potentials on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.graph.builders import (
        chain,
        chains,
        chimera,
        complete,
        cube,
        factorial_chain,
        from_edge_file,
        from_networkx,
        graph_from_text,
        grid,
        skip_chain,
        torus,
    )
    from mrflearn.graph.contacts import contact_scores, strongest_pairs
    from mrflearn.graph.evidence import condition, expand_beliefs
    from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, disjoint_union
    from mrflearn.graph.gauges import (
        IsingParameters,
        ising_parameters,
        random_ising,
        reference_gauge,
        zero_sum_gauge,
    )
    from mrflearn.graph.networks import from_uai, to_uai
    from mrflearn.graph.potentials import DenseTable, Potentials, batch, dense_potentials

__all__ = [
    "DenseTable",
    "FactorGraph",
    "FactorGroup",
    "IsingParameters",
    "Potentials",
    "batch",
    "chain",
    "chains",
    "chimera",
    "complete",
    "condition",
    "contact_scores",
    "cube",
    "dense_potentials",
    "disjoint_union",
    "expand_beliefs",
    "factorial_chain",
    "from_edge_file",
    "from_networkx",
    "from_uai",
    "graph_from_text",
    "grid",
    "ising_parameters",
    "random_ising",
    "reference_gauge",
    "skip_chain",
    "strongest_pairs",
    "to_uai",
    "torus",
    "zero_sum_gauge",
]

__getattr__, __dir__ = lazy(__name__)
