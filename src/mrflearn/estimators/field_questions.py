"""What every fitted field can be asked, whatever it was learned by: read off its potentials."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrflearn.data.files import PathLike
from mrflearn.data.uai import write_network
from mrflearn.errors import MrflearnError
from mrflearn.estimators.field_answers import Method, log_likelihoods, pairs, zero_sum_tables
from mrflearn.estimators.front_door import FrontDoor
from mrflearn.graph.networks import to_uai
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.draw import Draw, Drawing


class FieldQuestions(FrontDoor):
    """The questions that `MarkovField` and `PottsField` share."""

    usual_method: ClassVar[Method]  # of `log_likelihood`
    random_state: int
    spins_: bool = False  # learned from spins: -1 and 1 stand for the states 0 and 1

    @property
    @abstractmethod
    def potentials_(self) -> Potentials:
        """The learned field."""

    def log_likelihood(self, X: ArrayLike, method: Method | None = None) -> NDArray[np.float64]:
        """The log-probability of each row, in nats; None is the `usual_method`.

        `exact` by junction tree; `ais` with log Z estimated by annealed importance sampling; `pl`
        the sum of the log-probabilities of each variable given all the others.
        """
        chosen = self.usual_method if method is None else method
        return log_likelihoods(self.potentials_, X, chosen, self.random_state, spins=self.spins_)

    @property
    def fields_(self) -> NDArray[np.float64]:
        """Zero-sum scores of each variable's states; for two states the spin field h."""
        return zero_sum_tables(self.potentials_, 1)

    @property
    def couplings_(self) -> NDArray[np.float64]:
        """Zero-sum scores of each edge's states; for two states the spin coupling J."""
        return zero_sum_tables(self.potentials_, 2)

    @property
    def edges_(self) -> NDArray[np.int64]:
        """The two variables of each edge, in the order of `couplings_`."""
        return pairs(self.potentials_)

    @property
    def strengths_(self) -> NDArray[np.float64]:
        """One number an edge: the spin coupling, or with more states the norm of its table."""
        tables = self.couplings_
        if tables.ndim == 1:
            return tables
        norms: NDArray[np.float64] = np.linalg.norm(tables, axis=(1, 2))
        return norms

    @property
    def strength_matrix_(self) -> NDArray[np.float64]:
        """`strengths_` as a symmetric matrix of all variables; 0 where there is no edge."""
        size = self.potentials_.graph.variables
        matrix = np.zeros((size, size))
        first, second = self.edges_.T
        matrix[first, second] = matrix[second, first] = self.strengths_
        return matrix

    @property
    def variable_names_(self) -> list[str]:
        """The names of the columns learned from, or their numbers."""
        size = self.potentials_.graph.variables
        return [str(name) for name in getattr(self, "feature_names_in_", range(size))]

    def strongest(self, count: int) -> NDArray[np.int64]:
        """Where in `edges_` the strongest couplings stand, strongest first."""
        order: NDArray[np.int64] = (-np.abs(self.strengths_)).argsort(kind="stable")
        return order[:count]

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """`log_likelihood` of each row by its usual method, in nats."""
        return self.log_likelihood(X)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean over rows of `score_samples`, in nats."""
        del y  # scikit-learn passes it to every estimator
        return float(self.score_samples(X).mean())

    def sample(self, count: int = 1, *, seed: int | None = None) -> NDArray[np.int64]:
        """New rows: exact where the width allows, else by Gibbs (see `draw` for which).

        Spins come back where spins were learned from, else states.
        """
        return self.as_learned(self.draw(count, seed=seed))

    def as_learned(self, drawn: Draw) -> NDArray[np.int64]:
        """Drawn rows as the samples were that the field learned from: of spins, or of states."""
        states = np.asarray(drawn.samples.cpu())
        return 2 * states - 1 if self.spins_ else states

    def export(self, path: PathLike) -> None:
        """Writes the field as a network in UAI format, which other inference programs read."""
        if Path(str(path).removesuffix(".gz")).suffix != ".uai":
            raise MrflearnError(f"{path}: a field is exported to a name in .uai.")
        write_network(path, to_uai(self.potentials_))

    def draw(self, count: int, *, seed: int | None = None) -> Draw:
        """New rows of states together with how they were made."""
        seed = self.random_state if seed is None else seed
        return Drawing()(self.potentials_, count, seed=seed)
