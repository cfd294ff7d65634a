"""gensim's CBOW vectors, written in word2vec format.  A task on stdin, an answer on stdout."""

import json
import sys
import time
from pathlib import Path

from gensim.models import Word2Vec


def main() -> None:
    task = json.load(sys.stdin)
    sentences = [line.split() for line in Path(task["text"]).read_text().splitlines()]
    began = time.perf_counter()
    model = Word2Vec(
        sentences, vector_size=task["dims"], window=4, epochs=task["epochs"], min_count=1, sg=0,
        workers=task["threads"], seed=1,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    model.wv.save_word2vec_format(task["vectors"])
    print(json.dumps({"seconds": seconds, "note": f"CBOW, window 4, {task['epochs']} epochs"}))


if __name__ == "__main__":
    main()
