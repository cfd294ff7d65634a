"""Puts what the source says of itself into pages.

`<!-- files: PACKAGE -->` becomes a table of the files of a package, `<!-- api: MODULE -->` the
documentation of every public name of a package or module, by mkdocstrings.  The scripts of
docs/gallery become pages: the module's docstring is title and introduction, a comment `# %%` begins
a paragraph, and what follows is code.  Pages for users come first in the search.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mrflearn import _lazy as lazy

SOURCE = Path(__file__).parent.parent / "src"
GALLERY = Path(__file__).parent / "gallery"
MARK = re.compile(r"<!-- (files|api): ([\w.]+) -->")


# Whoever searches wants to know how it is done; why it is done so comes after.
BOOST = {"start": 4, "gallery": 2, "migrate": 2, "decisions": 0.5, "flow": 0.5, "extend": 0.5}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with its tables and lists, read off the source as it stands, and its rank."""
    page.meta.setdefault("search", {"boost": BOOST.get(page.file.src_uri.partition("/")[0], 1)})
    return MARK.sub(lambda found: MAKERS[found[1]](found[2]), markdown)


def on_files(files: Any, config: Any) -> Any:
    """A page for each script of the gallery."""
    from mkdocs.structure.files import File

    for script in sorted(GALLERY.glob("*.py")):
        name = f"gallery/{script.stem}.md"
        files.append(File.generated(config, name, content=page_of(script)))
    return files


def page_of(script: Path) -> str:
    """A script as a page: prose and code in turn."""
    source = script.read_text(encoding="utf-8")
    title, _, introduction = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    parts = [f"# {title}", introduction]
    for cell in source.split("\n# %% ")[1:]:
        lines = cell.splitlines()
        prose = [lines.pop(0)]
        while lines and lines[0].startswith("# "):
            prose += ["", lines.pop(0)[2:]]
        pictures = [line for line in prose if line.startswith("![")]
        text = "\n".join(line for line in prose if line not in pictures)
        code = "\n".join(lines).strip()
        parts += [text, f"```python\n{code}\n```", *pictures]
    return "\n\n".join([*parts, f"The script: `docs/gallery/{script.name}`."])


def files_of(package: str) -> str:
    """A table of the files of a package and the first sentence of each."""
    rows = ["| file | what it is |", "|---|---|"]
    for path in sorted((SOURCE / "mrflearn" / package).glob("*.py")):
        if path.stem == "__init__":
            continue
        first = _first(_parsed(path)).replace("|", r"\|")
        rows.append(f"| `{package}/{path.name}` | {first} |")
    return "\n".join(rows)


def api_of(module: str) -> str:
    """What mkdocstrings shows of each public name of a module."""
    lines = [f"## {module}", "", _first(_parsed(_file(module))), ""]
    for home, name in public_names(module):
        if name != "__version__":
            lines += [f"::: {home}.{name}", ""]
    return "\n".join(lines)


def public_names(module: str) -> list[tuple[str, str]]:
    """The module that defines each public name, and the name, in the order of `__all__`."""
    homes = lazy.public_names(_file(module).read_text(encoding="utf-8"))
    return [(home or module, name) for name, home in homes.items()]


def _file(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _first(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


MAKERS = {"files": files_of, "api": api_of}
