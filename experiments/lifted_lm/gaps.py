"""Words guessed in gaps of the validation text: both sides against the left side alone."""

from __future__ import annotations

from typing import Any

from cloze import Guesser, choose_gaps, cloze, left_guesser, neighbour_guesser, two_sided_guesser
from figure6 import SCALES
from lifted import fitted
from rows import Rows
from texts import Split

from mrflearn import NgramLanguageModel
from mrflearn.estimators.lifted_training import LiftedSettings

PART = "gaps"
GAPS = {"smoke": 200, "full": 20_000}


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    size = SCALES[scale]
    bounds = ["stars", "chains"] + ["windows"] * (device != "cpu")
    for bound in bounds:
        settings = LiftedSettings(
            bound=bound, dims=size.dims, max_iterations=size.evaluations,
            max_evaluations=size.evaluations, device=device,
        )  # fmt: skip
        point = {"part": PART, "text": text.name, "name": f"MRF, {bound}", "dims": size.dims,
                 "device": device, "gaps": GAPS[scale]}  # fmt: skip

        def work(asked: LiftedSettings = settings) -> dict[str, Any]:
            found = fitted(text, asked, None, rows.folder)
            guess = neighbour_guesser(found.scores, found.vocabulary)
            return _guessed(guess, text, GAPS[scale], "both sides")

        rows.measure(point, work)
    for order in (3, 5):
        for sides in ("", ", both sides"):
            point = {"part": PART, "text": text.name, "name": f"Kneser-Ney {order}-gram{sides}",
                     "gaps": GAPS[scale]}  # fmt: skip
            rows.measure(point, lambda n=order, s=sides: _ngrams(text, n, GAPS[scale], bool(s)))


def report(rows: Rows) -> list[str]:
    found = rows.of(PART)
    if not found:
        return []
    lines = ["| model | sees | first guess | among ten | gaps |", "|---|---|---|---|---|"]
    for row in found:
        figures = row["figures"]
        cells = [row["point"]["name"], figures["sees"], f"{100 * figures['first']:.1f} %"]
        cells += [f"{100 * figures['among']:.1f} % +- {100 * figures['error']:.1f}"]
        lines.append("| " + " | ".join([*cells, f"{figures['gaps']:,}"]) + " |")
    return lines


def _ngrams(text: Split, order: int, gaps: int, both: bool) -> dict[str, Any]:
    model = NgramLanguageModel(order).fit(text.train)
    guess = two_sided_guesser(model) if both else left_guesser(model)
    return _guessed(guess, text, gaps, "both sides" if both else "the left")


def _guessed(guess: Guesser, text: Split, gaps: int, sees: str) -> dict[str, Any]:
    found = cloze(guess, choose_gaps(text.valid, count=gaps))
    return {"sees": sees, "first": found.first, "among": found.among_top,
            "error": found.standard_error, "gaps": found.gaps}  # fmt: skip
