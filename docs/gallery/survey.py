"""A network of survey items

Ten yes/no items of a sleep questionnaire: which of them depend on each other directly, and which only through others? The
edges are selected by L1-regularised regressions, their strengths estimated by exact maximum likelihood.
"""

# %% Answers as a table with names. Here they are sampled from a network that we know, so that the result can be compared with it; your own would come from a csv file.
import torch

from mrflearn import FieldStructure, MarkovField
from mrflearn.graph import condition, dense_potentials
from mrflearn.inference import Drawing, JunctionTree
from mrflearn.plots import draw_graph

ITEMS = [
    "worry",
    "tension",
    "late screen",
    "coffee",
    "hard to fall asleep",
    "wakes at night",
    "tired",
    "irritable",
    "forgetful",
    "naps",
]
TRUE = {
    (0, 1): 0.6,
    (0, 4): 0.5,
    (2, 4): 0.4,
    (3, 4): 0.5,
    (1, 5): 0.4,
    (4, 6): 0.7,
    (5, 6): 0.5,
    (6, 7): 0.5,
    (6, 8): 0.4,
    (6, 9): 0.6,
    (3, 9): -0.5,
}

spin = torch.tensor([-1.0, 1.0], dtype=torch.float64)
tables = [([i, j], strength * spin[:, None] * spin) for (i, j), strength in TRUE.items()]
truth = dense_potentials([2] * len(ITEMS), tables)
answers = Drawing()(truth, 1000, seed=1).samples.numpy()

# %% The structure first: for each item, which others help to predict it? Then the strengths on these edges.
structure = FieldStructure().fit(answers)
network = MarkovField(structure.graph_, estimator="ml").fit(answers)
for (i, j), strength in sorted(
    zip(network.edges_.tolist(), network.couplings_), key=lambda pair: -abs(pair[1])
):
    print(f"{ITEMS[i]:>20} - {ITEMS[j]:<20} {strength:+.2f}   (true {TRUE.get((i, j), 0):+.1f})")
missed = set(TRUE) - {tuple(edge) for edge in network.edges_.tolist()}
print("missed:", [f"{ITEMS[i]} - {ITEMS[j]}" for i, j in missed])

# %% Thick edges are strong ones; red is positive, blue negative.
# ![The items as a network, edges by strength and sign](../pictures/gallery/survey.png)
draw_graph(network.edges_, network.couplings_, ITEMS).savefig("survey.png", dpi=120)

# %% Exact conditional probabilities of all items for somebody who is tired and drinks no coffee.
given = {ITEMS.index("tired"): 1, ITEMS.index("coffee"): 0}
answer = JunctionTree()(condition(network.potentials_, given))
for item, probabilities in zip(ITEMS, answer.variables.tolist()):
    print(f"{item:>20} {probabilities[1]:.2f}")
