"""Lifted trainings, each done once: what was learned is kept beside the rows and read again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from texts import Split
from torch import Tensor

from mrflearn.estimators.lifted_training import LiftedFit, LiftedSettings, train_lifted
from mrflearn.features.moments import Moments, moments_of
from mrflearn.graph.lifted import WordPotentials
from mrflearn.io.corpus import Vocabulary, count_corpus
from mrflearn.models.storage import StoredModel, read_model, write_model
from mrflearn.objectives.lifted import WordFrequencies

CONTEXT = 2
PARTS = ("unary", "left", "right")


@dataclass(frozen=True)
class Fitted:
    """Scores, left vectors (none for free tables), and how training went."""

    vocabulary: Vocabulary
    scores: WordPotentials
    vectors: Tensor | None
    story: dict[str, Any]


def fitted(text: Split, settings: LiftedSettings, size: int | None, folder: Path) -> Fitted:
    """The model of these settings over the `size` most frequent words (None: all)."""
    vocabulary = Vocabulary.from_counts(count_corpus(text.train), size=size)
    asked = json.dumps([text.name, len(text.train), size, asdict(settings)])
    path = folder / "models" / hashlib.sha256(asked.encode()).hexdigest()[:12]
    if not path.exists():
        train, valid = (moments_of(part, CONTEXT, vocabulary) for part in (text.train, text.valid))
        fit = train_lifted(train, settings, valid)
        tensors = dict(zip(PARTS, fit.model.potentials()[:3], strict=True))
        if settings.form == "low-rank":
            tensors["vectors"] = fit.model.parameters()["left"]
        # Tensors that share memory cannot be stored as such.
        tensors = {name: value.detach().clone() for name, value in tensors.items()}
        write_model(path, StoredModel("lifted experiment", _story(fit, valid), tensors))
    stored = read_model(path)
    scores = WordPotentials(*(stored.tensors[name] for name in PARTS))
    return Fitted(vocabulary, scores, stored.tensors.get("vectors"), stored.settings)


def _story(fit: LiftedFit, valid: Moments) -> dict[str, Any]:
    outcome = fit.outcome
    history = [row for row in outcome.history if row.validation is not None]
    return {
        "curve": [[round(row.seconds, 3), row.validation] for row in history],
        "certified": certified(fit, valid),
        "seconds": outcome.seconds,
        "evaluations": outcome.evaluations,
        "ended": outcome.reason,
    }


def certified(fit: LiftedFit, valid: Moments) -> float:
    """The proven lower bound on the validation text's log-likelihood, nats a position."""
    scores = fit.model.potentials().double()
    mean = float(WordFrequencies.of(valid, scores.unary).mean_score(scores))
    return mean - fit.log_partition_bound.per_position(valid.positions)
