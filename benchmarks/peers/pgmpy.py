"""pgmpy: its junction tree, log Z and all marginals.  A problem on stdin, an answer on stdout."""

import json
import logging
import sys
import time

import numpy as np
from pgmpy.factors.discrete import DiscreteFactor
from pgmpy.inference import BeliefPropagation
from pgmpy.models import MarkovNetwork

logging.disable(logging.WARNING)


def main() -> None:
    problem = json.load(sys.stdin)
    edges = [(f"x{a}", f"x{b}") for a, b in problem["edges"]]
    network = MarkovNetwork(edges)
    for i, h in enumerate(problem["fields"]):
        network.add_factors(DiscreteFactor([f"x{i}"], [2], np.exp([-h, h])))
    for pair, j in zip(edges, problem["couplings"], strict=True):
        network.add_factors(DiscreteFactor(list(pair), [2, 2], np.exp([j, -j, -j, j])))
    times = []
    for _ in range(problem["repeats"]):
        began = time.perf_counter()
        tree = BeliefPropagation(network)
        tree.calibrate()
        cliques = dict(tree.get_clique_beliefs())
        log_partition = float(np.log(next(iter(cliques.values())).values.sum()))
        marginals = [marginal(cliques, f"x{i}") for i in range(len(problem["fields"]))]
        times.append(time.perf_counter() - began)
    print(
        json.dumps({"seconds": min(times), "marginals": marginals, "log_partition": log_partition})
    )


def marginal(cliques: dict, name: str) -> float:
    """P(+1), summed out of the first clique that holds the variable."""
    clique = next(c for c in cliques if name in c)
    others = [v for v in clique if v != name]
    values = cliques[clique].marginalize(others, inplace=False).values
    return float(values[1] / values.sum())


if __name__ == "__main__":
    main()
