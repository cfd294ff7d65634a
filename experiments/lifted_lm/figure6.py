"""Figure 6: validation curves of lifted training, beside exact left-context models.

All values are nats per position, N = words + K separators a sentence, as section 4.1 of the paper
has it (the sizes it gives for its texts count one end a sentence); bounds in the table are
certified.  Exact models predict every word and one end a sentence, and their total is divided by
the same N.  Free tables of 10,000 x 10,000 words are not tried: full rank and low rank are compared
over the 500 most frequent words.  Windows of two words, all but exact, are tried over the whole
vocabulary where there is a GPU.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import published
from lifted import CONTEXT, fitted
from log_bilinear import LogBilinearLanguageModel
from rows import Rows
from texts import Split

from mrflearn import NgramLanguageModel
from mrflearn.estimators.lifted_training import LiftedSettings
from mrflearn.plots.curves import draw_curves
from mrflearn.plots.figure import save

PART = "figure 6"


@dataclass(frozen=True)
class Scale:
    """How much work a scale is."""

    small_vocabulary: int
    dims: int
    evaluations: int
    epochs: int  # of the log-bilinear model


SCALES = {"smoke": Scale(50, 4, 8, 1), "full": Scale(500, 30, 600, 12)}


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    """Curves over the whole vocabulary, and the exact models beside them."""
    size = SCALES[scale]
    for bound in ["stars", "chains"] + ["windows"] * (device != "cpu"):
        _measure(rows, scale, text, device, ("low-rank", bound, None))
    for order in (2, 3):
        point = {"part": PART, "text": text.name, "vocabulary": None, "order": order}
        rows.measure(point, lambda n=order: _ngram(text, n))
    point = {"part": PART, "text": text.name, "vocabulary": None, "form": "LBL", "dims": size.dims,
             "epochs": size.epochs, "rate": 0.05, "device": device}  # fmt: skip
    rows.measure(point, lambda: _log_bilinear(text, size, device))


def run_full_rank(rows: Rows, scale: str, text: Split, device: str) -> None:
    """Curves of free tables and of low rank over few words."""
    for form in ("low-rank", "explicit"):
        for bound in ("stars", "chains", "windows"):
            _measure(rows, scale, text, device, (form, bound, SCALES[scale].small_vocabulary))


def _measure(
    rows: Rows, scale: str, text: Split, device: str, which: tuple[str, str, int | None]
) -> None:
    (form, bound, vocabulary), size = which, SCALES[scale]
    settings = LiftedSettings(
        bound=bound, form=form, dims=size.dims, max_iterations=size.evaluations,
        max_evaluations=size.evaluations, device=device, l2=3e-6,
    )  # fmt: skip
    point = {"part": PART, "text": text.name, "vocabulary": vocabulary, **asdict(settings)}
    rows.measure(point, lambda: _lifted(text, settings, vocabulary, rows.folder))


def report(rows: Rows, folder: Path) -> list[str]:
    """Lines of the table, and the picture."""
    found = rows.of(PART)
    if not found:
        return []
    curves, small, levels = {}, {}, {}
    lines = ["| model | words | valid, nats a position | seconds | evaluations |",
             "|---|---|---|---|---|"]  # fmt: skip
    for row in found:
        figures = row["figures"]
        whole = row["point"]["vocabulary"] is None
        if figures.get("curve"):
            seconds, values = zip(*figures["curve"], strict=True)
            (curves if whole else small)[figures["name"]] = (seconds, values)
        elif whole:
            levels[figures["name"]] = figures["valid"]
        cells = (figures["name"], figures["vocabulary"], f"{figures['valid']:.4f}",
                 f"{figures['seconds']:.1f}", figures.get("evaluations", "-"))  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    axes = {"across": "seconds of training", "upward": "validation, nats a position"}
    _save(draw_curves(curves, **axes, levels=levels), folder / "figure6.png")
    if small:
        _save(draw_curves(small, **axes), folder / "figure6-full-rank.png")
    minutes = f"the paper's training took {published.TRAINING_MINUTES:g} minutes on a GPU"
    return [*lines, "", f"Paper: {published.FIGURE_6}; {minutes}."]


def _save(picture: Any, path: Path) -> None:
    picture.axes[0].set_xscale("log")  # from a second to minutes
    save(picture, path)


def _lifted(
    text: Split, settings: LiftedSettings, size: int | None, folder: Path
) -> dict[str, Any]:
    fit = fitted(text, settings, size, folder)
    name = f"{settings.form}, {settings.bound}"
    return {"name": name, "vocabulary": len(fit.vocabulary), "valid": fit.story["certified"],
            **fit.story}  # fmt: skip


def _ngram(text: Split, order: int) -> dict[str, Any]:
    model = NgramLanguageModel(order).fit(text.train)
    total = model.text_score(text.valid).log_likelihood
    return _exact(f"Kneser-Ney {order}-gram, exact", text, total, len(model.vocabulary_), 0.0)


def _log_bilinear(text: Split, size: Scale, device: str) -> dict[str, Any]:
    model = LogBilinearLanguageModel(
        size.dims, CONTEXT, rate=0.05, epochs=size.epochs, device=device
    )
    model.fit(text.train, validation=text.valid)
    total = model.text_score(text.valid).log_likelihood
    seconds = model.outcome_.seconds
    row = _exact("left-context LBL, exact", text, total, len(model.vocabulary_), seconds)
    epochs = [row.validation for row in model.outcome_.history]
    return row | {"valid_per_token": epochs, "ended": model.outcome_.reason}


def _exact(name: str, text: Split, total: float, words: int, seconds: float) -> dict[str, Any]:
    positions = sum(len(sentence) + CONTEXT for sentence in text.valid)
    value = total / positions
    return {"name": name, "vocabulary": words, "valid": value, "seconds": seconds}
