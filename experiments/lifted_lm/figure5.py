"""Figure 5: exact training and lifted training of one sentence of 12 tokens over a, b, c, d.

Green: exact maximum likelihood of the sentence given its length (eq. 3).  Red: the lifted bound as
it is maximised.  Blue: the exact log-likelihood of the red model at every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import published
import torch
from rows import Rows
from torch import Tensor

from mrflearn.inference.lifted import star_log_partition
from mrflearn.inference.transfer import sentence_log_partitions, sentence_score
from mrflearn.models.lifted import NeighbourModel
from mrflearn.objectives.base import Autograd, Layout
from mrflearn.plots.curves import draw_curves
from mrflearn.plots.figure import save
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise

PART = "figure 5"
TOKENS, WORDS, CONTEXT = 12, 4, 1
STATES, SEPARATOR = WORDS + 1, 0
NAMES = {
    "exact": "exact training: exact log-likelihood",
    "exact_of_lifted": "lifted training: exact log-likelihood",
    "bound": "lifted training: the bound",
}


def run(rows: Rows, scale: str) -> None:
    iterations = {"smoke": 20, "full": 200}[scale]
    for seed in range({"smoke": 1, "full": 5}[scale]):
        point = {"part": PART, "seed": seed, "iterations": iterations}
        rows.measure(point, lambda p=point: _curves(p["seed"], p["iterations"]))


def report(rows: Rows, folder: Path) -> list[str]:
    """Lines of the table; the picture shows the first seed."""
    found = rows.of(PART)
    if not found:
        return []
    curves = found[0]["figures"]
    drawn = {NAMES[key]: (range(len(curves[key])), curves[key]) for key in NAMES}
    picture = draw_curves(drawn, across="L-BFGS iteration", upward="nats, whole sentence")
    save(picture, folder / "figure5.png")
    lines = ["| seed | " + " | ".join(NAMES.values()) + " |", "|---|---|---|---|"]
    for row in found:
        last = " | ".join(f"{row['figures'][key][-1]:.3f}" for key in NAMES)
        lines.append(f"| {row['point']['seed']} | {last} |")
    return [*lines, "", f"Paper: {published.FIGURE_5}."]


def _curves(seed: int, iterations: int) -> dict[str, Any]:
    words = torch.from_numpy(np.random.default_rng(seed).integers(1, STATES, TOKENS))
    exact = _train(lambda u, t, _: -_exact(words, u, t), iterations)
    lifted = _train(lambda u, t, d: -_bound(words, u, t, d), iterations)
    return {
        "exact": [float(_exact(words, u, t)) for u, t, _ in exact],
        "exact_of_lifted": [float(_exact(words, u, t)) for u, t, _ in lifted],
        "bound": [float(_bound(words, u, t, d)) for u, t, d in lifted],
    }


def _exact(words: Tensor, unary: Tensor, tables: Tensor) -> Tensor:
    """log p(words | their number) [eq. 3]."""
    potentials = NeighbourModel(unary, {"table": tables}).potentials()
    normaliser = sentence_log_partitions(potentials, SEPARATOR, TOKENS)[TOKENS]
    return sentence_score(potentials, SEPARATOR, words) - normaliser


def _bound(words: Tensor, unary: Tensor, tables: Tensor, duals: Tensor) -> Tensor:
    """The lower bound on the ring's log-likelihood [eqs. 7, 17], N rounded up for the stars."""
    positions = -(-(TOKENS + CONTEXT) // (CONTEXT + 1)) * (CONTEXT + 1)
    filler = words.new_full((positions - TOKENS,), SEPARATOR)
    ring = torch.cat([words, filler])
    score = unary[ring].sum() + tables[0][ring, ring.roll(-1)].sum()
    potentials = NeighbourModel(unary, {"table": tables}, duals=duals).potentials()
    return score - positions * star_log_partition(potentials)


@dataclass(frozen=True, eq=False)
class _Tensors:
    """Named tensors as a model."""

    named: Mapping[str, Tensor]

    def parameters(self) -> dict[str, Tensor]:
        return dict(self.named)

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> _Tensors:
        return _Tensors(parameters)


def _train(objective: Any, iterations: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Parameters at the start and after each iteration of joint L-BFGS over scores and duals."""
    shapes = {"unary": (STATES,), "tables": (CONTEXT, STATES, STATES), "duals": (CONTEXT, STATES)}
    start = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    layout = Layout.of(start)
    seen = [layout.flatten(start)]

    def watch(step: Any) -> None:
        seen.append(step.vector.clone())

    function = Autograd(_Tensors(start), None, lambda model, _: objective(*model.named.values()))
    minimise(function, LBFGS(max_iterations=iterations), callbacks=[watch])
    # A training that is done early stays where it is.
    seen += [seen[-1]] * (iterations + 1 - len(seen))
    return [tuple(layout.unflatten(vector).values()) for vector in seen]
