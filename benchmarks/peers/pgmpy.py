"""pgmpy: its junction tree, log Z and all marginals.  A problem on stdin, an answer on stdout."""

import json
import logging
import sys
import time

from pgmpy.factors.discrete import DiscreteFactor
from pgmpy.inference import BeliefPropagation
from pgmpy.models import MarkovNetwork

logging.disable(logging.WARNING)


def main() -> None:
    problem = json.load(sys.stdin)
    states = problem["states"]
    pairs = [scope for scope, _ in problem["factors"] if len(scope) == 2]
    network = MarkovNetwork([(f"x{a}", f"x{b}") for a, b in pairs])
    for scope, table in problem["factors"]:
        names, sizes = [f"x{v}" for v in scope], [states[v] for v in scope]
        network.add_factors(DiscreteFactor(names, sizes, table))
    times = []
    for _ in range(problem["repeats"]):
        began = time.perf_counter()
        tree = BeliefPropagation(network)
        tree.calibrate()
        cliques = dict(tree.get_clique_beliefs())
        marginals = [p for i in range(len(states)) for p in marginal(cliques, f"x{i}")]
        times.append(time.perf_counter() - began)
    print(json.dumps({"seconds": min(times), "marginals": marginals}))


def marginal(cliques: dict, name: str) -> list[float]:
    """Summed out of the first clique that holds the variable."""
    clique = next(c for c in cliques if name in c)
    others = [v for v in clique if v != name]
    values = cliques[clique].marginalize(others, inplace=False).values
    return (values / values.sum()).tolist()


if __name__ == "__main__":
    main()
