"""Factor graphs, and the potentials on them."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.graph.builders import chain as chain
    from mrflearn.graph.builders import chains as chains
    from mrflearn.graph.builders import chimera as chimera
    from mrflearn.graph.builders import complete as complete
    from mrflearn.graph.builders import cube as cube
    from mrflearn.graph.builders import from_edge_file as from_edge_file
    from mrflearn.graph.builders import from_networkx as from_networkx
    from mrflearn.graph.builders import graph_from_text as graph_from_text
    from mrflearn.graph.builders import grid as grid
    from mrflearn.graph.builders import torus as torus
    from mrflearn.graph.contacts import contact_scores as contact_scores
    from mrflearn.graph.contacts import strongest_pairs as strongest_pairs
    from mrflearn.graph.evidence import condition as condition
    from mrflearn.graph.factor_graph import FactorGraph as FactorGraph
    from mrflearn.graph.factor_graph import FactorGroup as FactorGroup
    from mrflearn.graph.factor_graph import disjoint_union as disjoint_union
    from mrflearn.graph.gauges import IsingParameters as IsingParameters
    from mrflearn.graph.gauges import ising_parameters as ising_parameters
    from mrflearn.graph.gauges import random_ising as random_ising
    from mrflearn.graph.gauges import reference_gauge as reference_gauge
    from mrflearn.graph.gauges import zero_sum_gauge as zero_sum_gauge
    from mrflearn.graph.networks import from_uai as from_uai
    from mrflearn.graph.networks import to_uai as to_uai
    from mrflearn.graph.potentials import DenseTable as DenseTable
    from mrflearn.graph.potentials import Potentials as Potentials
    from mrflearn.graph.potentials import batch as batch
    from mrflearn.graph.potentials import dense_potentials as dense_potentials

__getattr__, __dir__ = lazy(__name__)
