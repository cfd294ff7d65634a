from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.training.lbfgs import Point, strong_wolfe


def counted(value, slope):
    """A probe of a function of one number, and the list of steps it was asked for."""
    asked = []

    def probe(step):
        asked.append(step)
        return Point(step, value(step), slope(step))

    return probe, asked


def satisfies(found, start):
    lower = found.value <= start.value + 1e-4 * found.step * start.derivative
    return lower and abs(found.derivative) <= 0.9 * abs(start.derivative)


# The test functions of More & Thuente (1994), section 5, by value and slope.
FUNCTIONS = {
    "one": (lambda a: -a / (a * a + 2), lambda a: (a * a - 2) / (a * a + 2) ** 2),
    "two": (
        lambda a: (a + 0.004) ** 5 - 2 * (a + 0.004) ** 4,
        lambda a: 5 * (a + 0.004) ** 4 - 8 * (a + 0.004) ** 3,
    ),
    "parabola": (lambda a: (a - 3) ** 2, lambda a: 2 * (a - 3)),
    "quartic": (lambda a: (a - 1) ** 4 - a, lambda a: 4 * (a - 1) ** 3 - 1),
    "cosh": (lambda a: math.cosh(a - 2), lambda a: math.sinh(a - 2)),
    "wavy": (
        lambda a: -a + 0.1 * math.sin(5 * a) + 0.05 * a * a,
        lambda a: -1 + 0.5 * math.cos(5 * a) + 0.1 * a,
    ),
}


@pytest.mark.parametrize("first", [1e-3, 1e-1, 1.0, 1e1, 1e2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_strong_wolfe_conditions_hold(name, first):
    value, slope = FUNCTIONS[name]
    start = Point(0.0, value(0.0), slope(0.0))
    probe, asked = counted(value, slope)
    found = strong_wolfe(probe, start, first)
    assert found is not None
    assert satisfies(found, start)
    assert len(asked) <= 12


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 10), st.floats(1e-4, 1e4))
@settings(max_examples=50)
def test_any_convex_function_from_any_first_step(bend, minimum, tail, first):
    def value(a):
        return bend * (a - minimum) ** 2 + tail * abs(a - minimum) ** 3

    def slope(a):
        return 2 * bend * (a - minimum) + 3 * tail * (a - minimum) * abs(a - minimum)

    start = Point(0.0, value(0.0), slope(0.0))
    probe, asked = counted(value, slope)
    found = strong_wolfe(probe, start, first)
    assert found is not None
    assert satisfies(found, start)
    assert len(asked) <= 25


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("wall", [0.5, 2.0, 30.0])
def test_it_turns_back_from_where_there_is_no_number(bad, wall):
    value, slope = (lambda a: (a - 3) ** 2 if a < wall else bad), (lambda a: 2 * (a - 3))
    start = Point(0.0, 9.0, -6.0)
    probe, asked = counted(value, slope)
    found = strong_wolfe(probe, start, 100.0)
    assert found is not None
    assert found.value < 9.0
    assert found.step < wall
    assert len(asked) <= 25


def test_a_function_that_only_rises_has_no_answer():
    probe, asked = counted(lambda a: a, lambda a: -1.0)  # the slope lies
    assert strong_wolfe(probe, Point(0.0, 0.0, -1.0), 1.0) is None
    assert len(asked) <= 25


def test_rounding_of_the_value_does_not_stop_it():
    # The fall, 1e-9, is far below the rounding of the value, 1e-7; only the slope can be trusted.
    def value(a):
        return 1.0 + 1e-7 * (round(3 * a) % 2)

    probe, asked = counted(value, lambda a: 2e-9 * (a - 1))
    found = strong_wolfe(probe, Point(0.0, 1.0, -2e-9), 0.9, noise=1e-6)
    assert found is not None
    assert len(asked) == 1
    assert strong_wolfe(probe, Point(0.0, 1.0, -2e-9), 0.9, noise=0.0) is None


@pytest.mark.parametrize("before", [0.1, 1.0])
@pytest.mark.parametrize("beyond", [2.0, 1e3])
def test_a_corner_is_stepped_over(before, beyond):
    """Slopes of -before up to the corner at 1 and of `beyond` after it: none is small."""

    def value(a):
        return -before * a if a <= 1 else -before + beyond * (a - 1)

    probe, asked = counted(value, lambda a: -before if a <= 1 else beyond)
    found = strong_wolfe(probe, Point(0.0, 0.0, -before), 3.0)
    assert found is not None
    assert found.step > 1  # the quasi-Newton method sees the slope beyond
    assert found.value < 0
    assert len(asked) <= 25
