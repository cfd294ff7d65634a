"""NLTK's best parse of a tag string.  A task on stdin, an answer on stdout."""

import json
import math
import sys
import time

from nltk.grammar import PCFG, Nonterminal, ProbabilisticProduction
from nltk.parse import ViterbiParser


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
    began = time.perf_counter()
    (tree,) = parser.parse(task["words"])
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "score": tree.logprob() * math.log(2)}))


if __name__ == "__main__":
    main()
