"""Parameters turned into potentials, and how models are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.models.parameters import Model
    from mrflearn.models.potts import PottsModel
    from mrflearn.models.tabular import TabularModel

__all__ = ["Model", "PottsModel", "TabularModel"]

__getattr__, __dir__ = lazy(__name__)
