"""A training that was killed and resumed ends with the same bits as one that was not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mrflearn import (
    CRF,
    CompositeLanguageModel,
    FactorialCRF,
    GraphCRF,
    JointTagger,
    LanguageModel,
    MarkovField,
    NeuralCRF,
    PottsField,
    SkipChainCRF,
)
from mrflearn.errors import TrainingError
from mrflearn.training.checkpoint import Checkpoint
from support.toy_language import toy_sentences

Fit = Callable[..., Any]


class KilledError(BaseException):
    """Nobody handles this, as nobody handles a signal."""


WORDS, TAGS = toy_sentences(40, seed=3)
ITEMS = [[[f"w={word}", f"e={word[-1]}"] for word in own] for own in WORDS]
LAYERS = [[own, [word[0] for word in words]] for own, words in zip(TAGS, WORDS, strict=True)]
SEED = 0  # of the samples of fields


def language_model(**settings: Any) -> Fit:
    settings = {"dims": 3, "max_iterations": 12, **settings}
    return lambda **saved: LanguageModel(**settings).fit(WORDS, validation=WORDS[:9], **saved)


def crf(**settings: Any) -> Fit:
    settings = {"max_iterations": 12, "n_jobs": 1, **settings}
    return lambda **saved: CRF(**settings).fit(ITEMS, TAGS, ITEMS[:9], TAGS[:9], **saved)


def neural(**settings: Any) -> Fit:
    settings = {"features": "words", "dims": 8, "hidden": 8, "max_iterations": 6, **settings}
    return lambda **saved: NeuralCRF(**settings).fit(WORDS, TAGS, **saved)


def tagger(*, known: bool = True, **settings: Any) -> Fit:
    settings = {"max_iterations": 12, "rounds": 2, **settings}
    tags = TAGS if known else [*TAGS[:20], *[None] * (len(TAGS) - 20)]
    return lambda **saved: JointTagger(**settings).fit(WORDS, tags, **saved)


def factorial(estimator: str) -> Fit:
    model = FactorialCRF(estimator, max_iterations=8, n_jobs=1)
    return lambda **saved: model.fit(ITEMS, LAYERS, **saved)


def skip_chain(**saved: Any) -> SkipChainCRF:
    model = SkipChainCRF("bp", rule="same-word", start="chain", max_iterations=5, n_jobs=1)
    return model.fit(ITEMS, TAGS, words=WORDS, **saved)


def graph_crf(**saved: Any) -> GraphCRF:
    import networkx as nx

    graphs = []
    for own in ITEMS:
        graph = nx.cycle_graph(max(3, len(own)))
        for node in graph:
            graph.nodes[node]["features"] = own[node % len(own)]
        graphs.append(graph)
    labels = [
        {node: own[node % len(own)] for node in graph}
        for graph, own in zip(graphs, TAGS, strict=True)
    ]
    return GraphCRF("bp", max_iterations=6, n_jobs=1).fit(graphs, labels, **saved)


def composite(**saved: Any) -> CompositeLanguageModel:
    documents = [WORDS[k : k + 5] for k in range(0, 40, 5)]
    model = CompositeLanguageModel(2, grammar="latent:3,4", topics=2, max_iterations=4, longest=12)
    return model.fit(documents, **saved)


def field(estimator: str, **settings: Any) -> Fit:
    import numpy as np

    def fit(**saved: Any) -> MarkovField:
        generator = np.random.default_rng(SEED)
        rows = generator.integers(0, 2, (300, 9))
        rows[:, 1:] = np.where(generator.random((300, 8)) < 0.3, rows[:, :-1], rows[:, 1:])
        model = MarkovField("grid:3x3", estimator=estimator, **{"l2": 0.1, **settings})
        return model.fit(rows, **saved)

    return fit


def potts(**saved: Any) -> PottsField:
    import numpy as np

    rows = np.random.default_rng(SEED + 1).integers(0, 4, (200, 8))
    return PottsField(identity=None).fit(rows, **saved)


TRAININGS: dict[str, Fit] = {
    "field pl": field("pl"),
    "field ml": field("ml"),
    "field bp": field("bp"),
    "field l1": field("pl", l1=0.5),
    "potts": potts,
    "lm stars": language_model(bound="stars"),
    "lm chains": language_model(bound="chains"),
    "lm chains float32": language_model(bound="chains", dtype="float32"),
    "lm windows": language_model(bound="windows"),
    "lm triples": language_model(triples=True, dtype="float32"),
    "crf lbfgs": crf(),
    "crf l1": crf(c1=0.1, c2=0.1),
    "crf l2sgd": crf(algorithm="l2sgd"),
    "crf ap": crf(algorithm="ap"),
    "crf bp": crf(estimator="bp"),
    "neural": neural(batch_size=8),
    "neural by validation": neural(held_out=0.3, patience=2, max_iterations=8),
    "crf pwpl": crf(estimator="pwpl"),
    "factorial bp": factorial("bp"),
    "factorial pw": factorial("pw"),
    "skip chain": skip_chain,
    "graph": graph_crf,
    "tagger chains": tagger(),
    "tagger stars": tagger(bound="stars"),
    "tagger with gaps": tagger(known=False),
    "composite": composite,
}


def tensors_of(model: Any) -> dict[str, torch.Tensor]:
    return dict(model._learned_parts()[1])


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ends a training right after so many checkpoints were written."""
    real = Checkpoint.write

    def after(count: int) -> None:
        left = [count]

        def write(self: Checkpoint, *arguments: Any) -> None:
            real(self, *arguments)
            left[0] -= 1
            if not left[0]:
                raise KilledError

        monkeypatch.setattr(Checkpoint, "write", write)

    return after


@pytest.mark.parametrize("name", TRAININGS)
def test_a_killed_training_is_resumed_to_the_same_bits(
    name: str, killing: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = TRAININGS[name]
    whole = tensors_of(fit())
    for count in (1, 4):
        saved = Checkpoint(tmp_path / f"c{count}", every_iterations=1, every_seconds=None)
        killing(count)
        with pytest.raises(KilledError):
            fit(checkpoint=saved)
        monkeypatch.undo()
        resumed = tensors_of(fit(checkpoint=saved, resume=True))
        assert resumed.keys() == whole.keys()
        for part, expected in whole.items():
            assert torch.equal(resumed[part], expected), (count, part)


def turn_first(examples: list[Any]) -> list[Any]:
    """The same examples, but for the order within the first one."""
    return [examples[0][::-1], *examples[1:]]


@pytest.mark.parametrize("name", [*TRAININGS, "field lap", "tags alone", "held-out tags alone"])
def test_a_checkpoint_of_other_data_of_the_same_size_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {"field lap": field("lap"), "tags alone": crf(), "held-out tags alone": crf()}
    fit, file = (TRAININGS | alone)[name], tmp_path / "finished.ckpt"
    whole = tensors_of(fit(checkpoint=file))
    here = sys.modules[__name__]
    changed = {"WORDS": turn_first(WORDS), "ITEMS": turn_first(ITEMS), "SEED": 7}
    changed["LAYERS"] = [[own[::-1] for own in LAYERS[0]], *LAYERS[1:]]
    if name == "tags alone":
        changed = {"TAGS": turn_first(TAGS)}
    elif name == "held-out tags alone":
        changed = {"TAGS": HeldOut(TAGS)}
    for variable, value in changed.items():
        monkeypatch.setattr(here, variable, value)
    with pytest.raises(TrainingError, match=file.name):
        fit(checkpoint=file, resume=True)
    monkeypatch.undo()
    resumed = tensors_of(fit(checkpoint=file, resume=True))
    assert all(torch.equal(resumed[part], value) for part, value in whole.items())


class HeldOut(list[list[str]]):
    """Tags whose slices begin with another one: only what is held out is a slice."""

    def __getitem__(self, key: Any) -> Any:
        return (
            turn_first(super().__getitem__(key))
            if isinstance(key, slice)
            else super().__getitem__(key)
        )


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    field("lap", l2=0.1)(checkpoint=tmp_path / "c")
    with pytest.raises(TrainingError):
        field("lap", l2=10.0)(checkpoint=tmp_path / "c", resume=True)


def test_a_checkpoint_goes_with_any_number_of_threads(tmp_path: Path) -> None:
    crf(n_jobs=1, max_iterations=2)(checkpoint=tmp_path / "c")
    resumed = crf(n_jobs=2, max_iterations=4)(checkpoint=tmp_path / "c", resume=True)
    assert resumed.outcome_.iterations == 4


@pytest.mark.parametrize("missing", [False, True])
def test_blocks_that_were_solved_are_not_solved_again(
    missing: bool, killing: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from mrflearn.training import lap

    monkeypatch.setattr(lap, "MOST_PROBLEMS", 3)  # several blocks, though there are few cliques
    rows = np.random.default_rng(0).integers(0, 2, (300, 9))
    if missing:
        rows[::7, 3] = -1
    solved: list[object] = []
    real = lap.SolveBlock.__call__

    def count(self: Any, block: Any) -> Any:
        solved.append(block)
        return real(self, block)

    monkeypatch.setattr(lap.SolveBlock, "__call__", count)
    model = MarkovField("grid:3x3", estimator="lap", l2=0.1)
    whole = tensors_of(model.fit(rows))
    blocks = len(solved)
    saved = Checkpoint(tmp_path / "c", every_iterations=1, every_seconds=None)
    write = Checkpoint.write
    killing(2)
    with pytest.raises(KilledError):
        model.fit(rows, checkpoint=saved)
    monkeypatch.setattr(Checkpoint, "write", write)
    solved.clear()
    resumed = tensors_of(model.fit(rows, checkpoint=saved, resume=True))
    assert len(solved) == blocks - 2
    for part, expected in whole.items():
        assert torch.equal(resumed[part], expected), part
