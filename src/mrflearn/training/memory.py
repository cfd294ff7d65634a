"""What L-BFGS remembers, and the direction it gives, in two passes over one buffer.

R. Byrd, J. Nocedal and R. Schnabel, Representations of quasi-Newton matrices and their use in
limited memory methods, Math. Programming 63 (1994), eq. 3.1: with steps S and changes of gradient
Y, and R the upper triangle of S'Y, D its diagonal,

    H = c I + [S  cY] [ R^-T (D + c Y'Y) R^-1   -R^-T ] [ S'  ]
                      [        -R^-1               0  ] [ c Y']

so that the work on long vectors is one product with the vector v to read off inner products and one
to combine vectors; the rest happens on history x history numbers in float64 on the host.
p: parameters; h: pairs remembered; r: rows in use.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from scipy.linalg.lapack import dtrtrs
from torch import Tensor

Numbers = npt.NDArray[np.float64]
# Rows 0 and 1 of the buffer hold the descent vectors at the current and at the trial point, by
# turns; then come the slots, a step and its change of gradient each, one slot always free.
SLOTS = 2
MOST_ROUNDING = 1e-5


@final
class Memory:
    """A ring of the last `history` pairs (step, change of gradient), and their inner products.

    The caller writes what it tries to `step` and `trial`, measures it, and may accept it.  Nothing
    is lost where it does not: what it writes to is no part of what is remembered.
    """

    def __init__(self, history: int, like: Float[Tensor, "p"]) -> None:
        self.history = history
        self.rows = like.new_zeros(SLOTS + 2 * (history + 1), len(like))
        self.current = 0  # the row of the current descent vector
        self.count = 0  # pairs in the ring
        self.free = 0  # the slot that is free
        self.scale = 0.0  # c above; 0 before the first pair
        self.square = 0.0  # v'v for the current descent vector v
        slots = history + 1
        self.step_change = np.zeros((slots, slots))  # S'Y; only older x newer is kept true
        self.change_change = np.zeros((slots, slots))  # Y'Y
        self.along = np.zeros((slots, 2))  # S'v and Y'v

    @property
    def filled(self) -> Float[Tensor, "r p"]:
        """All rows in use, those of the free slot among them."""
        return self.rows[: SLOTS + 2 * min(self.count + 1, self.history + 1)]

    @property
    def steepest(self) -> Float[Tensor, "p"]:
        """The descent vector at the current point."""
        return self.rows[self.current]

    @property
    def trial(self) -> Float[Tensor, "p"]:
        """Where the caller writes the descent vector at the point it tries."""
        return self.rows[1 - self.current]

    @property
    def step(self) -> Float[Tensor, "p"]:
        """Where the caller writes the step it tries."""
        return self.rows[SLOTS + 2 * self.free]

    def measure(
        self, gradient: Float[Tensor, "p"], before: Float[Tensor, "p"]
    ) -> Float[Tensor, "r+2"]:
        """Inner products of what the caller wrote, once the gradient has changed from `before`.

        They stay on the device, so that the caller can fetch them together with other numbers:
        step with change, change with change, every filled row with the new descent vector.
        """
        place = SLOTS + 2 * self.free
        change = self.rows[place + 1]
        torch.sub(gradient, before, out=change)
        return torch.cat((self.rows[place : place + 2] @ change, self.filled @ self.trial))

    def slope(self, measured: Numbers) -> float:
        """The step's inner product with the new descent vector."""
        return float(measured[2 + SLOTS + 2 * self.free])

    def accept(self, measured: Numbers, *, steepest_is_gradient: bool) -> None:
        """Keeps the descent vector measured last and, if its curvature is positive, the pair."""
        curvature, change_square = measured[:2].tolist()
        square = float(measured[2 + 1 - self.current])
        along = measured[2 + SLOTS :].reshape(-1, 2)
        # Below this, rounding may have chosen the sign (the test of L-BFGS-B).
        rounding = torch.finfo(self.rows.dtype).eps
        keep = curvature > rounding * abs(curvature - self.slope(measured))
        if keep and math.isfinite(change_square):
            # The change is the difference of two gradients, and so are its inner products with the
            # pairs: a pass over the memory is saved wherever the difference keeps enough digits.
            lost = rounding * (max(self.square, square) / change_square) ** 0.5
            if steepest_is_gradient and lost < MOST_ROUNDING:
                products = along - self.along[: len(along)]
            else:
                products = self._products_with_change()
            self._keep(products, curvature, change_square)
        self.along[: len(along)] = along
        self.square = square
        self.current = 1 - self.current

    def _products_with_change(self) -> Numbers:
        change = self.rows[SLOTS + 2 * self.free + 1]
        products: Numbers = (self.filled[SLOTS:] @ change).double().cpu().numpy()
        return products.reshape(-1, 2)

    def _keep(self, products: Numbers, curvature: float, change_square: float) -> None:
        """Makes the free slot a part of the ring; `products`: all slots with its change."""
        slot, used = self.free, len(products)
        self.step_change[:used, slot] = products[:, 0]
        self.change_change[:used, slot] = self.change_change[slot, :used] = products[:, 1]
        self.step_change[slot, slot] = curvature
        self.change_change[slot, slot] = change_square
        self.scale = curvature / change_square
        self.count = min(self.count + 1, self.history)
        self.free = (slot + 1) % (self.history + 1)

    def forget(self) -> None:
        """Drops all pairs; `scale` stays, as a guess of a good first step."""
        self._clear_what_was_tried()
        self.count = self.free = 0

    def _clear_what_was_tried(self) -> None:
        # These rows have weight 0 in a direction, but 0 times NaN would spoil it.
        self.trial.zero_()
        self.rows[SLOTS + 2 * self.free : SLOTS + 2 * self.free + 2].zero_()

    def direction(self, out: Float[Tensor, "p"]) -> float:
        """Writes -H v to `out` for the current descent vector v; gives its inner product with v."""
        if not self.count:
            torch.neg(self.steepest, out=out)
            return -self.square
        weights, slope = self._weights()
        torch.mv(self.filled.T, torch.tensor(weights, dtype=out.dtype, device=out.device), out=out)
        return slope

    def _weights(self) -> tuple[Numbers, float]:
        """The weight of every filled row in -H v, and v'(-H v)."""
        order = (self.free - self.count + np.arange(self.count)) % (self.history + 1)
        grid, scale = (order[:, None], order), self.scale
        upper = self.step_change[grid]  # LAPACK reads its upper triangle alone
        steps, changes = self.along[order].T
        with np.errstate(all="ignore"):  # overflow shows as a slope that is not negative
            inner = dtrtrs(upper, steps)[0]
            middle = upper.diagonal() * inner + scale * (self.change_change[grid] @ inner - changes)
            outer = dtrtrs(upper, middle, trans=1)[0]
            slope = -(scale * self.square + outer @ steps - scale * (inner @ changes))
        weights = np.zeros(len(self.filled))
        weights[self.current] = -scale
        weights[SLOTS + 2 * order] = -outer
        weights[SLOTS + 1 + 2 * order] = scale * inner
        return weights, float(slope)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that `restore` needs."""
        numbers = np.array([self.current, self.count, self.free, self.scale, self.square])
        host = {
            "numbers": numbers,
            "step_change": self.step_change,
            "change_change": self.change_change,
            "along": self.along,
        }
        kept = {f"memory.{name}": torch.from_numpy(array) for name, array in host.items()}
        return {"memory.rows": self.filled} | kept

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Takes over what `tensors` gave, to the last bit."""
        current, count, free, self.scale, self.square = tensors["memory.numbers"].tolist()
        self.current, self.count, self.free = int(current), int(count), int(free)
        self.filled.copy_(tensors["memory.rows"])
        self._clear_what_was_tried()
        self.step_change = tensors["memory.step_change"].numpy().copy()
        self.change_change = tensors["memory.change_change"].numpy().copy()
        self.along = tensors["memory.along"].numpy().copy()
