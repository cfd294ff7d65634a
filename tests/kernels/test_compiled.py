"""Compiled loops against their twins of tensor operations, and against enumeration."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from mrflearn import CRF
from mrflearn.errors import SettingsError
from mrflearn.graph.evidence import condition
from mrflearn.graph.potentials import DenseTable, Potentials, dense_potentials
from mrflearn.inference.circuit import make_circuit
from mrflearn.inference.compiled_field import CompiledField
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.sampling import Conditionals
from mrflearn.kernels import chain_search, compiled
from mrflearn.kernels.chain_sums import Steps
from mrflearn.kernels.compiled import Compiled, viterbi_loop
from support.fields import SHAPES, random_field, tiny_field

DTYPES = [torch.float32, torch.float64]


@pytest.fixture(params=["interpreted", "compiled"])
def fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Loops in place of their twins: as Python runs them, and as numba compiles them."""
    if request.param == "compiled":
        pytest.importorskip("numba", exc_type=ImportError)
    else:
        monkeypatch.setattr(compiled, "_compile", lambda loop: loop)
    monkeypatch.setenv("MRFLEARN_COMPILE", "always")
    return monkeypatch


def chains(seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Steps]:
    """Scores of few values, so that many paths tie; some impossible, some of shared tables."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 5, (4,), generator=generator)
    if seed % 8 == 0:
        lengths[0] = 150
    steps, states = Steps.of(lengths), 1 + seed % 4
    rows = len(steps) - steps.starting
    shape = (states, states) if seed % 2 else (rows, states, states)
    unary = torch.randint(-2, 3, (len(steps), states), generator=generator).to(dtype)
    table = torch.randint(-1, 2, shape, generator=generator).to(dtype)
    if seed % 3 == 0:
        unary[unary < -1], table[table < 0] = -torch.inf, -torch.inf
    return unary, table, steps


def best_score(unary: Tensor, table: Tensor, steps: Steps, sequence: int) -> float:
    """Over every path of one sequence."""
    rows = (steps.sequence == sequence).nonzero().squeeze(1).tolist()
    scores = []
    for path in itertools.product(range(unary.shape[1]), repeat=len(rows)):
        score = sum(float(unary[row, k]) for row, k in zip(rows, path, strict=True))
        for row, before, after in zip(rows[1:], path, path[1:], strict=False):
            own = table if table.ndim == 2 else table[row - steps.starting]
            score += float(own[before, after])
        scores.append(score)
    return max(scores)


@pytest.mark.parametrize("dtype", DTYPES)
def test_viterbi_finds_the_same_path_among_equals(fast: pytest.MonkeyPatch, dtype: torch.dtype):
    for seed in range(24):
        problem = chains(seed, dtype)
        path, scores = chain_search.viterbi(*problem)
        with fast.context() as plain:
            plain.setenv("MRFLEARN_COMPILE", "never")
            expected = chain_search.viterbi(*problem)
        assert torch.equal(path, expected[0])
        assert torch.equal(scores, expected[1])
        for sequence, length in enumerate(problem[2].lengths.tolist()):
            if length < 6:
                assert float(scores[sequence]) == best_score(*problem, sequence)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_gibbs_draws_the_same_states(fast: pytest.MonkeyPatch, dtype: torch.dtype, share: float):
    scopes = ((0,), (3,), (0, 1), (1, 2, 3), (2, 4), (0, 4), (3, 4, 1))
    field = random_field(0, states=(3, 2, 4, 2, 3), scopes=scopes)
    tables = [own.dense().to(dtype) for own in field.tables]
    tables[-1][:, 0, 1] = -torch.inf
    field = Potentials(field.graph, tuple(map(DenseTable, tables)))

    def drawn() -> Tensor:
        conditionals, generator = Conditionals.of(field), torch.Generator().manual_seed(1)
        states = conditionals.start(23, generator)
        for _ in range(10):
            conditionals.sweep(states, generator, share)
        return states

    found = drawn()
    fast.setenv("MRFLEARN_COMPILE", "never")
    assert torch.equal(found, drawn())


def test_perceptrons_have_the_same_weights(fast: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    words = [[f"w{w}" for w in torch.randint(9, (7,), generator=generator)] for _ in range(20)]
    X = [
        [[word, f"{word}+{after}"] for word, after in zip(s, [*s[1:], ""], strict=True)]
        for s in words
    ]
    y = [["ABC"[int(word[1]) * k % 3] for k, word in enumerate(s)] for s in words]

    def weights() -> list[Tensor]:
        model = CRF(algorithm="ap", max_iterations=3, batch_size=4).fit(X, y)
        return list(model.model_.parameters().values())

    found = weights()
    fast.setenv("MRFLEARN_COMPILE", "never")
    assert all(map(torch.equal, found, weights()))


def test_short_jobs_do_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MRFLEARN_COMPILE", raising=False)
    monkeypatch.setattr(compiled, "_compile", lambda loop: loop)
    work = Compiled(viterbi_loop)
    assert work.after(0.9 * compiled.AFTER) is None
    assert work.after(0.2 * compiled.AFTER) is viterbi_loop
    monkeypatch.setenv("MRFLEARN_COMPILE", "sometimes")
    with pytest.raises(SettingsError, match="MRFLEARN_COMPILE"):
        work.after(1.0)


def test_without_numba_tensor_operations_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # importing it raises ImportError
    assert compiled._compile.__wrapped__(viterbi_loop) is None


@pytest.mark.parametrize("name", SHAPES)
def test_circuits_answer_the_same(fast: pytest.MonkeyPatch, name: str) -> None:
    """Of zeros, impossible evidence, and what leaves double precision."""
    for seed in range(3):
        field = tiny_field(name, seed, forbidden=0.2 * seed)
        circuit = make_circuit(field)
        if circuit is None:
            continue
        # Any states may be allowed or not: of some columns nothing is possible.
        count = field.graph.variables * field.graph.most_states
        allowed = (np.random.default_rng(seed).random((count, 6)) < 0.8).astype(np.float64)
        log_z, marginals = circuit.answer(allowed)
        with fast.context() as plain:
            plain.setenv("MRFLEARN_COMPILE", "never")
            expected, twins = circuit.answer(allowed)
        np.testing.assert_allclose(log_z, expected, atol=1e-12)
        np.testing.assert_allclose(marginals, twins, atol=1e-12)


def pedigree() -> Potentials:
    """Two children of two founders with two alleles each; what is seen of a child is certain."""
    copied = torch.full(
        (2, 2, 2, 2), -torch.inf, dtype=torch.float64
    )  # allele, other allele, which is passed on, copy
    seen = torch.full((2, 2, 3), -torch.inf, dtype=torch.float64)
    for a, b in itertools.product(range(2), repeat=2):
        seen[a, b, a + b] = 0.0
        for which in range(2):
            copied[a, b, which, (a, b)[which]] = 0.0
    factors: list[tuple[list[int], Tensor]] = [
        ([v], torch.tensor([0.9, 0.1], dtype=torch.float64).log()) for v in range(4)
    ]
    states = [2] * 4
    for _ in range(2):
        v = len(states)
        states += [2, 2, 2, 2, 3]
        factors += [([0, 1, v, v + 1], copied), ([2, 3, v + 2, v + 3], copied)]
        factors.append(([v + 1, v + 3, v + 4], seen))
    # Which alleles are passed on, from child to child.
    alike = torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.float64).log()
    factors += [([v, v + 5], alike) for v in (4, 6)]
    return dense_potentials(states, factors)


def test_circuits_with_hard_zeros_answer_as_enumeration_does(fast: pytest.MonkeyPatch) -> None:
    field, kinds = pedigree(), (8, 13)
    compiled = CompiledField(field)
    assert compiled.circuit is not None
    assert (compiled.circuit.states.min(axis=0) < field.graph.variables * 3).sum() > 1  # merged
    evidence = [dict(zip(kinds, own, strict=True)) for own in itertools.product(range(3), repeat=2)]
    evidence += [{}, {0: 1, 1: 1, 8: 0}, {0: 1, 2: 0, 6: 1}]
    found = compiled.ask(evidence)
    for own, log_z, variables in zip(evidence, found.log_partition, found.variables, strict=True):
        expected = Enumeration()(condition(field, own))
        torch.testing.assert_close(log_z, expected.log_partition, rtol=0, atol=1e-11)
        torch.testing.assert_close(variables, expected.variables, rtol=0, atol=1e-11)


def test_circuits_refuse_the_same_numbers(fast: pytest.MonkeyPatch) -> None:
    """A product of three messages of 1e-200."""
    near = torch.tensor([[0.0, -460.0], [-460.0, 0.0]])
    circuit = make_circuit(dense_potentials([2] * 4, [([0, i], near) for i in (1, 2, 3)]))
    assert circuit is not None
    allowed = np.array([[1.0, 1, 1, 0, 1, 0, 1, 0]]).T
    for mode in ("always", "never"):
        fast.setenv("MRFLEARN_COMPILE", mode)
        with pytest.raises(FloatingPointError):
            circuit.answer(allowed)
        assert circuit.answer(np.ones((8, 1)))[1].T.round(9).tolist() == [[0.5] * 8]
