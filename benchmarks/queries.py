"""Many questions about one network: compiled once, against asking anew each time.

Three ways in which evidence changes: a new finding beside what is observed (and stays so), other
values of the observed variables, and other observed variables.  The first is compiled after
`condition`, as the guide says; the others are asked of the network as it is.  Values are drawn from
the network, so that every evidence is possible.  A time counts only where all marginals agree.

The loop over a circuit is compiled (MRFLEARN_COMPILE=always, unless it is set), where numba is
installed; what the first question takes, with the compiler or its cache, is given beside.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from mrflearn.graph import Potentials, condition, from_uai
from mrflearn.inference import CompiledField, JunctionTree
from mrflearn.io import uai

Evidence = dict[int, int]


def timed(action: Callable[[], object]) -> tuple[float, object]:
    began = time.perf_counter()
    found = action()
    return time.perf_counter() - began, found


def compare(name: str, field: Potentials, given: Evidence, asked: list[Evidence]) -> bool:
    """Prints one row: `given` is in the compiled field, `asked` differs.  False: answers differ."""
    took, compiled = timed(lambda: CompiledField(condition(field, given)))
    assert isinstance(compiled, CompiledField)
    first, _ = timed(lambda: compiled.ask(asked[0]))
    ours, anew, apart = [], [], 0.0
    for evidence in asked:
        seconds, found = timed(lambda own=evidence: compiled.ask(own))
        ours.append(seconds)
        seconds, expected = timed(
            lambda own=evidence: JunctionTree()(condition(field, {**given, **own}))
        )
        anew.append(seconds)
        difference = found.variables[0] - expected.variables
        apart = max(apart, float(difference.abs().max()))
    ratio = median(anew) / median(ours)
    size = "no circuit" if compiled.circuit is None else f"{len(compiled.circuit.leaf):,} entries"
    print(
        f"{name:32s} compiled in {took:.2f} s ({size}); first asked {first:.2f} s, "
        f"then {1e3 * median(ours):.1f} ms, anew {1e3 * median(anew):.0f} ms: "
        f"{ratio:.1f}x; marginals apart {apart:.0e}",
        flush=True,
    )
    return apart < 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="Pedigree_11")
    parser.add_argument("--questions", type=int, default=10)
    options = parser.parse_args()
    os.environ.setdefault("MRFLEARN_COMPILE", "always")
    path = Path(os.environ["MRFLEARN_DATA"]) / "uai" / f"{options.network}.uai"
    field, observed = from_uai(uai.read_network(path)), uai.read_evidence(Path(f"{path}.evid"))
    n, variables = options.questions, list(range(field.graph.variables))
    free = [v for v in variables if v not in observed]
    agree = []
    drawn = JunctionTree().sample(condition(field, observed), n, seed=0).tolist()
    new = [{free[i * len(free) // n]: own[free[i * len(free) // n]]} for i, own in enumerate(drawn)]
    agree.append(compare("a new finding", field, observed, new))
    drawn = JunctionTree().sample(field, n, seed=1).tolist()
    agree.append(
        compare("other values", field, {}, [{v: own[v] for v in observed} for own in drawn])
    )
    sets = [variables[i :: len(variables) // max(1, len(observed))] for i in range(n)]
    other = [{v: own[v] for v in chosen} for chosen, own in zip(sets, drawn, strict=True)]
    agree.append(compare("other observed variables", field, {}, other))
    if not all(agree):
        sys.exit("answers differ")


if __name__ == "__main__":
    main()
