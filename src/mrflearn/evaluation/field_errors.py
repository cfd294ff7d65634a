"""Standard errors of the couplings of a fitted field, by the curvature of what was minimised.

    covariance = H^-1 J H^-1     H: curvature at the optimum;  J: that of the rows' own gradients

[Godambe 1960; Huber 1967]  For maximum likelihood H is the field's own covariance of its features;
for pseudolikelihood and for LAP, whose terms count the same row several times, J makes up for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.features.observations import Samples
from mrflearn.graph.neighbourhood import neighbourhoods
from mrflearn.inference.sampling import Drawing
from mrflearn.models.tabular import ParameterLayout, feature_covariance
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood, LocalTables
from mrflearn.training import lap
from mrflearn.training.newton import LocalNewton
from mrflearn.training.resampling import ResampledField

Array = NDArray[np.float64]
ENUMERATED = 1 << 14  # joint states of a field that are all gone through
DRAWN = 50_000  # exact samples that stand for wider ones
MOST_PARAMETERS = 3000  # whose covariance is one square table
LARGEST = 1 << 26  # numbers of a table over joint states and terms
SHRUNK = "l1 and l2 pull couplings towards 0, and intervals leave that bias out"
SELECTED = "the edges were selected on the same rows, which intervals do not account for"
NORMS = "the norm of a table of several states is never below 0, and biased upwards near it"


@dataclass(frozen=True, eq=False)
class EdgeErrors:
    """Strengths of edges with standard errors and intervals.

    `remark` says why the intervals need not cover the truth as often as `level` says; it is empty
    where they do in large samples.
    """

    names: list[str]
    edges: NDArray[np.int64]
    strengths: Array
    errors: Array
    level: float
    remark: str = ""

    @property
    def intervals(self) -> Array:
        """The two ends for each edge."""
        reach = NormalDist().inv_cdf((1 + self.level) / 2) * self.errors
        return np.stack([self.strengths - reach, self.strengths + reach], axis=1)

    def table(self) -> dict[str, list[Any]]:
        """All edges by the names of their variables, strongest first, as columns of a frame."""
        order = np.argsort(-np.abs(self.strengths), kind="stable")
        first, second = np.array(self.names)[self.edges[order].T].tolist()
        low, high = self.intervals[order].T.tolist()
        return {
            "variable": first,
            "and": second,
            "strength": self.strengths[order].tolist(),
            "error": self.errors[order].tolist(),
            "low": low,
            "high": high,
        }


def standard_errors(field: Any, X: ArrayLike, *, level: float = 0.95) -> EdgeErrors:
    """Standard errors of a field's couplings, on the rows that it was learned from.

    For `estimator="pl"`, `"ml"` and `"lap"`; others have a `bootstrap`.

    Parameters
    ----------
    field
        A fitted `MarkovField`.
    X
        The rows it was learned from, without missing values.
    level
        That of the intervals.

    Returns
    -------
    EdgeErrors
        `strengths`, `errors` and `intervals` of each of `edges`; `table()` for a frame.

    Examples
    --------
    >>> import numpy as np
    >>> from mrflearn import MarkovField
    >>> from mrflearn.evaluation import standard_errors
    >>> rows = np.random.default_rng(0).integers(0, 2, (500, 3))
    >>> field = MarkovField(estimator="pl").fit(rows)
    >>> found = standard_errors(field, rows)
    >>> found.errors.round(2)
    array([0.05, 0.05, 0.05])

    """
    check_level(level)
    choice = getattr(field, "choice_", None)
    estimator = choice.estimator if choice is not None else field.estimator
    rows = torch.as_tensor(field.encode(X, complete=True))
    ways = {"pl": _of_pseudolikelihood, "ml": _of_likelihood, "lap": _of_lap}
    if estimator not in ways:
        raise SettingsError(
            f"estimator '{estimator}' has no standard errors of its own; 'pl', 'ml' and 'lap' "
            "have. A bootstrap serves every estimator."
        )
    check_pairwise(field)
    blocks = ways[estimator](field, rows)
    pairs = zip(edge_tables(field), blocks, strict=True)
    errors = [float((g @ own @ g).clamp_min(0.0).sqrt()) for (_, g), own in pairs]
    return EdgeErrors(
        field.variable_names_,
        field.edges_,
        field.strengths_,
        np.array(errors, dtype=np.float64),
        level,
        caveat(field),
    )


def check_level(level: float) -> None:
    """Raises `SettingsError` for what is no level of an interval."""
    if not 0 < level < 1:
        raise SettingsError(f"a level is between 0 and 1, as 0.95 is; got {level}.")


def check_pairwise(field: Any) -> None:
    """Raises `SettingsError` where the field has cliques of three or more variables."""
    widest = max((group.arity for group in field.graph_.groups if len(group)), default=1)
    if widest > 2:
        raise SettingsError(f"errors are those of edges; this field has cliques of {widest}.")


def caveat(field: Any) -> str:
    """Why intervals of a field's strengths may not cover as they say."""
    parts = [SHRUNK] * bool(field.l1 or field.l2)
    parts += [SELECTED] * hasattr(field, "structure_")
    parts += [NORMS] * (not bool(field.signed_.all()))
    return "; ".join(parts)


def edge_tables(field: Any) -> Iterator[tuple[Tensor, Float[Tensor, " p"]]]:
    """Each edge's parameters in the reference gauge, and the gradient of its strength by them."""
    model = field.model_
    for group, values in zip(model.graph.groups, model.values, strict=True):
        for own in values[group.table] if group.arity == 2 else ():
            one, other = (centred(size + 1) for size in own.shape)
            table = one @ own @ other.T
            if own.numel() == 1:
                push = torch.zeros_like(table)
                push[1, 1] = 1.0
            else:
                push = table / table.norm().clamp_min(1e-300)
            yield own, (one.T @ push @ other).flatten()


def centred(states: int) -> Float[Tensor, "s r"]:
    """What takes parameters in the reference gauge to a table in the zero-sum gauge."""
    table = torch.eye(states, dtype=torch.float64) - 1 / states
    return table[:, 1:]


def resampled(field: Any, rows: Tensor) -> tuple[ResampledField, Float[Tensor, " p"]]:
    """The field as a function of the weights of rows, and its parameters there."""
    model = field.model_
    edges = torch.as_tensor(field.edges_)
    own = ResampledField.of(rows, model.graph.states, edges, field.l2)
    numbers = own.rows.codes.shape[2]
    fields = torch.zeros(model.graph.variables, numbers, dtype=torch.float64)
    pairs = torch.zeros(len(edges), numbers, numbers, dtype=torch.float64)
    for group, values in zip(model.graph.groups, model.values, strict=True):
        if group.arity == 1 and len(group):
            fields[group.scope[:, 0], : values.shape[1]] = values[group.table]
    for place, (table, _) in enumerate(edge_tables(field)):
        pairs[place, : table.shape[0], : table.shape[1]] = table
    return own, torch.cat([fields.flatten(), pairs.flatten()])


def strengths_of(own: ResampledField, vectors: Float[Tensor, "b p"]) -> Array:
    """The strengths of all edges, as `strengths_`, of parameters in the reference gauge."""
    numbers, sizes = own.rows.codes.shape[2], own.rows.sizes
    pairs = vectors[:, own.rows.columns.shape[1] :]
    pairs = pairs.view(len(vectors), len(own.edges), numbers, numbers)
    found = torch.zeros(len(vectors), len(own.edges), dtype=torch.float64)
    shapes = sizes[own.edges]
    for a, b in shapes.unique(dim=0).tolist():
        here = ((shapes[:, 0] == a) & (shapes[:, 1] == b)).nonzero().squeeze(1)
        tables = pairs[:, here, : a - 1, : b - 1]
        if (a, b) == (2, 2):
            found[:, here] = tables[:, :, 0, 0] / 4
        else:
            zero_sum = torch.einsum("xa,neab,yb->nexy", centred(a), tables, centred(b))
            found[:, here] = zero_sum.flatten(2).norm(dim=2)
    return found.numpy()


def _check_size(parameters: int) -> None:
    if parameters > MOST_PARAMETERS:
        raise SettingsError(
            f"{parameters:,} parameters are too many for one square table of their covariance (at "
            f"most {MOST_PARAMETERS:,}); a bootstrap on fewer edges needs none."
        )


def _sandwich(hessian: Tensor, meat: Tensor) -> Tensor:
    """H^-1 J H^-1; an error where the samples do not determine the parameters."""
    inverse, failed = torch.linalg.inv_ex(hessian)
    if int(failed) or not bool(inverse.isfinite().all()):
        raise DataError(
            "the samples do not determine all couplings, whose standard errors are infinite: some "
            "states are never seen together. Fewer edges, fewer states or more samples help."
        )
    covariance: Tensor = inverse @ meat @ inverse
    return covariance


def _of_pseudolikelihood(field: Any, rows: Tensor) -> Iterator[Tensor]:
    own, vector = resampled(field, rows)
    _check_size(len(vector))
    weights = torch.ones(len(rows), dtype=torch.float64)
    scores = own.row_scores(vector)
    covariance = _sandwich(own.curvature(vector, weights), scores.T @ scores)
    numbers, begin = own.rows.codes.shape[2], own.rows.columns.shape[1]
    for place, (table, _) in enumerate(edge_tables(field)):
        number = torch.arange(numbers**2).view(numbers, numbers)
        places = number[: table.shape[0], : table.shape[1]].flatten() + begin + place * numbers**2
        yield covariance[places][:, places]


def _of_likelihood(field: Any, rows: Tensor) -> Iterator[Tensor]:
    graph, potentials = field.graph_, field.potentials_
    layout = ParameterLayout.of(graph)
    _check_size(layout.size)
    joint = int(np.prod(graph.states.double().numpy()).clip(max=2.0**40))
    if joint <= ENUMERATED:
        states = torch.cartesian_prod(*(torch.arange(size) for size in graph.states.tolist()))
        states = states.reshape(joint, -1)
        share = potentials.score(states).sum(dim=-1).softmax(dim=0)
        every = Samples(states, share)
    else:
        drawn = Drawing()(potentials, DRAWN, seed=field.random_state).samples
        every = Samples(drawn, torch.full((DRAWN,), 1 / DRAWN, dtype=torch.float64))
    hessian = len(rows) * feature_covariance(graph, every)
    hessian.diagonal().add_(2 * field.l2)
    covariance = _sandwich(hessian, feature_covariance(graph, Samples(rows)))
    for start, (table, _) in zip(_edge_starts(field, layout), edge_tables(field), strict=True):
        places = torch.arange(start, start + table.numel())
        yield covariance[places][:, places]


def _edge_starts(field: Any, layout: ParameterLayout) -> list[int]:
    """Where the parameters of each edge begin."""
    lengths = [len(group) for group in field.graph_.groups]
    parts = zip(field.graph_.groups, layout.start.split(lengths), strict=True)
    return [start for group, own in parts if group.arity == 2 for start in own.tolist()]


def _of_lap(field: Any, rows: Tensor) -> Iterator[Tensor]:
    """Of each edge from its own neighbourhood."""
    graph = field.graph_
    samples = Samples.of(rows)
    newton = LocalNewton(field.l2, field.l1, field.tolerance, field.max_iterations)
    factors = [(g, f) for g, group in enumerate(graph.groups) for f in range(len(group))]
    found: dict[int, Tensor] = {}
    for block in lap.problem_blocks(neighbourhoods(graph, field.auxiliary), own=True):
        shape = block.shape
        tables = LocalTables(shape)
        own = [
            k for k, q in enumerate(block.factors[:, 0].tolist()) if _arity(graph, factors, q) == 2
        ]
        if not own:
            continue
        if shape.cells * len(shape.terms) * len(own) > LARGEST or tables.design is None:
            raise SettingsError(
                f"a neighbourhood has {shape.cells:,} joint states, too many for standard errors "
                "of 'lap'; a bootstrap, or the estimator 'pl', has them."
            )
        counts = samples.count(block.scope, shape.sizes)[:, own]
        likelihood = AuxiliaryLikelihood.of(tables, counts)
        fit = likelihood.at(newton(likelihood).terms)
        hessian = likelihood.hessian(fit)
        hessian.diagonal(dim1=1, dim2=2).add_(2 * field.l2)
        meat = _meat(tables, counts, fit.conditional)
        end = shape.spans[0].stop
        for place, k in enumerate(own):
            covariance = _sandwich(hessian[place], meat[place])
            found[int(block.factors[k, 0])] = covariance[:end, :end]
    starts = [k for k, (g, _) in enumerate(factors) if graph.groups[g].arity == 2]
    yield from (found[k] for k in starts)


def _arity(graph: Any, factors: list[tuple[int, int]], number: int) -> int:
    return int(graph.groups[factors[number][0]].arity)


def _meat(tables: LocalTables, counts: Tensor, conditional: Tensor) -> Float[Tensor, "q p p"]:
    """The sum over rows of (terms - what their context expects), squared."""
    design, contexts = tables.design, tables.shape.contexts
    assert design is not None  # noqa: S101 - seen before
    cells, terms = design.shape
    parts = []
    for seen, chance in zip(counts.T, conditional.T, strict=True):
        own = (chance.unsqueeze(1) * design).view(-1, contexts, terms).sum(dim=0)
        centre = (design.view(-1, contexts, terms) - own).view(cells, terms)
        parts.append(centre.T @ (seen.unsqueeze(1) * centre))
    return torch.stack(parts)
