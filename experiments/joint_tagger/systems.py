"""The taggers that are compared, each behind the same two calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path
from typing import Any

from tasks import Sentence

from mrflearn import CRF, HMMTagger, JointTagger

FEATURES = run_path(str(Path(__file__).parents[1] / "chain_crf" / "tasks.py"))["tag_features"]
JOINT = re.compile(r"joint-K(\d)-L(\d)-(exact|chains|stars)").fullmatch
HMMS = {"hmm-1": 1, "hmm-2": 2}
NAMES = {
    "hmm-1": "HMM, first order, rare words (the paper's rival)",
    "hmm-2": "HMM, second order, suffixes",
    "crf": "CRF, discriminative",
}


class Fitted:
    """A trained tagger: `model`, and what it says of sentences."""

    def __init__(self, model: Any, sees: Any) -> None:
        self.model, self._sees = model, sees

    def predict(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        found: list[list[str]] = self.model.predict([self._sees(s) for s in sentences])
        return found


def fit(
    system: str, train: Sequence[Sentence], plain: Sequence[Sentence], evaluations: int | None
) -> Fitted:
    """The system, learned from tagged sentences and from the words of plain ones."""
    tags: list[Any] = [list(s.labels) for s in train]
    if system == "crf":
        crf = CRF(c2=1.0, max_iterations=evaluations, n_jobs=-1)
        return Fitted(crf.fit([FEATURES(s) for s in train], tags), FEATURES)
    if system in HMMS:
        return Fitted(HMMTagger(HMMS[system]).fit([s.words for s in train], tags), _words)
    found = JOINT(system)
    if found is None:
        raise SystemExit(f"no system is called {system}")
    chosen = {} if evaluations is None else {"max_iterations": evaluations}
    joint = JointTagger(int(found[1]), int(found[2]), bound=found[3], **chosen)
    words = [s.words for s in (*train, *plain)]
    return Fitted(joint.fit(words, [*tags, *[None] * len(plain)]), _words)


def joint_systems() -> list[str]:
    """Every joint tagger of the table: K tags around each, L words, either bound."""
    return [f"joint-K{k}-L{n}-{b}" for b in ("stars", "chains") for k in (1, 2) for n in (1, 3)]


def name(system: str) -> str:
    """The system as the tables call it."""
    if found := JOINT(system):
        return f"joint field, K = {found[1]}, L = {found[2]}, {found[3]}"
    return NAMES[system]


def _words(sentence: Sentence) -> tuple[str, ...]:
    return sentence.words
