"""Many questions about one field: compiled once, asked again and again with other evidence.

Letters in shapes: c: components; n: evidences asked about together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.evidence import observed_states, restrict
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Decoding, insist
from mrflearn.inference.circuit import Array, Numbers, make_circuit
from mrflearn.inference.junction_tree import JunctionTree

Evidence = Mapping[int, int]

EXACT = JunctionTree()
AT_ONCE = 2**15  # entries times evidences that are worked on together, so that caches hold them
MOST_JOINT = 2**16  # joint states of variables asked about together


@dataclass(frozen=True, eq=False)
class Posteriors:
    """Exact answers to n questions: log Z, and the marginals of every variable.

    Where evidence is impossible its log Z is -inf and all marginals are zero.
    """

    log_partition: Float[Tensor, "n c"]
    variables: Float[Tensor, "n v s"]


class CompiledField:
    """A field ready for many questions.

    Small fields, and large ones most of whose entries are impossible, become a `Circuit`.  Others
    keep the plan of their junction tree, which saves the search for it, not the arithmetic.  What
    is observed in all questions alike is best given to `condition` before: it makes trees narrower.

    Parameters
    ----------
    potentials
        The field.
    method
        The junction tree, with its limit on memory.

    Examples
    --------
    >>> from mrflearn.graph import dense_potentials
    >>> from mrflearn.inference import CompiledField
    >>> field = dense_potentials([2, 2], [([0, 1], [[0.0, 1.0], [2.0, 0.0]])])
    >>> compiled = CompiledField(field)
    >>> compiled.ask([{0: 0}, {1: 1}]).variables[:, :, 0].tolist()
    [[1.0, 0.2689414213699951], [0.7310585786300049, 0.0]]
    >>> compiled.joint([0, 1]).shape
    torch.Size([2, 2])
    >>> compiled.best({0: 0}).assignment.tolist()
    [0, 1]

    """

    def __init__(self, potentials: Potentials, method: JunctionTree = EXACT) -> None:
        insist(method, potentials.graph)
        potentials.check_numbers()
        self.potentials, self.method = potentials, method
        self.circuit = make_circuit(potentials)

    def ask(self, evidence: Evidence | Sequence[Evidence]) -> Posteriors:
        """log Z and the marginals given evidence, or given each of many.

        Parameters
        ----------
        evidence
            The state of each observed variable, or a sequence of such.

        Returns
        -------
        Posteriors
            One row of answers for each evidence.

        """
        several = [evidence] if isinstance(evidence, Mapping) else list(evidence)
        graph = self.potentials.graph
        observed = [observed_states(graph, own).cpu().numpy() for own in several]
        answers = self._answers(np.array(observed).reshape(len(several), graph.variables))
        log_z, variables = (torch.from_numpy(own).to(graph.device) for own in answers)
        return Posteriors(log_z, variables)

    def joint(
        self, variables: Sequence[int], evidence: Evidence | None = None
    ) -> Float[Tensor, "*s"]:
        """The joint probabilities of a few variables given evidence.

        Parameters
        ----------
        variables
            Their numbers.
        evidence
            The state of each observed variable.

        Returns
        -------
        Tensor
            One axis for each variable, in the order given; all zero where evidence is impossible.

        """
        graph = self.potentials.graph
        base = observed_states(graph, evidence or {}).cpu().numpy()
        sizes = [int(graph.states[v]) for v in variables]
        if len(set(variables)) < len(variables) or math.prod(sizes) > MOST_JOINT:
            raise InferenceError(
                f"the joint probabilities of {list(variables)} have {math.prod(sizes):,} entries; "
                f"name different variables, of {MOST_JOINT:,} joint states at most."
            )
        every = np.repeat(base[None], math.prod(sizes), axis=0)
        states = np.stack(np.unravel_index(np.arange(len(every)), sizes), axis=1)
        agree = ((every[:, variables] < 0) | (every[:, variables] == states)).all(axis=1)
        every[:, variables] = states
        scores = np.full(len(every), -math.inf)
        scores[agree] = self._answers(every[agree])[0].sum(axis=1)
        top = scores.max(initial=-math.inf)
        weights = np.exp(scores - top) if top > -math.inf else np.zeros(len(every))
        return torch.from_numpy(weights / max(weights.sum(), 1.0)).reshape(sizes)

    def best(self, evidence: Evidence | None = None) -> Decoding:
        """The most probable assignment given evidence.

        Parameters
        ----------
        evidence
            The state of each observed variable.

        Returns
        -------
        Decoding
            As `JunctionTree.best` gives it.

        """
        return self.method.best(self._given(evidence))

    def sample(
        self, n: int, evidence: Evidence | None = None, *, seed: int = 0
    ) -> Int[Tensor, "n v"]:
        """Exact samples given evidence.

        Parameters
        ----------
        n
            How many.
        evidence
            The state of each observed variable.
        seed
            Of the random numbers.

        Returns
        -------
        Tensor
            One assignment a row.

        """
        return self.method.sample(self._given(evidence), n, seed=seed)

    def _given(self, evidence: Evidence | None) -> Potentials:
        """The same field on the same graph, whose plan is kept, with masks of the states."""
        return restrict(
            self.potentials, self._allowed(observed_states(self.potentials.graph, evidence or {}))
        )

    def _allowed(self, observed: Int[Tensor, " v"]) -> Tensor:
        graph = self.potentials.graph
        states = torch.arange(graph.most_states, device=graph.device)
        free = (observed < 0).unsqueeze(1) & graph.legal()
        return free | (observed.unsqueeze(1) == states)

    def _answers(self, observed: Numbers) -> tuple[Array, Array]:
        """log Z (n, c) and marginals (n, v, s) given observed states (n, v); -1: not observed."""
        graph, n = self.potentials.graph, len(observed)
        log_z = np.empty((n, graph.components))
        variables = np.zeros((n, graph.variables, graph.most_states))
        together = 1 if self.circuit is None else max(1, AT_ONCE // len(self.circuit.leaf))
        for start in range(0, n, together):
            rows = slice(start, start + together)
            allowed = torch.stack([self._allowed(own) for own in torch.from_numpy(observed[rows])])
            try:
                log_z[rows], variables[rows] = self._by_circuit(allowed.cpu().numpy())
            except FloatingPointError:  # too small or too large for double precision
                for k, own in enumerate(allowed, start):
                    found = self.method(restrict(self.potentials, own))
                    log_z[k] = found.log_partition.double().cpu().numpy()
                    variables[k] = found.variables.double().cpu().numpy()
        return log_z, variables

    def _by_circuit(self, allowed: NDArray[np.bool_]) -> tuple[Array, Array]:
        if self.circuit is None:
            raise FloatingPointError
        n, v, s = allowed.shape
        log_z, found = self.circuit.answer(allowed.reshape(n, v * s).T.astype(np.float64))
        # Where one part of a component is impossible, so are the parts not joined to it.
        possible = (log_z > -math.inf)[self.potentials.graph.component.cpu().numpy()]
        return log_z.T, found.T.reshape(n, v, s) * possible.T[:, :, None]
