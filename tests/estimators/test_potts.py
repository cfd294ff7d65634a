"""PottsField: its objective, its storage, its refusals, and real families against CCMpred."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

import mrflearn
from mrflearn import PottsField
from mrflearn.errors import DataError, MrflearnError, NotFittedError, StorageError
from mrflearn.features.observations import Samples
from mrflearn.graph.contacts import strongest_pairs
from mrflearn.io.alignments import read_alignment
from mrflearn.objectives.pseudolikelihood import Pseudolikelihood
from support.edited import edit

ROWS = np.random.default_rng(0).integers(0, 3, (60, 5))
ROWS[:, 3] = ROWS[:, 0]  # two columns that agree


def test_the_optimum_is_flat_and_its_value_is_ccmpreds_objective() -> None:
    field = PottsField(identity=None, tolerance=1e-13, dtype="float64").fit(ROWS)
    leaves = {k: v.clone().requires_grad_(True) for k, v in field.model_.parameters().items()}
    model = field.model_.with_parameters(leaves)
    samples = Samples(torch.as_tensor(ROWS), torch.ones(60).double())
    # [CCMpred, evaluate_cpu] lambda_single v^2 + lambda_pair w^2, lambda_pair = 0.2 (L - 1).
    penalty = 0.01 * model.fields.square().sum() + 0.8 * model.couplings.square().sum()
    value = Pseudolikelihood()(model, samples) + penalty
    assert field.outcome_.value == pytest.approx(float(value.detach()), rel=1e-10)
    for slope in torch.autograd.grad(value, list(leaves.values())):
        assert float(slope.abs().max()) < 1e-3


def test_columns_that_agree_have_the_highest_score() -> None:
    field = PottsField(identity=None).fit(ROWS)
    scores = torch.as_tensor(field.contacts_)
    assert strongest_pairs(scores, 1, apart=1).tolist() == [[0, 3]]
    assert field.couplings_.shape == (10, 3, 3)
    assert field.fields_.shape == (5, 3)
    assert field.score(ROWS) > PottsField(identity=None, l2_couplings=1e6).fit(ROWS).score(ROWS)


def test_copies_share_one_vote_and_votes_can_be_given() -> None:
    doubled = np.concatenate([ROWS, ROWS])
    once = PottsField(identity=0.99, tolerance=1e-9, dtype="float64").fit(ROWS)
    votes = np.full(120, 0.5)
    again = PottsField(tolerance=1e-9, dtype="float64").fit(doubled, sample_weight=votes)
    plain = PottsField(identity=None, tolerance=1e-9, dtype="float64").fit(ROWS)
    assert once.n_effective_ == 60
    np.testing.assert_allclose(again.couplings_, plain.couplings_, atol=1e-5)


def test_it_comes_back_from_disk(tmp_path: Path) -> None:
    field = clone(PottsField(identity=None)).fit(ROWS)
    field.save(tmp_path / "m")
    again = mrflearn.load(tmp_path / "m")
    assert isinstance(again, PottsField)
    np.testing.assert_array_equal(again.contacts_, field.contacts_)
    assert again.sample(3, random_state=1).tolist() == field.sample(3, random_state=1).tolist()
    edit(tmp_path / "m", lambda text: text.replace('"PottsField"', '"MarkovField"'))
    with pytest.raises(StorageError, match="holds a MarkovField"):
        PottsField.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("settings", "rows", "complaint"),
    [
        ({}, [[0], [1]], "two or more"),
        ({"states": 2}, ROWS, "not a state"),
        ({"dtype": "float16"}, ROWS, "float16"),
        ({"l2_couplings": -1.0}, ROWS, "must be >= 0"),
        ({"identity": 2.0}, ROWS, "identity=2.0"),
        ({}, ROWS - 1, "Missing values"),
    ],
)
def test_bad_input_is_told(settings: dict[str, object], rows: object, complaint: str) -> None:
    with pytest.raises((DataError, MrflearnError), match=complaint):
        PottsField(**settings).fit(rows)


def test_nothing_can_be_asked_before_fit() -> None:
    with pytest.raises(NotFittedError):
        PottsField().contacts_  # noqa: B018


# The ten strongest of CCMpred 0.3.3 (columns from 1, at least 4 apart) and the value it stops at.
FAMILIES = {
    "1atzA.aln": (
        "28-72 11-47 32-68 9-27 45-56 47-55 6-58 44-58 61-70 7-27",
        92_237.2,
    ),
    "PF00014.fasta": (
        "11-35 21-28 45-49 17-41 24-28 6-19 17-43 14-31 18-45 1-51",
        130_319.2,
    ),
}


@pytest.mark.data
@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_the_contacts_that_ccmpred_finds(name: str, data_folder: Path) -> None:
    contacts, objective = FAMILIES[name]
    path = data_folder / "protein-msa" / name
    rows = read_alignment(path, drop_inserts=name.endswith(".fasta")).values
    field = PottsField(states=21, tolerance=1e-3).fit(rows)
    assert field.outcome_.value < objective
    found = strongest_pairs(torch.as_tensor(field.contacts_), 10) + 1
    assert {f"{i}-{j}" for i, j in found.tolist()} == set(contacts.split())
