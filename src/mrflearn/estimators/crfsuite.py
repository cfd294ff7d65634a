"""What users of sklearn-crfsuite find on a fitted CRF: a tagger, and a log of the training."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mrflearn.errors import DataError
from mrflearn.training.outcome import Outcome

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF


class ModelInfo(NamedTuple):
    """What `Tagger.info` gives: sizes, labels and attributes by number, and all weights."""

    header: dict[str, str]
    labels: dict[str, str]
    attributes: dict[str, str]
    transitions: dict[tuple[str, ...], float]
    state_features: dict[tuple[str, str], float]


class Tagger:
    """A fitted CRF that is asked about one sequence at a time, as `pycrfsuite.Tagger` is."""

    def __init__(self, crf: CRF) -> None:
        self._crf = crf
        self._sequence: list[Any] | None = None
        self._marginals: list[dict[str, float]] | None = None

    def labels(self) -> list[str]:
        """The labels, in the order of their first appearance."""
        return self._crf.classes_

    def set(self, xseq: Iterable[Any]) -> None:
        """Takes the sequence that the other methods answer for."""
        self._sequence, self._marginals = list(xseq), None

    def tag(self, xseq: Iterable[Any] | None = None) -> list[str]:
        """The most probable labels of this sequence, or of the last one."""
        if xseq is not None:
            self.set(xseq)
        return self._crf.predict_single(self._last())

    def probability(self, yseq: Sequence[str]) -> float:
        """The probability of these labels of the last sequence."""
        return math.exp(self._crf.log_prob([self._last()], [yseq])[0])

    def marginal(self, y: str, pos: int) -> float:
        """The probability of a label at a position of the last sequence."""
        if self._marginals is None:
            self._marginals = self._crf.predict_marginals_single(self._last())
        return self._marginals[pos][y]

    def info(self) -> ModelInfo:
        """All weights that are not 0, and what they belong to."""
        crf = self._crf
        labels, attributes = (
            {name: str(number) for number, name in enumerate(names)}
            for names in (crf.classes_, crf.attributes_)
        )
        states, moves = crf.state_features_, crf.transition_features_
        counts = {"size": crf.size_, "num_features": len(states) + len(moves)}
        counts |= {"num_labels": len(labels), "num_attrs": len(attributes)}
        header = {name: str(count) for name, count in counts.items()}
        return ModelInfo(header, labels, attributes, moves, states)

    def dump(self, filename: str | os.PathLike[str]) -> None:
        """Writes all weights as text."""
        self._crf.dump(filename)

    def close(self) -> None:
        """Forgets the last sequence; no file is open."""
        self._sequence = self._marginals = None

    def _last(self) -> list[Any]:
        if self._sequence is None:
            raise DataError("there is no sequence to answer for: call `set`, or `tag`.")
        return self._sequence


@dataclass(frozen=True)
class TrainingLog:
    """How training went, as the log parser of python-crfsuite shows it.

    An iteration is a dict: `num`, `loss`, `error_norm` (of the gradient), `linesearch_step`,
    `linesearch_trials`, `time` (seconds) and `scores` (empty); with a validation set `validation`;
    the last one has `feature_norm` and `active_features` too.
    """

    featgen_num_features: int
    training_seconds: float
    iterations: list[dict[str, Any]] = field(repr=False)

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last iteration; None where there was none."""
        return self.iterations[-1] if self.iterations else None

    @classmethod
    def of(cls, outcome: Outcome[Any]) -> TrainingLog:
        """The log of a training that ended so."""
        rows, trials, began = [], 0, 0.0
        for row in outcome.history:
            if row.iteration:
                own: dict[str, Any] = {"num": row.iteration, "loss": row.value, "scores": {}}
                own |= {"error_norm": row.gradient_norm, "linesearch_step": row.step}
                own |= {"linesearch_trials": row.evaluations - trials, "time": row.seconds - began}
                rows.append(own if row.validation is None else own | {"validation": row.validation})
            trials, began = row.evaluations, row.seconds
        weights = [own.double() for own in outcome.model.parameters().values()]
        if rows:
            rows[-1]["feature_norm"] = math.sqrt(sum(float(own.square().sum()) for own in weights))
            rows[-1]["active_features"] = sum(int(own.count_nonzero()) for own in weights)
        return cls(sum(own.numel() for own in weights), outcome.seconds, rows)
