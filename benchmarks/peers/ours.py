"""mrflearn, on one thread.  A problem on stdin, an answer on stdout."""

import json
import sys
import time
from dataclasses import replace

import torch

from mrflearn.graph.builders import pairwise
from mrflearn.graph.gauges import ising
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.junction_tree import JunctionTree

torch.set_num_threads(1)


def main() -> None:
    problem = json.load(sys.stdin)
    fields = torch.tensor(problem["fields"], dtype=torch.float64)
    couplings = torch.tensor(problem["couplings"], dtype=torch.float64)
    graph = pairwise(torch.full((len(fields),), 2), torch.tensor(problem["edges"]))
    potentials = ising(graph, fields, couplings)
    method = JunctionTree()
    if problem["task"] == "sweeps":
        # A tolerance of 0 asks for every sweep, converged or not.
        method = BeliefPropagation(problem["sweeps"], tolerance=0.0, damping=problem["damping"])
    times = []
    for _ in range(problem["repeats"] + 1):  # the first warms up
        if problem["task"] == "first":  # a graph keeps its plan
            potentials = Potentials(replace(potentials.graph), potentials.tables)
        began = time.perf_counter()
        beliefs = method(potentials)
        times.append(time.perf_counter() - began)
    if problem["task"] == "sweeps" and beliefs.sweeps != problem["sweeps"]:
        raise SystemExit(f"{beliefs.sweeps} sweeps were made, not {problem['sweeps']}")
    answer = {"seconds": min(times[1:]), "marginals": beliefs.variables[:, 1].tolist()}
    print(json.dumps(answer | {"log_partition": float(beliefs.log_partition), "note": "float64"}))


if __name__ == "__main__":
    main()
