"""toulbar2: the most probable states, proved.  A problem on stdin, an answer on stdout."""

import json
import math
import sys
import time

from pytoulbar2 import CFN

DECIMALS = 6  # its costs are fixed-point numbers


def main() -> None:
    problem = json.load(sys.stdin)
    times = []
    for _ in range(problem["repeats"]):
        network = CFN(resolution=DECIMALS)
        for i, count in enumerate(problem["states"]):
            network.AddVariable(f"x{i}", range(count))
        for scope, table in problem["factors"]:
            network.AddFunction(scope, [-math.log(value) for value in table])
        began = time.perf_counter()
        found = network.Solve()
        times.append(time.perf_counter() - began)
    note = f"costs of {DECIMALS} decimals; proved"
    print(json.dumps({"seconds": min(times), "marginals": list(found[0]), "note": note}))


if __name__ == "__main__":
    main()
