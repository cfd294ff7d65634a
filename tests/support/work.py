"""How much work a computation is, counted rather than timed."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class CountedElements(TorchDispatchMode):
    """While it is entered, counts the elements of all tensors that operations return."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        found = operation(*arguments, **(options or {}))
        self.count += sum(own.numel() for own in tree_leaves(found) if torch.is_tensor(own))
        return found
