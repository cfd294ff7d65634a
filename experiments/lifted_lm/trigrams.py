"""The trigram field: settings chosen on the end of the training text, and what they gave.

Every candidate is trained on the first nine tenths of the training text and rated on the last
tenth.  The best is trained on all of it with several seeds, and looked at on the validation and the
test text, which have decided nothing; Kneser-Ney models of the same text stand beside it.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from best_bound import HELD_OUT
from cloze import choose_gaps, cloze, neighbour_guesser
from confusions import accuracy, both_sides, by_ngrams, questions
from rows import Rows
from texts import Sentences, Split

from mrflearn import LanguageModel, NgramLanguageModel
from mrflearn.features.moments import Moments, moments_of
from mrflearn.io.corpus import Vocabulary, count_corpus

PART, CHOICE, RIVALS = "trigrams", "trigrams, candidates", "trigrams, rivals"
CONTEXT = 2


@dataclass(frozen=True)
class Candidate:
    """What is varied: dimensions, steps, and strengths in nats per text (None: the default)."""

    dims: int
    steps: int
    l1: float | None = None
    l2: float | None = None

    def fit(self, moments: Moments, seed: int, device: str) -> LanguageModel:
        l1, l2 = (None if own is None else own / moments.positions for own in (self.l1, self.l2))
        model = LanguageModel(
            self.dims, triples=True, l1=l1, l2=l2, max_iterations=self.steps,
            device=device, random_state=seed,
        )  # fmt: skip
        return model.fit(moments)


CANDIDATES = {
    "smoke": [Candidate(5, 20), Candidate(5, 20, l2=2.0)],
    "full": [
        Candidate(dims, 300, l1, l2)
        for dims, l1, l2 in ((100, None, None), (30, None, None), (100, 0.75, None), (100, None, 4))
    ],
}
STEPS = {"smoke": 30, "full": 1000}
SEEDS = {"smoke": (0,), "full": (0, 1, 2)}
GAPS = {"smoke": 100, "full": 20_000}
WORDS = {"smoke": 50, "full": None}  # None: all


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    if scale == "full" and device == "cpu":
        return  # 10,000 words in a row of three are for a GPU
    vocabulary = Vocabulary.from_counts(count_corpus(text.train), size=WORDS[scale])
    for candidate in CANDIDATES[scale]:
        point = {"part": CHOICE, "text": text.name, **asdict(candidate), "device": device}
        rows.measure(point, lambda own=candidate: _held_out(text.train, vocabulary, own, device))
    chosen = max(rows.of(CHOICE), key=lambda row: row["figures"]["held_out"])["point"]
    best = Candidate(chosen["dims"], STEPS[scale], chosen["l1"], chosen["l2"])
    for seed in SEEDS[scale]:
        point = {"part": PART, "text": text.name, **asdict(best), "seed": seed, "device": device}
        rows.measure(
            point, lambda own=seed: _final(text, vocabulary, best, own, device, GAPS[scale])
        )
    for order in (3, 5):
        point = {"part": RIVALS, "text": text.name, "order": order}
        rows.measure(point, lambda own=order: _rival(text, vocabulary, own, GAPS[scale]))


def report(rows: Rows) -> list[str]:
    """The candidates, and what came of the best beside Kneser-Ney models."""
    if not rows.of(PART):
        return []
    lines = ["| dims | steps | l1 | l2 | held-out training text | seconds |", "|---" * 6 + "|"]
    for row in rows.of(CHOICE):
        cells = [str(row["point"][name] or "default") for name in ("dims", "steps", "l1", "l2")]
        cells += [f"{row['figures']['held_out']:.4f}", f"{row['figures']['seconds']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| model | validation | test | gaps, first | among ten | confusions | seconds |"]
    lines.append("|---" * 7 + "|")
    for row in rows.of(PART):
        own, name = row["figures"], f"trigram field, seed {row['point']['seed']}"
        shown = (own["first"], own["among"], own["confusions"])
        lines.append(_line(name, own, *(f"{100 * share:.1f} %" for share in shown)))
    for row in rows.of(RIVALS):
        own, name = row["figures"], f"Kneser-Ney {row['point']['order']}-gram, exact"
        left, both = (100 * own[kind] for kind in ("confusions_left", "confusions"))
        lines.append(_line(name, own, "", "", f"{both:.1f} % (left side alone {left:.1f} %)"))
    return lines


def _line(name: str, figures: dict[str, Any], *cells: str) -> str:
    values = [f"{figures[part]:.4f}" for part in ("valid", "test")]
    return "| " + " | ".join([name, *values, *cells, f"{figures['seconds']:.1f}"]) + " |"


def _counted(text: Sentences, vocabulary: Vocabulary) -> Moments:
    return moments_of(text, CONTEXT, vocabulary, triples=True)


def _held_out(
    train: Sentences, vocabulary: Vocabulary, candidate: Candidate, device: str
) -> dict[str, Any]:
    cut = round(len(train) * (1 - HELD_OUT))
    first, last = (_counted(part, vocabulary) for part in (train[:cut], train[cut:]))
    began = time.perf_counter()
    model = candidate.fit(first, 0, device)
    seconds = time.perf_counter() - began
    return {"held_out": model.text_score(last).per_position, "seconds": seconds}


def _final(
    text: Split, vocabulary: Vocabulary, best: Candidate, seed: int, device: str, gaps: int
) -> dict[str, Any]:
    parts = {"train": text.train, "valid": text.valid, "test": text.test}
    counts = {name: _counted(own, vocabulary) for name, own in parts.items()}
    began = time.perf_counter()
    model = best.fit(counts["train"], seed, device)
    seconds = time.perf_counter() - began
    found = {name: model.text_score(own).per_position for name, own in counts.items()}
    guess = neighbour_guesser(model.model_.potentials(), vocabulary)
    guessed = cloze(guess, choose_gaps(text.valid, count=gaps))
    asked = questions(text.valid, vocabulary, count=gaps)
    right = accuracy(both_sides(model.model_.potentials(), vocabulary), asked)
    size = {name: len(own) for name, own in model.model_.sparse.items()}
    return found | {
        "seconds": seconds, "first": guessed.first, "among": guessed.among_top, "gaps": gaps,
        "error": guessed.standard_error, "confusions": right, "questions": len(asked),
        "slack": model.log_partition_bound_.slack, "sparse": size,
        "scores": sum(own.numel() for own in model.model_.parameters().values()),
    }  # fmt: skip


def _rival(text: Split, vocabulary: Vocabulary, order: int, gaps: int) -> dict[str, Any]:
    """Exact nats per position of the same count: words, and two separators a sentence."""
    parts = {"train": text.train, "valid": text.valid, "test": text.test}
    read = {
        name: [vocabulary.decode(vocabulary.encode(line).tolist()) for line in own]
        for name, own in parts.items()
    }
    began = time.perf_counter()
    model = NgramLanguageModel(order).fit(read["train"])
    seconds = time.perf_counter() - began
    found = {}
    for name in ("valid", "test"):
        score = model.text_score(read[name])
        found[name] = score.log_likelihood / (score.words + CONTEXT * score.sentences)
    asked = questions(read["valid"], vocabulary, count=gaps)
    right = {
        name: accuracy(by_ngrams(model, sentence=whole), asked)
        for name, whole in (("confusions", True), ("confusions_left", False))
    }
    return found | right | {"seconds": seconds, "scores": sum(model.ngrams_)}
