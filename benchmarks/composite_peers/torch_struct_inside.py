"""torch-struct's inside and its gradient.  A task on stdin, an answer on stdout."""

import json
import sys
import time

import torch
from torch_struct import SentCFG


def main() -> None:
    task = json.load(sys.stdin)
    torch.set_num_threads(1)
    given = torch.load(task["scores"])
    words, rules, start = (given[name] for name in ("words", "rules", "start"))
    b = len(words)
    seconds = []
    for _ in range(task["repeats"]):
        leaves = [x.clone().requires_grad_() for x in (words, rules, start)]
        began = time.perf_counter()
        # It wants the rules once for each sentence.
        many = leaves[1].expand(b, *rules.shape), leaves[2].expand(b, *start.shape)
        value = SentCFG((leaves[0], *many)).partition
        slopes = torch.autograd.grad(value.sum(), leaves)
        seconds.append(time.perf_counter() - began)
    torch.save({"value": value.detach(), "words": slopes[0], "rules": slopes[1]}, task["answer"])
    print(json.dumps({"seconds": min(seconds)}))


if __name__ == "__main__":
    main()
