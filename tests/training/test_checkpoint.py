from __future__ import annotations

import contextlib
import signal
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from mrflearn.errors import StorageError, TrainingError
from mrflearn.objectives.problem import Penalty
from mrflearn.training.checkpoint import Checkpoint, read_checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import EarlyStopping
from mrflearn.training.owlqn import OWLQN
from mrflearn.training.sgd import SGD, Adagrad, Adam
from support.functions import fit, minimise
from support.problems import LogisticLoss, blank_model, examples, split


def batches(dtype):
    """Examples whose features differ in scale, so that thirty iterations are too few."""
    data = examples(300, 40, seed=9, dtype=dtype)
    return split(data._replace(features=data.features * torch.logspace(-1, 1, 40)), 6)


BATCHES = {dtype: batches(dtype) for dtype in (torch.float32, torch.float64)}
FULL = {"tolerance": None, "delta": None, "history": 5}
CASES = {
    "lbfgs": (lambda n: LBFGS(n, **FULL), Penalty(l2=1e-3)),
    "owlqn": (lambda n: OWLQN(n, **FULL), Penalty({"weights": 0.5}, {"weights": 1e-3})),
    "sgd": (lambda n: SGD(0.01, n, decay=0.1), Penalty(l2=1e-3)),
    "averaged sgd": (lambda n: SGD(0.01, n, average_from=5), Penalty(l2=1e-3)),
    "adam": (lambda n: Adam(0.1, n, average_from=2, average_over=9), Penalty(l2=1e-3)),
    "adagrad": (lambda n: Adagrad(0.1, n), Penalty(l2=1e-3)),
}


PLAIN = Penalty(l2=1e-3)


def train(optimiser, penalty=PLAIN, dtype=torch.float64, **options):
    model = options.pop("model", blank_model(40, dtype))
    options.setdefault("seed", 7)
    batches = options.pop("batches", BATCHES[dtype])
    return fit(model, batches, LogisticLoss(), optimiser, penalty=penalty, **options)


def assert_same(one, other):
    assert torch.equal(one.model.weights, other.model.weights)
    assert torch.equal(one.model.intercept, other.model.intercept)
    assert one.value == other.value
    assert (one.iterations, one.evaluations) == (other.iterations, other.evaluations)
    for ours, theirs in zip(one.history, other.history, strict=True):
        assert ours._replace(seconds=0) == theirs._replace(seconds=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_thirty_iterations_are_thirteen_and_seventeen(name, dtype, tmp_path):
    make, penalty = CASES[name]
    path = tmp_path / "training.safetensors"
    straight = train(make(30), penalty, dtype)
    first = train(make(13), penalty, dtype, checkpoint=path)
    second = train(make(30), penalty, dtype, checkpoint=path, resume=True)
    assert (first.iterations, second.iterations) == (13, 30)
    # The first part had to evaluate its own answer where iterates have no exact value.
    assert_same(second, straight)
    assert second.seconds >= first.history[-1].seconds


@pytest.mark.parametrize("name", CASES)
def test_a_training_interrupted_anywhere_resumes_to_the_same_bits(name, tmp_path):
    make, penalty = CASES[name]
    path = tmp_path / "training.safetensors"
    straight = train(make(30), penalty)
    calls = 0

    class Interrupted(LogisticLoss):
        def __call__(self, model, batch):
            nonlocal calls
            calls += 1
            if calls % 41 == 0:  # in the middle of epochs and of line searches
                signal.raise_signal(signal.SIGINT)
            return super().__call__(model, batch)

    def go_on(resume):
        options = {"penalty": penalty, "checkpoint": path, "resume": resume, "seed": 7}
        return fit(blank_model(40), BATCHES[torch.float64], Interrupted(), make(30), **options)

    outcome, stops = go_on(resume=False), 0
    while outcome.ending == "interrupted":
        outcome, stops = go_on(resume=True), stops + 1
    assert stops >= 3
    assert outcome.iterations == 30
    assert torch.equal(outcome.model.weights, straight.model.weights)


@pytest.mark.parametrize("limit", range(2, 16))
@pytest.mark.parametrize("kind", [LBFGS, OWLQN])
def test_a_search_broken_off_where_there_is_no_number(kind, limit, tmp_path):
    def function(x):  # no number from 0 down, where the first steps lead
        weights = torch.arange(1.0, 5.0, dtype=torch.float64)
        return (weights * x - 0.01 * x.log()).sum(), weights - 0.01 / x

    start = torch.full((4,), 2.0, dtype=torch.float64)
    straight = minimise(function, start, kind(delta=None))
    first = minimise(function, start, kind(max_evaluations=limit), checkpoint=tmp_path / "c")
    assert first.ending == "limit"
    resumed = minimise(function, start, kind(delta=None), checkpoint=tmp_path / "c", resume=True)
    assert straight.converged
    assert torch.equal(resumed.model, straight.model)


def test_early_stopping_goes_on_where_it_was(tmp_path):
    def score(model):
        return -abs(float(model.weights.norm()) - 1.5)

    def watched(limit, **options):
        early = EarlyStopping(score, patience=10)
        return train(LBFGS(limit, **FULL), callbacks=[early], **options)

    straight = watched(30)
    watched(9, checkpoint=tmp_path / "c")
    resumed = watched(30, checkpoint=tmp_path / "c", resume=True)
    assert straight.ending == "validation"
    assert_same(resumed, straight)
    assert resumed.reason == straight.reason


def test_saving_follows_the_iterations(tmp_path):
    path, seen = tmp_path / "c", []

    def look(step):
        seen.append(int(read_checkpoint(path)[1]["state.numbers"][-3]) if path.exists() else None)

    checkpoint = Checkpoint(path, every_iterations=3, every_seconds=None)
    train(LBFGS(8, **FULL), callbacks=[look], checkpoint=checkpoint)
    assert seen == [None, None, None, 3, 3, 3, 6, 6]
    assert int(read_checkpoint(path)[1]["state.numbers"][-3]) == 8


def test_a_finished_training_stays_finished(tmp_path):
    done = train(LBFGS(500), checkpoint=tmp_path / "c")
    again = train(LBFGS(500), checkpoint=tmp_path / "c", resume=True)
    assert_same(again, done)
    assert again.reason == done.reason


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("training") / "c"
    train(LBFGS(4, **FULL), checkpoint=path)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"optimiser": OWLQN(9, **FULL)}, "optimiser was 'LBFGS' and is 'OWLQN'"),
        ({"optimiser": LBFGS(9, history=6)}, "optimiser.history was 5 and is 6"),
        ({"penalty": Penalty(l1=2.0)}, r"penalty was 'Penalty\(.*' and is 'Penalty\(l1=2"),
        ({"dtype": torch.float32}, "dtype was 'float64' and is 'float32'"),
        ({"batches": BATCHES[torch.float64][:5]}, "batches was 6 and is 5"),
        ({"seed": 8}, "seed was 7 and is 8"),
        ({"model": blank_model(39)}, r"parameters was \{'weights': \[40\]"),
        ({"callbacks": [EarlyStopping(lambda m: 0.0)]}, "early stopping was 0 and is 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_checkpoint_of_another_training_is_refused(saved, change, words):
    call = {"optimiser": LBFGS(9, **FULL), "checkpoint": saved, "resume": True} | change
    with pytest.raises(TrainingError, match=words):
        train(**call)


@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_truncated_checkpoint_says_so(saved, data, tmp_path):
    content = saved.read_bytes()
    path = tmp_path / "short"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(StorageError, match="truncated, damaged"):
        train(LBFGS(9, **FULL), checkpoint=path, resume=True)


@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_header_gives_no_other_error(saved, data, tmp_path):
    content = bytearray(saved.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    content[data.draw(st.integers(0, header - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with contextlib.suppress(StorageError, TrainingError):
        train(LBFGS(5, **FULL), checkpoint=path, resume=True)


def test_a_checkpoint_of_older_code_is_refused(tmp_path):
    """Under the names of version 1, the state of reparametrised objectives would not be found."""
    path = tmp_path / "old"
    train(LBFGS(3, **FULL), checkpoint=path)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata | {"version": "1"})
    with pytest.raises(StorageError, match=r"checkpoint version 1;.*Train without resume"):
        train(LBFGS(5, **FULL), checkpoint=path, resume=True)


def test_foreign_files(tmp_path):
    foreign = tmp_path / "foreign"
    save_file({"weights": torch.zeros(3)}, foreign)
    with pytest.raises(StorageError, match="no training checkpoint"):
        train(LBFGS(), checkpoint=foreign, resume=True)
    save_file(
        {"w": torch.zeros(3)}, foreign, {"format": "mrflearn training checkpoint", "version": "9"}
    )
    with pytest.raises(StorageError, match="version 9"):
        train(LBFGS(), checkpoint=foreign, resume=True)
    with pytest.raises(StorageError, match="no checkpoint to resume"):
        train(LBFGS(), checkpoint=tmp_path / "absent", resume=True)
    with pytest.raises(StorageError, match="cannot be written"):
        train(LBFGS(), checkpoint=tmp_path / "no" / "such" / "folder")
    with pytest.raises(StorageError, match="not gzipped"):
        train(LBFGS(), checkpoint=tmp_path / "c.gz")
    with pytest.raises(StorageError, match="is one file"):
        train(LBFGS(), checkpoint=tmp_path)


def test_limits_may_change(tmp_path):
    train(LBFGS(3, **FULL), checkpoint=tmp_path / "c")
    other = replace(LBFGS(5, **FULL), tolerance=1e-3, max_evaluations=99, delta=1e-3)
    assert train(other, checkpoint=tmp_path / "c", resume=True).iterations == 5
