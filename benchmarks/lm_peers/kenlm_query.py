"""KenLM scores a text with the ARPA model it is given.  A task on stdin, an answer on stdout."""

import json
import math
import sys
import time
from pathlib import Path

import kenlm


def main() -> None:
    task = json.load(sys.stdin)
    began = time.perf_counter()
    model = kenlm.Model(task["arpa"])
    loading = time.perf_counter() - began
    lines = [line.strip() for line in Path(task["text"]).read_text().splitlines() if line.strip()]
    times = []
    for _ in range(task["repeats"]):
        began = time.perf_counter()
        total = sum(model.score(line) for line in lines)
        times.append(time.perf_counter() - began)
    tokens = sum(len(line.split()) + 1 for line in lines)
    answer = {"seconds": min(times), "perplexity": math.exp(-total * math.log(10) / tokens)}
    print(json.dumps(answer | {"note": f"reading the ARPA file took {loading:.1f} s more"}))


if __name__ == "__main__":
    main()
