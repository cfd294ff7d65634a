"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def lazy(
    package: str, *, packages: bool = False
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module that offers names of other modules.

    Which names, and where they live, is what the module imports under `if TYPE_CHECKING:`, so that
    it is written once, as type checkers need it.

    Parameters
    ----------
    package
        The `__name__` of that module.
    packages
        Whether modules of the package can be used without importing them by name first.

    """

    @cache
    def homes() -> dict[str, str]:
        import ast

        source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
        blocks = (node.body for node in ast.parse(source).body if isinstance(node, ast.If))
        imports = (node for body in blocks for node in body if isinstance(node, ast.ImportFrom))
        return {name.name: str(own.module) for own in imports for name in own.names}

    def get(name: str) -> Any:
        if not name.startswith("_") and name in homes():
            value = getattr(import_module(homes()[name]), name)
        elif packages and not name.startswith("_") and find_spec(f"{package}.{name}"):
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names
