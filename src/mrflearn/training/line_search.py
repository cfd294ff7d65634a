"""A step length along one direction that satisfies the strong Wolfe conditions.

J. More and D. Thuente, Line search algorithms with guaranteed sufficient decrease, ACM TOMS 20
(1994); with the approximate conditions of W. Hager and H. Zhang, SIAM J. Optim. 16 (2005), eq. 4.1,
which go on working where the fall of the value is lost in rounding; and at a corner, where the
slope leaps past both, with the weak conditions of A. Lewis and M. Overton, Nonsmooth optimization
via quasi-Newton methods, Math. Programming 141 (2013).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, final

CORNER = 1e-2  # the width of a bracket, relative, below which a corner is looked for


class Point(NamedTuple):
    """A step length, the value there, and the slope along the direction there."""

    step: float
    value: float
    slope: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.slope)

    def tilted(self, slope: float) -> Point:
        """The same point of the function minus a straight line through the origin."""
        return Point(self.step, self.value - slope * self.step, self.slope - slope)


@final
@dataclass(frozen=True, slots=True)
class Bracket:
    """The best point, the other end, and whether a minimum is known to lie between them."""

    low: Point
    high: Point
    closed: bool = False

    @property
    def width(self) -> float:
        return abs(self.high.step - self.low.step)

    def middle(self) -> float:
        """Where the tangents of both ends meet, a little towards the far end.

        Half-way where the function is a parabola, just beyond the corner where it has one.
        """
        low, high = self.low, self.high
        width, turn = high.step - low.step, high.slope - low.slope
        share = (high.slope * width - (high.value - low.value)) / _nonzero(turn * width)
        share = share + 0.1 * (1 - share) if 0 < share < 1 else 0.5
        return low.step + width * share

    def leaps_like(self, wider: Bracket, first_slope: float) -> bool:
        """Whether the slope leaps in here as it did in a wider bracket, as it does at a corner.

        Between the ends of a narrow bracket a smooth slope changes by as much less as it is
        narrower.
        """
        leap, before = (abs(own.high.slope - own.low.slope) for own in (self, wider))
        narrower = self.width <= min(0.7 * wider.width, CORNER * self.low.step)
        return narrower and leap >= max(0.9 * before, -0.1 * first_slope)

    def tilted(self, slope: float) -> Bracket:
        return replace(self, low=self.low.tilted(slope), high=self.high.tilted(slope))


def strong_wolfe(
    probe: Callable[[float], Point],
    start: Point,
    first: float,
    *,
    noise: float = 0.0,
    decrease: float = 1e-4,
    curvature: float = 0.9,
    most: int = 25,
) -> Point | None:
    """A point that satisfies the conditions; else the lowest seen; None where none is lower.

    At a corner that is a point just beyond it, where the slope has leapt, if the value is low
    enough there: a quasi-Newton method learns of the corner by it.  `start` is the point at step 0,
    with a negative slope; `first` the step to try first; values that differ by less than `noise`
    count as equal.  Where `probe` gives inf or NaN, the search turns back.
    """
    bracket, width, earlier_width = Bracket(start, start), math.inf, math.inf
    earlier = bracket
    wall, step, tilt, early = math.inf, first, decrease * start.slope, True
    for _ in range(most):
        trial = probe(step)
        if not trial.finite:
            wall = step
            step = bracket.low.step + 0.25 * (step - bracket.low.step)
            continue
        if _accepts(trial, start, decrease, curvature, noise):
            return trial
        above_line = trial.value > start.value + tilt * step
        # [More & Thuente, section 3] Until a point below the line is past the minimum, the
        # function minus the line guides the search where the function itself might mislead it.
        early = early and (above_line or trial.slope < 0)
        lean = tilt if early and above_line and trial.value <= bracket.low.value else 0.0
        step, closed = next_step(bracket.tilted(lean), trial.tilted(lean))
        bracket = _narrowed(bracket, trial, lean, closed)
        if bracket.closed:
            if bracket.width >= 0.66 * earlier_width:
                step = bracket.middle()
            leapt = bracket.leaps_like(earlier, start.slope)
            if leapt and _low_enough(bracket.high, start, decrease, curvature):
                return bracket.high
            earlier_width, width, earlier = width, bracket.width, bracket
            if width <= 1e-10 * max(bracket.low.step, bracket.high.step):
                break
        if step >= wall:
            step = 0.5 * (bracket.low.step + wall)
        if step == bracket.low.step:
            break  # a value with noise can close the bracket to nothing
    return bracket.low if bracket.low.value < start.value - noise else None


def _low_enough(trial: Point, start: Point, decrease: float, curvature: float) -> bool:
    """The weak Wolfe conditions."""
    enough = trial.value <= start.value + decrease * trial.step * start.slope
    return enough and trial.slope >= curvature * start.slope


def _accepts(trial: Point, start: Point, decrease: float, curvature: float, noise: float) -> bool:
    enough = trial.value <= start.value + decrease * trial.step * start.slope
    if enough and abs(trial.slope) <= -curvature * start.slope:
        return True
    # [Hager & Zhang, eq. 4.1, with delta = 0.1]
    level = trial.value <= start.value + noise
    return level and curvature * start.slope <= trial.slope <= -0.8 * start.slope


def _narrowed(bracket: Bracket, trial: Point, lean: float, closed: bool) -> Bracket:
    low, leaning = bracket.low, trial.tilted(lean)
    if leaning.value > low.tilted(lean).value:
        return Bracket(low, trial, closed)
    crossed = leaning.slope * (trial.step - low.step) > 0
    return Bracket(trial, bracket.high if not crossed else low, closed)


def next_step(bracket: Bracket, trial: Point) -> tuple[float, bool]:
    """The next step to try, and whether the bracket is closed then [More & Thuente, section 4]."""
    low, high = bracket.low, bracket.high
    cubic = _cubic_minimum(low, trial)
    secant = trial.step + trial.slope * (low.step - trial.step) / _nonzero(trial.slope - low.slope)
    if trial.value > low.value:  # Case 1
        fall = (low.value - trial.value) / (trial.step - low.step) + low.slope
        quadratic = low.step + 0.5 * low.slope / _nonzero(fall) * (trial.step - low.step)
        nearer = abs(cubic - low.step) < abs(quadratic - low.step)
        return (cubic if nearer else 0.5 * (cubic + quadratic)), True
    if trial.slope * low.slope < 0:  # Case 2
        return max(cubic, secant, key=lambda step: abs(step - trial.step)), True
    if bracket.closed:
        floor, roof = sorted((low.step, high.step))
    else:
        floor, roof = (trial.step + k * (trial.step - low.step) for k in (1.1, 4.0))
    if abs(trial.slope) >= abs(low.slope):  # Case 4
        return (_cubic_minimum(trial, high) if bracket.closed else roof), bracket.closed
    # Case 3: the cubic helps only where its minimum lies beyond the trial.
    beyond = (cubic - trial.step) * (trial.step - low.step) > 0
    if not bracket.closed:
        far = max(cubic, secant) if beyond else max(roof, secant)
        return min(max(far, floor), roof), False
    near = min(cubic, secant, key=lambda s: abs(s - trial.step)) if beyond else secant
    guard = trial.step + 0.66 * (high.step - trial.step)
    return (min if trial.step > low.step else max)(guard, near), True


def _cubic_minimum(a: Point, b: Point) -> float:
    """The minimum of the cubic through two points and their slopes; inf where it has none."""
    if a.step == b.step:
        return a.step
    theta = 3 * (a.value - b.value) / (b.step - a.step) + a.slope + b.slope
    scale = max(abs(theta), abs(a.slope), abs(b.slope))
    inside = (theta / scale) ** 2 - (a.slope / scale) * (b.slope / scale) if scale else -1.0
    if inside < 0:
        return math.inf
    root = math.copysign(scale * math.sqrt(inside), b.step - a.step)
    ratio = (b.slope + root - theta) / _nonzero(b.slope - a.slope + 2 * root)
    return b.step - ratio * (b.step - a.step)


def _nonzero(number: float) -> float:
    return number or math.ulp(0.0)
