"""Pages: everything inside, nothing unescaped, one for every model that is trained."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from mrflearn import (
    CompositeLanguageModel,
    FactorialCRF,
    HMMTagger,
    JointTagger,
    LanguageModel,
    MarkovField,
    NgramLanguageModel,
)
from mrflearn.describe import describe
from mrflearn.describe.blocks import add_blocks
from mrflearn.plots.curves import draw_curves
from mrflearn.plots.page import Page
from support.command import run
from support.estimators import estimators

TEXT = [line.split() for line in ("the dog barks", "the cat sees the dog", "a cat sees a dog")] * 4


TAGS = [["DT" if word in ("a", "the") else "NN" for word in words] for words in TEXT]
PICTURES = {"lm": 2, "tables": 1, "ngram": 0, "field": 4, "potts": 4}
PICTURES |= {
    "hmm": 1,
    "joint": 1,
    "layers": 1,
    "composite": 1,
    "graphs": 1,
    "pcfg": 0,
    "vectors": 1,
}


class Opened(HTMLParser):
    """The open tags of a page, and whether each is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def opened(text: str) -> Opened:
    found = Opened()
    found.feed(text)
    assert found.open == []
    return found


def test_a_page_holds_what_was_put_on_it() -> None:
    page = Page("a < b & c")
    page.heading("<script>")
    page.text("1 < 2")
    page.lines("(S (NP a))")
    page.table(("name", "size"), [("<i>", 1234), ("x", 0.123456789), ("none", None)])
    page.picture(draw_curves({"one": ([0, 1], [1, 0])}, across="x", upward="y"), 'say "so"')
    text = page.html()
    tags = opened(text).seen
    assert "script" not in tags
    assert "i" not in tags
    assert tags.count("img") == 1
    assert "1,234" in text
    assert "0.123457" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)


@pytest.mark.parametrize("kind", PICTURES)
def test_every_kind_of_model_has_a_page(kind: str) -> None:
    rows = np.random.default_rng(0).integers(0, 3 if kind == "potts" else 2, (40, 4))
    models = {
        "lm": lambda: LanguageModel(3, 1, max_iterations=10).fit(TEXT),
        "tables": lambda: LanguageModel(context=1, form="explicit", max_iterations=10).fit(TEXT),
        "ngram": lambda: NgramLanguageModel(2).fit(TEXT),
        "field": lambda: MarkovField("grid:2x2", estimator="pl", l2=0.1).fit(rows),
        "potts": lambda: MarkovField("chain:4", estimator="pl", l2=0.1).fit(rows),
        "hmm": lambda: HMMTagger().fit(TEXT, TAGS),
        "joint": lambda: JointTagger(max_iterations=10).fit(TEXT, TAGS),
        "layers": lambda: FactorialCRF(max_iterations=5).fit(
            [[[word] for word in words] for words in TEXT], [[own, own] for own in TAGS]
        ),
        "composite": lambda: CompositeLanguageModel(2, topics=2, max_iterations=2).fit(
            [TEXT, TEXT]
        ),
    }
    models |= {
        kind: estimators()[name].fitted
        for kind, name in {"graphs": "GraphCRF", "pcfg": "PCFG", "vectors": "WordVectors"}.items()
    }
    facts = {"checked": True, "seconds": 0.5, "labels": ["a"], "nothing": None}
    page = Page("small")
    add_blocks(page, describe(models[kind]()).report(facts))
    text = page.html()
    tags = opened(text).seen
    assert "<h1>small</h1>" in text
    assert "<td>yes</td>" in text
    assert "nothing" not in text
    assert tags.count("img") == PICTURES[kind]


def test_training_writes_the_page_into_the_model(tmp_path: Path) -> None:
    file = tmp_path / "tagged.txt"
    file.write_text("the DT\ndog NN\n\na DT\ncat NN\n", encoding="utf-8")
    result = run("train", "crf", str(file), "-o", str(tmp_path / "model"))
    assert result.code == 0
    report = tmp_path / "model" / "report.html"
    assert str(report) in result.err
    text = report.read_text(encoding="utf-8")
    assert {"Training", "Transitions", "Largest weights"} <= set(re.findall("<h2>(.*?)<", text))
    assert run("inspect", str(tmp_path / "model")).code == 0  # still a model
