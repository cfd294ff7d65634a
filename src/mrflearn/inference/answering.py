"""Answers of an inference by its name: an error where none is possible, warnings where rough."""

from __future__ import annotations

import math
from typing import Any, Literal

from mrflearn.errors import AccuracyWarning, InferenceError, warn_user
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.anytime import Anytime
from mrflearn.inference.automatic import Automatic
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.mean_field import MeanField
from mrflearn.inference.search import BranchAndBound
from mrflearn.inference.tree_reweighted import TreeReweighted

Method = Literal["auto", "exact", "bp", "trw", "mean-field"]
SECONDS = 20.0  # taken where none are given


def method_of(
    name: Method,
    *,
    best: bool = False,
    memory: float = 4.0,
    damping: float = 0.5,
    sweeps: int = 2000,
    time: float | None = None,
    max_width: int | None = None,
) -> Any:
    """The inference of a name; "auto" is within `time` or a width, or a search for the `best`.

    `memory` is in GiB, `time` in seconds.
    """
    limit = int(memory * 2**30)
    exact = JunctionTree(memory_limit=limit)
    messages: dict[str, Any] = {"max_sweeps": sweeps, "tolerance": 1e-8, "damping": damping}
    if name == "auto":
        if best:
            return BranchAndBound(exact, time or SECONDS, limit)
        if time is not None or max_width is not None:
            return Anytime(time or SECONDS, limit, max_width)
        return Automatic(exact, BeliefPropagation(**messages))
    if name == "exact":
        return exact
    if name == "mean-field":
        return MeanField(max_sweeps=sweeps)
    return (BeliefPropagation if name == "bp" else TreeReweighted)(**messages)


def answered(method: Any, potentials: Potentials, *, best: bool = False) -> tuple[str, Any]:
    """What was used, and its beliefs or the `best` states; a warning where these are rough."""
    chosen, refusal = method, None
    if hasattr(method, "chosen"):
        chosen, refusal = method.chosen(potentials.graph)
    name = type(chosen).__name__
    if refusal is not None:
        searching = isinstance(chosen, BranchAndBound)
        other = "a search with an upper bound" if searching else "belief propagation"
        rough = "" if searching else ", which is approximate"
        warn_user(f"{refusal} Answering by {other}{rough}.", AccuracyWarning)
    found = method.best(potentials) if best else method(potentials)
    if float((found.score if best else found.log_partition).sum()) == -math.inf:
        # A lower bound of -inf proves nothing, nor does a search that is not exact.
        proved = found.kind == "exact" if best else found.kind != "lower bound"
        if not proved:
            raise InferenceError(
                f"{name} found no possible state; the method 'exact' tells whether there is one."
            )
        raise InferenceError("no state that agrees with all evidence is possible: each has a 0.")
    if not found.converged:
        what = "marginals" if name == "MeanField" else "log-messages"
        warn_user(
            f"{name} did NOT converge: after sweeps={found.sweeps} {what} still changed by "
            f"{found.residual:.2g}. The answer may be far off; try more of them, a damping nearer "
            "to 1, or another method.",
            AccuracyWarning,
        )
    return name, found
