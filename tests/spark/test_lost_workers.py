"""A worker that is killed in the middle of a job: the result is that of an undisturbed run.

The Java process of a worker (the executor) is ended by a task, once: with it go the blocks of data
that it kept, what it had made of them, and the answers that it had for others.  Meanwhile Spark
runs slow tasks a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mrflearn
from mrflearn.execution.executor import Executor
from mrflearn.execution.spark import HeldFrame, Spark
from support import tasks
from support.text_shards import write_shards

pytestmark = [
    # py4j leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
X = [[f"w{(3 * n + k) % 11}" for k in range(n % 5 + 1)] for n in range(60)]
Y = [[f"L{(n * k) % 3}" for k in range(n % 5 + 1)] for n in range(60)]


def crf(place: Executor, folder: Path) -> Any:
    """Training on held sequences."""
    examples = [list(zip(X[n::4], Y[n::4], strict=True)) for n in range(4)]
    with place.hold(examples) as held:
        fitted = mrflearn.CRF(features="words", c2=0.1, max_iterations=3).fit(held)
    return fitted.outcome_.value, *sorted(fitted.state_features_.items())


def lap(place: Executor, folder: Path) -> Any:
    paths = []
    for number, part in enumerate(np.random.default_rng(0).integers(0, 2, (4, 50, 9))):
        paths.append(folder / f"part-{number}.npy")
        np.save(paths[-1], part)
    field = mrflearn.MarkovField("grid:3x3", estimator="lap", l2=0.1).fit_shards(paths, place)
    return field.couplings_.tolist()


def em(place: Executor, folder: Path) -> Any:
    text = [[["the", "cat", "sat"], ["the", "dog", "ran"]], [["a", "cat", "ran"]] * 2] * 4
    model = mrflearn.CompositeLanguageModel(2, topics=2, max_iterations=2, rounds=1)
    return model.fit(text, executor=place).score_samples(text).tolist()


def counting(place: Executor, folder: Path) -> Any:
    with place.hold(write_shards(folder)[1]) as held:
        model = mrflearn.NgramLanguageModel(order=3).fit(held)
    model.export(folder / "model.arpa")
    return (folder / "model.arpa").read_text()


@pytest.mark.parametrize(("job", "number"), [(crf, 5), (lap, 1), (em, 3), (counting, 2)])
def test_a_job_outlives_a_worker(
    spark: Spark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: Callable[[Executor, Path], Any],
    number: int,
) -> None:
    """`number`: which of the job's tasks kills."""
    asked, answers = [0], HeldFrame._answers
    killed = tmp_path / "killed"

    def kills(self: HeldFrame[Any], task: Any, *rest: Any, **more: Any) -> Any:
        asked[0] += 1
        own = tasks.Kill(task, str(killed)) if asked[0] == number else task
        return answers(self, own, *rest, **more)

    undisturbed = job(spark, tmp_path)
    monkeypatch.setattr(HeldFrame, "_answers", kills)
    assert job(spark, tmp_path) == undisturbed
    assert killed.exists()


def test_a_task_that_runs_twice_counts_once(spark: Spark, tmp_path: Path) -> None:
    """The second copy of a slow task answers before the first."""
    items = [(number, str(tmp_path)) for number in range(8)]
    assert spark.total(tasks.slow_at_first, items) == sum(range(8))
    assert len(list(tmp_path.glob("3-*"))) == 2
