"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module that offers names of other modules.

    Parameters
    ----------
    package
        The `__name__` of that module.
    homes
        For each name the module that defines it, such as `mrflearn.io.corpus`, or `.text` from
        within `mrflearn.io`.
    modules
        Modules of the package that can be used without importing them by name first.

    """

    def get(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names
