"""The versions that are tested are those that pyproject.toml allows, the lowest among them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import mrflearn

ROOT = Path(__file__).parents[1]
# Tools, whose versions are pinned and have no influence on what users get.
TOOLS = {"coverage", "dev", "docs"}


def version(text: str) -> tuple[int, ...]:
    """1.26 and 1.26.0 are one version."""
    numbers = [int(number) for number in text.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def floors(*, tools: bool) -> dict[str, tuple[int, ...]]:
    """The lowest version of every package that pyproject.toml asks for."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = declared["dependency-groups"]
    chosen = [own for name, own in groups.items() if tools or name not in TOOLS]
    chosen += [declared["project"]["dependencies"]]
    chosen += declared["project"]["optional-dependencies"].values()
    asked = [line for own in chosen for line in own if isinstance(line, str)]
    others = [line for line in asked if not line.startswith("mrflearn[")]
    found = [re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in others]
    return {match[1]: version(match[2]) for match in found if match is not None}


def pinned(name: str) -> dict[str, tuple[int, ...]]:
    """The versions of a file of constraints."""
    lines = (ROOT / name).read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {package: version(own) for package, own in pairs}


def test_the_lowest_environment_has_the_lowest_versions() -> None:
    lowest = pinned("constraints-lowest.txt")
    asked = floors(tools=False)
    assert {name: lowest.get(name) for name in asked} == asked


@pytest.mark.parametrize("package", sorted(floors(tools=True)))
def test_every_package_is_pinned_at_an_allowed_version(package: str) -> None:
    assert pinned("constraints.txt")[package] >= floors(tools=True)[package]


def test_the_changelog_and_the_citation_name_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert released[0] == mrflearn.__version__
    assert f"\nversion: {mrflearn.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_changelog_has_the_headings_of_keep_a_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for section in changelog.split("\n## ")[1:]:
        found = re.findall(r"^### (.*)$", section, re.MULTILINE)
        assert set(found) <= kinds
        assert len(set(found)) == len(found)
