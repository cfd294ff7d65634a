"""What text of any size would cost: counting, pairs kept and one step of training, measured.

    python experiments/scale/run.py --scale smoke     # seconds, built-in text
    python experiments/scale/run.py --scale full      # two minutes; MRFLEARN_DATA holds the text
    python experiments/scale/run.py --scale full --device cuda

Rows go to OUTPUT/rows.jsonl; what is there is not measured again.  The table, the picture and what
the curves say about larger text are made from the rows.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import torch
from report import write_report
from results import Rows

from mrflearn.datasets.docstrings import docstring_sentences
from mrflearn.features.moments import count_text
from mrflearn.io.corpus import Vocabulary, count_words
from mrflearn.kernels.low_rank import star_logsumexp

HERE = Path(__file__).parent
DIMENSIONS, OFFSETS = 32, 2
BEST_OF = 3


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    parts: tuple[int, ...]  # the text is cut into so many, and the first is counted
    vocabularies: tuple[int | None, ...]  # None: every word of the text
    cpu: tuple[int, ...]  # sizes of vocabulary to take a step of training at
    cuda: tuple[int, ...]


SCALES = {
    "smoke": Scale((8, 1), (500,), (200, 400), (1_000,)),
    "full": Scale(
        (64, 32, 16, 8, 4, 2, 1),
        (10_000, None),
        (1_000, 2_000, 5_000, 10_000, 20_000),
        (10_000, 30_000, 100_000, 300_000, 1_000_000),
    ),
}


def text_lines(scale: str) -> list[str]:
    """The sentences of WikiText-2, or those of the built-in text, one a line."""
    if scale == "smoke":
        return [" ".join(words) for words in islice(docstring_sentences(), 2_000)]
    folder = os.environ.get("MRFLEARN_DATA")
    if folder is None:
        sys.exit("MRFLEARN_DATA names no folder; set it to one that has wikitext-2.")
    path = Path(folder) / "wikitext-2" / "wiki.train.tokens.gz"
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def counting(scale: Scale, lines: list[str], rows: Rows) -> Iterator[tuple[Any, Any]]:
    """Seconds, words and distinct pairs of the first part of the text, for each vocabulary."""
    path = rows.path.with_name("part.txt")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    seen = count_words(path)
    for words in scale.vocabularies:
        vocabulary = Vocabulary.from_counts(seen, size=words)
        for parts in scale.parts:
            point = {"kind": "counting", "vocabulary": words, "part": f"1/{parts}"}
            if point in rows:
                continue
            path.write_text("\n".join(lines[: len(lines) // parts]) + "\n", encoding="utf-8")
            seconds, moments = best_of(
                lambda p=path, v=vocabulary: count_text(p, vocabulary=v, context=OFFSETS)
            )
            pairs = [len(pair.count) for pair in moments.pairs]
            figures = {"words": moments.words, "known": len(vocabulary), "pairs": pairs}
            yield point, figures | {"seconds": seconds}
    path.unlink()


def stepping(sizes: tuple[int, ...], device: str, rows: Rows) -> Iterator[tuple[Any, Any]]:
    """Seconds of one value and gradient of the star bound, and the memory of a GPU for it."""
    for words in sizes:
        point = {"kind": "step", "device": device, "words": words}
        if point in rows:
            continue
        generator = torch.Generator(device=device).manual_seed(0)
        shapes = ((1, words, DIMENSIONS), (OFFSETS, words, DIMENSIONS), (OFFSETS, words), (words,))
        leaves = [
            (0.3 * torch.randn(shape, generator=generator, device=device)).requires_grad_()
            for shape in shapes
        ]
        seconds, _ = best_of(lambda own=leaves: step(own, device))
        memory = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None
        yield point, {"seconds": seconds, "memory_gb": memory}


def step(leaves: list[torch.Tensor], device: str) -> None:
    """One value and gradient, waited for."""
    torch.autograd.grad(star_logsumexp(*leaves, 3.0), leaves)
    if device == "cuda":
        torch.cuda.synchronize()


def best_of(call: Any) -> tuple[float, Any]:
    """The least seconds of a few calls after a first one that is not counted, and an answer."""
    answer, seconds = call(), []
    for _ in range(BEST_OF):
        begun = time.perf_counter()
        answer = call()
        seconds.append(time.perf_counter() - begun)
    return min(seconds), answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="smoke")
    parser.add_argument("--output", type=Path, default=HERE / "output")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    scale, rows = SCALES[options.scale], Rows(options.output / "rows.jsonl")
    options.output.mkdir(parents=True, exist_ok=True)
    found = [stepping(getattr(scale, options.device), options.device, rows)]
    if options.device == "cpu":
        found.insert(0, counting(scale, text_lines(options.scale), rows))
    for point, figures in chain.from_iterable(found):
        rows.append(point, figures)
        sys.stderr.write(f"{point}: {figures}\n")
    write_report(rows, options.output)


if __name__ == "__main__":
    main()
