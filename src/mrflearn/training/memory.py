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

from typing import final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from scipy.linalg.lapack import dtrtrs
from torch import Tensor

Numbers = npt.NDArray[np.float64]
# The first rows of the buffer: the direction tried last, the change of gradient along it, and the
# descent vector where it led.
STEP, CHANGE, STEEPEST, PAIRS = 0, 1, 2, 3
DOUBLE_ROUNDING = 2.0**-52
MOST_ROUNDING = 1e-5


@final
class Memory:
    """A ring of the last `history` pairs (step, change of gradient), and their inner products."""

    def __init__(self, history: int, like: Float[Tensor, "p"]) -> None:
        self.history = history
        self.rows = like.new_zeros(PAIRS + 2 * history, len(like))
        self.count = 0  # pairs in the ring
        self.next = 0  # where the next pair goes
        self.scale = 0.0  # c above; 0 before the first pair
        self.step_change = np.zeros((history, history))  # S'Y; only older x newer is kept true
        self.change_change = np.zeros((history, history))  # Y'Y
        self.projections = np.zeros((history, 2))  # S'v and Y'v for the descent vector v
        self.square = 0.0  # v'v

    @property
    def filled(self) -> Float[Tensor, "r p"]:
        return self.rows[: PAIRS + 2 * self.count]

    @property
    def step(self) -> Float[Tensor, "p"]:
        """Where the caller writes the direction (or step) it tries."""
        return self.rows[STEP]

    @property
    def steepest(self) -> Float[Tensor, "p"]:
        """Where the caller writes the descent vector at the point it tries."""
        return self.rows[STEEPEST]

    def measure(
        self, gradient: Float[Tensor, "p"], before: Float[Tensor, "p"]
    ) -> tuple[Float[Tensor, "2"], Float[Tensor, "r"]]:
        """Inner products of what the caller wrote, once the gradient has changed from `before`.

        They stay on the device, so that the caller can fetch them together with other numbers.
        """
        torch.sub(gradient, before, out=self.rows[CHANGE])
        return self.rows[: CHANGE + 1] @ self.rows[CHANGE], self.filled @ self.rows[STEEPEST]

    def accept(self, measured: Numbers, length: float, *, steepest_is_gradient: bool) -> None:
        """Keeps the descent vector measured last and, if its curvature is positive, the pair.

        The step of the pair is `length` times the direction tried.
        """
        scaled = measured.copy()
        scaled[[0, 2]] *= length
        curvature, change_square = scaled[:2].tolist()
        along = scaled[2:]
        pairs, count, slot = along[PAIRS:].reshape(-1, 2), self.count, self.next
        # Below this, rounding may have chosen the sign (the test of L-BFGS-B).
        if curvature > DOUBLE_ROUNDING * abs(curvature - along[STEP]):
            # The change is the difference of two gradients, and so are its inner products with the
            # pairs: a pass over the memory is saved wherever the difference keeps enough digits.
            largest = max(self.square, float(along[STEEPEST]))
            rounding = torch.finfo(self.rows.dtype).eps * (largest / change_square) ** 0.5
            if steepest_is_gradient and rounding < MOST_ROUNDING:
                products = pairs - self.projections[:count]
            else:
                exact = self.filled[PAIRS:] @ self.rows[CHANGE]
                products = exact.double().cpu().numpy().reshape(-1, 2)
            self._keep(length, products, curvature, change_square)
            self.projections[:count] = pairs
            self.projections[slot] = along[[STEP, CHANGE]]
        else:
            self.projections[:count] = pairs
        self.square = float(along[STEEPEST])

    def _keep(
        self, length: float, products: Numbers, curvature: float, change_square: float
    ) -> None:
        """Puts the pair measured last into the ring; `products`: older pairs with its change."""
        count, slot = self.count, self.next
        self.step_change[:count, slot] = products[:, 0]
        self.change_change[:count, slot] = self.change_change[slot, :count] = products[:, 1]
        self.step_change[slot, slot] = curvature
        self.change_change[slot, slot] = change_square
        torch.mul(self.rows[STEP], length, out=self.rows[PAIRS + 2 * slot])
        self.rows[PAIRS + 2 * slot + 1].copy_(self.rows[CHANGE])
        self.scale = curvature / change_square
        self.count, self.next = min(count + 1, self.history), (slot + 1) % self.history

    def forget(self) -> None:
        """Drops all pairs; `scale` stays, as a guess of a good first step."""
        self.count = self.next = 0

    def direction(self, steepest: Float[Tensor, "p"], out: Float[Tensor, "p"]) -> float:
        """Writes -H v to `out` for the descent vector v; gives its inner product with v."""
        if not self.count:
            torch.neg(steepest, out=out)
            return -self.square
        # A line search that was broken off has left its own vector in this row.
        self.rows[STEEPEST].copy_(steepest)
        weights, slope = self._weights()
        on_device = torch.from_numpy(weights).to(out.device, out.dtype)
        torch.mv(self.filled[STEEPEST:].T, on_device, out=out)
        return slope

    def _weights(self) -> tuple[Numbers, float]:
        """The weights of the descent vector and the pairs in -H v, and v'(-H v)."""
        order = (self.next - self.count + np.arange(self.count)) % self.history
        grid, scale = (order[:, None], order), self.scale
        upper = self.step_change[grid]  # LAPACK reads its upper triangle alone
        steps, changes = self.projections[order].T
        with np.errstate(all="ignore"):  # overflow shows as a slope that is not negative
            inner = dtrtrs(upper, steps)[0]
            middle = upper.diagonal() * inner + scale * (self.change_change[grid] @ inner - changes)
            outer = dtrtrs(upper, middle, trans=1)[0]
            slope = -(scale * self.square + outer @ steps - scale * (inner @ changes))
        weights = np.empty(1 + 2 * self.count)
        weights[0] = -scale
        weights[1 + 2 * order] = -outer
        weights[2 + 2 * order] = scale * inner
        return weights, float(slope)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that `restore` needs."""
        numbers = np.array([self.count, self.next, self.scale, self.square])
        host = (numbers, self.step_change, self.change_change, self.projections)
        names = ("memory.numbers", "memory.step_change", "memory.change_change", "memory.along")
        kept = {name: torch.from_numpy(array) for name, array in zip(names, host, strict=True)}
        return {"memory.pairs": self.filled[PAIRS:]} | kept

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Takes over what `tensors` gave, to the last bit."""
        count, following, self.scale, self.square = tensors["memory.numbers"].tolist()
        self.count, self.next = int(count), int(following)
        self.filled[PAIRS:].copy_(tensors["memory.pairs"])
        self.step_change = tensors["memory.step_change"].numpy().copy()
        self.change_change = tensors["memory.change_change"].numpy().copy()
        self.projections = tensors["memory.along"].numpy().copy()
