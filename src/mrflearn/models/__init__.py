"""Parameters turned into potentials, and how models are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from mrflearn.models.potts import PottsModel as PottsModel
    from mrflearn.models.tabular import TabularModel as TabularModel


class Model(Protocol):
    """A frozen record of parameters; `with_parameters` gives a copy that holds others."""

    def parameters(self) -> dict[str, Tensor]: ...

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> Self: ...


__getattr__, __dir__ = lazy(__name__)
