"""Surveys as people have them, from a file to answers, pictures and advice that leads on."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from mrflearn import MarkovField
from mrflearn.errors import DataWarning, MrflearnError
from mrflearn.estimators.field_training import FieldCriterion
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import ising, random_ising
from mrflearn.inference.sampling import Drawing
from mrflearn.io.samples import read_samples
from support.command import run

SYMPTOMS = ["closeatt", "listen", "susatt", "blurts", "interrupt", "talks", "turn"]
NAMED = re.compile(f"'({'|'.join(get_args(FieldCriterion))})'")


def blanked(rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    holes = np.where(rows < 0, np.nan, rows.astype(float))
    holes[np.random.default_rng(seed).random(rows.shape) < share] = np.nan
    return holes


def test_a_survey_becomes_a_network_with_intervals_in_one_command(
    data_folder: Path, tmp_path: Path
) -> None:
    survey, picture = data_folder / "surveys" / "adhd.csv", tmp_path / "network.svg"
    words = ["--graph", "learn", "--bootstrap", "20", "--network", str(picture)]
    kept = ["--keep", ",".join(SYMPTOMS)]
    done = run("train", "field", str(survey), *words, *kept, "-o", str(tmp_path / "m"), "--json")
    assert done.code == 0, done.err
    assert (done.json()["samples"], done.json()["resamples"]) == (355, 20)
    drawn, page = picture.read_text(), (tmp_path / "m" / "report.html").read_text()
    assert all(f"<!-- {name} -->" in drawn for name in SYMPTOMS)  # as matplotlib marks its texts
    assert "interval holds 0" in drawn
    assert "where 95 % of the resamples have them" in page


def test_the_same_in_five_lines(data_folder: Path, tmp_path: Path) -> None:
    from mrflearn.evaluation import bootstrap
    from mrflearn.plots import draw_intervals, draw_network

    survey = read_samples(data_folder / "surveys" / "adhd.csv", columns=SYMPTOMS)
    field = MarkovField("learn").fit(survey)
    found = bootstrap(field, survey, 20)
    picture = draw_network(field.edges_, field.strengths_, field.variable_names_)
    assert {text.get_text() for text in picture.axes[0].texts} == set(SYMPTOMS)
    shown = draw_intervals(found).axes[0].get_yticklabels()
    assert len(shown) == len(found.edges) >= len(field.edges_) > 4


def test_imputed_votes_are_right_more_often_than_the_most_frequent(data_folder: Path) -> None:
    path = data_folder / "inverse-ising" / "rehnquist-court-1994-2004.csv"
    votes = read_samples(path, columns=list(range(9))).values
    right = {"field": 0.0, "most frequent": 0.0}
    for seed in range(3):
        holes = blanked(votes, 0.05, seed)
        hidden = np.isnan(holes) & (votes >= 0)
        modes = np.nanmean(holes, axis=0) > 0.5
        field = MarkovField(estimator="pl", l2=0.1).fit(holes)
        right["field"] += (field.impute(holes) == votes)[hidden].mean() / 3
        right["most frequent"] += (modes == votes)[hidden].mean() / 3
    assert right["field"] > right["most frequent"] + 0.04  # seen: .81 and .73


def test_a_dense_survey_with_gaps_is_no_dead_end() -> None:
    """17 items of five states: tables of all of them are beyond LAP's and exact likelihood's."""
    level = np.random.default_rng(0).normal(size=(120, 1))
    noisy = level + np.random.default_rng(1).normal(size=(120, 17))
    answers = np.digitize(noisy, [-1.5, -0.5, 0.5, 1.5])
    for estimator, rows in (("lap", blanked(answers, 0.003, 2)), ("ml", answers)):
        with pytest.raises(MrflearnError) as refused:
            MarkovField(estimator=estimator, l2=0.1).fit(rows)
        (advised,) = set(NAMED.findall(str(refused.value)))
        assert advised != estimator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            field = MarkovField(estimator=advised, l2=0.1, max_iterations=1).fit(rows)
        assert np.isfinite(field.strengths_).all()


def every_state(field: MarkovField, seen: dict[int, int]) -> np.ndarray:
    """exp(sum h s + sum J s s) of all spins of a 5 x 5 lattice, an axis for each of its rows."""
    spins = 2.0 * (np.arange(32)[:, None] >> np.arange(5) & 1) - 1
    own, between = np.zeros((5, 32)), np.zeros((4, 32, 32))
    for place in range(25):
        own[place // 5] += field.fields_[place] * spins[:, place % 5]
    for (a, b), coupling in zip(field.edges_.tolist(), field.couplings_, strict=True):
        if a // 5 == b // 5:
            own[a // 5] += coupling * spins[:, a % 5] * spins[:, b % 5]
        else:
            between[a // 5] += coupling * np.outer(spins[:, a % 5], spins[:, b % 5])
    for place, state in seen.items():
        own[place // 5, spins[:, place % 5] != 2 * state - 1] = -np.inf
    masses = np.exp(own[0])
    for row in range(1, 5):
        masses = masses[..., None] * np.exp(between[row - 1] + own[row])
    return masses


def test_answers_of_a_lattice_equal_enumeration() -> None:
    rows = Drawing()(random_ising(grid(5, 5), seed=1, scale=0.4), 400, seed=1).samples.numpy()
    field = MarkovField("grid:5x5", l2=0.1).fit(rows)
    totals = {}
    for seen in ({}, {6: 1, 12: 0, 24: 1}):
        masses = every_state(field, seen)
        totals[len(seen)] = np.log(masses.sum())
        rows_alone = [
            masses.sum(axis=tuple(k for k in range(5) if k != row)) / masses.sum()
            for row in range(5)
        ]
        up = [own @ (np.arange(32) >> column & 1) for own in rows_alone for column in range(5)]
        found = field.marginals(seen)
        assert (found.kind, list(found.probabilities)) == ("exact", field.variable_names_)
        assert [own[1] for own in found.probabilities.values()] == pytest.approx(up, abs=1e-9)
        assert found.log_evidence == pytest.approx(totals[len(seen)] - totals[0], abs=1e-9)
        best = np.unravel_index(masses.argmax(), masses.shape)
        states = [int(own) >> column & 1 for own in best for column in range(5)]
        assert list(field.most_probable(seen).states.values()) == states
    assert float(field.log_partition()) == pytest.approx(totals[0], rel=1e-12)


def test_loopy_messages_on_a_magnet_are_refused() -> None:
    magnet = ising(grid(6, 6), torch.zeros(36), torch.full((60,), 1 / 2.5))
    rows = Drawing()(magnet, 3000, seed=0).samples.numpy()
    with warnings.catch_warnings(action="error"):
        with pytest.raises(MrflearnError, match="estimator 'ml'"):
            MarkovField("grid:6x6", estimator="bp").fit(rows)
        warm = Drawing()(
            ising(grid(6, 6), magnet.tables[0].dense()[:, 1], torch.full((60,), 0.1)), 3000, seed=0
        )
        fields = [
            MarkovField("grid:6x6", estimator=own).fit(warm.samples.numpy()) for own in ("bp", "ml")
        ]
    couplings = [own.couplings_ for own in fields]
    assert np.linalg.norm(couplings[0] - couplings[1]) < 0.1 * np.linalg.norm(couplings[1])
