"""One pass of inside and outside over real sentences, on the processor and on a GPU.

    python benchmarks/chart_devices.py --data FOLDER [--sentences 4000]

Rules are those of the treebank sample; sentences are its own and Brown's, words scored at random.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

import torch

from mrflearn.features.treebank import TreebankCounts
from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import inside_outside
from mrflearn.io.ptb import read_trees
from mrflearn.io.trees import remove_traces

LONGEST = 40


def lengths_of(data: Path) -> dict[str, list[int]]:
    """The lengths of sentences of at most 40 words, treebank and Brown."""
    plain = map(remove_traces, read_trees(data / "treebank-sample" / "trees.mrg"))
    found = {"treebank": [len(tree.words) for tree in plain if tree is not None]}
    with gzip.open(data / "brown" / "brown-tagged.txt.gz", "rt", encoding="utf-8") as stream:
        found["Brown"] = [len(line.split()) for line in stream if not line.startswith("#DOC\t")]
    return {name: [n for n in sizes if 0 < n <= LONGEST] for name, sizes in found.items()}


def seconds(counts: TreebankCounts, sizes: list[int], kind: torch.dtype, device: str) -> float:
    """The better of two passes."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randn(sum(sizes), len(counts.preterminals), generator=generator).log_softmax(-1)
    tensors = (words, counts.log_rules(), torch.zeros(counts.shape.symbols))
    words, rules, start = (x.to(device, kind) for x in tensors)
    shape, lengths = counts.shape.to(torch.device(device)), torch.tensor(sizes)
    potentials = ChartPotentials(shape, words, lengths, rules, start)
    times = []
    for _ in range(2):
        begun = time.perf_counter()
        float(inside_outside(potentials).log_partition.sum())
        times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, help="so many of each text, evenly taken")
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    trees = list(read_trees(options.data / "treebank-sample" / "trees.mrg"))
    texts = lengths_of(options.data)
    for device in options.devices:
        for horizontal in (0, 1):
            counts = TreebankCounts.of(trees, horizontal=horizontal)
            for name, sizes in texts.items():
                step = max(1, len(sizes) // (options.sentences or len(sizes)))
                for kind in (torch.float32, torch.float64):
                    taken = sizes[::step]
                    row = {"device": device, "horizontal": horizontal, "text": name}
                    row |= {"type": str(kind)[6:], "sentences": len(taken), "words": sum(taken)}
                    row["seconds"] = round(seconds(counts, taken, kind, device), 3)
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
