"""`mrflearn demo`: the whole flow on built-in data, in under two minutes."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import say, say_table
from mrflearn.cli.options import Seed

if TYPE_CHECKING:
    from mrflearn.estimators.field_training import FieldCriterion
    from mrflearn.graph.potentials import Potentials
    from mrflearn.inference.beliefs import Inference
    from mrflearn.plots.page import Page

SIDE, TRAIN, HELD_OUT = 5, 20_000, 5_000
BIG_SIDE = 16


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model and the pictures.")
    ] = Path("demo-output"),
    seed: Seed = 0,
) -> None:
    """Learn a field, a language model, a tagger and a parser from built-in data, and draw them.

    Example: mrflearn demo -o demo-output
    """
    from mrflearn.cli.demo_text import show_composite, show_language_model, show_tagger
    from mrflearn.plots.page import Page

    started = time.perf_counter()
    page = Page("What mrflearn does")
    page.text(
        "Everything on this page was learned a moment ago, on this machine, from data that come "
        "with the library. The models lie beside it, and answer questions on a page of their own:"
    )
    ask = " ".join(str(output / name) for name in ("language-model", "tagger", "grid-model"))
    page.lines(f"mrflearn serve {ask}")
    _infer_a_large_grid(page, seed)
    say()
    truth = _learn_a_small_grid(output, page, seed)
    _use_the_saved_model(output, truth)
    for show in (show_language_model, show_tagger, show_composite):
        say()
        show(output, page, seed)
        sys.stdout.flush()
    page.write(output / "report.html")
    say()
    say(f"Done in {time.perf_counter() - started:.1f} s. Open {output / 'report.html'}; or ask:")
    say(f"   mrflearn serve {ask}")


def _infer_a_large_grid(page: Page, seed: int) -> None:
    from mrflearn.graph.builders import grid
    from mrflearn.graph.gauges import random_ising
    from mrflearn.inference.belief_propagation import BeliefPropagation
    from mrflearn.inference.junction_tree import JunctionTree
    from mrflearn.inference.mean_field import MeanField
    from mrflearn.inference.tree_reweighted import TreeReweighted

    say(f"1. Inference: log Z of a random {BIG_SIDE} x {BIG_SIDE} Ising grid")
    field = random_ising(grid(BIG_SIDE, BIG_SIDE), scale=1.0, seed=seed)
    exact = None
    rows = []
    methods: dict[str, Inference] = {
        "junction tree": JunctionTree(),
        "belief propagation": BeliefPropagation(damping=0.5, max_sweeps=1000),
        "tree-reweighted": TreeReweighted(damping=0.5, max_sweeps=1000),
        "mean field": MeanField(),
    }
    for name, method in methods.items():
        begun = time.perf_counter()
        beliefs = method(field)
        seconds = time.perf_counter() - begun
        exact = beliefs if exact is None else exact
        error = float((beliefs.variables - exact.variables).abs().max())
        value = float(beliefs.log_partition.sum())
        rows.append([name, f"{value:.4f}", beliefs.kind, f"{error:.4f}", f"{seconds:.2f}"])
    header = ["method", "log Z", "kind", "worst marginal error", "seconds"]
    say_table(header, rows)
    page.heading("Inference")
    page.text(f"log Z of a random {BIG_SIDE} x {BIG_SIDE} Ising grid; each answer says what it is.")
    page.table(header, rows)


@dataclass(frozen=True)
class _Truth:
    potentials: Potentials
    held_out: Any


def _learn_a_small_grid(output: Path, page: Page, seed: int) -> _Truth:
    import numpy as np

    from mrflearn.estimators.field import MarkovField
    from mrflearn.evaluation.recovery import recovery
    from mrflearn.graph.builders import grid
    from mrflearn.graph.gauges import ising_parameters, random_ising
    from mrflearn.inference.sampling import Drawing
    from mrflearn.plots.fields import draw_heat_map, draw_lattices, draw_recovery

    field = random_ising(grid(SIDE, SIDE), scale=1.0, seed=seed)
    drawn = Drawing()(field, TRAIN + HELD_OUT, seed=seed)
    rows_seen, held_out = drawn.samples[:TRAIN].numpy(), drawn.samples[TRAIN:].numpy()
    say(f"2. Learning: {TRAIN:,} samples of a {SIDE} x {SIDE} Ising grid, drawn {drawn.method}")
    known = ising_parameters(field)
    truth = np.concatenate([known.fields.numpy(), known.couplings.numpy()])
    lattices = {"truth": (known.fields.numpy(), known.couplings.numpy())}
    estimates, rows = {}, []
    estimators: dict[str, FieldCriterion] = {"maximum likelihood": "ml", "pseudolikelihood": "pl"}
    for name, estimator in estimators.items():
        model = MarkovField(f"grid:{SIDE}x{SIDE}", estimator=estimator).fit(rows_seen)
        estimates[name] = np.concatenate([model.fields_, model.couplings_])
        lattices[name] = (model.fields_, model.couplings_)
        error = recovery(estimates[name], truth)
        effort = [str(model.outcome_.evaluations), f"{model.outcome_.seconds:.2f}"]
        errors = [f"{error.relative:.4f}", f"{error.largest:.4f}"]
        rows.append([name, *errors, f"{model.score(held_out):.5f}", *effort])
        if estimator == "ml":
            model.save(output / "grid-model", overwrite=True)
    header = ["estimator", "relative error", "largest", "held-out nats", "evaluations", "seconds"]
    say_table(header, rows)
    page.heading("Learning a field from samples")
    page.table(header, rows)
    page.picture(
        draw_lattices(lattices, model.edges_, SIDE),
        f"The true field and couplings of a {SIDE} x {SIDE} Ising grid, and what two estimators "
        f"learned from {TRAIN:,} samples.",
    )
    page.picture(
        draw_recovery(truth, estimates), "Learned against true parameters: on the line is right."
    )
    page.picture(
        draw_heat_map(model.strength_matrix_),
        "The same couplings as a matrix: who is coupled to whom, how much.",
    )
    return _Truth(field, held_out)


def _use_the_saved_model(output: Path, truth: _Truth) -> None:
    from mrflearn.estimators.loading import load
    from mrflearn.inference.junction_tree import JunctionTree

    model = load(output / "grid-model")
    say(f"   {output / 'grid-model'}, loaded again:")
    import torch

    scores = truth.potentials.score(torch.as_tensor(truth.held_out))
    best = float((scores - JunctionTree()(truth.potentials).log_partition).mean())
    say(f"   held-out nats: {model.score(truth.held_out):.5f} (the true field itself: {best:.5f})")
    say("   one sample:")
    for line in model.sample(1, random_state=1)[0].reshape(SIDE, SIDE):
        say("     " + " ".join("#" if state else "." for state in line))
