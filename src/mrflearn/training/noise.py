"""How far values of a function can be trusted, measured where it is evaluated.

J. More and S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011): along a line of
equally spaced points, differences of high order of a smooth function vanish and those of its noise
do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

POINTS = 7
SMALLEST_SCALE = 1e-3  # of a parameter's change, relative to the step: many parameters start as 0


def measure_noise(
    value: Callable[[Tensor], float], vector: Float[Tensor, "p"], seed: int = 0
) -> float:
    """The standard deviation of the noise of `value` near a vector; 0 where none shows.

    Parameters move up or down at random, by the square root of their type's rounding: far enough
    to change the rounding of every term, near enough for the function to be a polynomial of low
    degree.  NaN and inf among the values count as noise without bounds.
    """
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, vector.shape, generator=generator).to(vector) * 2 - 1
    typical = max(float(vector.square().mean().sqrt()) if len(vector) else 0.0, SMALLEST_SCALE)
    direction = signs * vector.abs().clamp_min(typical)
    step = math.sqrt(torch.finfo(vector.dtype).eps)
    values = [value(vector + k * step * direction) for k in range(POINTS)]
    if not all(map(math.isfinite, values)):
        return math.inf
    return noise_of_line(np.array(values))


def noise_of_line(values: np.ndarray) -> float:
    """The noise in values at equally spaced points of a smooth function [section 3.3]."""
    levels, signs = [], []
    differences = values - values[0]
    for order in range(1, len(values)):
        differences = np.diff(differences)
        variance = math.factorial(order) ** 2 / math.factorial(2 * order)
        levels.append(math.sqrt(variance * float(np.mean(differences**2))))
        signs.append(bool((differences.min() < 0) and (differences.max() > 0)))
    # The first order at which the estimate stays: differences of lower order hold the function.
    for order in range(len(levels) - 2):
        near = levels[order : order + 3]
        if signs[order] and max(near) <= 4 * min(near):
            return levels[order]
    return min(levels)
