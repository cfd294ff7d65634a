"""pyAgrum: Shafer-Shenoy, all marginals, one thread.  A problem on stdin, an answer on stdout."""

import json
import sys
import time

import pyagrum

pyagrum.setNumberOfThreads(1)


def main() -> None:
    problem = json.load(sys.stdin)
    network = pyagrum.MarkovRandomField()
    for i, count in enumerate(problem["states"]):
        network.add(pyagrum.LabelizedVariable(f"x{i}", "", count))
    # It has one factor for each set of variables.
    joined = {}
    for scope, table in problem["factors"]:
        values = pyagrum.Tensor()
        for v in reversed(scope):  # its first variable changes fastest
            values.add(network.variable(f"x{v}"))
        values.fillWith(table)
        key = frozenset(scope)
        joined[key] = joined[key] * values if key in joined else values
    for values in joined.values():
        network.addFactor(values)
    times = []
    for _ in range(problem["repeats"]):
        began = time.perf_counter()
        engine = pyagrum.ShaferShenoyMRFInference(network)
        engine.setEvidence({f"x{v}": state for v, state in problem["evidence"]})
        engine.makeInference()
        posteriors = [engine.posterior(f"x{i}") for i in range(len(problem["states"]))]
        marginals = [p for own in posteriors for p in own.tolist()]
        times.append(time.perf_counter() - began)
    print(json.dumps({"seconds": min(times), "marginals": marginals}))


if __name__ == "__main__":
    main()
