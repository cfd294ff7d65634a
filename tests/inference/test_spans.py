"""Span probabilities against the list of all tag sequences and their chunks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.inference.spans import ChunkReading, SegmentTable, chunks_of, span_probabilities
from mrflearn.io.spans import Span, tags_to_spans
from mrflearn.kernels.chain_sums import Steps
from support.chains import ChainBatch, every_path, random_chains

TAG_SETS = [
    ["O", "B-X", "I-X", "B-Y", "I-Y"],
    ["B-X", "O", "I-X", "E-X", "S-X"],
    ["I-X", "B-X", "E-Y", "I-Y"],
    ["O", "B", "I"],
]
batches = st.builds(
    random_chains,
    st.integers(0, 10**6),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.just(5),
    shared=st.booleans(),
    scale=st.sampled_from([0.5, 3.0]),
    forbidden=st.sampled_from([0.0, 0.3]),
)


def layout(chains: ChainBatch, states: int) -> tuple[torch.Tensor, torch.Tensor, Steps]:
    """The first states of a batch, row by row."""
    n = chains.unary.shape[1]
    steps = Steps.of(chains.lengths, width=n)
    unary = steps.pack(chains.unary[..., :states].flatten(0, 1))
    table = chains.transition[..., :states, :states]
    if table.ndim == 2:
        return unary, table, steps
    place = steps.source[steps.starting :]
    return unary, table[place // n, place % n - 1], steps


def cut(chains: ChainBatch, states: int) -> ChainBatch:
    table = chains.transition[..., :states, :states]
    return ChainBatch(chains.unary[..., :states], table, chains.lengths)


@given(batches, st.sampled_from(TAG_SETS))
def test_every_span_of_every_label_against_enumeration(chains: ChainBatch, tags: list[str]) -> None:
    reading = ChunkReading.of(tags)
    rows = [
        (i, a, b, c)
        for i, n in enumerate(chains.lengths.tolist())
        for a in range(n)
        for b in range(a + 1, n + 1)
        for c in range(len(reading.names))
    ]
    spans = SegmentTable(*torch.tensor(rows, dtype=torch.int64).reshape(-1, 4).unbind(1))
    unary, table, steps = layout(chains, len(tags))
    found = span_probabilities(unary, table, steps, spans, reading)
    expected = torch.zeros(len(rows), dtype=torch.float64)
    for i in range(len(chains.lengths)):
        paths, scores = every_path(cut(chains, len(tags)), i)
        chance = (scores - scores.logsumexp(0)).exp().nan_to_num(0.0)
        for path, probability in zip(paths.tolist(), chance, strict=True):
            for span in tags_to_spans([tags[s] for s in path]):
                row = (i, span.start, span.end, reading.names.index(span.label))
                expected[rows.index(row)] += probability
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10**6), st.lists(st.integers(0, 7), max_size=4), st.sampled_from(TAG_SETS))
def test_chunks_of_assignments_are_those_of_their_tags(
    seed: int, lengths: list[int], tags: list[str]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    steps = Steps.of(torch.tensor(lengths, dtype=torch.int64))
    tokens = torch.randint(len(tags), (len(steps), 3), generator=generator)
    reading = ChunkReading.of(tags)
    table = chunks_of(steps.pack(tokens), steps, reading)
    columns = (table.sequence, table.start, table.end, table.label)
    found = [
        (i, Span(a, b, reading.names[c]))
        for i, a, b, c in zip(*(column.tolist() for column in columns), strict=True)
    ]
    expected = set()
    for path in tokens.unbind(1):
        for i, part in enumerate(path.split(lengths)):
            expected |= {(i, span) for span in tags_to_spans([tags[s] for s in part])}
    assert len(found) == len(set(found)) == len(table)
    assert set(found) == expected
    assert [row[:1] + row[1][:1] for row in found] == sorted(r[:1] + r[1][:1] for r in found)


def test_blocks_of_sequences_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    chains, reading = random_chains(3, [4, 0, 2, 7, 1, 5], 5), ChunkReading.of(TAG_SETS[0])
    unary, table, steps = layout(chains, 5)
    by_step = table.expand(len(unary) - steps.starting, 5, 5)
    tokens = torch.randint(5, (len(steps), 4), generator=torch.Generator().manual_seed(0))
    spans = chunks_of(tokens, steps, reading)
    whole = span_probabilities(unary, table, steps, spans, reading)
    for size in (1, 100, 200):
        monkeypatch.setattr("mrflearn.inference.spans.LARGEST_BLOCK", size)
        for transition in (table, by_step):
            part = span_probabilities(unary, transition, steps, spans, reading)
            torch.testing.assert_close(part, whole)


def test_states_that_stand_for_tags_are_read_as_their_tags() -> None:
    tags, label = TAG_SETS[0], [4, 1, 1, 0, 2]
    lifted = ChunkReading.of(tags).lifted(torch.tensor(label))
    again = ChunkReading.of([tags[i] for i in label])
    assert lifted.names == again.names
    assert torch.equal(lifted.members, again.members)
    assert torch.equal(lifted.joined, again.joined)


def test_tags_without_chunks_have_no_spans() -> None:
    steps = Steps.of(torch.tensor([2, 3]))
    reading = ChunkReading.of(["O"])
    table = chunks_of(torch.zeros(5, 1, dtype=torch.int64), steps, reading)
    assert len(table) == 0
    found = span_probabilities(torch.zeros(5, 1), torch.zeros(1, 1), steps, table, reading)
    assert found.shape == (0,)
