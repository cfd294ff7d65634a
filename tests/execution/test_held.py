"""Data that stay with an executor: made once, made again where they were lost, bounded."""

from __future__ import annotations

import os
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError, ExecutionError
from mrflearn.execution.executor import Executor, Processes, Serial
from mrflearn.execution.held import Store, narrowed
from mrflearn.execution.spark_tasks import _content
from support import tasks


@pytest.fixture(params=["serial", "processes"])
def place(request: pytest.FixtureRequest, processes: Processes) -> Executor:
    return Serial() if request.param == "serial" else processes


def test_tasks_are_about_what_was_made(place: Executor) -> None:
    with place.hold(range(20), tasks.third) as held:
        assert list(held.map(abs)) == [n / 3 for n in range(20)]
        assert held.total(abs) == place.total(tasks.third, range(20))
        further = held.then(tasks.powers)
        assert list(further.map(len)) == [3] * 20
        expected = list(place.map_totals(tasks.powers, [n / 3 for n in range(20)], tasks.weighed))
        assert list(held.map_totals(tasks.powers, tasks.weighed)) == expected


def test_each_process_makes_an_item_once(processes: Processes) -> None:
    with processes.hold(range(6), tasks.maker) as held:
        found = {answer for _ in range(5) for answer in held.map(tasks.seen)}
    for number in range(6):
        made = [place for own, place in found if own == number]
        assert len(made) == len({pid for pid, _ in made})


def test_an_error_in_making_comes_back_whole(place: Executor) -> None:
    with place.hold(range(5), tasks.complain) as held, pytest.raises(DataError) as caught:
        list(held.map(abs))
    assert caught.value.line == 3


def test_nothing_held_has_no_sum(place: Executor) -> None:
    with place.hold([]) as held, pytest.raises(ExecutionError, match="nothing to add up"):
        held.total(abs)


def test_items_in_another_process_stay_there_until_released(processes: Processes) -> None:
    held = processes.hold([0], tasks.process)
    assert list(held.map(int)) != [os.getpid()]
    held.release()
    with pytest.raises(FileNotFoundError):
        list(held.map(int))


def test_a_store_gives_up_what_was_not_asked_for_longest() -> None:
    store, made = Store(limit=100), list[str]()

    def make(name: str) -> str:
        made.append(name)
        return name

    def ask(names: str) -> None:
        for name in names:
            assert store.get(name, partial(make, name), 10) == name

    ask("abab")  # 40 bytes each
    assert made == ["a", "b"]
    ask("ca")  # b was asked for last, so a made room for c, and now b for a
    assert made == ["a", "b", "c", "a"]
    assert "b" not in store
    store.get("large", lambda: "large", 1000)  # held all the same, alone
    assert "large" in store
    assert "a" not in store


@given(st.lists(st.integers(-(2**40), 2**40)))
def test_narrowed_integers_are_the_same(numbers: list[int]) -> None:
    assert narrowed(np.array(numbers, dtype=np.int64)).tolist() == numbers


@given(st.lists(st.floats(allow_nan=False) | st.integers(-1000, 1000)))
def test_narrowed_values_are_the_same(values: list[float]) -> None:
    assert narrowed(np.array(values, dtype=np.float64)).astype(np.float64).tolist() == values


def test_narrowed_counts_take_few_bytes() -> None:
    assert narrowed(np.array([0.0, 255.0])).dtype == np.uint8
    assert narrowed(np.array([0.0, -256.0])).dtype == np.int16
    assert narrowed(np.array([0.5, 3.0])).dtype == np.float32
    assert narrowed(np.array([0.1, 3.0])).dtype == np.float64


def test_counts_arrive_from_spark_as_they_were() -> None:
    for own in (torch.arange(6.0).view(2, 3).T, torch.tensor([0.1, 2.0]), torch.zeros(0, 3)):
        found = pickle.loads(_content([own.double()]))[0]
        assert torch.equal(found, own.double())
        assert found.shape == own.shape
    assert len(_content(torch.full((10_000,), 65_000.0, dtype=torch.float64))) < 21_000
