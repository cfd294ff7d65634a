"""Images sampled from a known field on a torus, and what each way of learning makes of them."""

from __future__ import annotations

import time
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrflearn import MarkovField
from mrflearn.estimators.lifted_training import LiftedSettings, train_lifted
from mrflearn.features.moments import Moments, lattice_moments
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.gauges import reference_gauge
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.lifted import rings_of_torus
from mrflearn.inference.sampling import Drawing

LIFTED = ("stars", "chains", "windows")
OFFSETS = ((0, 1), (1, 0))
TEST_IMAGES = 500
L2 = 1e-3  # of the estimators of fields, in nats of all images: next to nothing


def torus(side: int, states: int) -> FactorGraph:
    """One table for all variables, one for all right neighbours and one for all those below."""
    place = torch.arange(side * side).view(side, side)
    scopes = {"unary": place.reshape(-1, 1)}
    for name, (down, right) in zip(("right", "down"), OFFSETS, strict=True):
        other = place.roll((-down, -right), (0, 1))
        scopes[name] = torch.stack([place.reshape(-1), other.reshape(-1)], dim=1)
    groups = tuple(FactorGroup.tied(name, scope) for name, scope in scopes.items())
    return FactorGraph(torch.full((side * side,), states), groups)


def potts(side: int, states: int, coupling: float) -> Potentials:
    """Equal neighbours attract; the first state is a little more frequent."""
    unary = torch.zeros(1, states, dtype=torch.float64)
    unary[:, 0] = 0.1
    pair = coupling * torch.eye(states, dtype=torch.float64).unsqueeze(0)
    return Potentials(torus(side, states), tuple(map(DenseTable, (unary, pair, pair))))


@lru_cache(maxsize=1)
def images(side: int, states: int, coupling: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact samples to learn from, and others to judge by."""
    rows = Drawing()(potts(side, states, coupling), count + TEST_IMAGES, seed=1).samples.numpy()
    return rows[:count], rows[count:]


def measure(point: dict[str, Any]) -> dict[str, Any]:
    """Exact log-likelihood of new images by what was learned, error of couplings, seconds."""
    side, states = point["side"], point["states"]
    train, test = images(side, states, point["coupling"], point["images"])
    began = time.process_time()
    bound = None
    if point["name"] in LIFTED:
        learned, bound = lifted(point["name"], train, side, states)
    elif point["name"] == "truth":
        learned = potts(side, states, point["coupling"])
    else:
        model = MarkovField(torus(side, states), states=states, estimator=point["name"], l2=L2)
        learned = model.fit(train).potentials_
    seconds = time.process_time() - began
    log_z = float(JunctionTree()(learned).log_partition)
    score = learned.score(torch.from_numpy(test.astype(np.int64))).double().mean()
    true = _flat(potts(side, states, point["coupling"]))
    pixels = side * side
    return {
        "held_out": (float(score) - log_z) / pixels,
        "log_z": log_z / pixels,
        "bound": bound,
        "error": float((_flat(learned) - true).norm() / true.norm()),
        "seconds": seconds,
    }


def lifted(bound: str, train: np.ndarray, side: int, states: int) -> tuple[Potentials, float]:
    """The field that a lifted bound learns, and the bound on its log Z per pixel."""
    shape = (side, side)
    counted = [lattice_moments(own.reshape(shape), OFFSETS, states=states) for own in train]
    moments: Moments = reduce(add, counted)
    settings = LiftedSettings(
        bound=bound, form="explicit", weights=(0.5, 0.5), l2=L2 / moments.positions
    )  # type: ignore[arg-type]
    fitted = train_lifted(moments, settings)
    scores = fitted.model.potentials()
    tables = [scores.unary.unsqueeze(0), *(own.unsqueeze(0) for own in scores.tables())]
    found = Potentials(torus(side, states), tuple(DenseTable(own.double()) for own in tables))
    rings = rings_of_torus(OFFSETS, shape)
    return found, fitted.log_partition_bound.per_position(side * side, rings)


def _flat(potentials: Potentials) -> Tensor:
    """The parameters of the three shared tables, zero wherever a variable is in state 0."""
    tables = reference_gauge(potentials).tables
    return torch.cat([own.dense()[:1].reshape(-1) for own in tables])
