"""Table 1 and beyond: nearest neighbours, rank correlation with people, and words guessed in gaps.

Vectors are compared by cosine.  The paper's columns: MRF trained by the lifted bound, MRF trained
by pseudolikelihood SGD, word2vec (here gensim's CBOW, window 4, with the paper's D = 100 and 5
epochs, and with the dimensions of the MRF and 20 epochs).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import published
import torch
from figure6 import SCALES
from lifted import CONTEXT, fitted
from rows import Rows
from texts import Split

from mrflearn import NgramLanguageModel
from mrflearn.data.corpus import count_corpus, encode_corpus
from mrflearn.data.similarity import read_pairs
from mrflearn.data.vocabulary import Vocabulary
from mrflearn.estimators.lifted_training import LiftedSettings
from mrflearn.evaluation.cloze import Guesser, choose_gaps, cloze, left_guesser, neighbour_guesser
from mrflearn.evaluation.similarity import CosineSpace, likeness
from mrflearn.models.neighbour_lm import LowRankPairs, NeighbourModel
from mrflearn.models.neighbour_start import log_frequencies
from mrflearn.objectives.neighbour_pseudolikelihood import Gaps, NeighbourPseudolikelihood
from mrflearn.statistics.counting import count_sentences
from mrflearn.training.adagrad import Adagrad
from mrflearn.training.fit import fit

PART = "vectors"
NEIGHBOURS = 3
GAPS = {"smoke": 200, "full": 5000}
PASSES = {"smoke": 1, "full": 10}  # over the text, by pseudolikelihood SGD
RATE, BATCH = 0.05, 256
SETS = ("WS-353-ALL", "WS-353-SIM", "WS-353-REL", "SIMLEX-999", "MEN-TR-3k", "MTurk-771",
        "RW-STANFORD", "SimVerb-3500")  # fmt: skip


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    dims = SCALES[scale].dims

    def measure(name: str, settings: dict[str, Any], work: Callable[[], dict[str, Any]]) -> None:
        point = {"part": PART, "text": text.name, "name": name, "gaps": GAPS[scale], **settings}
        rows.measure(point, work)

    for bound in ("stars", "chains"):
        settings = {"dims": dims, "max_evaluations": SCALES[scale].evaluations, "device": device}
        work = LiftedSettings(bound=bound, **settings)
        measure(
            f"MRF lifted, {bound}",
            settings,
            lambda w=work: _lifted(text, w, rows.folder, GAPS[scale]),
        )
    settings = {
        "dims": dims,
        "epochs": PASSES[scale],
        "rate": RATE,
        "batch": BATCH,
        "device": device,
    }
    measure(
        "MRF SGD",
        settings,
        lambda: _pseudolikelihood(text, dims, PASSES[scale], GAPS[scale], device),
    )
    measure("Kneser-Ney 3-gram", {}, lambda: _trigram(text, GAPS[scale]))
    for size, epochs in ((dims, 20), (100, 5)):
        if not _has_gensim():
            print("word2vec left out: gensim is not installed", file=sys.stderr)
            break
        name = f"word2vec, {epochs} epochs"
        measure(name, {"dims": size}, lambda d=size, e=epochs: _word2vec(text, d, e))


def report(rows: Rows) -> list[str]:
    """Three tables: neighbours, correlations, gaps."""
    found = rows.of(PART)
    if not found:
        return []
    return [*_neighbours(found), "", *_likenesses(found), "", *_gaps(found)]


def _neighbours(found: list[dict[str, Any]]) -> list[str]:
    columns = {row["point"]["name"]: row["figures"].get("neighbours", {}) for row in found}
    columns = {name: words for name, words in columns.items() if words}
    theirs = list(next(iter(published.TABLE_1.values())))
    names = [*columns, *(f"paper: {name}" for name in theirs)]
    lines = ["| word | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    for word in {word: None for words in columns.values() for word in words}:
        cells = [", ".join(words.get(word, [])) for words in columns.values()]
        paper = published.TABLE_1.get(word, {})
        cells += [", ".join(paper.get(name, [])) for name in theirs]
        lines.append(f"| {word} | " + " | ".join(cells) + " |")
    return lines


def _likenesses(found: list[dict[str, Any]]) -> list[str]:
    sets = list({name: None for row in found for name in row["figures"].get("likeness", {})})
    header = ["vectors", "D", "training s", *sets]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for row in found:
        point, figures = row["point"], row["figures"]
        if "neighbours" not in figures:
            continue
        seconds = f"{figures['seconds']:.1f}"
        kinds = {(point["name"], point["dims"]): "likeness"}
        if "likeness of U and W" in figures:
            kinds[f"{point['name']}, U and W", point["dims"] * (CONTEXT + 1)] = (
                "likeness of U and W"
            )
        for (name, dims), kind in kinds.items():
            cells = [f"{figures[kind][one][0]:.3f}" for one in sets]
            lines.append("| " + " | ".join([name, str(dims), seconds, *cells]) + " |")
    return lines


def _gaps(found: list[dict[str, Any]]) -> list[str]:
    lines = ["| model | sees | first guess | among ten | gaps |", "|---|---|---|---|---|"]
    for row in found:
        gaps = row["figures"].get("cloze")
        if gaps:
            cells = f"{gaps['first']:.3f} | {gaps['among_top']:.3f} +- {gaps['error']:.3f}"
            sees = row["figures"]["sees"]
            lines.append(f"| {row['point']['name']} | {sees} | {cells} | {gaps['gaps']} |")
    return lines


def _lifted(text: Split, settings: LiftedSettings, folder: Path, gaps: int) -> dict[str, Any]:
    found = fitted(text, settings, None, folder)
    space = CosineSpace(found.vocabulary.words, found.vectors)
    guess = neighbour_guesser(found.scores, found.vocabulary)
    figures = {"seconds": found.story["seconds"], "sees": "both sides"}
    sides = torch.cat([found.scores.left[0], *found.scores.right], 1)
    whole = CosineSpace(found.vocabulary.words, sides)
    figures["likeness of U and W"] = _agreement(whole, text.likeness)
    return figures | _of_space(space, text) | {"cloze": _cloze(guess, text, gaps)}


def _pseudolikelihood(
    text: Split, dims: int, epochs: int, gaps: int, device: str
) -> dict[str, Any]:
    """The same model by stochastic gradients of its pseudolikelihood, with Adagrad's rates."""
    vocabulary = Vocabulary.from_counts(count_corpus(text.train))
    moments = count_sentences(text.train, vocabulary, CONTEXT)
    generator = torch.Generator().manual_seed(0)
    unary = log_frequencies(moments, torch.zeros(1)).to(device)
    left, *right = (
        0.1 * torch.randn(len(unary), dims, generator=generator) for _ in range(CONTEXT + 1)
    )
    pairs = LowRankPairs(left.to(device), torch.stack(right).to(device))
    every = Gaps.of(encode_corpus(text.train, vocabulary), vocabulary.separator, CONTEXT)
    order = torch.randperm(len(every.word), generator=generator)
    batches = Gaps(*(part[order] for part in every)).to(unary.device).split(BATCH)
    objective = NeighbourPseudolikelihood(vocabulary.separator)
    outcome = fit(
        NeighbourModel(unary, pairs), batches, objective, Adagrad(rate=RATE, epochs=epochs)
    )
    space = CosineSpace(vocabulary.words, outcome.model.parameters()["left"].cpu())
    guess = neighbour_guesser(outcome.model.scores(), vocabulary)
    figures = {"seconds": outcome.seconds, "sees": "both sides", "nats": outcome.value}
    return figures | _of_space(space, text) | {"cloze": _cloze(guess, text, gaps)}


def _trigram(text: Split, gaps: int) -> dict[str, Any]:
    model = NgramLanguageModel(3).fit(text.train)
    return {"sees": "the left", "cloze": _cloze(left_guesser(model), text, gaps)}


def _word2vec(text: Split, dims: int, epochs: int) -> dict[str, Any]:
    import time

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
    return {"neighbours": near, "likeness": _agreement(space, text.likeness)}


def _agreement(space: CosineSpace, folder: Path | None) -> dict[str, list[float]]:
    if folder is None:
        return {}
    found = {name: likeness(space, read_pairs(folder / f"EN-{name}.txt")) for name in SETS}
    return {name: [one.spearman, one.pairs] for name, one in found.items()}


def _cloze(guess: Guesser, text: Split, count: int) -> dict[str, Any]:
    found = cloze(guess, choose_gaps(text.valid, count=count))
    error = found.standard_error
    return {"first": found.first, "among_top": found.among_top, "gaps": found.gaps, "error": error}


def _has_gensim() -> bool:
    try:
        import gensim  # noqa: F401
    except ImportError:
        return False
    return True
