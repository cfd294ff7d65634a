"""Factor graphs, and the potentials on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.graph.builders import from_edge_file, from_networkx, graph_from_text
    from mrflearn.graph.contacts import contact_scores, strongest_pairs
    from mrflearn.graph.evidence import condition, expand_beliefs
    from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, disjoint_union
    from mrflearn.graph.gauges import reference_gauge, zero_sum_gauge
    from mrflearn.graph.ising import IsingParameters, ising_parameters, random_ising
    from mrflearn.graph.lattices import chimera, complete, cube, grid, torus
    from mrflearn.graph.networks import from_uai, to_uai
    from mrflearn.graph.potentials import DenseTable, LogTable, Potentials, batch, dense_potentials
    from mrflearn.graph.sequences import chain, chains, factorial_chain, skip_chain

__all__ = [
    "DenseTable",
    "FactorGraph",
    "FactorGroup",
    "IsingParameters",
    "LogTable",
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "DenseTable": ".potentials",
        "FactorGraph": ".factor_graph",
        "FactorGroup": ".factor_graph",
        "IsingParameters": ".ising",
        "LogTable": ".potentials",
        "Potentials": ".potentials",
        "batch": ".potentials",
        "chain": ".sequences",
        "chains": ".sequences",
        "chimera": ".lattices",
        "complete": ".lattices",
        "condition": ".evidence",
        "contact_scores": ".contacts",
        "cube": ".lattices",
        "dense_potentials": ".potentials",
        "disjoint_union": ".factor_graph",
        "expand_beliefs": ".evidence",
        "factorial_chain": ".sequences",
        "from_edge_file": ".builders",
        "from_networkx": ".builders",
        "from_uai": ".networks",
        "graph_from_text": ".builders",
        "grid": ".lattices",
        "ising_parameters": ".ising",
        "random_ising": ".ising",
        "reference_gauge": ".gauges",
        "skip_chain": ".sequences",
        "strongest_pairs": ".contacts",
        "to_uai": ".networks",
        "torus": ".lattices",
        "zero_sum_gauge": ".gauges",
    },
)
