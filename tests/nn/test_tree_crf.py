"""`TreeCRF` against the enumeration of all trees."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from mrflearn.errors import DataError, SettingsError
from mrflearn.nn import TreeCRF

PHRASES, PRETERMINALS = 2, 2
MASK = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0]]).bool()


def trees(start, stop):
    """All labelled binary trees over these words, as lists of nodes, the root first."""
    if stop - start == 1:
        yield from ([(start, stop, PHRASES + k)] for k in range(PRETERMINALS))
        return
    for middle in range(start + 1, stop):
        for left in trees(start, middle):
            for right in trees(middle, stop):
                yield from ([(start, stop, symbol), *left, *right] for symbol in range(PHRASES))


def score(crf, words, tree, spans=None):
    symbols = {(start, stop): symbol for start, stop, symbol in tree}
    total = crf.start[tree[0][2]]
    for (start, stop), symbol in symbols.items():
        if stop - start == 1:
            total = total + words[start, symbol - PHRASES]
            continue
        (middle,) = [
            k for k in range(start + 1, stop) if (start, k) in symbols and (k, stop) in symbols
        ]
        total = total + crf.rules[symbol, symbols[start, middle], symbols[middle, stop]]
        if spans is not None:
            total = total + spans[start, stop - 1, symbol]
    return total.detach()


@pytest.fixture(params=["rules", "spans"])
def case(request):
    torch.manual_seed(0)
    crf = TreeCRF(PHRASES, PRETERMINALS).double()
    with torch.no_grad():
        for own in crf.parameters():
            own.copy_(torch.randn_like(own))
    words = torch.randn(*MASK.shape, PRETERMINALS).double()
    if request.param == "rules":
        return crf, words, None
    return crf, words, 2 * torch.randn(len(MASK), 4, 4, PHRASES).double()


def test_sums_marginals_and_best(case):
    crf, words, spans = case
    given = words, MASK, None, None, spans
    log_z, best, marginals = (
        method(*given) for method in (crf.log_partition, crf.decode, crf.marginals)
    )
    of_spans = crf.span_marginals(*given)
    gold, wanted = [], []
    for i, inside in enumerate(MASK):
        own = words[i, inside]
        found = list(trees(0, len(own)))
        scored = None if spans is None else spans[i, inside][:, inside]
        scores = torch.stack([score(crf, own, tree, scored) for tree in found])
        assert_close(log_z[i], scores.logsumexp(0))
        assert sorted(best[i]) == sorted(found[int(scores.argmax())])
        chances = torch.zeros_like(own)
        phrases = torch.zeros(len(own), len(own), PHRASES).double()
        for chance, tree in zip(scores.softmax(0), found, strict=True):
            for start, stop, symbol in tree:
                if stop - start == 1:
                    chances[start, symbol - PHRASES] += chance
                else:
                    phrases[start, stop - 1, symbol] += chance
        assert_close(of_spans[i, inside][:, inside], phrases)
        assert_close(marginals[i, inside], chances)
        gold.append(found[-1])
        wanted.append(scores[-1] - scores.logsumexp(0))
    assert bool((marginals[~MASK] == 0).all())
    log_likelihood = crf(words, gold, MASK, "none", spans=spans)
    assert_close(log_likelihood, torch.stack(wanted))
    mean = crf.loss(words, gold, MASK, "token_mean", spans=spans)
    assert_close(mean, -sum(wanted) / int(MASK.sum()))


def test_gradients(case):
    crf, words, spans = case
    parts = (words, crf.rules, crf.start, *(() if spans is None else (spans,)))
    given = [own.detach().clone().requires_grad_() for own in parts]
    gold = crf.decode(words, MASK)
    assert torch.autograd.gradcheck(
        lambda own, *others: crf.loss(own, gold, MASK, "none", *others), given
    )


def test_normalised_scores_are_a_grammar():
    """Probabilities of all sentences of one length, over a vocabulary, are those of the length."""
    torch.manual_seed(1)
    crf, vocabulary = TreeCRF(2, 2).double(), 2
    rules = torch.randn(2, 16).double().log_softmax(1).view(2, 4, 4)
    start = torch.tensor([0.5, 0.5, 0.0, 0.0]).double().log()
    emit = torch.randn(2, vocabulary).double().log_softmax(1)
    every = torch.cartesian_prod(*[torch.arange(vocabulary)] * 3)
    words = emit.t()[every]
    total = crf.log_partition(words, rules=rules, start=start).logsumexp(0)
    blank = crf.log_partition(torch.zeros(1, 3, 2).double(), rules=rules, start=start)[0]
    assert_close(total, blank)


def test_bad_input_is_named(case):
    crf, words, _ = case
    with pytest.raises(SettingsError, match="phrases=0"):
        TreeCRF(0, 1)
    with pytest.raises(DataError, match="preterminals=2"):
        crf.decode(words[..., :1])
    with pytest.raises(DataError, match="mask"):
        crf.decode(words, MASK.t())
    with pytest.raises(DataError, match="spans"):
        crf.decode(words, spans=torch.zeros(3, 4, 2, 2))
    with pytest.raises(DataError, match="rules"):
        crf.decode(words, rules=torch.zeros(2, 3, 3))
    one = words[:1, :2]
    for tree in (
        [(0, 2, 0)],
        [(0, 2, 0), (0, 1, 2), (0, 1, 2)],
        [(0, 2, 3), (0, 1, 2), (1, 2, 2)],
        [(0, 2, 0), (0, 1, 1), (1, 2, 2)],
        [(0, 2, 0), (0, 1, 2), (1, 3, 1)],
    ):
        with pytest.raises(DataError, match="tree 0"):
            crf.loss(one, [tree])
    with pytest.raises(DataError, match="0 trees"):
        crf.loss(one, [])
