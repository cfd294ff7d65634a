"""`FactorGraphCRF` against enumeration, with every estimator."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.testing import assert_close

from mrflearn.errors import DataError, GraphError, InferenceError, SettingsError
from mrflearn.graph import FactorGraph, FactorGroup, grid
from mrflearn.inference import BeliefPropagation
from mrflearn.nn import ChainCRF, FactorGraphCRF

# A triangle with a tail, of variables of two and three states, and factors of three of them.
STATES = [2, 2, 2, 3]
GROUPS = {
    "node": [[0], [1], [2]],
    "edge": [[0, 1], [1, 2], [2, 0]],
    "tail": [[2, 3]],
    "triple": [[2, 0, 1]],
}
SHAPES = {"node": (2,), "edge": (2, 2), "tail": (2, 3), "triple": (2, 2, 2)}
LABELS = torch.tensor([1, 0, 1, 2, 0, 0, 1, 1])
ESTIMATORS = ["ml", "bp", "pl", "edge-pl", "pw", "pwpl", "lap"]


def graph():
    return FactorGraph(STATES, tuple(FactorGroup(*item) for item in GROUPS.items()))


@pytest.fixture
def case():
    """A module, the scores of two examples, and the table of every factor of each."""
    torch.manual_seed(0)
    crf = FactorGraphCRF(SHAPES).double()
    with torch.no_grad():
        for own in crf.parameters():
            own.copy_(torch.randn_like(own))
    scores = {
        name: torch.randn(2 * len(GROUPS[name]), *SHAPES[name]).double()
        for name in ("node", "edge", "tail")  # triples have their learned table alone
    }
    examples = []
    for i in range(2):
        factors = []
        for name, scopes in GROUPS.items():
            for k, scope in enumerate(scopes):
                table = crf.tables[name].detach().clone()
                if name in scores:
                    table += scores[name][i * len(scopes) + k]
                factors.append((scope, table))
        examples.append(factors)
    return crf, scores, examples


def conditional(factors, labels, free):
    """-log P(labels of the free variables | those of the others) under these factors alone."""
    totals = []
    for states in itertools.product(*(range(STATES[v]) for v in free)):
        own = list(labels)
        for v, state in zip(free, states, strict=True):
            own[v] = state
        totals.append(sum(table[tuple(own[v] for v in scope)] for scope, table in factors))
        if own == list(labels):
            gold = totals[-1]
    return torch.stack([torch.as_tensor(one) for one in totals]).logsumexp(0) - gold


def enumerated(kind, factors, labels, pieces="edges"):
    everyone = range(len(STATES))
    if kind == "ml":
        return conditional(factors, labels, everyone)
    if kind == "pl":
        return sum(conditional(factors, labels, [v]) for v in everyone)
    if kind in ("edge-pl", "lap"):
        scopes = [scope for scope, _ in factors if len(scope) > 1 or kind == "lap"]
        return sum(conditional(factors, labels, scope) for scope in scopes)
    total = 0.0
    for scope, table in factors:
        own = [(scope, table)]
        if pieces == "edges":
            if len(scope) == 1:
                continue
            own += [part for part in factors if len(part[0]) == 1 and part[0][0] in scope]
        for free in [scope] if kind == "pw" else [[v] for v in scope]:
            kept = [part for part in own if part[0] == scope or part[0][0] in free]
            total = total + conditional(kept, labels, free)
    return total


@pytest.mark.parametrize("pieces", ["edges", "factors"])
@pytest.mark.parametrize("kind", [kind for kind in ESTIMATORS if kind != "bp"])
def test_every_loss_is_what_it_says(case, kind, pieces):
    crf, scores, examples = case
    crf.pieces = pieces
    found = crf.loss([graph(), graph()], scores, LABELS, "none", kind)
    for i, factors in enumerate(examples):
        wanted = enumerated(kind, factors, LABELS[4 * i : 4 * i + 4].tolist(), pieces)
        assert_close(found[i], wanted, rtol=1e-6, atol=1e-6)
    assert_close(crf([graph()] * 2, scores, LABELS, "mean", kind), -found.mean())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_gradients(case, kind):
    crf, scores, _ = case
    crf.inference = BeliefPropagation(max_sweeps=5000, tolerance=1e-13, damping=0.5)
    both = [graph(), graph()]
    names = [*scores, *(name for name, _ in crf.named_parameters())]
    leaves = [*scores.values(), *(own.detach() for own in crf.parameters())]
    # Weak scores: messages then come to one fixed point.
    leaves = [(0.3 * own).clone().requires_grad_() for own in leaves]

    def loss(*own):
        given = dict(zip(names, own, strict=True))
        parts = {name: given.pop(name) for name in scores}
        return torch.func.functional_call(crf, given, (both, parts, LABELS, "sum", kind))

    assert torch.autograd.gradcheck(loss, leaves, atol=1e-5)


def test_on_a_tree_messages_are_exact(case):
    crf = FactorGraphCRF({"edge": (3, 3)}).double()
    star = FactorGraph([3] * 4, (FactorGroup("edge", [[0, 1], [0, 2], [0, 3]]),))
    scores = {"edge": torch.randn(3, 3, 3).double()}
    labels = torch.tensor([0, 1, 2, 1])
    exact = crf.loss(star, scores, labels, estimator="ml")
    assert_close(crf.loss(star, scores, labels, estimator="bp"), exact, rtol=0, atol=1e-6)


def test_unknown_labels_are_summed_over(case):
    crf, scores, examples = case
    labels = LABELS.clone()
    labels[[1, 3]] = -1
    found = crf.loss([graph(), graph()], scores, labels, "none")
    ways = []
    for a, b in itertools.product(range(2), range(3)):
        own = [int(labels[0]), a, int(labels[2]), b]
        ways.append(-enumerated("ml", examples[0], own))
    assert_close(found[0], -torch.stack(ways).logsumexp(0))
    with pytest.raises(DataError, match="variable 1"):
        crf.loss([graph(), graph()], scores, labels, estimator="pl")


def test_marginals_and_best(case):
    crf, scores, examples = case
    marginals, best = (f([graph(), graph()], scores) for f in (crf.marginals, crf.decode))
    every = list(itertools.product(*map(range, STATES)))
    values = torch.stack([-enumerated("ml", examples[1], list(own)) for own in every])
    assert best[4:].tolist() == list(every[int(values.argmax())])
    wanted = torch.zeros(4, 3).double()
    for chance, own in zip(values.exp(), every, strict=True):
        for v, state in enumerate(own):
            wanted[v, state] += chance
    assert_close(marginals[4:], wanted)
    log_z = crf.log_partition([graph(), graph()], scores)
    score = crf.potentials([graph(), graph()], scores).score(LABELS)
    assert_close(log_z - score, crf.loss([graph(), graph()], scores, LABELS, "none"))


def test_a_chain_is_a_graph():
    torch.manual_seed(2)
    chain, n = ChainCRF(4).double(), 6
    with torch.no_grad():
        chain.start_transitions.zero_()
        chain.end_transitions.zero_()
    steps = FactorGroup("step", [[t, t + 1] for t in range(n - 1)])
    path = FactorGraph([4] * n, (FactorGroup("token", [[t] for t in range(n)]), steps))
    crf = FactorGraphCRF({"token": (4,), "step": (4, 4)}).double()
    with torch.no_grad():
        crf.tables["step"].copy_(chain.transitions)
    emissions, tags = torch.randn(n, 1, 4).double(), torch.randint(4, (n, 1))
    for kind in ("ml", "pl", "pw", "pwpl"):
        found = crf.loss(path, {"token": emissions[:, 0]}, tags[:, 0], estimator=kind)
        assert_close(found, chain.loss(emissions, tags, estimator=kind), rtol=1e-5, atol=1e-5)


def test_bad_input_is_named(case):
    crf, scores, _ = case
    both = [graph(), graph()]
    with pytest.raises(SettingsError, match="magic"):
        FactorGraphCRF(SHAPES, estimator="magic")
    with pytest.raises(SettingsError, match="shards"):
        FactorGraphCRF(SHAPES, pieces="shards")
    with pytest.raises(SettingsError, match="median"):
        crf.loss(both, scores, LABELS, "median")
    with pytest.raises(GraphError, match="only"):
        FactorGraphCRF({"only": (2,)}).loss(both, {}, LABELS)
    with pytest.raises(DataError, match="face"):
        crf.loss(both, {"face": scores["node"]}, LABELS)
    with pytest.raises(DataError, match="node"):
        crf.loss(both, {"node": scores["node"][1:]}, LABELS)
    with pytest.raises(DataError, match="8 variables"):
        crf.loss(both, scores, LABELS[:4])
    with pytest.raises(DataError, match="variable 0"):
        crf.loss(both, scores, LABELS + 2)
    wide = grid(40, 40)
    ising = FactorGraphCRF({group.name: [2] * group.arity for group in wide.groups})
    with pytest.raises(InferenceError, match="bp"):
        ising.loss(wide, {}, torch.zeros(1600, dtype=torch.int64))
