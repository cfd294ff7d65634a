"""NLTK's Kneser-Ney trains, and scores a few sentences.  A task on stdin, an answer on stdout."""

import json
import sys
import time
from pathlib import Path

from nltk.lm import KneserNeyInterpolated
from nltk.lm.preprocessing import padded_everygram_pipeline


def main() -> None:
    task = json.load(sys.stdin)
    train = [line.split() for line in Path(task["text"]).read_text().splitlines()]
    began = time.perf_counter()
    model = KneserNeyInterpolated(task["order"])
    model.fit(*padded_everygram_pipeline(task["order"], train))
    seconds = time.perf_counter() - began
    words = train[1][:6]
    began = time.perf_counter()
    for i in range(task["order"], len(words)):
        model.logscore(words[i], words[i - task["order"] + 1 : i])
    each = (time.perf_counter() - began) / max(len(words) - task["order"], 1)
    note = f"one fixed discount; scoring takes {each * 1e3:.0f} ms a token"
    print(json.dumps({"seconds": seconds, "note": note}))


if __name__ == "__main__":
    main()
