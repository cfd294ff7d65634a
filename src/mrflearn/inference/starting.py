"""Where chains begin: states that no factor forbids."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.conditionals import Conditionals
from mrflearn.inference.junction_tree import JunctionTree

SEARCH_SWEEPS = 60  # of one search
SEARCHES = 5
SEARCH_CHAINS = 16
PROOF_MEMORY = 2**28  # bytes that a proof of impossibility may take
PENALTIES = (1.0, 12.0)  # of a forbidden entry, in nats, at the beginning and the end of a search


def possible_states(
    potentials: Potentials, conditionals: Conditionals, chains: int, generator: torch.Generator
) -> Int[Tensor, "v n"]:
    """States of positive probability, one column a chain.

    Chains start from the unary factors alone.  Where a larger factor forbids what came out, they
    look for a possible state by annealing the number of forbidden entries; a chain that finds none
    begins, in the component concerned, where a luckier one does.
    """
    states, possible = _search(potentials, conditionals, chains, generator)
    if not bool(possible.all()):
        lost = int((~possible).nonzero()[0])
        raise InferenceError(
            f"component {lost}: no state of positive probability was found by {chains} chains in "
            f"{SEARCHES * SEARCH_SWEEPS} sweeps each. There may be none, or few: an exact method "
            "(JunctionTree) tells; more chains search better."
        )
    return states


def with_possible_states(potentials: Potentials, assignment: Int[Tensor, "v"]) -> Int[Tensor, "v"]:
    """The assignment, with states that a search found in components where it is impossible."""
    lost = potentials.score(assignment) == -torch.inf
    if not bool(lost.any()):
        return assignment
    generator = torch.Generator(device=assignment.device).manual_seed(0)
    states, possible = _search(potentials, Conditionals.of(potentials), SEARCH_CHAINS, generator)
    return torch.where((lost & possible)[potentials.graph.component], states[:, 0], assignment)


def impossible_components(
    potentials: Potentials, assignment: Int[Tensor, "v"]
) -> Bool[Tensor, "c"]:
    """Which components surely have no state of positive probability.

    One assignment of positive probability, such as the one given may be, shows that there is one;
    that there is none takes exact inference.  Where that would take too much memory nothing is
    known, and the component is not called impossible.
    """
    lost = potentials.score(assignment) == -torch.inf
    if not bool(lost.any()):
        return lost
    exact = JunctionTree(memory_limit=PROOF_MEMORY)
    if exact.refuses(potentials.graph) is not None:
        return torch.zeros_like(lost)
    return exact.best(potentials).score == -torch.inf


def _search(
    potentials: Potentials, conditionals: Conditionals, chains: int, generator: torch.Generator
) -> tuple[Int[Tensor, "v n"], Bool[Tensor, "c"]]:
    """States, one column a chain, and the components in which they are possible."""
    states = conditionals.independent(chains, generator)
    possible = conditionals.score(states) > -torch.inf
    if bool(possible.all()):
        return states, possible.all(dim=1)
    conflicts = Conditionals.of(_conflicts(potentials))
    low, high = PENALTIES
    for _ in range(SEARCHES):
        for step in range(SEARCH_SWEEPS):
            share = low * (high / low) ** (step / (SEARCH_SWEEPS - 1))
            conflicts.sweep(states, generator, share)
        possible = conditionals.score(states) > -torch.inf
        if bool(possible.any(dim=1).all()):
            break
    return _shared(states, possible, potentials.graph.component), possible.any(dim=1)


def _conflicts(potentials: Potentials) -> Potentials:
    """The field that scores 0, less 1 for every forbidden entry of a larger factor."""
    tables = []
    for group, table in zip(potentials.graph.groups, potentials.tables, strict=True):
        values = table.dense().detach()
        forbidden = values == -torch.inf
        penalty = -torch.inf if group.arity == 1 else -1.0
        tables.append(DenseTable(torch.zeros_like(values).masked_fill(forbidden, penalty)))
    return Potentials(potentials.graph, tuple(tables))


def _shared(
    states: Int[Tensor, "v n"], possible: Bool[Tensor, "c n"], component: Int[Tensor, "v"]
) -> Int[Tensor, "v n"]:
    """Chains that are impossible in a component take it from one that is possible there."""
    chain = torch.arange(states.shape[1], device=states.device)
    lucky = possible.to(torch.int64).argmax(dim=1, keepdim=True)
    source = torch.where(possible, chain, lucky)
    return states.gather(1, source[component])
