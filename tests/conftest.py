"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mrflearn.data.ptb import read_trees
from mrflearn.data.trees import Tree

# A job started in the background ignores Ctrl-C and hands that down to its children; the tests of
# Ctrl-C need it to work, wherever they run.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines differ in speed; a slow one must not turn a true property into a failure.
# Every run draws new examples, so that many short runs see more than a long one.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("default")


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
