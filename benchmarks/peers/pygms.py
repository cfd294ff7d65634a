"""pyGMs: its junction tree, all marginals.  A problem on stdin, an answer on stdout."""

import json
import sys
import time

import numpy as np
import pygms
from pygms.wmb import JTree


def main() -> None:
    problem = json.load(sys.stdin)
    variables = [pygms.Var(i, count) for i, count in enumerate(problem["states"])]
    factors = []
    for scope, table in problem["factors"]:
        values = np.reshape(table, [problem["states"][v] for v in scope])
        ascending = np.argsort(scope)  # as it sorts the variables of a factor
        own = [variables[scope[i]] for i in ascending]
        factors.append(pygms.Factor(own, values.transpose(ascending)))
    model = pygms.GraphModel(factors)
    times = []
    for _ in range(problem["repeats"]):
        began = time.perf_counter()
        found = JTree(model).beliefs([pygms.VarSet([v]) for v in variables])
        times.append(time.perf_counter() - began)
    single = {int(next(iter(scope))): own.table.ravel().tolist() for scope, own in found.items()}
    marginals = [p for i in range(len(variables)) for p in single[i]]
    print(json.dumps({"seconds": min(times), "marginals": marginals}))


if __name__ == "__main__":
    main()
