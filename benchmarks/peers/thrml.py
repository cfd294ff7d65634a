"""thrml (JAX): block Gibbs on two colours.  A problem on stdin, an answer on stdout."""

import json
import sys
import time

import jax
import numpy as np
from thrml import Block, SamplingSchedule, SpinNode, sample_states
from thrml.models.ising import IsingEBM, IsingSamplingProgram, hinton_init

THIN = 10


def main() -> None:
    problem = json.load(sys.stdin)
    size = len(problem["states"])
    nodes = [SpinNode() for _ in range(size)]
    fields, pairs, couplings = np.zeros(size), [], []
    for scope, table in problem["factors"]:
        logs = np.log(table)
        if len(scope) == 1:
            fields[scope[0]] += (logs[1] - logs[0]) / 2
        else:
            pairs.append(scope)
            couplings.append((logs[0] + logs[3] - logs[1] - logs[2]) / 4)
    edges = [(nodes[a], nodes[b]) for a, b in pairs]
    one = jax.numpy.array(1.0)
    numbers = jax.numpy.array(fields), jax.numpy.array(couplings)
    model = IsingEBM(nodes, edges, *numbers, one)
    side = round(size**0.5)
    colours = [Block([nodes[i] for i in range(size) if (i // side + i) % 2 == c]) for c in (0, 1)]
    program = IsingSamplingProgram(model, colours, [])
    schedule = SamplingSchedule(THIN, problem["sweeps"] // THIN, THIN)
    key = jax.random.key(0)
    start = hinton_init(key, model, colours, (problem["chains"],))

    @jax.jit
    def run(key, start):
        keys = jax.random.split(key, problem["chains"])
        return jax.vmap(
            lambda own, states: sample_states(own, program, schedule, states, [], [Block(nodes)])
        )(keys, start)

    times = []
    for _ in range(problem["repeats"] + 1):  # the first compiles
        began = time.perf_counter()
        drawn = jax.block_until_ready(run(key, start))
        times.append(time.perf_counter() - began)
    answer = {"seconds": min(times[1:]), "marginals": [float(np.mean(drawn[0]))]}
    print(json.dumps(answer | {"note": f"float32; compiling took {times[0]:.2f} s more"}))


if __name__ == "__main__":
    main()
