"""The documentation is whole: pages are in the menu, packages have one, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
# Scripts that docs/_hooks.py makes pages of.
MADE = sorted(f"gallery/{path.stem}.md" for path in (DOCS / "gallery").glob("*.py"))
PACKAGES = "|".join(path.parent.name for path in (ROOT / "src" / "mrflearn").glob("*/__init__.py"))


def test_the_menu_lists_every_page_once() -> None:
    menu = re.findall(
        r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M
    )
    assert sorted(menu) == sorted([*PAGES, *MADE])


def test_every_room_has_a_page() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "mrflearn").glob("*/__init__.py")}
    text = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "flow").glob("*.md"))
    assert set(re.findall(r"<!-- files: (\w+) -->", text)) == packages


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("span probabilities", "crf"),
        ("n-best", "crf"),
        ("temperature", "crf"),
        ("early stopping", "crf"),
        ("tokenise", "crf"),
        ("save and load", "crf"),
        ("condition on evidence", "networks"),
        ("standard errors", "field"),
        ("confidence interval", "field"),
        ("missing values", "field"),
        ("report.html", "serve"),
        ("GPU", "scale"),
    ],
)
def test_what_is_searched_for_is_a_heading_of_one_page(words: str, page: str) -> None:
    """A search ranks titles of sections first, and those of docs/start before all others."""
    titled = re.compile(rf"^#+ .*{re.escape(words)}", re.MULTILINE | re.IGNORECASE)
    pages = {own.stem: own.read_text("utf-8") for own in (DOCS / "start").glob("*.md")}
    assert [name for name, text in pages.items() if titled.search(text)] == [page]


def test_american_spellings_are_found() -> None:
    pages = [own.read_text("utf-8") for own in (DOCS / "start").glob("*.md")]
    for word in ("regularization", "tokenizer"):
        assert any(word in text for text in pages), word


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", text, flags=re.S)):
        if not target.startswith("http"):
            place = ((DOCS / page).parent / target).resolve()
            assert place.is_relative_to(DOCS), f"{target}: pages cannot link out of docs/"
            assert place.exists() or place.relative_to(DOCS).as_posix() in MADE, target


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith(("papers", "dec"))])
def test_modules_and_their_names_exist(page: str) -> None:
    """`models/hmm.py: SuffixTree.shares`, `models.hmm.SuffixTree`: papers and code side by side."""
    text = (DOCS / page).read_text(encoding="utf-8")
    named = re.findall(r"`(\w+/\w+\.py): ([\w., ]+)`", text)
    named += re.findall(rf"`((?:{PACKAGES})[./]\w+)\.((?!py\b)[\w.]+)", text)
    for path, names in named:
        module = ROOT / "src" / "mrflearn" / f"{path.removesuffix('.py').replace('.', '/')}.py"
        source = module.read_text(encoding="utf-8")
        for name in re.findall(r"\w+", names):
            assert re.search(rf"\b{name}\b", source), f"{path} has no {name}"
