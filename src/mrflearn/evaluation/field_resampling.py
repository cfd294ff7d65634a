"""How much a learned network owes to chance: fitted again to rows that were drawn again.

The bootstrap draws rows with replacement, case dropping leaves some out, and a permutation test
deals them out to two groups at random [Epskamp, Borsboom and Fried 2018; van Borkulo et al. 2022].
Every draw is a weighting of the same rows; all are fitted together by pseudolikelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError, warn_user
from mrflearn.evaluation.field_errors import (
    NORMS,
    caveat,
    check_level,
    check_pairwise,
    resampled,
    strengths_of,
)
from mrflearn.execution.executor import executor_for
from mrflearn.features.observations import Samples
from mrflearn.objectives.pseudolikelihood import conditional_scores
from mrflearn.training.incomplete import Completions
from mrflearn.training.neighbourhood_selection import LassoPaths, combined, path_shares
from mrflearn.training.resampling import ResampledField

Array = NDArray[np.float64]
CORRELATED = 0.7  # of a stability coefficient, and how often
OFTEN = 0.95
MOST_PARAMETERS = 4000  # of all edges of a resampled field
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
AT_ONCE = 64  # weightings a worker fits


@dataclass(frozen=True, eq=False)
class FieldBootstrap:
    """Strengths of edges in fits to resampled rows.

    `draws` has a row a resample; an edge that a resample did not select has strength 0 there.
    `estimates` are those of all rows by the same method, `remark` says why intervals may not cover.
    """

    names: list[str]
    edges: NDArray[np.int64]
    estimates: Array
    draws: Array
    signed: NDArray[np.bool_]
    method: str
    remark: str = ""

    @property
    def errors(self) -> Array:
        """The standard deviation of each edge's strength over resamples."""
        return np.asarray(self.draws.std(axis=0, ddof=1))

    @property
    def selected(self) -> Array:
        """The share of resamples in which each edge is there."""
        return np.asarray((self.draws != 0).mean(axis=0))

    def intervals(self, level: float = 0.95) -> Array:
        """The percentiles of each edge's strength.

        Parameters
        ----------
        level
            The share of resamples between the two ends.

        Returns
        -------
        ndarray of float
            Edges x (low, high).

        """
        check_level(level)
        ends = [(1 - level) / 2, (1 + level) / 2]
        return np.asarray(np.quantile(self.draws, ends, axis=0).T)

    def node_strengths(self, expected_influence: bool = False) -> tuple[Array, Array]:
        """The strength of each variable: the sum of its edges' magnitudes, or of their signs too.

        Parameters
        ----------
        expected_influence
            Whether signs count.

        Returns
        -------
        tuple of ndarray
            Of all rows, and of each resample.

        """
        value = (lambda own: own) if expected_influence else np.abs
        joins = _joins(self.edges, len(self.names))
        return value(self.estimates) @ joins, value(self.draws) @ joins

    def differences(self, *, of: str = "edges", level: float = 0.95) -> NDArray[np.bool_]:
        """Which pairs of edges, or of variables' strengths, differ.

        Two differ where the interval of their difference over resamples does not hold 0; there is
        no correction for how many pairs are looked at.

        Parameters
        ----------
        of
            `"edges"` or `"strengths"`.
        level
            That of the intervals.

        Returns
        -------
        ndarray of bool
            A symmetric matrix.

        """
        check_level(level)
        if of not in ("edges", "strengths"):
            raise SettingsError(f"differences are of 'edges' or 'strengths', not of {of!r}.")
        draws = self.draws if of == "edges" else self.node_strengths()[1]
        ends = [(1 - level) / 2, (1 + level) / 2]
        found = np.zeros((draws.shape[1], draws.shape[1]), dtype=bool)
        for place, own in enumerate(draws.T):
            low, high = np.quantile(draws - own[:, None], ends, axis=0)
            found[place] = (low > 0) | (high < 0)
        return found

    def table(self, level: float = 0.95) -> dict[str, list[Any]]:
        """All edges by the names of their variables, strongest first, as columns of a frame.

        Parameters
        ----------
        level
            That of the intervals.

        Returns
        -------
        dict of lists
            `variable`, `and`, `strength`, `error`, `low`, `high`, `selected`.

        """
        order = np.argsort(-np.abs(self.estimates), kind="stable")
        first, second = np.array(self.names)[self.edges[order].T].tolist()
        low, high = self.intervals(level)[order].T.tolist()
        return {
            "variable": first,
            "and": second,
            "strength": self.estimates[order].tolist(),
            "error": self.errors[order].tolist(),
            "low": low,
            "high": high,
            "selected": self.selected[order].tolist(),
        }


@dataclass(frozen=True, eq=False)
class CaseDropping:
    """Correlations with the network of all rows where only a share of them is kept.

    `edges` and `strengths` have a row for each of `shares` and a column for each subset: the
    correlations of edges, and of variables' strengths.
    """

    shares: tuple[float, ...]
    edges: Array
    strengths: Array

    def coefficient(self, of: str = "strengths", correlation: float = CORRELATED) -> float:
        """The CS-coefficient: the largest share of rows that can be dropped.

        So many that with a probability of 95 % the correlation stays at least this high; below 0.25
        an order of centralities is not to be interpreted, 0.5 and above is stable.

        Parameters
        ----------
        of
            `"strengths"` or `"edges"`.
        correlation
            The least correlation.

        Returns
        -------
        float
            A share of the rows; 0 where no share that was tried is stable.

        """
        if of not in ("edges", "strengths"):
            raise SettingsError(f"a coefficient is of 'edges' or 'strengths', not of {of!r}.")
        often = (getattr(self, of) >= correlation).mean(axis=1) >= OFTEN
        dropped = [1 - share for share, own in zip(self.shares, often, strict=True) if own]
        return round(max(dropped, default=0.0), 10)


@dataclass(frozen=True, eq=False)
class GroupComparison:
    """Differences between the networks of two groups, and how often chance alone makes as large.

    `structure` is the largest difference of an edge, `strength` the difference of the sums of all
    magnitudes; `p_edges` belong to single edges, without a correction for how many there are.
    """

    names: list[str]
    edges: NDArray[np.int64]
    differences: Array
    p_edges: Array
    structure: float
    p_structure: float
    strength: float
    p_strength: float


def bootstrap(
    field: Any,
    X: ArrayLike,
    n: int = 1000,
    *,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> FieldBootstrap:
    """The couplings of a field in fits to resampled rows.

    All resamples are fitted by pseudolikelihood, whatever the field's estimator: it comes within a
    few percent of maximum likelihood and serves all resamples at once.  Where the field's edges
    were learned (`MarkovField("learn")`), each resample selects its own.

    Parameters
    ----------
    field
        A fitted `MarkovField`.
    X
        The rows it was learned from.  Rows with missing values stand for all their completions, as
        probable as the field says.
    n
        The number of resamples.
    n_jobs
        Processes; None is 1, -1 all cores.
    random_state
        The seed; None is the field's.

    Returns
    -------
    FieldBootstrap
        `draws`, `estimates`, `intervals()`, `differences()` and `table()`.

    Examples
    --------
    >>> import numpy as np
    >>> from mrflearn import MarkovField
    >>> from mrflearn.evaluation import bootstrap
    >>> rows = np.random.default_rng(0).integers(0, 2, (500, 3))
    >>> found = bootstrap(MarkovField().fit(rows), rows, 200)
    >>> found.draws.shape
    (200, 3)

    """
    if n < 2:
        raise SettingsError(f"a bootstrap needs at least 2 resamples; got {n}.")
    refits = Refits.of(field, X)
    generator = np.random.default_rng(field.random_state if random_state is None else random_state)
    chances = np.full(refits.cases, 1 / refits.cases)
    draws = refits(generator.multinomial(refits.cases, chances, size=n), n_jobs)
    estimates = refits(np.ones((1, refits.cases)))[0]
    kept = (draws != 0).any(axis=0) | (estimates != 0)
    ends = refits.own.rows.sizes[refits.own.edges]
    signed = (ends == 2).all(dim=1).numpy()[kept]
    method = "pseudolikelihood"
    if refits.path is not None:
        method = "edges by L1-regularised regressions and EBIC, strengths by pseudolikelihood"
    remark = caveat(field)
    if not signed.all() and NORMS not in remark:
        remark = "; ".join(filter(None, (remark, NORMS)))
    edges = refits.own.edges.numpy()[kept]
    names = field.variable_names_
    return FieldBootstrap(names, edges, estimates[kept], draws[:, kept], signed, method, remark)


def case_dropping(
    field: Any,
    X: ArrayLike,
    n: int = 200,
    *,
    shares: tuple[float, ...] = SHARES,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> CaseDropping:
    """How well the network of some rows agrees with that of all: case-dropping stability.

    Parameters
    ----------
    field
        A fitted `MarkovField`.
    X
        The rows it was learned from.
    n
        Subsets of each size.
    shares
        The shares of the rows that are kept.
    n_jobs
        Processes; None is 1, -1 all cores.
    random_state
        The seed; None is the field's.

    Returns
    -------
    CaseDropping
        Correlations, and `coefficient()`.

    """
    if n < 2 or not shares or not all(0 < share < 1 for share in shares):
        raise SettingsError("case dropping needs n >= 2 subsets and shares between 0 and 1.")
    refits = Refits.of(field, X)
    generator = np.random.default_rng(field.random_state if random_state is None else random_state)
    whole = refits(np.ones((1, refits.cases)))[0]
    joins = _joins(refits.own.edges.numpy(), len(field.variable_names_))
    order = generator.random((len(shares) * n, refits.cases)).argsort(axis=1)
    kept = np.repeat([round(share * refits.cases) for share in shares], n)
    found = refits((order < kept[:, None]).astype(np.float64), n_jobs)
    edges = _correlations(found, whole).reshape(len(shares), n)
    nodes = _correlations(np.abs(found) @ joins, np.abs(whole) @ joins).reshape(len(shares), n)
    return CaseDropping(tuple(shares), edges, nodes)


def compare_groups(
    field: Any,
    X: ArrayLike,
    other: ArrayLike,
    n: int = 1000,
    *,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> GroupComparison:
    """A permutation test of two groups with the same network.

    Parameters
    ----------
    field
        A fitted `MarkovField` over the same columns: its edges are compared.  Learn it from both
        groups together, so that neither is favoured.
    X
        The rows of one group.
    other
        The rows of the other.
    n
        The number of permutations.
    n_jobs
        Processes; None is 1, -1 all cores.
    random_state
        The seed; None is the field's.

    Returns
    -------
    GroupComparison
        Differences (X less the other), and p-values.

    """
    if n < 1:
        raise SettingsError(f"a permutation test needs at least 1 permutation; got {n}.")
    one, two = field.encode(X), field.encode(other)
    refits = Refits.of(field, np.concatenate([one, two]), encoded=True)
    generator = np.random.default_rng(field.random_state if random_state is None else random_state)
    order = np.tile(np.arange(refits.cases), (n + 1, 1))
    order[1:] = generator.permuted(order[1:], axis=1)
    first = (order < len(one)).astype(np.float64)
    strengths = refits(np.concatenate([first, 1 - first]), n_jobs)
    apart = strengths[: n + 1] - strengths[n + 1 :]
    sums = np.abs(strengths).sum(axis=1)
    overall = sums[: n + 1] - sums[n + 1 :]
    most = np.abs(apart).max(axis=1, initial=0.0)

    def chance(values: Array) -> Any:
        return np.asarray((np.abs(values) >= np.abs(values[0]) - 1e-12).mean(axis=0))

    return GroupComparison(
        field.variable_names_,
        refits.own.edges.numpy(),
        apart[0],
        np.asarray(chance(apart)),
        float(most[0]),
        float(chance(most)),
        float(overall[0]),
        float(chance(overall)),
    )


def predictability(field: Any, X: ArrayLike) -> dict[str, list[Any]]:
    """How well each variable is predicted by all others, as columns of a frame.

    Parameters
    ----------
    field
        A fitted `MarkovField` or `PottsField`.
    X
        Rows without missing values; held-out ones give no flattered figures.

    Returns
    -------
    dict of lists
        `variable`; `accuracy`, the share predicted right; `baseline`, that of its most frequent
        state; `gain`, the share of what the baseline gets wrong that is predicted right
        (normalised accuracy, [Haslbeck and Waldorp 2018]).

    """
    rows = torch.as_tensor(field.encode(X, complete=True))
    chosen = conditional_scores(field.potentials_, rows).argmax(dim=-1)
    accuracy = (chosen == rows).double().mean(dim=0).numpy()
    counts = torch.nn.functional.one_hot(rows).double().mean(dim=0)
    baseline = counts.amax(dim=1).numpy()
    room = np.where(baseline < 1, 1 - baseline, np.nan)
    return {
        "variable": field.variable_names_,
        "accuracy": accuracy.tolist(),
        "baseline": baseline.tolist(),
        "gain": ((accuracy - baseline) / room).tolist(),
    }


def centrality(field: Any) -> dict[str, list[Any]]:
    """How central each variable is, as columns of a frame.

    Parameters
    ----------
    field
        A fitted `MarkovField`, or `FieldBootstrap`.

    Returns
    -------
    dict of lists
        `variable`; `strength`, the sum of its edges' magnitudes; `expected_influence`, with their
        signs; `closeness` and `betweenness`, where an edge is the longer the weaker it is.

    """
    names = field.names if isinstance(field, FieldBootstrap) else field.variable_names_
    strengths = field.estimates if isinstance(field, FieldBootstrap) else field.strengths_
    edges = field.edges if isinstance(field, FieldBootstrap) else field.edges_
    joins, graph = _joins(edges, len(names)), nx.empty_graph(len(names))
    for (one, two), strength in zip(edges.tolist(), strengths.tolist(), strict=True):
        if strength:
            graph.add_edge(one, two, length=1 / abs(strength))
    closeness = nx.closeness_centrality(graph, distance="length")
    between = nx.betweenness_centrality(graph, weight="length", normalized=False)
    return {
        "variable": list(names),
        "strength": (np.abs(strengths) @ joins).tolist(),
        "expected_influence": (strengths @ joins).tolist(),
        "closeness": [float(closeness[k]) for k in range(len(names))],
        "betweenness": [float(between[k]) for k in range(len(names))],
    }


@dataclass(frozen=True, eq=False)
class Refits:
    """A field's strengths as a function of how often each of its cases counts.

    With a `path`, each weighting selects its own edges.  A case is a row of the user's; each of its
    completions, of weight `share`, is a row here: `place` says which, `owner` of which case.
    """

    own: ResampledField
    start: Tensor
    place: NDArray[np.int64]
    owner: NDArray[np.int64]
    share: Array
    cases: int
    path: LassoPaths | None = None
    combine: str = "and"

    @classmethod
    def of(cls, field: Any, X: ArrayLike, *, encoded: bool = False) -> Refits:
        """That of the rows that a field was learned from."""
        check_pairwise(field)
        rows = torch.as_tensor(X if encoded else field.encode(X))
        if len(rows) < 2:
            raise DataError("there are too few rows to draw from: at least two are needed.")
        owner, share = np.arange(len(rows)), np.ones(len(rows))
        cases = len(rows)
        if bool((rows < 0).any()):
            samples = Samples.of(rows)
            completions = Completions.of(field.graph_, samples)
            whole = completions.weighted(field.potentials_)
            owner, rows = completions.owner.numpy(), whole.states.long()
            share = whole.row_weights.numpy()
            warn_user(
                "values are missing: each row stands for its completions, as probable as the field "
                "of all rows says; intervals do not hold what that field itself owes to chance"
            )
        rows, where = torch.unique(rows, dim=0, return_inverse=True)
        known = where.numpy(), owner, share, cases
        structure = getattr(field, "structure_", None)
        own, start = resampled(field, rows)
        if structure is None:
            return cls(own, start, *known)
        count = field.graph_.variables
        pairs = torch.triu_indices(count, count, 1).T
        every = ResampledField.of(rows, field.graph_.states, pairs, field.l2)
        place = {tuple(pair): k for k, pair in enumerate(pairs.tolist())}
        fields, numbers = own.rows.columns.shape[1], own.rows.codes.shape[2]
        wide = start.new_zeros(len(pairs), numbers**2)
        tables = start[fields:].view(-1, numbers, numbers)
        for (a, b), table in zip(own.edges.tolist(), tables, strict=True):
            wide[place[(min(a, b), max(a, b))]] = (table if a < b else table.T).flatten()
        start = torch.cat([start[:fields], wide.flatten()])
        if len(start) > MOST_PARAMETERS:
            raise SettingsError(
                f"{count} variables have {len(start):,} parameters on all pairs, too many to "
                f"select edges in every resample (at most {MOST_PARAMETERS:,}). Leave columns out, "
                "or bootstrap a field on fixed edges."
            )
        total = np.bincount(known[0], share, minlength=len(rows))
        samples = Samples(rows, torch.as_tensor(total))
        shares = path_shares(structure.l1_path)
        path = LassoPaths.of(
            samples, field.graph_.states, shares, structure.gamma, structure.penalties_()
        )
        path = path.warmed(samples.row_weights)
        return cls(every, start, *known, path, structure.combine)

    def __call__(self, counts: ArrayLike, n_jobs: int | None = None) -> Array:
        """The strengths of all edges where cases count so often."""
        parts = np.array_split(np.asarray(counts), -(-len(np.asarray(counts)) // AT_ONCE))
        with executor_for(n_jobs if len(parts) > 1 else None) as place:
            found = list(place.map(partial(_strengths, self), parts))
        return np.concatenate(found)


def _strengths(refits: Refits, counts: Array) -> Array:
    """One worker's share."""
    seen = torch.as_tensor(counts[:, refits.owner] * refits.share).double()
    rows = torch.as_tensor(refits.place).expand(len(seen), -1)
    weights = seen.new_zeros(len(seen), len(refits.own.rows.states)).scatter_add_(1, rows, seen)
    among = None
    if refits.path is not None:
        chosen = combined(refits.path.selected(weights), refits.combine)
        first, second = refits.own.edges.T
        among = chosen[:, first, second]
    vectors, converged = refits.own.fit(weights, refits.start, among)
    if not bool(converged.all()):
        lost = int((~converged).sum())
        warn_user(
            f"{lost} of {len(converged)} fits to resampled rows have not converged: in some a "
            "state of two variables is never seen. Give a penalty (l2=0.1), or fewer edges."
        )
    return strengths_of(refits.own, vectors)


def _joins(edges: NDArray[np.int64], variables: int) -> Array:
    """1 where an edge (row) has a variable (column)."""
    joins = np.zeros((len(edges), variables))
    np.put_along_axis(joins, edges, 1.0, axis=1)
    return joins


def _correlations(values: Array, whole: Array) -> Array:
    """Of each row with one vector; 0 where a row does not vary."""
    one = values - values.mean(axis=1, keepdims=True)
    two = whole - whole.mean()
    size = np.sqrt((one**2).sum(axis=1) * (two**2).sum())
    return np.asarray(np.divide(one @ two, size, out=np.zeros(len(values)), where=size > 0))
