"""Puts what the source says of itself into pages.

`<!-- files: PACKAGE -->` becomes a table of the files of a package, `<!-- names: MODULE -->` a list
of the public names of a package or module, each with the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src"
MARK = re.compile(r"<!-- (files|names): ([\w.]+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its tables and lists, read off the source as it stands."""
    return MARK.sub(lambda found: MAKERS[found[1]](found[2]), markdown)


def files_of(package: str) -> str:
    """A table of the files of a package and the first sentence of each."""
    rows = ["| file | what it is |", "|---|---|"]
    for path in sorted((SOURCE / "mrflearn" / package).glob("*.py")):
        if path.stem == "__init__":
            continue
        first = _first(_parsed(path)).replace("|", r"\|")
        rows.append(f"| `{package}/{path.name}` | {first} |")
    return "\n".join(rows)


def names_of(module: str) -> str:
    """A list of the public names of a module and the first sentence of each."""
    tree = _parsed(_file(module))
    defined = {node.name: node for node in tree.body if isinstance(node, Documented)}
    homes = dict(_imported(tree))
    lines = []
    for name in _public(tree):
        if name in homes:
            own = {node.name: node for node in _definitions(homes[name])}
            lines.append(f"- `{name}`: {_first(own[name])}")
        elif name in defined:
            lines.append(f"- `{name}`: {_first(defined[name])}")
        else:
            lines.append(f"- `{name}`: the version of the library")
    return "\n".join([_first(tree), "", *lines])


Documented = ast.ClassDef | ast.FunctionDef


def _public(tree: ast.Module) -> list[str]:
    """The entries of `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise ValueError("a public module needs __all__")


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a type checker sees imported, and from where."""
    for block in tree.body:
        if isinstance(block, ast.If):
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    yield from ((own.name, node.module or "") for own in node.names)


def _definitions(module: str) -> list[ast.ClassDef | ast.FunctionDef]:
    return [node for node in _parsed(_file(module)).body if isinstance(node, Documented)]


def _file(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _first(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


MAKERS = {"files": files_of, "names": names_of}
