"""The trigram field: settings chosen on the end of the training text, and what they gave.

Every candidate is trained on the first nine tenths of the training text and rated on the last
tenth.  The best is trained on all of it with several seeds, and looked at on the validation and the
test text, which have decided nothing; Kneser-Ney models of the same text stand beside it.  Another
row has settings chosen on the validation text.  The same is done for the most frequent words alone,
on a CPU.  The defaults are then taken to a larger text with a larger vocabulary.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from best_bound import HELD_OUT
from cloze import choose_gaps, cloze, neighbour_guesser
from confusions import accuracy, both_sides, by_ngrams, questions
from likeness import agreement, reported
from rows import Rows
from texts import Sentences, Split

from mrflearn import LanguageModel, NgramLanguageModel
from mrflearn.evaluation.similarity import CosineSpace
from mrflearn.features.moments import Moments, moments_of
from mrflearn.io.corpus import Vocabulary, count_corpus
from mrflearn.training.checkpoint import Checkpoint

PART, CHOICE, RIVALS = "trigrams", "trigrams, candidates", "trigrams, rivals"
ON_VALID, BY_VALID = "trigrams, candidates on validation", "trigrams, by validation"
CONTEXT = 2


@dataclass(frozen=True)
class Candidate:
    """What is varied: dimensions, steps, and strengths in nats per text (None: the default)."""

    dims: int
    steps: int
    l1: float | None = None
    l2: float | None = None
    order: int = 3

    def fit(
        self, moments: Moments, seed: int, device: str, checkpoint: Path | None = None
    ) -> LanguageModel:
        """A model of these settings; raises where it is interrupted, once its state is saved."""
        l1, l2 = (None if own is None else own / moments.positions for own in (self.l1, self.l2))
        model = LanguageModel(
            self.dims, triples=True, order=self.order, l1=l1, l2=l2, max_iterations=self.steps,
            device=device, random_state=seed, verbose=True,
        )  # fmt: skip
        saved = None if checkpoint is None else Checkpoint(checkpoint, every_seconds=SAVED)
        resume = checkpoint is not None and checkpoint.exists()
        model.fit(moments, checkpoint=saved, resume=resume)
        if model.outcome_.ending == "interrupted":
            raise KeyboardInterrupt
        return model


SAVED = 200.0  # seconds between checkpoints: two tables of pairs of words are large
CANDIDATES = {
    "smoke": [Candidate(5, 20), Candidate(5, 20, order=4)],
    "full": [
        Candidate(100, 300),
        Candidate(100, 300, order=4),
        Candidate(100, 300, l1=0.6, order=5),
        Candidate(100, 300, l1=0.68, order=5),
        Candidate(100, 300, l1=0.75, order=5),
        Candidate(100, 300, l1=0.82, order=5),
        Candidate(100, 300, l1=0.72, l2=4.4, order=5),
        Candidate(100, 300, l1=0.72, l2=6.2, order=5),
    ],
}
# More finely, by the validation text.
FINER = {
    "smoke": [Candidate(5, 20, order=5)],
    "full": [
        Candidate(100, 400, l1, l2, order=5)
        for l1, l2 in ((0.65, None), (0.7, None), (0.75, None), (0.8, None), (0.72, 4.5), (0.72, 6))
    ],
}
STEPS = {"smoke": 30, "full": 1000}
# Of the most frequent words, on a CPU.
FEW = {"smoke": 20, "full": 2_000}
FEW_CANDIDATES = {
    "smoke": [Candidate(5, 20, order=4)],
    "full": [
        Candidate(50, 300),
        Candidate(50, 300, l1=0.58, order=5),
        Candidate(50, 300, l1=0.75, order=5),
        Candidate(50, 300, l1=0.58, l2=7, order=5),
    ],
}
FEW_STEPS = {"smoke": 30, "full": 400}
LARGER = {"smoke": Candidate(5, 30, order=4), "full": Candidate(100, 400, order=5)}
SEEDS = {"smoke": (0,), "full": (0, 1, 2)}
GAPS = {"smoke": 100, "full": 20_000}
WORDS = {"smoke": 50, "full": None}  # None: all


def run(rows: Rows, scale: str, text: Split, device: str) -> None:
    """The choice of settings, and the field by them with several seeds."""
    if scale == "full" and device == "cpu":
        return  # 10,000 words in a row of three are for a GPU
    vocabulary = _vocabulary(text, scale)
    for candidate in CANDIDATES[scale]:
        point = {"part": CHOICE, "text": text.name, **asdict(candidate), "device": device}
        rows.measure(point, lambda own=candidate: _held_out(text.train, vocabulary, own, device))
    best = _best(rows.latest(part=CHOICE, text=text.name), STEPS[scale])
    _by_seeds(rows, scale, text, vocabulary, device, PART, best)


def run_by_validation(rows: Rows, scale: str, text: Split, device: str) -> None:
    """Settings chosen on the validation text, by more candidates."""
    if scale == "full" and device == "cpu":
        return
    vocabulary, pair = _vocabulary(text, scale), (text.train, text.valid)
    for candidate in FINER[scale]:
        point = {"part": ON_VALID, "text": text.name, **asdict(candidate), "device": device}
        rows.measure(point, lambda own=candidate: _rated(pair, vocabulary, own, device))
    _by_seeds(
        rows, scale, text, vocabulary, device, BY_VALID, _best(rows.of(ON_VALID), STEPS[scale])
    )


def run_few(rows: Rows, scale: str, text: Split) -> None:
    """The most frequent words alone, all others one: choice, field and Kneser-Ney on a CPU."""
    vocabulary = Vocabulary.from_counts(count_corpus(text.train), size=FEW[scale])
    text = replace(text, name=f"{text.name}, {FEW[scale]:,} words")
    for candidate in FEW_CANDIDATES[scale]:
        point = {"part": CHOICE, "text": text.name, **asdict(candidate), "device": "cpu"}
        rows.measure(point, lambda own=candidate: _held_out(text.train, vocabulary, own, "cpu"))
    best = _best(rows.latest(part=CHOICE, text=text.name), FEW_STEPS[scale])
    _by_seeds(rows, scale, text, vocabulary, "cpu", PART, best)
    run_rivals(rows, scale, text, vocabulary)


def _best(found: list[dict[str, Any]], steps: int) -> Candidate:
    """The best of these rows, for as many steps as the final training has."""
    chosen = max(found, key=lambda row: row["figures"]["held_out"])["point"]
    settings = {name: chosen.get(name, 3) for name in ("dims", "l1", "l2", "order")}
    return Candidate(steps=steps, **settings)


def _by_seeds(
    rows: Rows, scale: str, text: Split, vocabulary: Vocabulary, device: str, part: str,
    best: Candidate,
) -> None:  # fmt: skip
    for seed in SEEDS[scale]:
        point = {"part": part, "text": text.name, **asdict(best), "seed": seed, "device": device}
        rows.measure(
            point, lambda own=seed: _final(text, vocabulary, best, own, device, GAPS[scale])
        )


def run_larger(
    rows: Rows, scale: str, text: Split, device: str, checkpoint: Path | None = None
) -> None:
    """The field of a larger text, by the defaults; a checkpoint that is there is gone on from."""
    if scale == "full" and device == "cpu":
        return
    own = LARGER[scale]
    point = {"part": PART, "text": text.name, **asdict(own), "seed": 0, "device": device}
    rows.measure(
        point,
        lambda: _final(text, _vocabulary(text, scale), own, 0, device, GAPS[scale], checkpoint),
    )


def run_rivals(rows: Rows, scale: str, text: Split, vocabulary: Vocabulary | None = None) -> None:
    """Kneser-Ney models of the same words, on a CPU."""
    words = vocabulary or _vocabulary(text, scale)
    for order in (3, 5):
        point = {"part": RIVALS, "text": text.name, "order": order}
        rows.measure(point, lambda own=order: _rival(text, words, own, GAPS[scale]))


def _vocabulary(text: Split, scale: str) -> Vocabulary:
    return Vocabulary.from_counts(count_corpus(text.train), size=WORDS[scale])


def report(rows: Rows) -> list[str]:
    """The candidates, and what came of the best beside Kneser-Ney models."""
    if not rows.of(PART):
        return []
    names = ("text", "order", "dims", "steps", "l1", "l2")
    lines = ["| " + " | ".join((*names, "rated on", "value", "seconds")) + " |", "|---" * 9 + "|"]
    for row in rows.of(CHOICE) + rows.of(ON_VALID):
        cells = [str(row["point"].get(name, 3) or "default") for name in names]
        cells.append("end of training text" if row["point"]["part"] == CHOICE else "validation")
        cells += [f"{row['figures']['held_out']:.4f}", f"{row['figures']['seconds']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    header = ("text", "model", "validation", "test", "gaps, first", "among ten", "confusions")
    lines += ["", "| " + " | ".join((*header, "seconds")) + " |", "|---" * 8 + "|"]
    found = rows.of(PART) + rows.of(BY_VALID) + rows.of(RIVALS)
    for row in sorted(found, key=lambda own: own["point"]["text"]):
        lines.append(_line(row["point"], row["figures"]))
    return lines


def _line(point: dict[str, Any], figures: dict[str, Any]) -> str:
    values = [f"{figures[part]:.4f}" if part in figures else "" for part in ("valid", "test")]
    shares = [_percent(figures.get(name)) for name in ("first", "among", "confusions")]
    name = ""
    if "seed" in point:
        name = f"field of order {point.get('order', 3)}, {point['steps']} steps"
        name += ", chosen on validation" * (point["part"] == BY_VALID) + f", seed {point['seed']}"
    else:
        name = f"Kneser-Ney {point['order']}-gram, exact"
        shares[-1] += f" (left side alone {_percent(figures['confusions_left'])})"
    cells = [point["text"], name, *values, *shares, f"{figures['seconds']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _counted(text: Sentences, vocabulary: Vocabulary, order: int) -> Moments:
    return moments_of(text, CONTEXT, vocabulary, triples=True, order=order)


def _held_out(
    train: Sentences, vocabulary: Vocabulary, candidate: Candidate, device: str
) -> dict[str, Any]:
    cut = round(len(train) * (1 - HELD_OUT))
    return _rated((train[:cut], train[cut:]), vocabulary, candidate, device)


def _rated(
    pair: tuple[Sentences, Sentences], vocabulary: Vocabulary, candidate: Candidate, device: str
) -> dict[str, Any]:
    """What a field learned from the first text says of the second."""
    first, last = (_counted(part, vocabulary, candidate.order) for part in pair)
    began = time.perf_counter()
    model = candidate.fit(first, 0, device)
    seconds = time.perf_counter() - began
    return {"held_out": model.text_score(last).per_position, "seconds": seconds}


def _final(
    text: Split, vocabulary: Vocabulary, best: Candidate, seed: int, device: str, gaps: int,
    checkpoint: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Proven nats per position, gaps, confusions and vectors of one field."""
    counts = {name: _counted(own, vocabulary, best.order) for name, own in text.parts().items()}
    began = time.perf_counter()
    model = best.fit(counts["train"], seed, device, checkpoint)
    seconds = time.perf_counter() - began
    found = {name: model.text_score(own).per_position for name, own in counts.items()}
    print(f"{text.name}: {found}, {seconds:.1f} s", file=sys.stderr)
    guess = neighbour_guesser(model.model_.potentials(), vocabulary)
    guessed = cloze(guess, choose_gaps(text.valid, count=gaps))
    asked = questions(text.valid, vocabulary, count=gaps)
    right = accuracy(both_sides(model.model_.potentials(), vocabulary), asked)
    size = {name: len(own) for name, own in model.model_.sparse.items()}
    return found | _likeness(model, text) | {
        "seconds": seconds, "training": model.outcome_.seconds, "words": len(vocabulary),
        "first": guessed.first, "among": guessed.among_top, "gaps": gaps,
        "error": guessed.standard_error, "confusions": right, "questions": len(asked),
        "slack": model.log_partition_bound_.slack, "sparse": size,
        "scores": sum(own.numel() for own in model.model_.parameters().values()),
    }  # fmt: skip


def _likeness(model: LanguageModel, text: Split) -> dict[str, Any]:
    """Rank correlation with people's scores: left vectors, and those of both sides together."""
    if text.likeness is None:
        return {}
    sets, words, own = reported(text.likeness), model.vocabulary_.words, model.model_.vectors
    kinds = {"likeness": own["left"], "likeness of all": torch.cat(list(own.values()), 1)}
    return {name: agreement(CosineSpace(words, kind.cpu()), sets) for name, kind in kinds.items()}


def _rival(text: Split, vocabulary: Vocabulary, order: int, gaps: int) -> dict[str, Any]:
    """Exact nats per position of the same count: words, and two separators a sentence."""
    read = {
        name: [vocabulary.decode(vocabulary.encode(line).tolist()) for line in own]
        for name, own in text.parts().items()
    }
    began = time.perf_counter()
    model = NgramLanguageModel(order).fit(read.pop("train"))
    seconds = time.perf_counter() - began
    found = {}
    for name, own in read.items():
        score = model.text_score(own)
        found[name] = score.log_likelihood / (score.words + CONTEXT * score.sentences)
    asked = questions(read["valid"], vocabulary, count=gaps)
    right = {
        name: accuracy(by_ngrams(model, sentence=whole), asked)
        for name, whole in (("confusions", True), ("confusions_left", False))
    }
    return found | right | {"seconds": seconds, "scores": sum(model.ngrams_)}
