"""NLTK's best parse of a tag string.  A task on stdin, an answer on stdout.

A task may have a limit in seconds; an answer without a score was stopped by it.
"""

import json
import math
import signal
import sys
import time

from nltk.grammar import PCFG, Nonterminal, ProbabilisticProduction
from nltk.parse import ViterbiParser


class LateError(Exception):
    pass


def late(*_: object) -> None:
    raise LateError


def main() -> None:
    task = json.load(sys.stdin)
    rules = [
        ProbabilisticProduction(
            Nonterminal(left),
            [Nonterminal(name) if name[0] != "w" else name for name in right],
            prob=chance,
        )
        for left, right, chance in task["rules"]
    ]
    parser = ViterbiParser(PCFG(Nonterminal("ROOT"), rules), max_time=None)
    signal.signal(signal.SIGALRM, late)
    score = None
    began = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, task.get("limit", 0))
    try:
        (tree,) = parser.parse(task["words"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        score = tree.logprob() * math.log(2)
    except LateError:
        pass
    print(json.dumps({"seconds": time.perf_counter() - began, "score": score}))


if __name__ == "__main__":
    main()
