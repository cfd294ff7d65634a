"""Model directories with another `config.json`, whose checksums are right all the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrflearn.models import storage


def signed(config: dict[str, Any], tensors: bytes) -> bytes:
    """The configuration as `config.json` holds it, with checksums of itself and these tensors."""
    sums = {storage.TENSORS: hashlib.sha256(tensors).hexdigest()}
    sums[storage.CONFIG] = storage._config_digest({**config, "sha256": dict(sums)})
    return json.dumps({**config, "sha256": sums}).encode()


def edit(model: Path, change: Callable[[str], str]) -> None:
    """Changes the text of a model's `config.json`."""
    path = model / storage.CONFIG
    config = json.loads(change(path.read_text(encoding="utf-8")))
    path.write_bytes(signed(config, (model / storage.TENSORS).read_bytes()))


def drop(model: Path, name: str, text: str | None = None) -> None:
    """Takes a text, by default the last one, out of a list among what a model has learned."""

    def without(before: str) -> str:
        config = json.loads(before)
        learned = config["learned"][name]
        learned.remove(learned[-1] if text is None else text)
        return json.dumps(config)

    edit(model, without)
