"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
import platform
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from hypothesis import HealthCheck, settings

from mrflearn.execution.executor import Processes
from mrflearn.execution.spark import Spark
from mrflearn.io.ptb import read_trees
from mrflearn.io.trees import Tree
from support.spark_cluster import SparkCluster, why_not

# A job started in the background ignores Ctrl-C and hands that down to its children; the tests of
# Ctrl-C need it to work, wherever they run.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines differ in speed; a slow one must not turn a true property into a failure.
# Every run draws new examples, so that many short runs see more than a long one.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("default")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped and why, and with what the rest was computed, a line each."""
    # With several processes each reports the modules that skip as a whole: by name they count once.
    skipped = {report.nodeid: report for report in terminalreporter.getreports("skipped")}
    why = Counter(_reason(report) for report in skipped.values())
    if why:
        listed = "; ".join(f"{reason} ({count})" for reason, count in why.most_common())
        terminalreporter.write_line(f"skipped: {listed}")
    capability = torch.backends.cpu.get_cpu_capability()
    versions = ", ".join(f"{package.__name__} {package.__version__}" for package in (np, scipy))
    terminalreporter.write_line(
        f"Python {platform.python_version()}, torch {torch.__version__} ({capability}, "
        f"{torch.get_num_threads()} threads), {versions}"
    )


def _reason(report: pytest.TestReport) -> str:
    *_, reason = report.longrepr if isinstance(report.longrepr, (tuple, list)) else ("unknown",)
    return str(reason).removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Two processes for all tests that ask for some: starting them takes longer than the work."""
    with Processes(2) as place:
        yield place


@pytest.fixture
def shared_processes(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test asks of processes of its own (`n_jobs=2`) is done by those of all tests."""
    pool = processes._started()
    monkeypatch.setattr(Processes, "_started", lambda _: pool)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets; tests that need it skip where it is absent."""
    folder = os.environ.get("MRFLEARN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets are not at hand: set MRFLEARN_DATA to their folder")
    return Path(folder)


@pytest.fixture(scope="session")
def treebank(data_folder: Path) -> list[Tree]:
    """The trees of the treebank sample, with their traces."""
    return list(read_trees(data_folder / "treebank-sample" / "trees.mrg"))


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[SparkCluster]:
    """A cluster of two workers with one core each, for all tests of a process that ask for it."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    # Virtual machines that live for seconds: the thorough compiler would take half their time.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        with SparkCluster(workers=2, cores=1) as running:
            yield running


@pytest.fixture(scope="session")
def spark(spark_cluster: SparkCluster) -> Iterator[Spark]:
    """An executor on that cluster; its driver is a server of Spark Connect too."""
    with spark_cluster.executor() as place:
        yield place


@pytest.fixture(scope="session")
def connected(spark: Spark, spark_cluster: SparkCluster) -> Iterator[Spark]:
    """The same cluster by Spark Connect."""
    assert spark.session is not None  # the server has started
    with Spark(spark_cluster.connect_url) as place:
        yield place
