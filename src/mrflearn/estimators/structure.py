"""`FieldStructure`: structure learning for pairwise Markov random fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import networkx as nx
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError, StorageError, warn_user
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.field_inputs import (
    TakesTables,
    answer_rows,
    check_observed,
    sample_weights,
    warn_of_codes,
)
from mrflearn.execution.resources import choose_device
from mrflearn.features.observations import Samples, check_states
from mrflearn.graph.builders import pairwise
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.io.state_codes import StateCodes, column_name
from mrflearn.models.storage import texts
from mrflearn.training.neighbourhood_selection import (
    NEVER,
    LassoPaths,
    combined,
    filled_rows,
    path_shares,
    select_edges,
)

HALVES = 100  # of the rows, in stability selection


@dataclass(kw_only=True, eq=False, repr=False)
class FieldStructure(TakesTables, Estimator):
    """The edges of a pairwise field, by L1-regularised regression of each variable on all others.

    This is the eLasso of IsingFit [van Borkulo et al. 2014], for any numbers of states.  Then learn
    on what was found: `MarkovField(structure.graph_).fit(X)`, or both at once by
    `MarkovField("learn")` or `MarkovField(FieldStructure(gamma=0.5))`.

    Parameters
    ----------
    states
        States of every variable, counted from 0; None takes what each column shows (its codes,
        where these do not begin at 0), as `MarkovField` does.
    gamma
        The hyperparameter of the extended Bayesian information criterion (EBIC): how much it
        disfavours many neighbours among many variables; 0 is BIC.
    combine
        `"and"` selects an edge where each of its variables selects the other, `"or"` where at
        least one does.
    l1_path
        The number of L1 regularisation strengths that are tried, from the least without any edge
        down to one hundredth of it.
    stability
        None, or a share: then edges are those that are selected in at least this share of 100
        random halves of the rows (stability selection), such as 0.8.
    required
        Edges that are there whatever the samples say: pairs of names, or numbers, of columns.
    forbidden
        Edges that are not there.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    random_state
        Seed of the values that stand in for missing ones while candidates are looked for, and of
        the halves of stability selection.

    Attributes
    ----------
    edges_
        The two variables of each edge.
    graph_
        The edges as a graph to learn on.
    states_
        The number of states of each variable.
    weights_
        The weight of the rows that each variable's neighbours were selected from.
    frequencies_
        With `stability`: how often each edge of `edges_` was selected.
    feature_names_in_
        The names of the columns, where the samples had names.
    n_features_in_
        The number of variables.

    """

    states: int | None = None
    gamma: float = 0.25
    combine: Literal["and", "or"] = "and"
    l1_path: int = 25
    stability: float | None = None
    required: Sequence[Any] | None = None
    forbidden: Sequence[Any] | None = None
    device: str = "cpu"
    random_state: int = 0

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Finds the edges from rows of states (samples x variables, counted from 0).

        Parameters
        ----------
        X
            The samples.  NaN, or -1 among states, is a missing value: each variable is then learned
            from the rows in which it and its candidate neighbours were observed; `weights_` says
            from how many.
        y
            Ignored.
        sample_weight
            One weight per row.

        """
        del y  # scikit-learn passes it to every estimator
        table, names, _, labels = answer_rows(X)
        if table.shape[1] < 2:
            raise DataError(
                f"samples have {table.shape[1]} feature(s) (shape {table.shape}); at least two "
                "variables are needed to find edges."
            )
        check_observed(table, names)
        codes = StateCodes.seen(table, labels)
        if self.states is not None:
            count = table.shape[1]
            codes = StateCodes((None,) * count, (self.states,) * count).named(labels)
        states = codes.encode(table, names, labels).astype(np.int64, copy=False)
        rows = torch.as_tensor(states, device=choose_device(self.device))
        sizes = torch.tensor(codes.sizes, device=rows.device)
        check_states(rows, sizes, missing_allowed=True, names=names)
        warn_of_codes(table, codes, names)
        seen = Samples.distinct(rows, sample_weights(sample_weight, len(rows), rows.device))
        self.n_features_in_ = rows.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        penalties = self.penalties_()
        found = select_edges(
            seen,
            sizes,
            gamma=self.gamma,
            path=self.l1_path,
            combine=self.combine,
            seed=self.random_state,
            penalties=penalties,
        )
        edges, self.frequencies_ = found.edges, None
        if self.stability is not None:
            edges, self.frequencies_ = self._stable(seen, sizes, penalties)
        self.edges_: NDArray[np.int64] = edges.cpu().numpy()
        self.weights_: NDArray[np.float64] = found.weights.cpu().numpy()
        self.states_ = codes.sizes
        if bool((rows < 0).any()):
            least = int(self.weights_.argmin())
            warn_user(
                "values are missing: the neighbours of each column are chosen from rows in which "
                f"it and its candidates are observed; the fewest are {self.weights_[least]:,.6g} "
                f"of {seen.total:,.6g}, for column {column_name(least, names)}"
            )
        return self

    @property
    def graph_(self) -> FactorGraph:
        """The edges as a graph to learn on."""
        edges = torch.as_tensor(self.edges_)
        return pairwise(torch.tensor(self.states_), edges)

    def to_networkx(self) -> nx.Graph:
        """The edges as a graph of networkx, whose nodes are the names of the columns.

        Returns
        -------
        networkx.Graph
            In the order of the columns; edges found by stability selection have a `frequency`.

        """
        names = [str(name) for name in getattr(self, "feature_names_in_", [])]
        nodes: list[Any] = names or list(range(self.n_features_in_))
        graph = nx.Graph()
        graph.add_nodes_from(nodes)
        shares = self.frequencies_
        for place, (one, two) in enumerate(self.edges_.tolist()):
            more = {} if shares is None else {"frequency": float(shares[place])}
            graph.add_edge(nodes[one], nodes[two], **more)
        return graph

    def penalties_(self) -> Tensor | None:
        """What `required` and `forbidden` make of each pair's penalty; None where they are none."""
        if not self.required and not self.forbidden:
            return None
        count = self.n_features_in_
        penalties = torch.ones(count, count, dtype=torch.float64)
        for pairs, penalty in ((self.forbidden or (), NEVER), (self.required or (), 0.0)):
            for pair in pairs:
                one, two = self._columns(pair)
                if penalty == 0 and float(penalties[one, two]) == NEVER:
                    raise SettingsError(f"the edge {tuple(pair)} is both required and forbidden.")
                penalties[one, two] = penalties[two, one] = penalty
        return penalties.to(choose_device(self.device))

    def _columns(self, pair: Any) -> tuple[int, int]:
        """The numbers of the two columns of a pair."""
        names = [str(name) for name in getattr(self, "feature_names_in_", [])]
        places = {name: place for place, name in enumerate(names)}
        found = []
        for own in pair if isinstance(pair, Sequence | np.ndarray) and len(pair) == 2 else ():
            place = places.get(str(own), own)
            if isinstance(place, int | np.integer) and 0 <= place < self.n_features_in_:
                found.append(int(place))
        if len(found) != 2 or found[0] == found[1]:
            raise SettingsError(
                f"{pair!r} is no pair of two columns: give pairs of their names, or of their "
                f"numbers from 0 to {self.n_features_in_ - 1}."
            )
        return found[0], found[1]

    def _stable(
        self, seen: Samples, sizes: Tensor, penalties: Tensor | None
    ) -> tuple[Tensor, NDArray[np.float64]]:
        """Edges that most random halves of the rows select [Meinshausen and Buehlmann 2010]."""
        if not 0 < float(self.stability or 0) <= 1:
            raise SettingsError(f"stability is a share above 0, to 1; got {self.stability}.")
        rows, weights = seen.states, seen.row_weights
        if bool((rows < 0).any()):
            rows = filled_rows(rows, weights, self.random_state)
        samples = Samples(rows, weights)
        shares = path_shares(self.l1_path)
        path = LassoPaths.of(samples, sizes, shares, self.gamma, penalties)
        generator = np.random.default_rng(self.random_state)
        whole = bool((weights == weights.round()).all())
        if whole:  # rows that were seen several times go by their single cases
            counts = weights.long().cpu().numpy()
            halves = generator.multivariate_hypergeometric(counts, int(counts.sum()) // 2, HALVES)
        else:
            halves = weights.cpu().numpy() * (generator.random((HALVES, len(rows))) < 0.5)
        chosen = path.selected(torch.as_tensor(halves, device=rows.device).double())
        often = combined(chosen, self.combine).double().mean(dim=0)
        edges = (often >= float(self.stability or 0)).triu(1).nonzero()
        return edges, often[edges[:, 0], edges[:, 1]].cpu().numpy()

    def _learned_parts(self) -> Parts:
        edges = torch.as_tensor(self.edges_)
        states, weights = torch.tensor(self.states_), torch.as_tensor(self.weights_)
        names = getattr(self, "feature_names_in_", None)
        shares = self.frequencies_
        learned = {
            "names": None if names is None else list(names),
            "frequencies": None if shares is None else shares.tolist(),
        }
        return learned, {"edges": edges, "states": states, "weights": weights}

    def _stored_settings(self) -> dict[str, Any]:
        pairs = {name: getattr(self, name) for name in ("required", "forbidden")}
        listed = {
            name: None if own is None else [list(map(_plain, pair)) for pair in own]
            for name, own in pairs.items()
        }
        return {**super()._stored_settings(), **listed}

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        edges, states, weights = (tensors[name].cpu() for name in ("edges", "states", "weights"))
        whole = not edges.is_floating_point() and not states.is_floating_point()
        if not whole or states.ndim != 1 or weights.shape != states.shape:
            raise StorageError("edges, states and weights do not fit each other")
        self.edges_ = edges.numpy()
        self.states_ = tuple(states.tolist())
        self.weights_ = weights.numpy()
        self.n_features_in_ = len(states)
        if learned["names"] is not None:
            self.feature_names_in_ = np.array(texts(learned, "names"), dtype=object)
        shares = learned["frequencies"]
        self.frequencies_ = None if shares is None else np.array(shares, dtype=np.float64)
        self.graph_  # noqa: B018 - built once to see that edges and states agree


def _plain(column: Any) -> Any:
    """The name or number of a column as JSON holds it."""
    return int(column) if isinstance(column, np.integer) else column
