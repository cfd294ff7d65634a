"""A factor graph by hand

The classic network of a sprinkler: it may rain, the sprinkler may be on, the grass may be wet. Four tables, and every question
about them: marginals, evidence, the most probable states, samples, files for other programs.
"""

# %% Tables of conditional probabilities, as logarithms. The last axis of each is the variable that the others influence.
import numpy as np
import torch

from mrflearn.graph import condition, dense_potentials, to_uai
from mrflearn.inference import Drawing, JunctionTree, best_list
from mrflearn.io import write_network
from mrflearn.plots import draw_graph

NAMES = ["cloudy", "sprinkler", "rain", "wet grass"]
CLOUDY, SPRINKLER, RAIN, WET = range(4)
network = dense_potentials(
    [2, 2, 2, 2],
    [
        ([CLOUDY], torch.tensor([0.5, 0.5]).log()),
        ([CLOUDY, SPRINKLER], torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log()),
        ([CLOUDY, RAIN], torch.tensor([[0.8, 0.2], [0.2, 0.8]]).log()),
        (
            [SPRINKLER, RAIN, WET],
            torch.tensor([[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]]).log(),
        ),
    ],
)

# %% Marginal probabilities before anything is observed, and given evidence.
for evidence in ({}, {WET: 1}, {WET: 1, CLOUDY: 1}):
    marginals = JunctionTree()(condition(network, evidence)).variables.tolist()
    seen = ", ".join(f"{NAMES[v]} = {s}" for v, s in evidence.items()) or "nothing"
    print(f"given {seen}:", {name: round(p[1], 3) for name, p in zip(NAMES, marginals)})

# %% The log-probability of the evidence is the difference of two log Z.
together = (
    JunctionTree()(condition(network, {WET: 1})).log_partition
    - JunctionTree()(network).log_partition
)
print("p(wet grass) =", round(float(together.exp()), 4))

# %% The most probable joint states in order, and samples; those of `condition(...)` would be conditional on the evidence.
for assignment, score in best_list(network, 3, JunctionTree()):
    print(dict(zip(NAMES, assignment.tolist())), round(np.exp(score), 4))
print(Drawing()(network, 1000, seed=0).samples.double().mean(dim=0))

# %% The graph: an edge for every pair of variables that share a factor.
# ![The four variables and their edges](../pictures/gallery/factor-graph.png)
edges = [(CLOUDY, SPRINKLER), (CLOUDY, RAIN), (SPRINKLER, RAIN), (SPRINKLER, WET), (RAIN, WET)]
draw_graph(edges, [1] * len(edges), NAMES, label="in one factor", signed=False).savefig(
    "factor-graph.png", dpi=120
)
write_network("sprinkler.uai", to_uai(network))  # for `mrflearn infer` and other programs
