"""Any saved model by its path: models say what they are."""

from __future__ import annotations

import os
from typing import Any

from mrflearn.errors import StorageError
from mrflearn.estimators.field import MarkovField
from mrflearn.estimators.potts import PottsField
from mrflearn.models.storage import read_model

CLASSES: dict[str, Any] = {kind.__name__: kind for kind in (MarkovField, PottsField)}


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> Any:
    """The fitted estimator that was saved there, whichever class it is."""
    stored = read_model(path, device=device)
    if stored.kind not in CLASSES:
        known = ", ".join(sorted(CLASSES))
        raise StorageError(
            f"{path} holds a '{stored.kind}', which this version does not know (it knows {known})."
        )
    return CLASSES[stored.kind].from_stored(stored, device=device)
