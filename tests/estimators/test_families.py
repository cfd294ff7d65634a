"""Families: focus, gaps ignored, effects of mutations, exports; against brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import mrflearn
from mrflearn import PottsField
from mrflearn.errors import DataError, SettingsError
from mrflearn.io.alignments import Alignment, Focus, read_alignment
from mrflearn.io.contacts import read_contacts
from mrflearn.io.potts_files import CCMPRED, read_ccmpred, read_plmc

LETTERS = "-ACDEFGHIKLMNPQRSTVWY"
RANDOM = np.random.default_rng(0)
VALUES = RANDOM.integers(0, 21, (50, 5)).astype(np.int8)
VALUES[0] = [1, 2, 3, 4, 5]  # ACDEF
FAMILY = Alignment("protein", None, VALUES)
FOCUS = Focus("f/7-12", "ACDEF", (7, 8, 10, 11, 12))
FOCUSED = Alignment("protein", None, VALUES, focus=FOCUS)


@pytest.fixture(scope="module")
def field() -> PottsField:
    return PottsField(tolerance=1e-3).fit(FOCUSED)


@pytest.fixture(scope="module")
def gapless() -> PottsField:
    settings = {"identity": None, "tolerance": 1e-13, "dtype": "float64"}
    return PottsField(ignore_gaps=True, **settings).fit(FOCUSED)


def probability(field: PottsField, letters: str) -> float:
    """The unnormalised log-probability of a sequence, term by term."""
    model, states = field.model_, [field.letters_.index(letter) for letter in letters]
    total = sum(float(own[state]) for own, state in zip(model.full_fields(), states, strict=True))
    for (i, j), table in zip(model.pairs.t().tolist(), model.couplings, strict=True):
        total += float(table[states[i], states[j]])
    return total


def test_effects_are_differences_of_scores(field: PottsField) -> None:
    wild = probability(field, "ACDEF")
    mutants = {"A7G": "GCDEF", "D10W": "ACWEF", "A7G:F12Y": "GCDEY", "E11-": "ACD-F"}
    expected = [probability(field, letters) - wild for letters in mutants.values()]
    np.testing.assert_allclose(field.score_mutants(list(mutants)), expected, atol=1e-5)
    np.testing.assert_allclose(field.score_mutants("a7g,D10W"), expected[:2], atol=1e-5)
    # The same by the general way: potentials, and samples in the numbers of letters.
    rows = torch.tensor([[1, 2, 3, 4, 5], [6, 2, 3, 4, 5]])
    scores = field.potentials_.score(rows).sum(dim=1)
    assert float(scores[1] - scores[0]) == pytest.approx(expected[0], abs=1e-5)
    other = field.score_mutants("W7A", "WCDEF")
    assert float(other[0]) == pytest.approx(wild - probability(field, "WCDEF"), abs=1e-5)


@pytest.mark.parametrize("kind", ["field", "gapless"])
def test_a_scan_is_all_single_mutants(kind: str, request: pytest.FixtureRequest) -> None:
    field = request.getfixturevalue(kind)
    scan = field.scan_mutants()
    assert (scan.wild, scan.positions, scan.letters) == ("ACDEF", FOCUS.positions, LETTERS[1:])
    table = scan.table()
    assert len(table["mutant"]) == 5 * 19
    assert table["mutant"][:2] == ["A7C", "A7D"]
    np.testing.assert_allclose(field.score_mutants(table["mutant"]), table["score"], atol=1e-5)
    own = [scan.letters.index(letter) for letter in scan.wild]
    assert np.abs(scan.scores[np.arange(5), own]).max() == 0


def test_without_a_focus_the_first_sequence_is_mutated() -> None:
    field = PottsField(tolerance=1e-2).fit(FAMILY)
    assert field.scan_mutants().wild == "ACDEF"
    assert field.score_mutants("A1G").shape == (1,)
    assert field.variable_names_ == list("12345")
    numbers = PottsField(tolerance=1e-2).fit(VALUES)
    with pytest.raises(SettingsError, match="letters"):
        numbers.score_mutants("A1G")


@pytest.mark.parametrize(
    ("mutants", "complaint"),
    [
        ("C7G", "has A at position 7, not C"),
        ("A9G", "no position 9"),
        ("A7Z", "no mutation"),
        ("7G", "no mutation"),
        ("A7G:", "no mutation"),
    ],
)
def test_wrong_mutants_are_told(field: PottsField, mutants: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        field.score_mutants(mutants)
    with pytest.raises(DataError, match="3 letters"):
        field.scan_mutants("ACD")


def test_ignored_gaps_are_no_state(gapless: PottsField) -> None:
    """The objective by loops: terms of letters alone, each given the letters of other columns."""
    model = gapless.model_
    assert tuple(model.fields.shape) == (5, 19)
    leaves = {name: own.clone().requires_grad_(True) for name, own in model.parameters().items()}
    model = model.with_parameters(leaves)
    fields, pairs = model.full_fields(), model.pairs.t().tolist()
    value = 0.01 * model.fields.square().sum() + 0.2 * 4 * model.couplings.square().sum()
    for row in VALUES.tolist():
        for v, state in enumerate(row):
            if state == 0:
                continue
            scores = fields[v]
            for (i, j), table in zip(pairs, model.couplings, strict=True):
                if v == i and row[j]:
                    scores = scores + table[:, row[j] - 1]
                if v == j and row[i]:
                    scores = scores + table[row[i] - 1]
            value = value - scores.log_softmax(0)[state - 1]
    assert gapless.outcome_.value == pytest.approx(float(value.detach()), rel=1e-9)
    for slope in torch.autograd.grad(value, list(leaves.values())):
        assert float(slope.abs().max()) < 1e-3


def test_fields_without_gaps_answer_in_letters(gapless: PottsField, tmp_path: Path) -> None:
    drawn = gapless.sample_alignment(20)
    assert (drawn.names or ())[0] == "sample-1"
    assert set("".join(drawn.sequences())) <= set(LETTERS[1:])
    complete = VALUES[(VALUES > 0).all(axis=1)]
    assert np.isfinite(gapless.log_likelihood(complete)).all()
    with pytest.raises(DataError):
        gapless.log_likelihood(VALUES)
    gapless.save(tmp_path / "m")
    again = mrflearn.load(tmp_path / "m")
    assert again.focus_ == FOCUS
    np.testing.assert_array_equal(again.scan_mutants().scores, gapless.scan_mutants().scores)
    np.testing.assert_array_equal(again.contacts_, gapless.contacts_)
    np.testing.assert_array_equal(again.encode(complete), gapless.encode(complete))
    with pytest.raises(SettingsError, match="ignore_gaps"):
        PottsField(ignore_gaps=True, estimator="pcd").fit(FAMILY)


@pytest.mark.parametrize("kind", ["field", "gapless"])
def test_other_programs_read_the_field(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    field = request.getfixturevalue(kind)
    model, letters = field.model_, field.letters_
    field.export(tmp_path / "x.model", FOCUSED)
    found = read_plmc(tmp_path / "x.model")
    assert (found.alphabet, found.target, found.positions) == (letters, "ACDEF", FOCUS.positions)
    np.testing.assert_allclose(found.couplings, model.couplings, rtol=1e-6)
    np.testing.assert_allclose(found.fields, model.full_fields(), rtol=1e-6)
    table, seen = found.pair_frequencies[0], np.zeros((21, 21))
    weights = field._sequence_weights(torch.as_tensor(VALUES.astype(np.int64))).numpy()
    np.add.at(seen, (VALUES[:, 0], VALUES[:, 1]), weights)
    seen = seen[21 - len(letters) :, 21 - len(letters) :]
    np.testing.assert_allclose(table, seen / seen.sum(), rtol=1e-5, atol=1e-7)
    field.export(tmp_path / "y.model")
    assert np.isnan(read_plmc(tmp_path / "y.model").pair_frequencies).all()
    field.export(tmp_path / "x.raw")
    order = [CCMPRED.index(letter) for letter in letters]
    own = read_ccmpred(tmp_path / "x.raw").couplings[:, order][:, :, order]
    np.testing.assert_allclose(own, model.couplings, rtol=1e-5, atol=1e-7)
    field.export(tmp_path / "x.mat")
    np.testing.assert_allclose(read_contacts(tmp_path / "x.mat"), field.contacts_)
    with pytest.raises(SettingsError, match="model"):
        field.export(tmp_path / "x.txt")


def test_contacts_are_listed_by_position_and_letter(field: PottsField) -> None:
    table, scores = field.contact_table(apart=1), field.contacts_
    assert list(table) == ["i", "letter_i", "j", "letter_j", "score"]
    first = {name: own[0] for name, own in table.items()}
    i, j = (FOCUS.positions.index(first[name]) for name in "ij")
    assert first["score"] == scores.max() == scores[i, j]
    assert first["letter_i"] + first["letter_j"] == FOCUS.letters[i] + FOCUS.letters[j]
    assert field.variable_names_ == ["A7", "C8", "D10", "E11", "F12"]


A2M = """\
>one
AC..DE
>two/5-9 the focus
-CkwDX
>three
ACklDE
"""


def test_a_focus_chooses_columns_and_counts_positions(tmp_path: Path) -> None:
    path = tmp_path / "x.a2m"
    path.write_text(A2M)
    for name in ("two/5-9", "two", "two/5-9 the focus", "2"):
        found = read_alignment(path, "protein", focus=name)
        # X is no letter of proteins, k and w are inserts, which positions count.
        assert found.focus == Focus("two/5-9 the focus", "CD", (5, 8))
        assert found.sequences() == ["CD", "CD", "CD"]
    dropped = read_alignment(path, "protein", drop_inserts=True, focus="two")
    assert (dropped.focus, dropped.sequences()) == (found.focus, found.sequences())
    assert (read_alignment(path, "protein", focus="one").focus or FOCUS).positions == (1, 2, 3, 4)
    with pytest.raises(DataError, match="four"):
        read_alignment(path, "protein", focus="four")
    path.write_text("acde\nAC-E\n")
    assert (read_alignment(path, "protein", focus="1").focus or FOCUS).letters == "ACDE"
