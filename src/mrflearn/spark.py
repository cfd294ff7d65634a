"""Work on a Spark cluster: `with Spark("spark://host:7077") as place: ...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.execution.spark import Spark as Spark

__getattr__, __dir__ = lazy(__name__)
