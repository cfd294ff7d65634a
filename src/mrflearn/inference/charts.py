"""Inference in context-free grammars: sums over all parses, and prefix probabilities.

Letters in shapes: b: sentences; t: tokens, sentences end to end; n: words so far; p: preterminals;
a: phrases; s: symbols (phrases, then preterminals); r: rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.chart import ChartPotentials
from mrflearn.kernels import chart
from mrflearn.kernels.chart import ChartBeliefs, GrammarWeights
from mrflearn.kernels.gradients import once
from mrflearn.kernels.log_product import shifted_exp
from mrflearn.kernels.rules import RuleShape

# Exact inference over all parses of sentences: the generalised inside-outside algorithm.


@torch.no_grad()
def inside_outside(
    potentials: ChartPotentials, weight: Float[Tensor, " b"] | None = None
) -> ChartBeliefs:
    """Beliefs about sentences of any lengths; sentence b counts `weight[b]` times, or once."""
    words, grammar = potentials.padded_words, _weights(potentials)
    weight = words.new_ones(len(potentials.lengths)) if weight is None else weight
    value = words.new_full((len(weight),), -torch.inf)
    counts, rules, start = map(torch.zeros_like, (words, potentials.rules, potentials.start))
    nodes = None if potentials.nodes is None else torch.zeros_like(potentials.nodes)
    for batch in potentials.batches(_elements(words)):
        own = weight[batch.sentences]
        given = batch.lengths, potentials.nodes_of(batch)
        found = chart.expected_counts(words[batch.tokens], grammar, own, *given)
        value[batch.sentences], counts[batch.tokens] = found.log_partition, found.words
        rules += found.rules
        start += found.start
        if nodes is not None and found.nodes is not None:
            n = found.nodes.shape[1]
            nodes[batch.sentences, :n, :n] = found.nodes
    return ChartBeliefs(value, counts[:-1], rules, start, nodes)


def _elements(words: Tensor) -> int:
    """That a batch of charts holds: a GPU is idle with those that just fit into CPU caches."""
    return 2**28 if words.is_cuda else 2**24


def log_partition(potentials: ChartPotentials) -> Float[Tensor, " b"]:
    """The log-sum over all parses of each sentence; its gradients are the expected counts."""
    tensors = potentials.words, potentials.rules, potentials.start, potentials.nodes
    value: Tensor = _LogPartition.apply(potentials, *tensors)  # type: ignore[no-untyped-call]
    return value


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, potentials: ChartPotentials, *tensors: Tensor | None) -> Tensor:
        del tensors  # torch must see them
        ctx.potentials = potentials
        words, grammar = potentials.padded_words, _weights(potentials)
        value = words.new_full((len(potentials.lengths),), -torch.inf)
        for batch in potentials.batches(_elements(words)):
            scores = words[batch.tokens]
            given = batch.lengths, potentials.nodes_of(batch)
            value[batch.sentences] = chart.log_likelihood(scores, grammar, *given)
        return value

    @staticmethod
    @once
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        beliefs = inside_outside(ctx.potentials, outputs[0])
        return None, beliefs.words, beliefs.rules, beliefs.start, beliefs.nodes


def _weights(potentials: ChartPotentials) -> GrammarWeights:
    shape = potentials.shape.to(potentials.words.device)
    return GrammarWeights.of(potentials.rules, potentials.start, shape)


# Left corners: what the rules of a normalised grammar say where only the beginning is known.


# Newton's method doubles the right digits, or gains one bit where a grammar is critical.
STEPS = 100
ROUNDING = 1e-6  # relative, that a solution of linear equations may have


def termination_probability(rules: Float[Tensor, " r"], shape: RuleShape) -> Float[Tensor, " s"]:
    """The probability that what a symbol is rewritten to is finite; 1 for preterminals.

    The least solution of e(A) = sum of p(A -> B C) e(B) e(C), by Newton's method from 0, which
    approaches it from below [Etessami and Yannakakis 2009].
    """
    if _is_consistent(rules, shape):
        return rules.new_ones(shape.symbols)
    found = torch.cat([rules.new_zeros(shape.phrases), rules.new_ones(shape.preterminals)])
    one = torch.eye(shape.phrases, dtype=rules.dtype, device=rules.device)
    for _ in range(STEPS):
        left, right = found[shape.left], found[shape.right]
        value = rules.new_zeros(shape.phrases).index_add(0, shape.parent, rules * left * right)
        jacobian = rules.new_zeros(shape.phrases, shape.symbols)
        jacobian.index_put_((shape.parent, shape.left), rules * right, accumulate=True)
        jacobian.index_put_((shape.parent, shape.right), rules * left, accumulate=True)
        now = found[: shape.phrases]
        step = torch.linalg.solve(one - jacobian[:, : shape.phrases], value - now)
        found[: shape.phrases] = now + step
        if not len(step) or float(step.abs().max()) < 1e-15:
            break
    return _within("the probability that a derivation ends", found, 0.0, 1.0)


def _is_consistent(rules: Float[Tensor, " r"], shape: RuleShape) -> bool:
    """Whether the mean number of phrases shrinks from one generation to a later one.

    True is certain; False may be said of a grammar close to the border.
    """
    phrases = torch.cat([rules.new_ones(shape.phrases), rules.new_zeros(shape.preterminals)])
    for _ in range(STEPS):
        below = rules * (phrases[shape.left] + phrases[shape.right])
        phrases = torch.zeros_like(phrases).index_add(0, shape.parent, below)
        if float(phrases.max()) < 1:
            return True
    return False


def left_corners(
    rules: Float[Tensor, " r"], shape: RuleShape, ends: Float[Tensor, " s"]
) -> Float[Tensor, "s s"]:
    """From a symbol to the symbols that its first words may come from, itself among them.

    I + L + L^2 + ... with L(A, B) the summed probability of rules A -> B C whose C ends
    [Jelinek and Lafferty 1991, "Computation of the probability of initial substring generation"].
    """
    step = rules.new_zeros(shape.symbols, shape.symbols)
    step.index_put_((shape.parent, shape.left), rules * ends[shape.right], accumulate=True)
    one = torch.eye(shape.symbols, dtype=rules.dtype, device=rules.device)
    found: Tensor = torch.linalg.solve(one - step, one)
    return _within("the expected number of left corners", found, 0.0, torch.inf)


def _within(name: str, value: Tensor, least: float, most: float) -> Tensor:
    """The value without its rounding beyond the bounds; more than rounding is an error."""
    slack = ROUNDING * max(1.0, float(value.abs().max())) if value.numel() else 0.0
    wrong = value[~((value >= least - slack) & (value <= most + slack))]
    if len(wrong):
        raise InferenceError(
            f"{name} comes out as {float(wrong[0]):.4g}, which it cannot be. Do the probabilities "
            "of each phrase's rules sum to 1, and do left-recursive rules leave some to others?"
        )
    return value.clamp(least, most)


# The probability that a sentence begins with some words, and what comes next, for all words.


@dataclass(frozen=True, eq=False)
class PrefixBeliefs:
    """What is known after 0, 1, ... n words; everything in nats.

    `follows` and `ends` are conditional on the words so far: after k words the next one comes from
    preterminal p with probability exp(follows[k, p]), and exp(ends[k]) is what remains.  Where the
    words so far cannot begin a sentence, all three are -inf.
    """

    begins: Float[Tensor, "... n+1"]  # the words so far begin a sentence, or are one
    ends: Float[Tensor, "... n+1"]  # the sentence is over
    follows: Float[Tensor, "... n+1 p"]


@final
@dataclass(frozen=True, eq=False)
class Prefix:
    """Left-to-right probabilities under a normalised grammar, prepared once for many sentences."""

    shape: RuleShape
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    ends: Float[Tensor, " s"]  # that a symbol's words are finitely many
    corners: Float[Tensor, "s s"]

    @classmethod
    def of(cls, rules: Float[Tensor, " r"], start: Float[Tensor, " s"], shape: RuleShape) -> Prefix:
        """What can be said before any word is known; rules and start symbols in nats."""
        shape = shape.to(rules.device)
        ends = termination_probability(rules.exp(), shape)
        return cls(shape, rules, start, ends, left_corners(rules.exp(), shape, ends))

    @torch.no_grad()
    def __call__(self, words: Float[Tensor, "... n p"]) -> PrefixBeliefs:
        """Beliefs after each word of the beginnings of sentences, one or many of one length."""
        if words.ndim == 2:
            found = self(words.unsqueeze(0))
            return PrefixBeliefs(found.begins[0], found.ends[0], found.follows[0])
        (b, n, _), inside = words.shape, self._inside(words)
        whole = torch.logsumexp(self.start[:, None, None] + inside[:, :, 0], dim=0)
        begins = words.new_full((b, n + 1), -torch.inf)
        follows = words.new_full((b, n + 1, self.shape.preterminals), -torch.inf)
        start = self.start.expand(b, -1)
        begins[:, 0] = _log_product(start, self.ends.unsqueeze(1))[:, 0]
        above = words.new_full((b, n + 1, self.shape.phrases), -torch.inf)
        for k in range(n + 1):
            if k:
                last = torch.logsumexp(follows[:, k - 1] + words[:, k - 1], dim=1)
                begins[:, k] = begins[:, k - 1] + last
            due = self._due(above[:, :k], inside) if k else start
            reached = _log_product(due, self.corners)
            above[:, k] = reached[:, : self.shape.phrases]
            known = begins[:, k, None] > -torch.inf
            follows[:, k] = torch.where(
                known, reached[:, self.shape.phrases :] - begins[:, k, None], -torch.inf
            )
        ends = torch.where(begins > -torch.inf, whole - begins, -torch.inf)
        return PrefixBeliefs(begins, ends, follows)

    def next_words(self, potentials: ChartPotentials) -> Float[Tensor, " x"]:
        """p(word | those before) of every word of sentences, each with p(end) after its words.

        Preterminals are summed out; where the words so far cannot begin a sentence, it is nan.
        """
        words, sizes = potentials.padded_words, potentials.lengths.cpu()
        first = sizes.cumsum(0) - sizes + torch.arange(len(sizes))
        result = words.new_full((int(sizes.sum()) + len(sizes),), torch.nan)
        cost = len(self.shape) + self.shape.symbols  # of what is due at a word, per word before
        for length in sizes.unique().tolist():
            mine = (sizes == length).nonzero()[:, 0]
            each = (length + 1) ** 2 * (self.shape.symbols + 4 * self.shape.phrases) + length * cost
            for own in mine.split(max(1, _elements(words) // each)):
                places = first[own, None] + torch.arange(length + 1)
                tokens = places[:, :length] - own[:, None]
                scores = words[tokens.to(words.device)]
                found = self(scores)
                every = torch.logsumexp(found.follows[:, :length] + scores, dim=2)
                every = torch.cat([every, found.ends[:, length:]], dim=1).exp()
                every[found.begins == -torch.inf] = torch.nan
                result[places.to(words.device)] = every
        return result

    def _inside(self, words: Float[Tensor, "b n p"]) -> Float[Tensor, "s b n+1 n+1"]:
        """The log-sum over parses of each symbol over each span, by first word and width."""
        (b, n, _), phrases = words.shape, self.shape.phrases
        inside = words.new_full((self.shape.symbols, b, n + 1, n + 1), -torch.inf)
        inside[phrases:, :, :n, 1:2] = words.permute(2, 0, 1).unsqueeze(3)
        if n > 1 and phrases:
            inside[:phrases] = chart.log_inside(words, self.rules, self.shape)
        return inside

    def _due(self, above: Float[Tensor, "b k a"], inside: Tensor) -> Float[Tensor, "b s"]:
        """The log-weight of symbols due at word k: right parts whose left parts end there.

        The left part B of a rule A -> B C has the words i to k, and A, scored by `above[:, i]`, is
        a left corner of what was due at word i.
        """
        shape, (b, k, _) = self.shape, above.shape
        if not shape.phrases:
            return above.new_full((b, shape.symbols), -torch.inf)
        places = torch.arange(k, device=above.device)
        left, best = shifted_exp(inside[:, :, places, k - places].permute(1, 2, 0), 2)
        weights, top = shifted_exp((above + best.unsqueeze(2)).flatten(1), 1)
        weights = weights.view_as(above)
        if shape.dense:
            each = (weights.transpose(1, 2) @ left)[:, shape.parent, shape.left]
        else:  # few of all pairs are needed
            each = (weights[..., shape.parent] * left[..., shape.left]).sum(dim=1)
        each = each * self.rules.exp()
        due = above.new_zeros(b, shape.symbols).index_add(1, shape.right, each)
        return due.log() + top.unsqueeze(1)


def _log_product(
    scores: Float[Tensor, "b x"], matrix: Float[Tensor, "x y"]
) -> Float[Tensor, "b y"]:
    """log(exp(scores) @ matrix)."""
    weights, top = shifted_exp(scores, 1)
    return (weights @ matrix).log() + top.unsqueeze(1)
