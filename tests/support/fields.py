"""Tiny random fields for contract tests: every awkward thing a graph may have, small enough to
enumerate."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from mrflearn.graph.potentials import Potentials, batch, dense_potentials


def random_field(
    seed: int,
    *,
    states: tuple[int, ...],
    scopes: tuple[tuple[int, ...], ...],
    scale: float = 1.0,
    forbidden: float = 0.0,
    dtype: torch.dtype = torch.float64,
) -> Potentials:
    """Normal scores of the given scale; a share `forbidden` of all entries is -inf."""
    generator = torch.Generator().manual_seed(seed)
    factors = []
    for scope in scopes:
        shape = tuple(states[v] for v in scope)
        table = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        hidden = torch.rand(shape, generator=generator, dtype=torch.float64) < forbidden
        factors.append((scope, table.masked_fill(hidden, -torch.inf).to(dtype)))
    return dense_potentials(states, factors)


def _path(n: int) -> tuple[tuple[int, ...], ...]:
    return tuple((i,) for i in range(n)) + tuple((i, i + 1) for i in range(n - 1))


# Named fields; each is (states, scopes).
SHAPES: dict[str, tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "one variable": ((3,), ((0,),)),
    "no factors": ((2, 3), ()),
    "pair": ((2, 3), ((0,), (0, 1))),
    "chain": ((2, 3, 2, 4), _path(4)),
    "star": ((3, 2, 2, 2), ((0, 1), (0, 2), (0, 3), (1,))),
    "triangle": ((2, 2, 3), ((0, 1), (1, 2), (2, 0), (0,))),
    "square with chord": ((2, 3, 2, 2), ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2))),
    "grid 2x3": ((2,) * 6, ((0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (4,))),
    "triple factors": ((2, 3, 2, 2), ((0, 1, 2), (1, 2, 3), (3,))),
    "single states": ((1, 2, 1, 3), ((0, 1), (1, 2), (2, 3), (3, 0), (0,))),
    "disconnected": ((2, 2, 3, 2, 2), ((0, 1), (2, 3), (3,))),
    "parallel factors": ((2, 3), ((0, 1), (0, 1), (1, 0), (1,), (1,))),
}
TREES = ("one variable", "no factors", "pair", "chain", "star", "disconnected", "single states")
# "single states" is a cycle through one-state variables: in effect a tree of one real edge chain.


def tiny_field(name: str, seed: int = 0, **options: float) -> Potentials:
    """One of `SHAPES` with random scores."""
    states, scopes = SHAPES[name]
    return random_field(seed, states=states, scopes=scopes, **options)  # type: ignore[arg-type]


def tiny_batch(seed: int = 0) -> Potentials:
    """Three fields of different content as three components of one."""
    states, scopes = (2, 3, 2), ((0, 1), (1, 2), (0, 2))
    return batch([random_field(seed + i, states=states, scopes=scopes) for i in range(3)])


@st.composite
def fields(draw: st.DrawFn, *, most_variables: int = 5, most_states: int = 3) -> Potentials:
    """Any small field: random states, factors of arity 1 to 3, some entries -inf."""
    count = draw(st.integers(1, most_variables))
    states = tuple(draw(st.integers(1, most_states)) for _ in range(count))
    scope = st.lists(
        st.integers(0, count - 1), min_size=1, max_size=min(3, count), unique=True
    ).map(tuple)
    scopes = tuple(draw(st.lists(scope, max_size=7)))
    return random_field(
        draw(st.integers(0, 10**6)),
        states=states,
        scopes=scopes,
        scale=draw(st.sampled_from([0.0, 0.5, 2.0, 20.0])),
        forbidden=draw(st.sampled_from([0.0, 0.0, 0.2])),
    )
