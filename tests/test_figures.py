"""Figures on pages are those of committed rows and outputs, and rows say which code made them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from support.experiments import FOLDER, experiment_module, run_experiment

ROOT = FOLDER.parent
figures = experiment_module("", "figures")
provenance = experiment_module("", "provenance")
reproduce = experiment_module("", "reproduce")
NUMBER = r"([\d.,]+)"
RESULTS = "benchmarks/RESULTS.md"
# What pages quote in their text: {page: a pattern with a group for each number}.
QUOTED = {
    "inside and outside of a sentence": {
        RESULTS: rf"outside, 1 x 20 words +{NUMBER} +torch-struct +{NUMBER} ",
        "docs/decisions/charts.md": rf"1 x 20 words \| {NUMBER} \| torch-struct {NUMBER} \|",
    },
    "inside and outside of eight": {
        RESULTS: rf"outside, 8 x 20 words +{NUMBER} +torch-struct +{NUMBER} ",
        "docs/decisions/charts.md": rf"8 x 20 words \| {NUMBER} \| {NUMBER} \|",
    },
    "bootstraps of a survey": {
        RESULTS: rf"graph complete: {NUMBER} s\n1,000 bootstraps of .* learn: {NUMBER} s",
        "docs/start/field.md": rf"18 items took {NUMBER} s .*?, {NUMBER} s where",
    },
    "a protein family": {
        RESULTS: rf"1atzA.aln: {NUMBER} s on the clock",
        "docs/papers/potts.md": rf"1atzA, .* \d+ evaluations, {NUMBER} CPU s \|",
    },
}


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_tables_are_as_their_sources(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert figures.filled(text) == text, f"{page} differs from its sources: run `make figures`"


def test_a_changed_figure_is_noticed() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    begin = text.index("<!-- figures: how-fast -->")
    place = begin + re.search(r"\d\.\d", text[begin:]).start()  # type: ignore[union-attr]
    other = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
    assert figures.filled(other) == text


def test_every_job_of_the_readme_says_where_it_was_measured() -> None:
    for line in figures.how_fast()[2:]:
        conditions = line.split(" | ")[-1]
        assert figures.UNSEEN in conditions or re.search(r"commit|[0-9a-f]{7}", conditions), line


@pytest.mark.parametrize("name", QUOTED)
def test_pages_quote_the_same_figures(name: str) -> None:
    quoted = {}
    for page, pattern in QUOTED[name].items():
        found = re.search(pattern, (ROOT / page).read_text(encoding="utf-8"))
        assert found is not None, f"{page} does not quote it as {pattern}"
        quoted[page] = [float(number.replace(",", "")) for number in found.groups()]
    assert len({tuple(numbers) for numbers in quoted.values()}) == 1, quoted


WITH_ROWS = [e for e in reproduce.EXPERIMENTS if (FOLDER / e / "results-full/rows.jsonl").exists()]


@pytest.mark.parametrize("name", WITH_ROWS)
def test_reports_are_as_their_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("mrflearn.plots.figure.save", lambda figure, path: None)
    folder = FOLDER / name / "results-full"
    shutil.copy(folder / "rows.jsonl", tmp_path)
    run_experiment(name, "--scale", "full", "--only-draw", "--output", str(tmp_path))
    made = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert made == (folder / "report.md").read_text(encoding="utf-8"), "run `make figures`"


def test_the_page_of_results_is_made_of_the_reports() -> None:
    page = FOLDER / "RESULTS.md"
    assert reproduce.page_text("full", [], page) == page.read_text(encoding="utf-8")


def test_the_page_of_benchmarks_is_made_of_the_outputs() -> None:
    outputs = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    assert outputs
    page = (ROOT / RESULTS).read_text(encoding="utf-8")
    for path in outputs:
        assert "\n".join(json.loads(path.read_text(encoding="utf-8"))["output"]) in page


def test_rows_of_other_code_are_told_from_those_of_this(tmp_path: Path) -> None:
    script = FOLDER / "lap" / "measure.py"
    own = {"code": "experiments/lap/measure.py", "source": provenance.source_hash(script)}
    assert provenance.state({**own, "commit": "abc"}) == provenance.CURRENT
    assert provenance.state({**own, "source": "0", "commit": "abc"}) == "an older commit"
    assert provenance.state({"commit": "abc-dirty"}) == "uncommitted changes"
    assert provenance.state({"commit": None}) == "no commit"


def test_remarks_make_no_row_stale_but_code_does() -> None:
    assert provenance.bare_code('"""Of a module."""\nX = "# no remark"  # a remark\n') == [
        "",
        'X = "# no remark"',
    ]
    said = 'def f():\n    """What it does,\n\n    at length."""\n    for k in a:\n        b(k)\n'
    kept = [line for line in provenance.bare_code(said) if line]
    assert kept == ["def f():", "    for k in a:", "        b(k)"]


def test_the_code_of_a_row_is_what_its_script_names() -> None:
    names = {str(p.relative_to(ROOT)) for p in provenance.code_of(FOLDER / "lap" / "measure.py")}
    assert "experiments/lap/measure.py" in names
    assert "src/mrflearn/training/lap.py" in names  # through the lazy name of a package
    assert "src/mrflearn/training/newton.py" in names
    assert not any(own.startswith(("src/mrflearn/cli", "src/mrflearn/nn")) for own in names)
    assert "experiments/lap/report.py" not in names


LIBRARY = """
from other import CONSTANT, far
import sideways as aside
if TYPE_CHECKING:
    from other import Typed

def used(x: Typed) -> int:
    return Kind().run(Fitted(x)) + CONSTANT

class Kind(Base):
    factor = 2

    def run(self, x):
        return self.once(x) * self.factor

    def once(self, x):
        return aside.near(x)

    def never(self):
        return 8

    def __add__(self, other):
        return 9

class Fitted(Elsewhere):
    def called_there(self):
        return 10

class Base:
    pass

def unused():
    return far()

register(setting)
setting = 3
"""
OTHER = "CONSTANT = 4\ndef far():\n    return 5\nclass Typed:\n    pass\n"
SIDEWAYS = "def near(x):\n    return x\ndef nearby():\n    return 2\n"


def test_code_that_has_no_part_in_a_measurement_makes_no_row_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    sources = {"library": LIBRARY, "other": OTHER, "sideways": SIDEWAYS}

    def code(number: int, **changed: tuple[str, str]) -> list[tuple[str, str]]:
        folder = tmp_path / str(number)
        folder.mkdir()
        script = folder / "script.py"
        script.write_text("from library import used\nprint(used(1))\n", encoding="utf-8")
        for name, text in sources.items():
            old, new = changed.get(name, ("", ""))
            assert old in text
            (folder / f"{name}.py").write_text(text.replace(old, new, 1), encoding="utf-8")
        found = provenance.code_of(script)
        return sorted((str(path.relative_to(folder)), own) for path, own in found.items())

    plain = code(0)
    for number, changed in enumerate(
        [
            {"library": ("far()", "7")},
            {"library": ("return 8", "return 0")},
            {"library": ("class Kind(Base):", "@final\nclass Kind(Base):")},
            {"other": ("return 5", "return 6")},
            {"other": ("class Typed:\n    pass", "class Typed:\n    x = 1")},
            {"sideways": ("return 2", "return 3")},
        ],
        start=1,
    ):
        assert code(number, **changed) == plain
    for number, changed in enumerate(
        [
            {"library": ("+ CONSTANT", "- CONSTANT")},
            {"library": ("class Base:\n    pass", "class Base:\n    x = 1")},
            {"library": ("aside.near(x)", "aside.near(2 * x)")},
            {"library": ("setting = 3", "setting = 4")},
            {"library": ("factor = 2", "factor = 1")},
            {"library": ("self.once(x)", "self.once(-x)")},
            {"library": ("return 9", "return 0")},
            {"library": ("return 10", "return 0")},
            {"other": ("CONSTANT = 4", "CONSTANT = 5")},
            {"sideways": ("return x", "return -x")},
        ],
        start=10,
    ):
        assert code(number, **changed) != plain


@pytest.mark.parametrize(
    ("shown", "drawn"),
    [("scale", "scale/results-full/curves"), ("crf-estimators", "piecewise/results-guide/guide")],
)
def test_pages_show_the_pictures_of_the_rows(shown: str, drawn: str) -> None:
    picture = ROOT / "experiments" / f"{drawn}.png"
    assert (ROOT / "docs" / "pictures" / f"{shown}.png").read_bytes() == picture.read_bytes()
