"""`mrflearn demo`: commands of `demo.toml` on built-in data, in under two minutes."""

from __future__ import annotations

import io
import re
import shlex
import sys
import textwrap
import time
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import typer

from mrflearn import load, plots
from mrflearn.cli import main
from mrflearn.cli.output import remark, say, say_json
from mrflearn.datasets import docstring_sentences, sample_documents
from mrflearn.describe import describe
from mrflearn.describe.blocks import add_blocks
from mrflearn.graph import grid, random_ising, to_uai
from mrflearn.inference import Drawing
from mrflearn.io import corpus, formats, ptb, samples, uai

STEPS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["steps"]
BIG_SIDE = 16
SIDE, TRAIN, HELD_OUT = 5, 20_000, 5_000
PACKAGES = ("numpy", "scipy")
LESSONS, TESTS = 60, 10  # documents
MOST_WORDS = 15  # of a sentence that the grammar is learned from


def demo(output: Path, seed: int, as_json: bool) -> None:
    """Learn a field, a language model, a tagger and a parser from built-in data, and draw them."""
    started = time.perf_counter()
    _write_data(output, seed)
    page = plots.Page("What mrflearn does")
    page.text(
        "Everything on this page was learned a moment ago, on this machine, from data that come "
        "with the library. The models are beside it, and answer questions on a page of their own:"
    )
    ask = " ".join(str(output / name) for name in ("language-model", "tagger", "grid-model"))
    page.lines(f"mrflearn serve {ask}")
    tell = remark if as_json else say
    for number, step in enumerate(STEPS, start=1):
        tell(f"{number}. {step['title']}")
        page.heading(step["title"])
        answers = []
        for line, *shown in step["commands"]:
            words = [word.format(output, seed) for word in shlex.split(line)]
            tell(command := f"> mrflearn {shlex.join(words)}")
            sys.stdout.flush()
            tell(text := _answer(words, *shown))
            page.lines(f"{command}\n{text}")
            answers.append({"command": command, "text": text})
        if as_json:
            say_json({"title": step["title"], "answers": answers})
        tell("")
        for name in step["models"]:
            add_blocks(page, describe(load(output / name)).report())
    page.write(output / "report.html")
    tell(f"Done in {time.perf_counter() - started:.1f} s. Open {output / 'report.html'}; or ask:")
    tell(f"   mrflearn serve {ask}")


def _answer(words: list[str], shown: str = "") -> str:
    """What a command prints; in one line the facts that are named, if any."""
    with redirect_stdout(io.StringIO()) as stream:
        if code := main.command_tree()(words, prog_name="mrflearn", standalone_mode=False):
            raise typer.Exit(code)
    text = stream.getvalue().rstrip()
    if shown:
        facts = (line for line in text.splitlines() if re.match(shown, line))
        text = "; ".join(" ".join(line.split()) for line in facts)
    return textwrap.indent(text, "   ")


def _write_data(folder: Path, seed: int) -> None:
    """The built-in data as files: those to learn from, and new ones to try the models on."""
    folder.mkdir(parents=True, exist_ok=True)
    big = random_ising(grid(BIG_SIDE, BIG_SIDE), scale=1.0, seed=seed)
    uai.write_network(folder / "grid.uai", to_uai(big))
    field = random_ising(grid(SIDE, SIDE), scale=1.0, seed=seed)
    rows = Drawing()(field, TRAIN + HELD_OUT, seed=seed).samples.numpy()
    text = list(docstring_sentences(PACKAGES))
    documents = sample_documents(LESSONS + TESTS, seed=seed)
    for prefix, own, sentences, english in (
        ("", rows[:TRAIN], (words for i, words in enumerate(text) if i % 10), documents[:LESSONS]),
        ("new-", rows[TRAIN:], text[::10], documents[LESSONS:]),
    ):
        samples.write_samples(folder / f"{prefix}spins.csv", samples.SampleTable(None, own))
        corpus.write_sentences(folder / f"{prefix}text.txt", sentences)
        tagged = [formats.TaggedSentence(s.words, s.tags) for d in english for s in d.sentences]
        formats.write_tagged(folder / f"{prefix}words.tagged", tagged)
        short = [[s for s in d.sentences if len(s.words) <= MOST_WORDS] for d in english]
        texts = [[s.words for s in own] for own in short]
        corpus.write_documents(folder / f"{prefix}documents.txt", texts)
        ptb.write_trees(folder / f"{prefix}trees.mrg", [s.tree for own in short for s in own])
    corpus.write_sentences(folder / "sentence.txt", texts[0][:1])
