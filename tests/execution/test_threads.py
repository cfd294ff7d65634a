"""Torch is kept to one thread within a block, and left as it was; pools keep order."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import numpy as np
import pytest
import torch

from mrflearn import CRF, JointTagger
from mrflearn.estimators.tagger import _chains
from mrflearn.execution.resources import Threads, one_thread


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_there_is_one_thread_within_the_block_only() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_threads_are_put_back_after_an_error() -> None:
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_block_changes_nothing_for_threads_that_start_meanwhile() -> None:
    found: list[int] = []

    def compute() -> None:
        found.append(torch.get_num_threads())
        with one_thread():
            found.append(torch.get_num_threads())
        found.append(torch.get_num_threads())

    with one_thread():
        other = Thread(target=compute)
        other.start()
        other.join()
    assert found == [2, 1, 2]


@pytest.mark.usefixtures("two_threads")
def test_blocks_of_many_threads_that_overlap_leave_the_count_alone() -> None:
    turns = Barrier(4)

    def compute(_: int) -> int:
        turns.wait(30)
        with one_thread():
            turns.wait(30)
            torch.ones(3).sum()
        return torch.get_num_threads()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(compute, range(8))) == [2] * 8
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_matrix_products_keep_to_one_thread_and_go_back() -> None:
    def of_mkl() -> list[str]:
        info = torch.__config__.parallel_info().splitlines()
        return [line.split(":")[1].strip() for line in info if "mkl_get_max_threads" in line]

    before = of_mkl()
    with one_thread():
        assert of_mkl() in ([], ["1"])
    assert of_mkl() == before


@pytest.mark.usefixtures("two_threads")
def test_fits_in_two_threads_leave_torch_as_it_was() -> None:
    rows = [["sunny", "walk"], ["rainy", "shop", "clean"], ["sunny", "shop"]] * 4
    labels = [["a", "b"], ["b", "a", "a"], ["a", "a"]] * 4

    def fit(_: int) -> np.ndarray:
        model = CRF(max_iterations=5).fit([[{"w": w} for w in row] for row in rows], labels)
        found = model.predict([[{"w": w} for w in row] for row in rows])
        assert torch.is_grad_enabled()
        assert torch.get_num_threads() == 2
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(fit, range(2))
    assert first.tolist() == second.tolist()
    assert torch.get_num_threads() == 2
    assert torch.is_grad_enabled()


@pytest.mark.usefixtures("two_threads")
def test_answers_left_half_way_leave_torch_as_it_was() -> None:
    sentences, tags = [["the", "dog"], ["a", "cat"]] * 3, [["D", "N"], ["D", "N"]] * 3
    crf = CRF(max_iterations=2).fit([[{"w": w} for w in s] for s in sentences], tags)
    next(crf._chains([[{"w": w} for w in s] for s in sentences]))
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (2, True)
    tagger = JointTagger(max_iterations=2).fit(sentences, tags)
    next(_chains(tagger.learned_, sentences))
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (2, True)


@pytest.mark.parametrize("count", [1, 3])
def test_results_come_in_order_and_torch_is_left_alone(count: int) -> None:
    before = torch.get_num_threads()
    with Threads(count) as threads:
        assert torch.get_num_threads() == 1
        found = threads.map(lambda n: (n * n, torch.get_num_threads()), range(20))
    assert found == [(n * n, 1) for n in range(20)]
    assert torch.get_num_threads() == before


def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError), Threads(2) as threads:
        threads.map(lambda n: 1 // n, [1, 0])
