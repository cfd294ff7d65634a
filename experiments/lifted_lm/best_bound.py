"""The best certified bound: settings chosen on the end of the training text alone.

Every candidate is trained on the first nine tenths of the training text and stopped on the last
tenth.  The best of each bound is then trained on all of it for as many evaluations as were best
there, and looked at once on the validation and the test text, which have decided nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lifted import CONTEXT, certified
from rows import Rows
from texts import Sentences, Split

from mrflearn.estimators.lifted_training import LiftedFit, LiftedSettings, train_lifted
from mrflearn.features.moments import moments_of
from mrflearn.io.corpus import Vocabulary, count_corpus

PART, CHOICE = "best bound", "best bound, candidates"
HELD_OUT = 0.1
PATIENCE = 8  # checks of the held-out text


@dataclass(frozen=True)
class Candidate:
    """What is varied: a bound, the weight of its first chain, dimensions and penalty."""

    bound: str
    first: float | None
    dims: int
    l2: float

    def settings(self, evaluations: int, device: str) -> LiftedSettings:
        weights = None if self.first is None else (self.first, 1 - self.first)
        return LiftedSettings(
            bound=self.bound, weights=weights, dims=self.dims, l2=self.l2,
            max_iterations=evaluations, max_evaluations=evaluations, patience=PATIENCE,
            device=device,
        )  # fmt: skip


CHAINS = [
    Candidate("chains", first, dims, l2)
    for first, dims, l2 in (
        (0.993, 200, 4e-6), (0.997, 200, 4e-6), (0.985, 200, 4e-6), (0.997, 200, 6e-6),
    )
]  # fmt: skip
WINDOWS = [
    Candidate("windows", None, dims, l2)
    for dims, l2 in ((100, 3e-6), (200, 3e-6), (200, 6e-6), (200, 1e-5), (300, 6e-6))
]
CANDIDATES = {
    "smoke": [Candidate("chains", 0.9, 5, 1e-5), Candidate("windows", None, 5, 1e-5)],
    "full": WINDOWS[:2] + CHAINS + WINDOWS[2:],
}
EVALUATIONS = {"smoke": 8, "full": 600}
WORDS = {"smoke": 50, "full": None}  # None: all


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    cut = round(len(text.train) * (1 - HELD_OUT))
    for candidate in CANDIDATES[scale]:
        if _too_much(candidate, device, scale):
            continue
        settings = candidate.settings(EVALUATIONS[scale], device)
        point = {"part": CHOICE, "text": text.name, **asdict(candidate), "device": device}
        rows.measure(point, lambda s=settings: _held_out(text.train, cut, s, WORDS[scale]))
    for bound in ("chains", "windows"):
        asked = {"text": text.name, "bound": bound}.items()
        choices = [row for row in rows.of(CHOICE) if asked <= row["point"].items()]
        if not choices:
            continue
        best = max(choices, key=lambda row: row["figures"]["held_out"])
        kept = {name: best["point"][name] for name in ("bound", "first", "dims", "l2")}
        evaluations = best["figures"]["best_after"]
        point = {"part": PART, "text": text.name, **kept, "evaluations": evaluations,
                 "device": device}  # fmt: skip
        settings = Candidate(**kept).settings(evaluations, device)
        rows.measure(point, lambda s=settings: _final(text, s, WORDS[scale]))


def report(rows: Rows) -> list[str]:
    """Two tables: the candidates, and what came of the best."""
    if not rows.of(CHOICE):
        return []
    names = ["bound", "first", "dims", "l2"]
    lines = ["| " + " | ".join([*names, "held-out training text", "evaluations"]) + " |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for row in rows.of(CHOICE):
        figures = row["figures"]
        cells = [str(row["point"][name]) for name in names]
        cells += [f"{figures['held_out']:.4f}", str(figures["best_after"])]
        lines.append("| " + " | ".join(cells) + " |")
    if not rows.of(PART):
        return [*lines, "", "The best of each has not been trained on the whole text yet."]
    lines += ["", "| " + " | ".join([*names, "validation", "test", "seconds"]) + " |"]
    lines.append("|---" * (len(names) + 3) + "|")
    for row in rows.of(PART):
        figures = row["figures"]
        cells = [str(row["point"][name]) for name in names]
        cells += [f"{figures[part]:.4f}" for part in ("valid", "test")]
        lines.append("| " + " | ".join([*cells, f"{figures['seconds']:.1f}"]) + " |")
    return lines


def _too_much(candidate: Candidate, device: str, scale: str) -> bool:
    """Windows over the whole vocabulary are for a GPU."""
    return candidate.bound == "windows" and device == "cpu" and scale == "full"


def _held_out(
    train: Sentences, cut: int, settings: LiftedSettings, words: int | None
) -> dict[str, Any]:
    vocabulary = Vocabulary.from_counts(count_corpus(train), size=words)
    first, last = (moments_of(part, CONTEXT, vocabulary) for part in (train[:cut], train[cut:]))
    fit = train_lifted(first, settings, last)
    return {"held_out": certified(fit, last), "best_after": _best_after(fit), **_story(fit)}


def _best_after(fit: LiftedFit) -> int:
    """The number of evaluations after which the held-out text was likeliest."""
    checked = [row for row in fit.outcome.history if row.validation is not None]
    return max(checked, key=lambda row: row.validation).evaluations if checked else 1


def _final(text: Split, settings: LiftedSettings, words: int | None) -> dict[str, Any]:
    vocabulary = Vocabulary.from_counts(count_corpus(text.train), size=words)
    train, valid, test = (
        moments_of(part, CONTEXT, vocabulary) for part in (text.train, text.valid, text.test)
    )
    fit = train_lifted(train, settings)
    found = {"train": train, "valid": valid, "test": test}
    return {name: certified(fit, part) for name, part in found.items()} | _story(fit)


def _story(fit: LiftedFit) -> dict[str, Any]:
    outcome = fit.outcome
    return {"seconds": outcome.seconds, "evaluations": outcome.evaluations,
            "slack": fit.log_partition_bound.slack, "ended": outcome.reason}  # fmt: skip
