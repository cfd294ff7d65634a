"""A real cluster on loopback: the same answers as here, and none lost with a worker."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
import torch

from mrflearn import CompositeLanguageModel, MarkovField
from mrflearn.errors import DataError, ExecutionError, OutOfMemoryError
from mrflearn.execution import resources
from mrflearn.execution.executor import Executor, Serial
from mrflearn.execution.spark import Spark
from mrflearn.features.moments import count_text_shards
from mrflearn.features.observations import CountShard
from mrflearn.graph.builders import grid
from mrflearn.objectives.expected_counts import ExpectedCounts
from mrflearn.objectives.field_objectives import Criterion
from support import tasks
from support.command import run
from support.labelled_fields import assert_partitions_add_up, labelled
from support.spark_cluster import WITHOUT_SPARK
from support.text_shards import assert_same_moments, write_shards

pytest.importorskip("pyspark", reason=WITHOUT_SPARK)
pytestmark = [
    # py4j leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # Before version 2.6 torch warns of every pickled tensor.
    pytest.mark.filterwarnings("ignore:You are using `torch.load`:FutureWarning"),
]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("shards")
    rows = np.random.default_rng(0).integers(0, 2, (600, 9))
    rows[:, 1] = np.where(rows[:, 0] == 1, rows[:, 1], 0)
    paths = []
    for number, part in enumerate(np.array_split(rows, 6)):
        paths.append(folder / f"part-{number}.csv")
        np.savetxt(paths[-1], part, fmt="%d", delimiter=",")
    return paths


def cliques() -> CountShard:
    graph = grid(3, 3)
    return CountShard([(g.scope, graph.shape(g)) for g in graph.groups], graph.states)


def test_counts_on_the_cluster_are_those_here(spark: Spark, shards: list[Path]) -> None:
    there, here = (
        list(place.map_totals(cliques(), shards, itemgetter(1))) for place in (spark, Serial())
    )
    assert float(there[0][:, 0].sum()) == 600
    for found, wanted in zip(there, here, strict=True):
        assert torch.equal(found, wanted)


def test_lap_counted_and_solved_on_the_cluster_is_lap_here(
    spark: Spark, shards: list[Path]
) -> None:
    def learn(place: Executor) -> MarkovField:
        return MarkovField("grid:3x3", estimator="lap", l2=0.1).fit_shards(shards, place)

    there, here = learn(spark), learn(Serial())
    np.testing.assert_array_equal(there.couplings_, here.couplings_)
    whole = np.concatenate([np.loadtxt(p, dtype=int, delimiter=",") for p in shards])
    together = MarkovField("grid:3x3", estimator="lap", l2=0.1).fit(whole)
    np.testing.assert_allclose(there.couplings_, together.couplings_, atol=1e-9)


@pytest.mark.parametrize("estimator", ["ml", "pw-reweighted"])  # the rest by processes alone
def test_crf_estimators_on_the_cluster_are_those_here(spark: Spark, estimator: Criterion) -> None:
    ring = (4, {"unary": [(0,)], "pair": [(0, 1), (1, 2), (2, 3), (3, 0)]})
    assert_partitions_add_up(labelled(9, [ring] * 5, states=3), estimator, spark)


def test_text_counted_on_the_cluster_is_text_counted_here(spark: Spark, tmp_path: Path) -> None:
    whole, shards = write_shards(tmp_path)
    there = count_text_shards(shards, spark, min_count=2)
    assert_same_moments(there, count_text_shards([whole], Serial(), min_count=2))


def test_expected_counts_on_the_cluster_are_those_here(spark: Spark) -> None:
    text = [[["the", "cat", "sat"], ["the", "dog", "ran", "home"]], [["a", "cat", "ran"]] * 3] * 5
    model = CompositeLanguageModel(2, grammar=(2, 3), topics=2, max_iterations=1, rounds=1)
    model.fit(text)
    task = ExpectedCounts(model.fit_.model, torch.from_numpy(model._folded(text)[2].before))
    work = [batch for document in text for batch in model._ready([document])[1]]
    there, here = (place.total(task, work) for place in (spark, Serial()))
    assert there.log_likelihood == pytest.approx(here.log_likelihood, rel=1e-12)
    for name in ("weights", "tags", "rules", "start", "documents"):
        torch.testing.assert_close(getattr(there, name), getattr(here, name), rtol=1e-12, atol=0)


def test_an_error_comes_home_whole(spark: Spark, shards: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("0,1,0,1,0,1,0,1,0\n0,1\n")
    with pytest.raises(DataError, match=r"broken\.csv:2: 2 cells"):
        list(spark.map_totals(cliques(), [*shards, broken], itemgetter(1)))


def test_ctrl_c_does_what_it_did_before_there_was_a_cluster(spark: Spark) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("spark://127.0.0.1:9", "refused"),
        ("spark://127.0.0.1", "no port"),
        ("nonsense", "local"),
        ("local[2", "local"),
    ],
)
def test_a_master_that_is_not_there_is_named_at_once(master: str, reason: str) -> None:
    with pytest.raises(ExecutionError, match=f"no Spark at '{re.escape(master)}'.*{reason}"):
        Spark(master)


def test_what_shards_cannot_teach_is_refused_before_spark_starts(
    shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(Spark, "session", property(started.append))
    words = [str(path) for path in shards] + ["--engine", "spark", "--master", "local[2]"]
    failed = run("train", "field", *words, "--estimator", "pl", "-q", "-o", str(tmp_path / "m"))
    assert failed.code == 1
    assert "'pl' needs whole rows" in failed.err
    assert not started


def test_order_is_kept_and_nothing_is_nothing(spark: Spark) -> None:
    assert list(spark.map(abs, range(-20, 0))) == list(range(20, 0, -1))
    assert list(spark.map(abs, [])) == []
    assert list(spark.map(time.sleep, [0.0] * 3)) == [None] * 3  # an answer like any other
    assert spark.total(abs, range(-20, 0)) == 210
    with pytest.raises(ExecutionError, match="nothing to add up"):
        spark.total(abs, [])


def test_parts_are_added_up_and_worked_on(spark: Spark) -> None:
    expected = list(Serial().map_totals(tasks.powers, range(20), tasks.weighed))
    found = list(spark.map_totals(tasks.powers, range(20), tasks.weighed))
    assert found == pytest.approx(expected, rel=1e-12)
    with pytest.raises(DataError, match="here:3: three is no number"):
        spark.map_totals(tasks.complain_of_parts, range(9), tasks.weighed)
    with pytest.raises(ExecutionError, match="nothing to add up"):
        spark.map_totals(tasks.powers, [], tasks.weighed)


def test_a_session_that_ran_before_is_never_stopped(spark: Spark) -> None:
    for place in (Spark(spark.session), Spark()):
        with place:
            assert place.session is spark.session
        assert spark.session.range(3).count() == 3
    with ThreadPoolExecutor(1) as thread, Spark() as place:
        assert thread.submit(lambda: place.session).result() is spark.session
    assert spark.session.range(3).count() == 3


def test_spark_connect_does_the_same(
    spark: Spark, connected: Spark, shards: list[Path], tmp_path: Path
) -> None:
    assert not hasattr(connected.session, "_jsparkSession")
    field = MarkovField("grid:3x3", estimator="lap", l2=0.1)
    there, here = (field.fit_shards(shards, own).couplings_.tolist() for own in (connected, spark))
    assert there == here
    with connected.hold(range(20), tasks.third) as held:
        for _ in range(2):  # the second time names alone are sent
            assert held.total(abs) == spark.total(tasks.third, range(20))
    with pytest.raises(DataError, match="here:3: three is no number"):
        list(connected.map(tasks.complain, range(5)))
    connected.close()
    assert spark.session.range(3).count() == 3  # the server goes on


def test_what_the_driver_cannot_hold_is_refused_with_an_estimate(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.session.createDataFrame([("a b c" * 1000,)] * 20, "text string")
    monkeypatch.setattr(resources, "available_memory", lambda *_: 50_000)
    with pytest.raises(OutOfMemoryError, match=r"column.* text .*KB.*50 KB is available"):
        spark.collect(frame, ["text"])
    with pytest.raises(OutOfMemoryError, match=r"sending 5 items.*KB"):
        list(spark.map(len, ["x" * 20_000] * 5))
    with pytest.raises(OutOfMemoryError, match=r"results of 80[.\d]* KB for each block"):
        spark.total(tasks.long_list, [10_000])


def test_an_evaluation_sends_parameters_alone(spark: Spark) -> None:
    """Neither data nor what was made of them go out again.

    A task is asked for once more of workers that Spark has replaced: then it is sent again, too.
    """
    with spark.hold(range(40), tasks.third) as held:
        expected, sent = held.total(abs), list[int]()
        while len(sent) < 5 and min(sent, default=math.inf) >= 2 * 400_000:
            before = spark.sent
            assert held.total(tasks.Vector(torch.zeros(100_000))) == expected
            sent.append(spark.sent - before)
        assert min(sent) < 2 * 400_000


def test_the_first_item_is_looked_at_alone(spark: Spark, tmp_path: Path) -> None:
    items = [(number, str(tmp_path)) for number in range(9)]
    with spark.hold(items) as held:
        assert held.first(tasks.noted_in_folder) == 0
        assert len(list(tmp_path.iterdir())) < 9
        assert list(held.map(tasks.noted_in_folder)) == list(range(9))
    assert spark.hold([]).first(abs) is None


def test_only_failures_of_spark_are_told_as_such(spark: Spark) -> None:
    with pytest.raises(ExecutionError, match="Spark job failed"):
        spark._rows(spark.session.range(3).mapInArrow(_fail, "id long"), "id")


def _fail(batches: object) -> Iterator[object]:
    raise LookupError("on a worker")
    yield batches
