"""Any saved model by its path: models say what they are."""

from __future__ import annotations

import os
from typing import Any

import mrflearn
from mrflearn.errors import StorageError
from mrflearn.models.storage import read_model


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> Any:
    """The fitted estimator that was saved there, whichever class it is."""
    stored = read_model(path, device=device)
    # The package knows where each class lives, and imports only the one that is asked for.
    kind: Any = getattr(mrflearn, stored.kind) if stored.kind in mrflearn.__all__ else None
    if not hasattr(kind, "from_stored"):
        raise StorageError(f"{path} holds a '{stored.kind}', which this version does not know.")
    return kind.from_stored(stored, device=device)
