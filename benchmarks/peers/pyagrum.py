"""pyAgrum: Shafer-Shenoy, all marginals, one thread.  A problem on stdin, an answer on stdout."""

import json
import math
import sys
import time

import pyagrum

pyagrum.setNumberOfThreads(1)


def main() -> None:
    problem = json.load(sys.stdin)
    network = pyagrum.MarkovRandomField()
    for i in range(len(problem["fields"])):
        network.add(pyagrum.LabelizedVariable(f"x{i}", "", 2))
    for i, h in enumerate(problem["fields"]):
        network.addFactor({f"x{i}"}).fillWith([math.exp(-h), math.exp(h)])
    for (a, b), j in zip(problem["edges"], problem["couplings"], strict=True):
        unlike, alike = math.exp(-j), math.exp(j)
        network.addFactor({f"x{a}", f"x{b}"}).fillWith([alike, unlike, unlike, alike])
    times = []
    for _ in range(problem["repeats"]):
        began = time.perf_counter()
        engine = pyagrum.ShaferShenoyMRFInference(network)
        engine.makeInference()
        marginals = [float(engine.posterior(f"x{i}")[1]) for i in range(len(problem["fields"]))]
        times.append(time.perf_counter() - began)
    print(json.dumps({"seconds": min(times), "marginals": marginals}))


if __name__ == "__main__":
    main()
