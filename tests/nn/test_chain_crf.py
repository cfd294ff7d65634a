"""`ChainCRF` against the enumeration of all taggings, and as a drop-in for torchcrf."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from mrflearn.errors import DataError, SettingsError
from mrflearn.nn import ChainCRF, TransitionMask, legal_chunks

POSITIONS, BATCH, TAGS = 5, 4, 3
MASK = torch.tensor([[1, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 1, 0, 1], [0, 0, 0, 1, 0]]).bool()
CONSTRAINTS = legal_chunks(["O", "B-X", "I-X"], "IOB2")
CASES = {
    "first order": {},
    "second order": {"order": 2},
    "constrained": {"constraints": CONSTRAINTS},
    "constrained, second order": {"constraints": CONSTRAINTS, "order": 2},
    "scores of steps": {"steps": True},
}


class Case:
    """A module in double precision, its inputs, and all taggings of every sequence."""

    def __init__(self, order=1, constraints=None, steps=False, seed=0):
        torch.manual_seed(seed)
        self.crf = ChainCRF(TAGS, batch_first=True, order=order, constraints=constraints).double()
        with torch.no_grad():
            for own in self.crf.parameters():
                own.copy_(torch.randn_like(own))
        self.emissions = torch.randn(BATCH, POSITIONS, TAGS, dtype=torch.float64)
        self.steps = torch.randn(BATCH, POSITIONS, TAGS, TAGS).double() if steps else None
        self.constraints = constraints

    def taggings(self, i):
        """(score, tags) of a sequence, and where its positions are."""
        places = MASK[i].nonzero()[:, 0].tolist()
        every = itertools.product(range(TAGS), repeat=len(places))
        return [(self.score(i, places, tags), tags) for tags in every], places

    def score(self, i, places, tags):
        crf, own = self.crf, self.emissions[i]
        total = sum(own[place, tag] for place, tag in zip(places, tags, strict=True))
        total = total + crf.start_transitions[tags[0]] + crf.end_transitions[tags[-1]]
        for k, (a, b) in enumerate(itertools.pairwise(tags), start=1):
            total = total + crf.transitions[a, b]
            if self.steps is not None:
                total = total + self.steps[i, places[k], a, b]
        if crf.order == 2:
            for a, c in zip(tags, tags[2:], strict=False):
                total = total + crf.second_transitions[a, c]
        if self.constraints is not None:
            legal = self.constraints.start[tags[0]] & self.constraints.end[tags[-1]]
            for a, b in itertools.pairwise(tags):
                legal = legal & self.constraints.move[a, b]
            total = torch.where(legal, total, -torch.inf)
        return total.detach()


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    return Case(**request.param)


def scored(case, i):
    taggings, places = case.taggings(i)
    return torch.stack([score for score, _ in taggings]), [tags for _, tags in taggings], places


def test_probabilities_marginals_entropy_and_best(case):
    given = case.emissions, MASK, case.steps
    log_z, entropy = case.crf.log_partition(*given), case.crf.entropy(*given)
    marginals, best = case.crf.marginals(*given), case.crf.decode(*given)
    paths, probabilities = case.crf.n_best(case.emissions, 4, MASK, case.steps)
    for i in range(BATCH):
        scores, taggings, places = scored(case, i)
        assert_close(log_z[i], scores.logsumexp(0))
        chance = scores.softmax(0)
        assert_close(entropy[i], -(chance * chance.clamp_min(1e-300).log()).sum())
        wanted = torch.zeros(POSITIONS, TAGS).double()
        for own, tags in zip(chance, taggings, strict=True):
            for place, tag in zip(places, tags, strict=True):
                wanted[place, tag] += own
        assert_close(marginals[i], wanted)
        order = scores.argsort(descending=True)[:4].tolist()
        assert best[i] == list(taggings[order[0]])
        for rank, k in enumerate(order):
            if scores[k] > -torch.inf:
                assert_close(probabilities[rank, i], chance[k].log())
                assert paths[rank, i, places].tolist() == list(taggings[k])
        assert bool((probabilities[:, i].exp().sum() <= 1 + 1e-9).all())
        assert paths[:, i][:, ~MASK[i]].unique().tolist() in ([], [-1])


def test_losses_of_known_partial_and_ambiguous_labels(case):
    generator = torch.Generator().manual_seed(1)
    known = torch.zeros(BATCH, POSITIONS, dtype=torch.int64)
    partial = torch.full_like(known, -100)
    allowed = torch.rand(BATCH, POSITIONS, TAGS, generator=generator) < 0.6
    wanted = {"known": [], "partial": [], "allowed": []}
    for i in range(BATCH):
        scores, taggings, places = scored(case, i)
        number = int(scores.argmax())
        known[i, places] = torch.tensor(taggings[number])
        partial[i, places[-1]] = taggings[number][-1]
        for place, tag in zip(places, taggings[number], strict=True):
            allowed[i, place, tag] = True
        log_z = scores.logsumexp(0)
        wanted["known"].append(scores[number] - log_z)
        ends = torch.tensor([tags[-1] == taggings[number][-1] for tags in taggings])
        wanted["partial"].append(scores[ends].logsumexp(0) - log_z)
        may = [
            all(bool(allowed[i, p, y]) for p, y in zip(places, tags, strict=True))
            for tags in taggings
        ]
        wanted["allowed"].append(scores[torch.tensor(may)].logsumexp(0) - log_z)
    for name, tags in (("known", known), ("partial", partial), ("allowed", allowed)):
        leaf = case.emissions.clone().requires_grad_()
        found = case.crf(leaf, tags, MASK, "none", case.steps)
        assert_close(found, torch.stack(wanted[name]))
        assert_close(case.crf.loss(leaf, tags, MASK, "mean", case.steps), -found.mean())
        tokens = found.sum() / MASK.sum()
        assert_close(case.crf(leaf, tags, MASK, "token_mean", case.steps), tokens)
        assert_close(case.crf.log_prob(leaf, tags, MASK, case.steps), found)


@pytest.mark.parametrize("labels", ["known", "partial"])
def test_gradients(case, labels):
    tags = torch.tensor([[0, 1, 0, 2, 0]] * BATCH)
    if case.constraints is not None:
        tags = torch.where(MASK, 0, -1)
    if labels == "partial":
        tags[:, 1::2] = -1
    names = [name for name, _ in case.crf.named_parameters()]
    leaves = [case.emissions, *(own.detach() for own in case.crf.parameters())]
    leaves = [own.clone().requires_grad_() for own in leaves]

    def loss(emissions, *parameters):
        given = dict(zip(names, parameters, strict=True))
        arguments = emissions, tags, MASK, "none", case.steps
        return torch.func.functional_call(case.crf, given, arguments)

    assert torch.autograd.gradcheck(loss, leaves)


def test_gradients_of_scores_of_steps():
    case = Case(steps=True)
    steps = case.steps.clone().requires_grad_()
    tags = torch.zeros(BATCH, POSITIONS, dtype=torch.int64)
    assert torch.autograd.gradcheck(
        lambda own: case.crf(case.emissions, tags, MASK, "none", own), steps
    )


def test_samples_have_the_right_frequencies(case):
    draws = 4000
    found = case.crf.sample(
        case.emissions, draws, MASK, case.steps, torch.Generator().manual_seed(0)
    )
    wanted = case.crf.marginals(case.emissions, MASK, case.steps)
    seen = torch.stack([(found == tag).double().mean(dim=0) for tag in range(TAGS)], dim=-1)
    error = (wanted * (1 - wanted) / draws).sqrt()
    assert bool(((seen - wanted).abs() <= 5 * error + 1e-9).all())
    assert bool((found[:, ~MASK] == -1).all())


def test_batch_second_is_the_same(case):
    other = ChainCRF(TAGS, order=case.crf.order, constraints=case.constraints).double()
    other.load_state_dict(case.crf.state_dict())
    turned = case.emissions.transpose(0, 1), MASK.t()
    steps = None if case.steps is None else case.steps.transpose(0, 1)
    own = case.emissions, MASK, case.steps
    assert other.decode(*turned, steps) == case.crf.decode(*own)
    assert_close(other.marginals(*turned, steps).transpose(0, 1), case.crf.marginals(*own))
    found, _ = other.n_best(turned[0], 2, turned[1], steps)
    assert torch.equal(found.transpose(1, 2), case.crf.n_best(own[0], 2, MASK, case.steps)[0])


@pytest.mark.parametrize("kind", ["pl", "pw", "pwpl"])
def test_local_losses(kind):
    case = Case()
    crf, total = case.crf, 0.0
    tags = torch.randint(TAGS, (BATCH, POSITIONS), generator=torch.Generator().manual_seed(3))
    for i in range(BATCH):
        places = MASK[i].nonzero()[:, 0]
        own = case.emissions[i, places].clone()
        own[0] += crf.start_transitions.detach()
        own[-1] += crf.end_transitions.detach()
        gold, table = tags[i, places], crf.transitions.detach()
        for t, y in enumerate(gold):
            before = table[gold[t - 1]] if t else None
            after = table[:, gold[t + 1]] if t + 1 < len(gold) else None
            near = [side for side in (before, after) if side is not None]
            if kind == "pl":
                total -= (own[t] + sum(near)).log_softmax(0)[y]
            elif kind == "pwpl" or not near:
                for side in near or [0.0]:
                    total -= (own[t] + side).log_softmax(0)[y]
            elif before is not None:
                pair = own[t - 1][:, None] + table + own[t]
                total += pair.logsumexp((0, 1)) - pair[gold[t - 1], y]
    found = crf.loss(case.emissions, tags, MASK, estimator=kind)
    assert_close(found, torch.as_tensor(total))
    single = case.emissions.float()
    leaf, exact = single.clone().requires_grad_(), single.double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda own: crf.loss(own, tags, MASK, estimator=kind), exact, atol=1e-5
    )
    copy = ChainCRF(TAGS, batch_first=True)
    copy.load_state_dict(crf.state_dict())
    copy.loss(leaf, tags, MASK, estimator=kind).backward()
    crf.loss(exact, tags, MASK, estimator=kind).backward()
    assert_close(leaf.grad.double(), exact.grad, rtol=1e-4, atol=1e-5)


# The examples of torchcrf's documentation, with the import changed.


def test_the_documented_examples_of_torchcrf():
    torch.manual_seed(0)
    num_tags, seq_length, batch_size = 5, 3, 2
    model = ChainCRF(num_tags)
    emissions = torch.randn(seq_length, batch_size, num_tags)
    tags = torch.tensor([[0, 1], [2, 4], [3, 1]], dtype=torch.long)
    log_likelihood = model(emissions, tags)
    assert log_likelihood.shape == ()
    assert log_likelihood.item() < 0
    mask = torch.tensor([[1, 1], [1, 1], [1, 0]], dtype=torch.uint8)
    masked = model(emissions, tags, mask=mask)
    assert masked.item() > log_likelihood.item()
    assert model(emissions, tags, mask=mask, reduction="none").shape == (batch_size,)
    assert_close(model(emissions, tags, mask=mask, reduction="mean"), masked / 2)
    assert_close(model(emissions, tags, mask=mask, reduction="token_mean"), masked / 5)
    decoded = model.decode(emissions)
    assert [len(path) for path in decoded] == [3, 3]
    assert [len(path) for path in model.decode(emissions, mask=mask)] == [3, 2]
    first = ChainCRF(num_tags, batch_first=True)
    first.load_state_dict(model.state_dict())
    turned = emissions.transpose(0, 1), tags.t(), mask.t()
    assert_close(first(*turned), masked)
    assert set(model.state_dict()) == {"start_transitions", "end_transitions", "transitions"}
    assert model.transitions.shape == (num_tags, num_tags)
    assert all(float(own.detach().abs().max()) <= 0.1 for own in model.parameters())
    assert "num_tags=5" in repr(model)


# Precision, compilers, errors.


def test_autocast_computes_in_single_precision():
    torch.manual_seed(0)
    crf, emissions = ChainCRF(4), torch.randn(20, 3, 4).bfloat16()
    tags = torch.randint(4, (20, 3))
    wanted = crf.loss(emissions.float(), tags)
    with torch.autocast("cpu", torch.bfloat16):
        found = crf.loss(emissions, tags)
        marginals = crf.marginals(emissions)
    assert found.dtype == torch.float32
    assert_close(found, wanted)
    assert_close(marginals, crf.marginals(emissions.float()))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch's own
def test_a_compiled_module_gives_the_same():
    torch.manual_seed(0)
    crf, emissions = ChainCRF(4), torch.randn(6, 3, 4, requires_grad=True)
    tags = torch.randint(4, (6, 3))
    compiled = torch.compile(lambda own: 2 * crf.loss(3 * own, tags), backend="eager")
    found, wanted = compiled(emissions), 2 * crf.loss(3 * emissions, tags)
    assert_close(found, wanted)
    for one, other in zip(
        torch.autograd.grad(found, [emissions, crf.transitions]),
        torch.autograd.grad(wanted, [emissions, crf.transitions]),
        strict=True,
    ):
        assert_close(one, other)


@pytest.mark.parametrize("order", [1, 2])
def test_a_second_derivative_is_refused(order):
    crf, emissions = ChainCRF(3, order=order), torch.randn(4, 2, 3, requires_grad=True)
    loss = crf.loss(emissions, torch.zeros(4, 2, dtype=torch.int64))
    (gradient,) = torch.autograd.grad(loss, emissions, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        gradient.square().sum().backward()


def test_long_sequences_and_large_scores():
    torch.manual_seed(0)
    crf = ChainCRF(3)
    emissions, tags = 200 * torch.randn(2000, 2, 3), torch.randint(3, (2000, 2))
    exact = crf.double()(emissions.double(), tags, reduction="none")
    found = crf.float()(emissions, tags, reduction="none")
    assert_close(found.double(), exact, rtol=1e-5, atol=1e-2)


def test_sequences_without_any_position():
    crf, emissions = ChainCRF(3, batch_first=True), torch.randn(2, 4, 3, requires_grad=True)
    mask = torch.tensor([[0, 0, 0, 0], [0, 1, 1, 0]])
    lost = crf.loss(emissions, torch.zeros(2, 4, dtype=torch.int64), mask, "none")
    assert lost[0].item() == 0
    lost.sum().backward()
    assert bool((emissions.grad[0] == 0).all())
    assert [len(path) for path in crf.decode(emissions, mask)] == [0, 2]
    assert crf.n_best(emissions, 2, mask)[1][:, 0].tolist() == [0, -torch.inf]


def test_bad_input_is_named():
    crf, emissions = ChainCRF(3, batch_first=True), torch.randn(2, 4, 3)
    tags = torch.zeros(2, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match="num_tags=0"):
        ChainCRF(0)
    with pytest.raises(SettingsError, match="order=3"):
        ChainCRF(3, order=3)
    with pytest.raises(SettingsError, match="3 tags"):
        ChainCRF(4, constraints=CONSTRAINTS)
    with pytest.raises(ValueError, match="num_tags=3"):
        crf(emissions[..., :2], tags)
    with pytest.raises(DataError, match="batch_first"):
        crf(emissions, tags.t())
    with pytest.raises(DataError, match="mask"):
        crf(emissions, tags, torch.ones(4, 2))
    with pytest.raises(DataError, match="tag 7"):
        crf(emissions, tags + 7)
    with pytest.raises(SettingsError, match="nothing"):
        crf(emissions, tags, reduction="nothing")
    with pytest.raises(DataError, match="no tag"):
        crf(emissions, torch.zeros(2, 4, 3, dtype=torch.bool))
    with pytest.raises(SettingsError, match="magic"):
        crf.loss(emissions, tags, estimator="magic")
    with pytest.raises(SettingsError, match="none"):
        crf.loss(emissions, tags, reduction="none", estimator="pwpl")
    strict = ChainCRF(3, batch_first=True, constraints=CONSTRAINTS)
    with pytest.raises(DataError, match="sequence 0"):
        strict(emissions, tags + 2)
    only_first = torch.zeros(2, 4, 3, dtype=torch.bool)
    only_first[..., 2] = True
    with pytest.raises(DataError, match="sequence 0"):
        strict(emissions, only_first)


def test_constraints_move_with_the_module_and_are_no_parameters():
    crf = ChainCRF(3, constraints=CONSTRAINTS)
    assert isinstance(CONSTRAINTS, TransitionMask)
    assert set(crf.state_dict()) == {"start_transitions", "end_transitions", "transitions"}
    assert crf.to(torch.device("meta"))._may_move.device.type == "meta"


def test_importing_modules_loads_no_estimators():
    names = "ChainCRF, FactorGraphCRF, SemiMarkovCRF, TreeCRF, ViterbiDecoder, legal_chunks"
    heavy = "'sklearn', 'pandas', 'typer', 'pyspark', 'matplotlib'"
    code = f"import sys\nfrom mrflearn.nn import {names}\n"
    code += f"print([name for name in ({heavy}) if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
