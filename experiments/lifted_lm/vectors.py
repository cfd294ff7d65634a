"""Table 1 and beyond: nearest neighbours, and rank correlation with people.

Vectors are compared by cosine.  The paper's columns: MRF trained by the lifted bound, MRF trained
by pseudolikelihood SGD, word2vec (here gensim's CBOW, window 4, with the paper's D = 100 and 5
epochs, and with the dimensions of the MRF and 20 epochs).  Beside them vectors in closed form.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import published
import torch
import vector_choice
from figure6 import SCALES
from lifted import CONTEXT, fitted
from likeness import agreement, reported
from rows import Rows
from texts import Split

from mrflearn import WordVectors
from mrflearn.estimators.lifted_training import LiftedSettings
from mrflearn.evaluation.similarity import CosineSpace
from mrflearn.features.moments import moments_of
from mrflearn.io.corpus import Vocabulary, count_corpus, encode_corpus
from mrflearn.models.lifted import NeighbourModel, log_frequencies
from mrflearn.objectives.base import Autograd
from mrflearn.objectives.lifted import Gaps, pseudolikelihood_loss
from mrflearn.training.loop import minimise
from mrflearn.training.sgd import SGD, Adagrad

PART = "vectors"
NEIGHBOURS = 3
PASSES = {"smoke": 1, "full": 10}  # over the text, by pseudolikelihood SGD
RATE, BATCH = 0.05, 256
PAPER_RATE, PAPER_BATCH = 0.025, 100  # of appendix B, whose rate falls as t^-0.4
Work = Callable[[], dict[str, Any]]


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    dims = SCALES[scale].dims

    def measure(name: str, settings: dict[str, Any], work: Work) -> None:
        rows.measure({"part": PART, "text": text.name, "name": name, **settings}, work)

    for size in (dims, 100):
        measure("closed form", {"dims": size}, lambda d=size: _closed_form(text, d))
    for bound in ("stars", "chains"):
        settings = {"dims": dims, "max_evaluations": SCALES[scale].evaluations, "device": device}
        asked = LiftedSettings(bound=bound, max_iterations=SCALES[scale].evaluations, **settings)
        measure(f"MRF lifted, {bound}", settings, lambda a=asked: _lifted(text, a, rows.folder))
    settings = {"dims": dims, "epochs": PASSES[scale], "rate": RATE, "batch": BATCH}
    measure(
        "MRF SGD",
        settings | {"device": device},
        lambda: _pseudolikelihood(text, dims, PASSES[scale], device),
    )
    appendix = {"dims": dims, "epochs": PASSES[scale], "rate": PAPER_RATE, "batch": PAPER_BATCH}
    measure(
        "MRF SGD, .025 / t^.4",
        appendix | {"device": device},
        lambda: _pseudolikelihood(text, dims, PASSES[scale], device, as_published=True),
    )
    vector_choice.run(rows, text)
    if not _has_gensim():
        print("word2vec left out: gensim is not installed", file=sys.stderr)
        return
    for size, epochs in ((dims, 20), (100, 5), (100, 20)):
        name = f"word2vec, {epochs} epochs"
        measure(name, {"dims": size}, lambda d=size, e=epochs: _word2vec(text, d, e))


def report(rows: Rows) -> list[str]:
    """Tables of neighbours, of correlations, and of those that settings were chosen by."""
    found = rows.of(PART)
    if not found:
        return []
    return [*_neighbours(found), "", *_likenesses(found), "", *vector_choice.report(rows)]


def _neighbours(found: list[dict[str, Any]]) -> list[str]:
    columns = {f"{row['point']['name']}, D = {row['point']['dims']}": row for row in found}
    ours = {name: row["figures"]["neighbours"] for name, row in columns.items()}
    theirs = list(next(iter(published.TABLE_1.values())))
    names = [*ours, *(f"paper: {name}" for name in theirs)]
    probes = list(next(iter(ours.values())))
    lines = ["| vectors | " + " | ".join(probes) + " |", "|" + "---|" * (len(probes) + 1)]
    paper = {
        f"paper: {name}": {word: published.TABLE_1.get(word, {}).get(name, []) for word in probes}
        for name in theirs
    }
    for name in names:
        cells = [", ".join((ours | paper)[name].get(word, [])) for word in probes]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _likenesses(found: list[dict[str, Any]]) -> list[str]:
    sets = list({name: None for row in found for name in row["figures"].get("likeness", {})})
    header = ["vectors", "D", "training s", *sets]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for row in found:
        point, figures = row["point"], row["figures"]
        seconds = f"{figures['seconds']:.1f}"
        kinds = {(point["name"], point["dims"]): "likeness"}
        if "likeness of U and W" in figures:
            wide = f"{point['name']}, U and W", point["dims"] * (CONTEXT + 1)
            kinds[wide] = "likeness of U and W"
        for (name, dims), kind in kinds.items():
            cells = [f"{figures[kind][one][0]:.3f}" for one in sets]
            lines.append("| " + " | ".join([name, str(dims), seconds, *cells]) + " |")
    return lines


def _closed_form(text: Split, dims: int) -> dict[str, Any]:
    began = time.perf_counter()
    model = WordVectors(dims).fit(text.train)
    seconds = time.perf_counter() - began
    return {"seconds": seconds} | _of_space(
        CosineSpace(model.vocabulary_.words, model.vectors_), text
    )


def _lifted(text: Split, settings: LiftedSettings, folder: Path) -> dict[str, Any]:
    found = fitted(text, settings, None, folder)
    sides = torch.cat([found.scores.left[0], *found.scores.right], 1)
    whole = _of_space(CosineSpace(found.vocabulary.words, sides), text)
    figures = {"seconds": found.story["seconds"], "likeness of U and W": whole["likeness"]}
    return figures | _of_space(CosineSpace(found.vocabulary.words, found.vectors), text)


def _pseudolikelihood(
    text: Split, dims: int, epochs: int, device: str, *, as_published: bool = False
) -> dict[str, Any]:
    """The same model by stochastic gradients of its pseudolikelihood.

    With Adagrad's rates, or as published: minibatches of 100 words, whose gradients are added up,
    and a rate of .025 / t^.4 at minibatch t.
    """
    vocabulary = Vocabulary.from_counts(count_corpus(text.train))
    moments = moments_of(text.train, CONTEXT, vocabulary)
    generator = torch.Generator().manual_seed(0)
    unary = log_frequencies(moments, torch.zeros(1)).to(device)
    left, *right = (
        0.1 * torch.randn(len(unary), dims, generator=generator) for _ in range(CONTEXT + 1)
    )
    pairs = {"left": left.to(device), "right": torch.stack(right).to(device)}
    every = Gaps.of(encode_corpus(text.train, vocabulary), vocabulary.separator, CONTEXT)
    order = torch.randperm(len(every.word), generator=generator)
    batches = Gaps(*(part[order] for part in every)).to(unary.device)
    batches = batches.split(PAPER_BATCH if as_published else BATCH)
    loss = pseudolikelihood_loss(vocabulary.separator)
    objective = Autograd(NeighbourModel(unary, pairs), batches, loss)
    search = (
        SGD(PAPER_RATE, epochs, power=0.4) if as_published else Adagrad(rate=RATE, epochs=epochs)
    )
    outcome = minimise(objective, search)
    space = CosineSpace(vocabulary.words, outcome.model.parameters()["left"].cpu())
    return {"seconds": outcome.seconds, "nats": outcome.value, **_of_space(space, text)}


def _word2vec(text: Split, dims: int, epochs: int) -> dict[str, Any]:
    from gensim.models import Word2Vec

    began = time.perf_counter()
    model = Word2Vec(
        text.train, vector_size=dims, window=4, epochs=epochs, min_count=1, sg=0,
        workers=torch.get_num_threads(), seed=1,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    space = CosineSpace(model.wv.index_to_key, model.wv.vectors)
    return {"seconds": seconds, **_of_space(space, text)}


def _of_space(space: CosineSpace, text: Split) -> dict[str, Any]:
    near = {word: [w for w, _ in space.neighbours(word, NEIGHBOURS)] for word in text.probes}
    sets = {} if text.likeness is None else reported(text.likeness)
    return {"neighbours": near, "likeness": agreement(space, sets)}


def _has_gensim() -> bool:
    try:
        import gensim  # noqa: F401
    except ImportError:
        return False
    return True
