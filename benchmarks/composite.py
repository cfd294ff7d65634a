"""Charts against their peers on the same scores, in one run on one core, as ratios.

Inside and outside of a full grammar of 30 phrases and 60 preterminals: torch-struct, and NLTK,
which finds best parses only and is stopped after a minute.  The grammar of a treebank (the sample
under MRFLEARN_DATA, else built-in English): NLTK.  A time counts only where the answers agree; a
peer that cannot run says why.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rivals import ask_process, best

from mrflearn.datasets.english import sample_documents
from mrflearn.features.treebank import TreebankCounts, normal_form
from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import inside_outside
from mrflearn.inference.parses import best_parses
from mrflearn.io.ptb import read_trees
from mrflearn.io.trees import Tree
from mrflearn.kernels.rules import RuleShape

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers-composite" / "bin" / "python"
REPEATS, SECONDS, PATIENCE = 3, 300, 60
PHRASES, PRETERMINALS = 30, 60


def ask(peer: str, task: dict[str, Any]) -> dict[str, Any]:
    """The peer's answer, or a record with the reason why there is none."""
    if not PEERS.exists():
        return {"error": "not installed: run benchmarks/setup_peers.py composite"}
    command = [str(PEERS), "-I", str(HERE / "composite_peers" / f"{peer}.py")]
    return ask_process(command, task, seconds=SECONDS)


def row(work: str, ours: float, peer: str, theirs: dict[str, Any], note: str = "") -> list[str]:
    if "error" in theirs:
        return [work, f"{1e3 * ours:.1f}", peer, "-", "-", theirs["error"]]
    ratio = f"{theirs['seconds'] / ours:.0f}x"
    if theirs.get("score", 0.0) is None:
        ratio, note = f"> {ratio}", f"{peer} was stopped, unfinished"
    return [work, f"{1e3 * ours:.1f}", peer, f"{1e3 * theirs['seconds']:.0f}", ratio, note]


def full_grammars(folder: Path) -> Iterator[list[str]]:
    """One value and all counts of random scores, single precision."""
    shape = RuleShape.full(PHRASES, PRETERMINALS)
    symbols = shape.symbols
    for length, sentences in ((20, 1), (20, 8), (40, 1), (40, 4)):
        generator = torch.Generator().manual_seed(0)
        words = torch.randn(sentences, length, PRETERMINALS, generator=generator).log_softmax(-1)
        rules = torch.randn(PHRASES, symbols**2, generator=generator).log_softmax(-1).flatten()
        start = torch.randn(PHRASES, generator=generator).log_softmax(-1)
        scores, answer = folder / "scores.pt", folder / "answer.pt"
        table = rules.view(PHRASES, symbols, symbols)
        torch.save({"words": words, "rules": table, "start": start}, scores)
        no_words = torch.full((PRETERMINALS,), -torch.inf)
        lengths = torch.full((sentences,), length)
        roots = torch.cat([start, no_words])
        potentials = ChartPotentials(shape, words.flatten(0, 1), lengths, rules, roots)
        seconds, mine = best(lambda a=potentials: inside_outside(a))
        task = {"scores": str(scores), "answer": str(answer), "repeats": REPEATS}
        theirs = ask("torch_struct_inside", task)
        if "error" not in theirs:
            given = torch.load(answer)
            apart = max(
                float((mine.log_partition / given["value"] - 1).abs().max()),
                float((mine.words - given["words"].flatten(0, 1)).abs().max()),
                float((mine.rules - given["rules"].flatten()).abs().max()),
            )
            note = f"answers agree to {apart:.0e}"
            if apart > 1e-3:
                theirs = {"error": f"answers differ by {apart:.0e}: no time counts"}
        work = f"inside + outside, {sentences} x {length} words"
        yield row(work, seconds, "torch-struct", theirs, note if "error" not in theirs else "")


def full_grammars_by_nltk() -> Iterator[list[str]]:
    """Inside and outside beside NLTK's best parse, random tags in a full grammar."""
    shape = RuleShape.full(PHRASES, PRETERMINALS)
    generator = torch.Generator().manual_seed(0)
    rules = torch.randn(PHRASES, shape.symbols**2, generator=generator).log_softmax(-1).flatten()
    start = torch.randn(PHRASES, generator=generator).log_softmax(-1)
    rules, start = rules.double(), torch.cat([start, start.new_full((PRETERMINALS,), -torch.inf)])
    start = start.double()
    for length in (3, 20, 40):
        tags = torch.randint(PRETERMINALS, (length,), generator=generator)
        arguments = one_of_each(tags, shape), torch.tensor([length]), rules, start
        single = [x.float() if x.is_floating_point() else x for x in arguments]
        seconds, _ = best(lambda a=single: inside_outside(ChartPotentials(shape, *a)))
        task = _as_productions(shape, rules, start, tags) | {"limit": PATIENCE}
        theirs = ask("nltk_viterbi", task)
        note = ""
        if theirs.get("score") is not None:
            score = best_parses(ChartPotentials(shape, *arguments), 1)[0][0].score
            note = f"best parse: both {score:.3f}"
            if abs(theirs["score"] - score) > 1e-6:
                theirs = {"error": f"answers differ: {score} and {theirs['score']}"}
        yield row(f"inside + outside, {length} tags", seconds, "NLTK Viterbi", theirs, note)


def one_of_each(tags: torch.Tensor, shape: RuleShape) -> torch.Tensor:
    """Scores of words whose preterminals are known."""
    words = torch.full((len(tags), shape.preterminals), -torch.inf, dtype=torch.float64)
    words[torch.arange(len(tags)), tags] = 0.0
    return words


def treebank() -> tuple[str, list[Tree]]:
    data = os.environ.get("MRFLEARN_DATA")
    if data and Path(data, "treebank-sample").is_dir():
        return "treebank sample", list(read_trees(Path(data, "treebank-sample", "trees.mrg")))
    documents = sample_documents(500, seed=0)
    return "built-in English", [s.tree for d in documents for s in d.sentences]


def treebank_grammars() -> Iterator[list[str]]:
    """Best parses, and the sums over all parses, of tag strings of the treebank itself."""
    name, trees = treebank()
    counts = TreebankCounts.of(trees)
    shape, rules, roots = counts.shape, counts.log_rules(), counts.root_counts()
    start = (roots / roots.sum()).log()
    print(f"{name}: {shape.phrases} phrases, {len(shape)} rules", file=sys.stderr)
    for length in (5, 10, 15):
        tree = next(t for t in map(normal_form, trees) if t is not None and len(t.words) == length)
        tags = torch.tensor([counts.preterminals.index(tag) for tag in tree.tags])
        words, lengths = one_of_each(tags, shape), torch.tensor([length])
        potentials = ChartPotentials(shape, words, lengths, rules, start)
        seconds, ((parse,),) = best(lambda a=potentials: best_parses(a, 1))
        theirs = ask("nltk_viterbi", _as_productions(shape, rules, start, tags))
        if "error" not in theirs and abs(theirs["score"] - parse.score) > 1e-6:
            theirs = {"error": f"answers differ: {parse.score} and {theirs['score']}"}
        note = f"both {parse.score:.3f}"
        yield row(f"best parse, {length} tags", seconds, "NLTK Viterbi", theirs, note)
        seconds, _ = best(lambda a=potentials: inside_outside(a))
        note = "NLTK sums over no parses; its best parse is compared with"
        yield row(f"inside + outside, {length} tags", seconds, "NLTK Viterbi", theirs, note)


def _as_productions(
    shape: RuleShape, rules: torch.Tensor, start: torch.Tensor, tags: torch.Tensor
) -> dict[str, Any]:
    triples = zip(shape.parent.tolist(), shape.left.tolist(), shape.right.tolist(), strict=True)
    listed: list[Any] = [
        (f"C{a}", [f"C{b}", f"C{c}"], chance)
        for (a, b, c), chance in zip(triples, rules.exp().tolist(), strict=True)
    ]
    roots = start.exp().tolist()
    listed += [("ROOT", [f"C{s}"], chance) for s, chance in enumerate(roots) if chance]
    listed += [(f"C{shape.phrases + p}", [f"w{p}"], 1.0) for p in range(shape.preterminals)]
    return {"rules": listed, "words": [f"w{p}" for p in tags.tolist()]}


def main() -> None:
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    rows = [["work", "mrflearn ms", "peer", "peer ms", "ratio", "remark"]]
    with tempfile.TemporaryDirectory() as name:
        for part in (full_grammars(Path(name)), full_grammars_by_nltk(), treebank_grammars()):
            for found in part:
                print("  ".join(found[:3]), file=sys.stderr)
                rows.append(found)
    widths = [max(len(cells[k]) for cells in rows) for k in range(6)]
    for cells in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(line.rstrip())


if __name__ == "__main__":
    main()
