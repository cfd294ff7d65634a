"""Every mistake has a class of its own: nobody raises the root."""

from __future__ import annotations

import ast
from pathlib import Path

import mrflearn

SOURCE = Path(mrflearn.__file__).parent


def test_nobody_raises_the_root() -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and raised(node) in ("MrflearnError", "MrflearnWarning")
    ]
    assert found == []


def raised(node: ast.Raise) -> str | None:
    """The name of what is raised, with or without arguments."""
    error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return error.id if isinstance(error, ast.Name) else getattr(error, "attr", None)
