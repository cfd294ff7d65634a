"""Modules whose public names are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module that offers names of other modules.

    Which names, and where they live, is what the module imports under `if TYPE_CHECKING:`, so that
    it is written once, as type checkers need it; `__all__` follows from it.  The modules of the
    library itself can be used without importing them by name first.

    Parameters
    ----------
    module
        Its `__name__`.

    """

    @cache
    def homes() -> dict[str, str]:
        return public_names(vars(sys.modules[module])["__spec__"].loader.get_source(module))

    def get(name: str) -> Any:
        value: Any
        if name == "__all__":
            value = list(homes())
        elif not name.startswith("_") and homes().get(name):
            value = getattr(import_module(homes()[name]), name)
        elif not name.startswith("_") and "." not in module and find_spec(f"{module}.{name}"):
            value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    return get, lambda: list(homes())


def public_names(source: str) -> dict[str, str]:
    """The public names of a module's source, sorted, and where each lives: nowhere else if `""`.

    They are its own classes, `__version__`, and what it imports as itself for type checkers:
    `from mrflearn.io.arpa import read_arpa as read_arpa`, the re-export of PEP 484.
    """
    import ast

    tree = ast.parse(source)
    names = {node.name: "" for node in tree.body if isinstance(node, ast.ClassDef)}
    names |= {"__version__": ""} if "\n__version__ = " in source else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {own.name: str(node.module) for own in node.names if own.name == own.asname}
    return dict(sorted(names.items()))
