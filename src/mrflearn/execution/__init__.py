"""Where the work runs: which device, this process, many processes."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor as Executor
    from mrflearn.execution.executor import Processes as Processes
    from mrflearn.execution.executor import Serial as Serial

__getattr__, __dir__ = lazy(__name__)
