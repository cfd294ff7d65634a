"""Where the work runs: which device, this process, many processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor, Processes, Serial

__all__ = ["Executor", "Processes", "Serial"]

__getattr__, __dir__ = lazy(__name__)
