"""`mrflearn demo`: every step on built-in data, in under two minutes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from mrflearn import plots
from mrflearn.cli.output import remark, say, say_json
from mrflearn.describe.blocks import add_blocks, answer, as_text
from mrflearn.examples import STEPS


def demo(output: Path, seed: int, as_json: bool) -> None:
    """Learn a field, a language model, a tagger and a parser from built-in data, and draw them."""
    started = time.perf_counter()
    page, tell = plots.Page("What mrflearn does"), remark if as_json else say
    page.text(
        "Everything on this page was learned a moment ago, on this machine, from data that come "
        "with the library. The models are beside it, and answer questions on a page of their own:"
    )
    models = (str(output / name) for name in ("language-model", "tagger", "grid-model"))
    page.lines(ask := " ".join(["mrflearn serve", *models]))
    for number, (title, step) in enumerate(STEPS.items(), start=1):
        if not as_json:
            say(f"{number}. {title}")
        sys.stdout.flush()
        blocks, drawn = step(output, seed)
        if as_json:
            say_json({"title": title, **answer(blocks), "text": as_text(blocks)})
        else:
            say(as_text(blocks) + "\n")
        page.heading(title)
        add_blocks(page, [*blocks, *drawn])
    page.write(output / "report.html")
    tell(f"Done in {time.perf_counter() - started:.1f} s. Open {output / 'report.html'}; or ask:")
    tell(f"   {ask}")
