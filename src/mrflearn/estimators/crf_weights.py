"""The weights of CRFs: by name, and as text to read or edit.

The text of a chain has a line a weight, cells set apart by tabs:

    state       ATTRIBUTE  LABEL   WEIGHT
    dense       COLUMN     LABEL   WEIGHT
    transition  LABEL      LABEL   WEIGHT
    triple      LABEL      LABEL   LABEL   WEIGHT
    edge        ATTRIBUTE  LABEL   LABEL   WEIGHT
    label       LABEL                       (once a label, in the order of the model)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, TypeVar

import torch
from torch import Tensor

from mrflearn.errors import DataError, NotFittedError
from mrflearn.estimators.crf_answers import SEQUENCES_AT_ONCE, ChainAnswers
from mrflearn.estimators.crf_training import LogLinearLabeller
from mrflearn.estimators.labelling import check_label
from mrflearn.features.features import UNKNOWN, CompiledFeatures, Numbering, compile_features
from mrflearn.features.index import BIAS, MARK, FactorTemplate, cells_of
from mrflearn.io.files import PathLike, read_lines, write_text
from mrflearn.models.loglinear import ChainPotentials, LogLinearField, weights_of

T = TypeVar("T")
Labels = Sequence[str]


def attributes(model: LogLinearField) -> list[str]:
    """The attributes of tokens that have weights, dense columns last."""
    own = model.templates[0]
    return [*(name for name in own.names if not name.startswith(MARK)), *own.columns]


def state_features(model: LogLinearField, labels: Labels) -> dict[tuple[str, str], float]:
    """{(attribute, label): weight} of all weights that are not 0, dense columns included."""
    return {(name, label): w for (name, label), w in weights_of(model, 0, [labels]).items()}


def transition_features(model: LogLinearField, labels: Labels) -> dict[tuple[str, ...], float]:
    """{(label, next label): weight} of all weights that are not 0; triples in a second order."""
    found: dict[tuple[str, ...], float] = {}
    for index, template in enumerate(model.templates[1:], start=1):
        own = weights_of(model, index, [labels] * len(template.shape))
        found |= {tuple(names): w for (name, *names), w in own.items() if name == BIAS}
    return found


def edge_features(model: LogLinearField, labels: Labels) -> dict[tuple[str, str, str], float]:
    """{(attribute, label before, label): weight} of all weights that are not 0."""
    own = weights_of(model, 1, [labels] * 2).items()
    return {(a.removeprefix(MARK), s, t): weight for (a, s, t), weight in own if a != BIAS}


def contributions(
    model: LogLinearField, sequence: CompiledFeatures, position: int, label: int
) -> list[tuple[str, float]]:
    """(attribute, value * weight) for one label at one token, the weightiest first."""
    token, template = sequence.taken(torch.tensor([position])), model.templates[0]
    attributes = token.attributes.long()
    place = template.find(attributes, torch.full_like(attributes, label))
    known, names = place != UNKNOWN, list(template.names)
    values = torch.ones(len(place)) if token.values is None else token.values
    amounts = values[known].double() * model.weights[0].cpu()[place[known]]
    parts: dict[str, float] = defaultdict(float)
    for attribute, amount in zip(attributes[known].tolist(), amounts.tolist(), strict=True):
        parts[names[attribute]] += amount
    if token.dense is not None:
        products = (token.dense[0] * model.dense[0][:, label].float().cpu()).tolist()
        parts |= dict(zip(template.columns, products, strict=True))
    return sorted(parts.items(), key=lambda part: -abs(part[1]))


def write_weights(path: PathLike, model: LogLinearField, labels: Labels) -> None:
    """Writes every weight with all its digits."""
    columns = set(model.templates[0].columns)
    with write_text(path) as stream:
        for label in labels:
            stream.write(f"label\t{_cell(label, path)}\n")
        for (name, label), weight in state_features(model, labels).items():
            kind = "dense" if name in columns else "state"
            stream.write(f"{kind}\t{_cell(name, path)}\t{label}\t{weight!r}\n")
        for names, weight in transition_features(model, labels).items():
            kind = "transition" if len(names) == 2 else "triple"
            stream.write("\t".join([kind, *names, repr(weight)]) + "\n")
        for (name, *pair), weight in edge_features(model, labels).items():
            stream.write("\t".join(["edge", _cell(name, path), *pair, repr(weight)]) + "\n")


def read_weights(path: PathLike) -> tuple[LogLinearField, Numbering]:
    """The model that `write_weights` wrote, and its labels; lines may have been edited or added."""
    tables: dict[str, dict[tuple[str, ...], float]] = {
        kind: {} for kind in ("state", "dense", "transition", "triple", "edge")
    }
    labels: list[str] = []
    for number, line in read_lines(path):
        kind, *cells = line.split("\t")
        if kind == "label" and len(cells) == 1:
            labels.append(cells[0])
        elif kind in tables and len(cells) == (4 if kind in ("triple", "edge") else 3):
            tables[kind][tuple(cells[:-1])] = _weight(cells[-1], path, number)
        elif line:
            raise DataError(f"no line of weights: {line[:80]!r}.", path=path, line=number)
    try:
        return from_weights(labels, **tables)
    except DataError as error:
        raise DataError(error.problem, path=path) from None


def from_weights(
    labels: list[str],
    state: Mapping[Any, float],
    transition: Mapping[Any, float],
    dense: Mapping[Any, float] | None = None,
    triple: Mapping[Any, float] | None = None,
    edge: Mapping[Any, float] | None = None,
) -> tuple[LogLinearField, Numbering]:
    """The model that has these weights, and all labels; those not listed come after the others."""
    dense, triple, edge = dense or {}, triple or {}, edge or {}
    if triple and edge:
        raise DataError("there are weights of three labels and of edges: a chain has either.")
    used = [*(names[1:] for names in (*state, *dense, *edge)), *transition, *triple]
    known = Numbering(dict.fromkeys([*labels, *chain.from_iterable(used)]), closed=True)
    marked = dict.fromkeys(MARK + names[0] for names in edge)
    names = Numbering(dict.fromkeys([*(name for name, _ in state), *marked]), closed=True)
    columns = tuple(dict.fromkeys(name for name, _ in dense))
    moves = {(BIAS, *pair): weight for pair, weight in transition.items()}
    moves |= {(MARK + name, *pair): weight for (name, *pair), weight in edge.items()}
    found = [
        _template("state", 1, names, columns, known, state),
        _template("transition", 2, Numbering([BIAS, *marked], closed=True), (), known, moves),
    ]
    if triple:
        three = {(BIAS, *own): weight for own, weight in triple.items()}
        found.append(_template("triple", 3, Numbering([BIAS], closed=True), (), known, three))
    templates, weights = zip(*found, strict=True)
    model = replace(LogLinearField.zeros(templates, torch.float64), weights=weights)
    for (column, label), weight in dense.items():
        model.dense[0][columns.index(column), known[label]] = weight
    return model, known


def _template(
    name: str,
    arity: int,
    names: Numbering,
    columns: tuple[str, ...],
    labels: Numbering,
    weights: Mapping[Any, float],
) -> tuple[FactorTemplate, Tensor]:
    """The template of weights by (attribute, label, ...), and the weights in its order."""
    rows = [[names[key[0]], *(labels[own] for own in key[1:])] for key in weights]
    place, shape = torch.tensor(rows).long().reshape(-1, 1 + arity), (len(labels),) * arity
    attribute, cell = place[:, 0], cells_of(place[:, 1:], shape)
    order = (attribute * max(len(labels), 1) ** arity + cell).argsort()
    template = FactorTemplate(name, shape, names, columns, attribute[order], cell[order])
    return template, torch.tensor(list(weights.values()), dtype=torch.float64)[order]


def _cell(name: str, path: PathLike) -> str:
    if any(sign in name for sign in "\t\n\r"):
        raise DataError(f"{name!r} has a tab or a line end in it; text cannot hold it.", path=path)
    return name


def _weight(text: str, path: PathLike, number: int) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise DataError(f"'{text[:40]}' is no weight.", path=path, line=number)
    return weight


# What the weights of a fitted chain CRF say, by the names of attributes and labels.


@dataclass(kw_only=True, eq=False, repr=False)
class ChainWeights(LogLinearLabeller, ChainAnswers):
    """A fitted chain CRF with named weights; `model_` holds what it has learned.

    X may also be what `compile_features` made of items; attributes never seen in training count
    for nothing.
    """

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of their first appearance; None before `fit`."""
        return self._learned(lambda _: list(self.labels_))

    @property
    def attributes_(self) -> list[str]:
        """The attributes that have weights, dense columns last; those of transitions not here."""
        return self._learned(lambda model: attributes(model))

    @property
    def num_attributes_(self) -> int:
        """How many attributes have weights, those of transitions not counted."""
        return self._learned(lambda model: len(attributes(model)))

    @property
    def size_(self) -> int:
        """The size of the weights in memory, in bytes."""
        return self._learned(lambda own: sum(part.nbytes for part in own.parameters().values()))

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """{(attribute, label): weight} of all weights that are not 0."""
        return self._learned(lambda model: state_features(model, self.classes_))

    @property
    def transition_features_(self) -> dict[tuple[str, ...], float]:
        """{(label, next label): weight} of all weights that are not 0."""
        return self._learned(lambda model: transition_features(model, self.classes_))

    @property
    def edge_features_(self) -> dict[tuple[str, str, str], float]:
        """{(attribute, label before, label): weight} of all weights that are not 0."""
        return self._learned(lambda model: edge_features(model, self.classes_))

    def _learned(self, what: Callable[[LogLinearField], T]) -> T:
        """What a function finds in the fitted field; None before, as in sklearn_crfsuite."""
        try:
            return what(self._fitted())
        except NotFittedError:
            return None  # type: ignore[return-value]

    def top_features(self, label: str | None = None, n: int = 20) -> list[tuple[str, str, float]]:
        """The state weights of largest absolute value.

        Parameters
        ----------
        label
            Weights of this label; None: of all.
        n
            How many.

        Returns
        -------
        list of (attribute, label, weight)

        """
        found = state_features(self._fitted(), self.classes_)
        check_label(label, self.labels_)
        rows = [(a, s, w) for (a, s), w in found.items() if label is None or s == label]
        return sorted(rows, key=lambda row: (-abs(row[2]), row[0], row[1]))[:n]

    def top_transitions(self, n: int = 20) -> list[tuple[tuple[str, ...], float]]:
        """The (labels, weight) of the n transition weights of largest absolute value."""
        rows = transition_features(self._fitted(), self.classes_).items()
        return sorted(rows, key=lambda row: (-abs(row[1]), row[0]))[:n]

    def top_edge_features(self, n: int = 20) -> list[tuple[str, str, str, float]]:
        """The (attribute, label before, label, weight) of the n largest weights of transitions."""
        found = edge_features(self._fitted(), self.classes_)
        rows = [(*names, weight) for names, weight in found.items()]
        return sorted(rows, key=lambda row: (-abs(row[3]), row[:3]))[:n]

    def explain(
        self, xseq: Iterable[Any], position: int, label: str | None = None
    ) -> list[tuple[str, float]]:
        """What each attribute of a token adds to the score of a label (None: the one predicted).

        Transitions, with attributes and without, depend on two labels and are not in it.
        """
        model, items = self._fitted(), list(xseq)
        if not -len(items) <= position < len(items):
            raise DataError(f"position {position} is not within the {len(items)} items.")
        if label is None:
            label = self.predict_single(items)[position]
        check_label(label, self.labels_)
        template = model.templates[0]
        compiled = compile_features(self._items([items]), template.names, template.columns)
        number = self.labels_[label]
        return contributions(model, compiled, position % len(items), number)

    def _potentials(self, X: Iterable[Any], *, whole: bool = False) -> Iterator[ChainPotentials]:
        model, items = self._fitted(), self._items(X)
        template = model.templates[0]
        if whole:
            yield model.chains(compile_features(items, template.names, template.columns))
            return
        for features in _compiled(items, template):
            yield from map(model.chains, model.parts(features))


def _compiled(X: Iterable[Any], template: FactorTemplate) -> Iterator[CompiledFeatures]:
    names, columns = template.names, template.columns
    if isinstance(X, CompiledFeatures):
        if X.columns != columns:
            raise DataError(
                f"these features were compiled with {len(X.columns)} dense columns, the model has "
                f"{len(columns)}, or others. Give the items themselves instead."
            )
        number = torch.tensor([names.get(name, UNKNOWN) for name in X.names], dtype=torch.int64)
        yield X.renumbered(number, names)
        return
    sequences = iter(X)
    while part := list(islice(sequences, SEQUENCES_AT_ONCE)):
        yield compile_features(part, names, columns)
