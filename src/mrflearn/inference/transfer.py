"""Exact log Z of a ring by its transfer operator, and sentences drawn from it.

A ring has log Z = log trace(T^N), T the C^K x C^K matrix that moves the window on by one word.
A sentence of M words between K separators on either side is a forward pass over windows
[Jernite, Rush, Sontag 2015, eq. 3].

[Jernite, Rush, Sontag 2015, section 3]  The length comes first; then words between separators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.lifted import WordPotentials
from mrflearn.inference.beliefs import Beliefs
from mrflearn.inference.lifted import LiftedInference, ring_beliefs

# Exact answers for texts over small vocabularies: windows of K words as the states of a chain.


MOST_WINDOW_STATES = 4096
MOST_STEP_ENTRIES = 1 << 24


def ring_log_partition(
    potentials: WordPotentials, positions: int, anchor: int | None = None
) -> Float[Tensor, ""]:
    """log Z of a ring, exactly; with gradients.

    With an anchor, of rings that begin with K times that word.
    """
    if positions <= potentials.offsets:
        raise InferenceError(
            f"a ring of {positions} words is too short for neighbours {potentials.offsets} away."
        )
    log_moves = window_moves(potentials)
    peak = log_moves.detach().amax()
    power, log_scale = (log_moves - peak).exp(), peak * positions
    # T^N by squaring; each power is divided by its largest entry, whose logarithm is kept.
    result = torch.eye(len(power), dtype=power.dtype, device=power.device)
    factor = power.new_zeros(())
    while positions:
        if positions & 1:
            result = result @ power
            top = result.detach().amax()
            result, log_scale = result / top, log_scale + factor + top.log()
        power = power @ power
        top = power.detach().amax()
        power, factor = power / top, 2 * factor + top.log()
        positions >>= 1
    if anchor is None:
        return log_scale + result.trace().log()
    window = sum(anchor * potentials.states**k for k in range(potentials.offsets))
    return log_scale + result[window, window].log()


def too_many_windows(
    states: int, offsets: int, instead: str = "Try method='ais' or 'bound'."
) -> str | None:
    """Why windows of `offsets` words are too many to be exact; None where they are not."""
    windows: int = states**offsets
    if windows <= MOST_WINDOW_STATES:
        return None
    return (
        f"{states} words and {offsets} neighbours make {windows} windows, over "
        f"{MOST_WINDOW_STATES}: too many to be exact. {instead}"
    )


def window_moves(potentials: WordPotentials) -> Float[Tensor, "w w"]:
    """log T: from the window x_1..x_K to x_2..x_K y the score of y given the window, else -inf."""
    states, device = potentials.states, potentials.unary.device
    reason = too_many_windows(states, potentials.offsets)
    if reason is not None:
        raise InferenceError(reason)
    windows = states**potentials.offsets
    scores = _next_scores(potentials).reshape(windows, states)
    source = torch.arange(windows, device=device).unsqueeze(1)
    target = (source * states + torch.arange(states, device=device)) % windows
    return scores.new_full((windows, windows), -torch.inf).scatter(1, target, scores)


@final
@dataclass(frozen=True)
class ExactRing(LiftedInference[WordPotentials]):
    """log Z / N of a ring of so many words: there is nothing to warm."""

    positions: int

    def refuses(self, potentials: WordPotentials) -> str | None:
        return too_many_windows(potentials.states, potentials.offsets)

    def __call__(
        self, potentials: WordPotentials, warm: object = None, *, thorough: bool = True
    ) -> Beliefs:
        del warm, thorough
        log_partition = ring_log_partition(potentials, self.positions)
        return ring_beliefs(log_partition / self.positions, "exact")


def sentence_log_partitions(potentials: WordPotentials, separator: int, longest: int) -> Tensor:
    """log Z of sentences of 0, 1, ..., `longest` words between separators.

    Scores counted are those of the words, of the K separators that follow, and of every pair or
    triple with its right end among them: for whole corpora they add up to the scores of the ring.
    """
    offsets, states = potentials.offsets, potentials.states
    if states ** (offsets + 1) > MOST_STEP_ENTRIES:
        raise InferenceError(
            f"{states} words and {offsets} neighbours are too many for exact sentence "
            "probabilities. Try method='ais' or 'bound'."
        )
    _, rest = _to_come(potentials, separator, longest)
    return torch.stack([totals[(separator,) * offsets] for totals in rest])


@torch.no_grad()
def exact_sentences(
    potentials: WordPotentials, separator: int, lengths: Sequence[int], generator: torch.Generator
) -> list[Int[Tensor, " m"]]:
    """Independent sentences of these lengths, exactly from their distribution."""
    offsets, drawn = potentials.offsets, []
    words, rest = _to_come(potentials, separator, max(lengths, default=0))
    for length in lengths:
        line = [separator] * offsets
        for left in range(length, 0, -1):
            window = tuple(line[-offsets:])
            chances = (words[window] + rest[left - 1][window[1:]]).softmax(0)
            line.append(int(torch.multinomial(chances, 1, generator=generator)))
        drawn.append(torch.tensor(line[offsets:], dtype=torch.int64))
    return drawn


def sentence_score(
    potentials: WordPotentials, separator: int, words: Int[Tensor, " m"]
) -> Float[Tensor, ""]:
    """The score of one sentence, counted as `sentence_log_partitions` counts."""
    edge = words.new_full((potentials.offsets,), separator)
    return potentials.position_scores(torch.cat([edge, words, edge])).sum()


def _next_scores(potentials: WordPotentials) -> Float[Tensor, "*window c"]:
    """Scores of the next word for every window, oldest word first."""
    offsets, states = potentials.offsets, potentials.states
    scores = potentials.unary.expand(*[states] * offsets, states)
    for offset, table in enumerate(potentials.tables(), start=1):
        shape = [1] * (offsets + 1)
        shape[offsets - offset] = shape[-1] = states
        scores = scores + table.reshape(shape)
    if potentials.triples is None:
        return scores
    if offsets < 2:
        raise InferenceError("scores of three words in a row need a context of 2 or more.")
    return scores + potentials.triples


def _to_come(
    potentials: WordPotentials, separator: int, longest: int
) -> tuple[Float[Tensor, "*window c"], list[Float[Tensor, "*window"]]]:
    """Scores of the next word after every window, and log-sums of all that comes after it.

    The latter by how many words are still to come before the K separators that end the sentence.
    """
    steps = _next_scores(potentials)
    end = torch.zeros_like(steps[..., separator])
    for _ in range(end.ndim):
        end = steps[..., separator] + end[..., separator]
    banned = torch.arange(steps.shape[-1], device=steps.device) == separator
    words, rest = steps.masked_fill(banned, -torch.inf), [end]
    for _ in range(longest):
        rest.append((words + rest[-1]).logsumexp(-1))
    return words, rest


# New sentences of given lengths from a neighbour model, by Gibbs sampling.


@torch.no_grad()
def gibbs_sentences(
    scores: WordPotentials,
    separator: int,
    lengths: Int[Tensor, " n"],
    sweeps: int,
    generator: torch.Generator,
) -> list[Int[Tensor, " m"]]:
    """One sentence for each length; every sweep draws each word again given its neighbours.

    Sentences start from independent words and do not touch, so all are swept together.
    """
    offsets, device = scores.offsets, scores.unary.device
    longest = max(lengths.tolist(), default=0)
    lines = torch.full((len(lengths), longest + 2 * offsets), separator, device=device)
    places = torch.arange(offsets, device=device)
    for sweep in range(sweeps + 1):
        for position in range(longest):
            here = (lengths > position).nonzero().squeeze(1).to(device)
            own, at = lines[here], position + offsets
            if sweep:
                choice = scores.conditional(own[:, at - 1 - places], own[:, at + 1 + places])
            else:
                choice = scores.unary.repeat(len(here), 1)
            choice[:, separator] = -torch.inf
            drawn = torch.multinomial(choice.softmax(dim=1), 1, generator=generator)
            lines[here, at] = drawn.squeeze(1)
    words = zip(lines[:, offsets:], lengths.tolist(), strict=True)
    return [line[:length] for line, length in words]
