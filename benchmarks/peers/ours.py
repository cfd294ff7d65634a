"""mrflearn, on one thread.  A problem on stdin, an answer on stdout."""

import json
import sys
import time
from dataclasses import replace

import numpy as np
import torch

from mrflearn.graph import Potentials, condition, from_uai
from mrflearn.inference import BeliefPropagation, BranchAndBound, Gibbs, JunctionTree
from mrflearn.io import UaiNetwork

torch.set_num_threads(1)


def main() -> None:
    problem = json.load(sys.stdin)
    states = tuple(problem["states"])
    scopes = tuple(tuple(scope) for scope, _ in problem["factors"])
    tables = tuple(
        np.reshape(table, [states[v] for v in scope]) for scope, table in problem["factors"]
    )
    potentials = from_uai(UaiNetwork("MARKOV", states, scopes, tables))
    evidence = dict(problem["evidence"])
    task, sweeps = problem["task"], problem["sweeps"]
    method = JunctionTree()
    if task == "sweeps":
        # A tolerance of 0 asks for every sweep, converged or not.
        method = BeliefPropagation(sweeps, tolerance=0.0, damping=problem["damping"])
    gibbs = Gibbs(sweeps=sweeps, burn_in=0, chains=problem["chains"], thin=10)
    times = []
    for _ in range(problem["repeats"] + 1):  # the first warms up
        if task in ("first", "best"):  # a graph keeps its plan
            potentials = Potentials(replace(potentials.graph), potentials.tables)
        began = time.perf_counter()
        if task == "best":
            answer = BranchAndBound().best(potentials)
        elif task == "gibbs":
            answer = gibbs.run(potentials)
        else:
            answer = method(condition(potentials, evidence))
        times.append(time.perf_counter() - began)
    if task == "sweeps" and answer.sweeps != sweeps:
        raise SystemExit(f"{answer.sweeps} sweeps were made, not {sweeps}")
    if task == "best":
        marginals = answer.assignment
    elif task == "gibbs":
        marginals = answer.states.double().mean((0, 1)).mean().reshape(1)
    else:
        marginals = answer.variables[potentials.graph.legal()]
    print(json.dumps({"seconds": min(times[1:]), "marginals": marginals.tolist()}))


if __name__ == "__main__":
    main()
