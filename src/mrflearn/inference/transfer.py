"""Exact log Z of a ring by its transfer operator, and sentences drawn from it.

A ring has log Z = log trace(T^N), T the C^K x C^K matrix that moves the window on by one word.
A sentence of M words between K separators on either side is a forward pass over windows
[Jernite, Rush, Sontag 2015, eq. 3].

[Jernite, Rush, Sontag 2015, section 3]  The length comes first; then words between separators.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.lifted_scores import NeighbourScores
from mrflearn.kernels.safe_logsumexp import safe_logsumexp

# Exact answers for texts over small vocabularies: windows of K words as the states of a chain.


MOST_WINDOW_STATES = 4096
MOST_STEP_ENTRIES = 1 << 24


def ring_log_partition(
    unary: Float[Tensor, " c"],
    tables: Float[Tensor, "k c c"],
    positions: int,
    triples: Float[Tensor, "c c c"] | None = None,
) -> Float[Tensor, ""]:
    """log Z of a ring, exactly; with gradients.  `triples` score three words in a row."""
    if positions <= len(tables):
        raise InferenceError(
            f"a ring of {positions} positions is too short for neighbours {len(tables)} away."
        )
    log_moves = window_moves(unary, tables, triples)
    peak = log_moves.detach().amax()
    power, log_scale = (log_moves - peak).exp(), peak * positions
    # T^N by squaring; each power is divided by its largest entry, whose logarithm is kept.
    result = torch.eye(len(power), dtype=power.dtype, device=power.device)
    factor = unary.new_zeros(())
    while positions:
        if positions & 1:
            result = result @ power
            top = result.detach().amax()
            result, log_scale = result / top, log_scale + factor + top.log()
        power = power @ power
        top = power.detach().amax()
        power, factor = power / top, 2 * factor + top.log()
        positions >>= 1
    return log_scale + result.trace().log()


def check_windows(states: int, offsets: int, instead: str = "Try method='ais' or 'bound'.") -> int:
    """How many windows of `offsets` words there are; an error where they are too many."""
    windows: int = states**offsets
    if windows > MOST_WINDOW_STATES:
        raise InferenceError(
            f"{states} words and {offsets} neighbours make {windows} windows, over "
            f"{MOST_WINDOW_STATES}: too many to be exact. {instead}"
        )
    return windows


def window_moves(
    unary: Float[Tensor, " c"],
    tables: Float[Tensor, "k c c"],
    triples: Float[Tensor, "c c c"] | None = None,
) -> Float[Tensor, "w w"]:
    """log T: from the window x_1..x_K to x_2..x_K y the score of y given the window, else -inf."""
    offsets, states = tables.shape[:2]
    windows = check_windows(states, offsets)
    scores = _next_scores(unary, tables, triples).reshape(windows, states)
    source = torch.arange(windows, device=unary.device).unsqueeze(1)
    target = (source * states + torch.arange(states, device=unary.device)) % windows
    return scores.new_full((windows, windows), -torch.inf).scatter(1, target, scores)


def sentence_log_partitions(
    unary: Float[Tensor, " c"],
    tables: Float[Tensor, "k c c"],
    separator: int,
    longest: int,
    triples: Float[Tensor, "c c c"] | None = None,
) -> Float[Tensor, " m"]:
    """log Z of sentences of 0, 1, ..., `longest` words between separators.

    Scores counted are those of the words, of the K separators that follow, and of every pair or
    triple with its right end among them: for whole corpora they add up to the scores of the ring.
    """
    offsets, states = tables.shape[:2]
    if states ** (offsets + 1) > MOST_STEP_ENTRIES:
        raise InferenceError(
            f"{states} words and {offsets} neighbours are too many for exact sentence "
            "probabilities. Try method='ais' or 'bound'."
        )
    steps = _next_scores(unary, tables, triples)
    ends = _closing(steps, separator).flatten()
    forward = _opening(unary, offsets, separator)
    closed = [safe_logsumexp(forward.flatten() + ends)]
    for _ in range(longest):
        forward = safe_logsumexp(forward.unsqueeze(-1) + _words_only(steps, separator))
        closed.append(safe_logsumexp(forward.flatten() + ends))
    return torch.stack(closed)


@torch.no_grad()
def exact_sentences(
    unary: Float[Tensor, " c"],
    tables: Float[Tensor, "k c c"],
    separator: int,
    lengths: Sequence[int],
    generator: torch.Generator,
    triples: Float[Tensor, "c c c"] | None = None,
) -> list[Int[Tensor, " m"]]:
    """Independent sentences of these lengths, exactly from their distribution."""
    steps = _next_scores(unary, tables, triples)
    words = _words_only(steps, separator)
    rest = [_closing(steps, separator)]  # by words still to come: all scores after a window
    for _ in range(max(lengths, default=0)):
        rest.append((words + rest[-1]).logsumexp(-1))
    drawn = []
    for length in lengths:
        line = [separator] * len(tables)
        for left in range(length, 0, -1):
            window = tuple(line[-len(tables) :])
            chances = (words[window] + rest[left - 1][window[1:]]).softmax(0)
            line.append(int(torch.multinomial(chances, 1, generator=generator)))
        drawn.append(torch.tensor(line[len(tables) :], dtype=torch.int64))
    return drawn


def sentence_score(
    unary: Float[Tensor, " c"],
    tables: Float[Tensor, "k c c"],
    separator: int,
    words: Int[Tensor, " m"],
    triples: Float[Tensor, "c c c"] | None = None,
) -> Float[Tensor, ""]:
    """The score of one sentence, counted as `sentence_log_partitions` counts."""
    offsets = len(tables)
    edge = words.new_full((offsets,), separator)
    line = torch.cat([edge, words, edge])
    score = unary[line[offsets:]].sum()
    right = torch.arange(offsets, len(line), device=line.device)
    for offset, table in enumerate(tables, start=1):
        score = score + table[line[right - offset], line[right]].sum()
    if triples is not None:
        score = score + triples[line[right - 2], line[right - 1], line[right]].sum()
    return score


def _next_scores(
    unary: Tensor, tables: Tensor, triples: Tensor | None = None
) -> Float[Tensor, "*window c"]:
    """Scores of the next word for every window, oldest word first."""
    offsets, states = tables.shape[:2]
    scores = unary.expand(*[states] * offsets, states)
    for offset, table in enumerate(tables, start=1):
        shape = [1] * (offsets + 1)
        shape[offsets - offset] = shape[-1] = states
        scores = scores + table.reshape(shape)
    if triples is not None:
        if offsets < 2:
            raise InferenceError("scores of three words in a row need a context of 2 or more.")
        scores = scores + triples
    return scores


def _opening(unary: Tensor, offsets: int, separator: int) -> Float[Tensor, "*window"]:
    start = unary.new_full([len(unary)] * offsets, -torch.inf)
    start[(separator,) * offsets] = 0.0
    return start


def _closing(steps: Tensor, separator: int) -> Float[Tensor, "*window"]:
    """For every window, the scores of the K separators that follow."""
    total = torch.zeros_like(steps[..., separator])
    for _ in range(total.ndim):
        total = steps[..., separator] + total[..., separator]
    return total


def _words_only(steps: Tensor, separator: int) -> Float[Tensor, "*window c"]:
    banned = torch.arange(steps.shape[-1], device=steps.device) == separator
    return steps.masked_fill(banned, -torch.inf)


# New sentences of given lengths from a neighbour model, by Gibbs sampling.


@torch.no_grad()
def gibbs_sentences(
    scores: NeighbourScores,
    separator: int,
    lengths: Int[Tensor, " n"],
    sweeps: int,
    generator: torch.Generator,
) -> list[Int[Tensor, " m"]]:
    """One sentence for each length; every sweep draws each word anew given its neighbours.

    Sentences start from independent words and do not touch, so all are swept together.
    """
    offsets, longest = scores.offsets, int(lengths.max()) if len(lengths) else 0
    single = scores.unary.clone()
    single[separator] = -torch.inf
    rows = scores.unary.new_zeros(len(lengths), 1, dtype=torch.int64)
    lines = torch.full_like(rows.expand(-1, longest + 2 * offsets), separator)
    places = torch.arange(offsets, device=lines.device)
    for sweep in range(sweeps + 1):
        for position in range(longest):
            here = (lengths > position).nonzero().squeeze(1).to(lines.device)
            at = position + offsets
            if sweep == 0:
                choice = single.expand(len(here), -1)
            else:
                own = lines[here]
                choice = scores.conditional(own[:, at - 1 - places], own[:, at + 1 + places])
                choice[:, separator] = -torch.inf
            lines[here, at] = _draw(choice, generator)
    return [
        line[offsets : offsets + length]
        for line, length in zip(lines, lengths.tolist(), strict=True)
    ]


def _draw(scores: Tensor, generator: torch.Generator) -> Int[Tensor, " n"]:
    chances = torch.softmax(scores, dim=1)
    return torch.multinomial(chances, 1, generator=generator).squeeze(1)
