"""What text of any size would cost: counting, pairs kept and one step of training, measured.

Two minutes at full scale; MRFLEARN_DATA holds the text.  With `--device cuda` steps alone, of
larger vocabularies.  The table, the picture and what the curves say about larger text are made of
the rows.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `runner` lies

import torch
from report import write_report
from runner import Experiment, Job, Request, main

from mrflearn.datasets.docstrings import docstring_sentences
from mrflearn.features.moments import count_text
from mrflearn.io.corpus import Vocabulary, count_words
from mrflearn.kernels.low_rank import star_logsumexp

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


@cache
def text_lines(data: Path | None) -> list[str]:
    """The sentences of WikiText-2, or without data those of the built-in text, one a line."""
    if data is None:
        return [" ".join(words) for words in islice(docstring_sentences(), 2_000)]
    path = data / "wikitext-2" / "wiki.train.tokens.gz"
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def counting(data: Path | None, words: int | None, parts: int) -> dict[str, Any]:
    """Seconds, words and distinct pairs of the first part of the text."""
    lines = text_lines(data)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "part.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        vocabulary = Vocabulary.from_counts(count_words(path), size=words)
        path.write_text("\n".join(lines[: len(lines) // parts]) + "\n", encoding="utf-8")
        seconds, moments = best_of(lambda: count_text(path, vocabulary=vocabulary, context=OFFSETS))
    pairs = [len(pair.count) for pair in moments.pairs]
    figures = {"words": moments.words, "known": len(vocabulary), "pairs": pairs}
    return figures | {"seconds": seconds}


def stepping(words: int, device: str) -> dict[str, Any]:
    """Seconds of one value and gradient of the star bound, and the memory of a GPU for it."""
    generator = torch.Generator(device=device).manual_seed(0)
    shapes = ((1, words, DIMENSIONS), (OFFSETS, words, DIMENSIONS), (OFFSETS, words), (words,))
    leaves = [
        (0.3 * torch.randn(shape, generator=generator, device=device)).requires_grad_()
        for shape in shapes
    ]
    seconds, _ = best_of(lambda: step(leaves, device))
    memory = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None
    return {"seconds": seconds, "memory_gb": memory}


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


def jobs(request: Request) -> Iterator[Job]:
    """Counts of ever larger parts of the text, and a step for each size of vocabulary."""
    scale, full = SCALES[request.scale], request.scale == "full"
    data = request.data if full else None
    for words in scale.vocabularies if request.device == "cpu" else ():
        for parts in scale.parts:
            point = {"kind": "counting", "vocabulary": words, "part": f"1/{parts}"}
            yield Job(point, partial(counting, data, words, parts), 5, data=full, share="text")
    for words in getattr(scale, request.device):
        point = {"kind": "step", "device": request.device, "words": words}
        yield Job(point, partial(stepping, words, request.device), 5)


if __name__ == "__main__":
    main(Experiment(jobs, write_report), Path(__file__).parent, str(__doc__))
