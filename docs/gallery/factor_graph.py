"""A factor graph by hand

The classic network of a sprinkler: it may rain, the sprinkler may be on, the grass may be wet. Four tables, and every question
about them: marginals, evidence, the most probable states, samples, a picture, files for other programs.
"""

# %% Tables of conditional probabilities; the last axis of each is the variable that the others influence.
from mrflearn import Network
from mrflearn.inference import JunctionTree, best_list

lawn = Network({name: ["no", "yes"] for name in ("cloudy", "sprinkler", "rain", "wet grass")})
lawn.add_conditional("cloudy", [], [0.5, 0.5])
lawn.add_conditional("sprinkler", ["cloudy"], [[0.5, 0.5], [0.9, 0.1]])
lawn.add_conditional("rain", ["cloudy"], [[0.8, 0.2], [0.2, 0.8]])
wet = [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]]
lawn.add_conditional("wet grass", ["sprinkler", "rain"], wet)

# %% Marginal probabilities before anything is observed, and given evidence.
for evidence in ({}, {"wet grass": "yes"}, {"wet grass": "yes", "cloudy": "yes"}):
    marginals = lawn.marginals(evidence)
    print("given", evidence, {name: round(own["yes"], 3) for name, own in marginals.items()})

# %% Two variables together: given wet grass, rain explains the sprinkler away.
print(lawn.query(["sprinkler", "rain"], {"wet grass": "yes"}))

# %% The log-probability of the evidence, the most probable states, samples given it.
print("log p(wet grass) =", round(float(lawn.log_partition({"wet grass": "yes"})), 4))
print(lawn.map({"wet grass": "yes"}))
print(lawn.sample(5, {"wet grass": "yes"}, seed=0))

# %% Below the names there are potentials, which every inference takes: the three best joint states.
for assignment, score in best_list(lawn.potentials, 3, JunctionTree()):
    print(assignment.tolist(), round(score, 4))

# %% The network given wet grass, and a file for `mrflearn infer` and other programs.
# ![The four variables, their probabilities and arrows](../pictures/gallery/factor-graph.png)
lawn.draw({"wet grass": "yes"}, "factor-graph.png")
lawn.write("sprinkler.bif")
