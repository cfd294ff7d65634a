"""The experiments of Jernite, Rush & Sontag 2015: `python experiments/lifted_lm/run.py --help`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import appendix
import beside
import best_bound
import figure5
import figure6
import gaps
import sizes
import torch
import trigrams
import vectors
from rows import Rows
from texts import larger, split

PARTS = ("figure5", "figure6", "full-rank", "vectors", "gaps", "best", "trigrams",
         "by-validation", "few-words", "rivals", "larger", "sizes", "appendix")  # fmt: skip


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    rows = Rows(options.output / "rows.jsonl")
    if not options.only_draw:
        _measure(rows, options)
    sections = {
        f"{beside.TEXT}: ours beside the strongest rivals": beside.report(rows),
        "Figure 5: exact and lifted training of 12 tokens": figure5.report(rows, options.output),
        "Figure 6: validation bounds": figure6.report(rows, options.output),
        "Table 1 and word vectors": vectors.report(rows),
        "Gaps of the validation text": gaps.report(rows),
        "The best certified bound": best_bound.report(rows),
        "The trigram field": trigrams.report(rows),
        "Time against the size of the text": sizes.report(rows),
        "Trainings as published": appendix.report(rows),
    }
    pieces = [f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items() if lines]
    table = "\n\n".join(pieces) + "\n"
    (options.output / "report.md").write_text(table, encoding="utf-8")
    print(table)


def _measure(rows: Rows, options: argparse.Namespace) -> None:
    """Rows for what was asked for and is not there yet."""
    text = split(options.scale, options.data)
    for part in options.parts or PARTS:
        print(part, file=sys.stderr)
        if part == "figure5":
            figure5.run(rows, options.scale)
        elif part == "figure6":
            figure6.run(rows, options.scale, text, options.device)
        elif part == "full-rank":
            figure6.run_full_rank(rows, options.scale, text, options.device)
        elif part == "vectors":
            vectors.run(rows, options.scale, text, options.device)
        elif part == "gaps":
            gaps.run(rows, options.scale, text, options.device)
        elif part == "best":
            best_bound.run(rows, options.scale, text, options.device)
        elif part == "trigrams":
            trigrams.run(rows, options.scale, text, options.device)
        elif part == "by-validation":
            trigrams.run_by_validation(rows, options.scale, text, options.device)
        elif part == "few-words":
            trigrams.run_few(rows, options.scale, text)
        elif part == "rivals":
            for own in (text, larger(options.scale, options.data)):
                trigrams.run_rivals(rows, options.scale, own)
        elif part == "larger":
            own = larger(options.scale, options.data)
            trigrams.run_larger(rows, options.scale, own, options.device, options.checkpoint)
        elif part == "appendix":
            appendix.run(rows, options.scale, text, options.device)
        else:
            sizes.run(rows, options.scale, options.data, options.device)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--scale", choices=("smoke", "full"), default="smoke")
    data = os.environ.get("MRFLEARN_DATA")
    parser.add_argument("--data", type=Path, default=Path(data) if data else None)
    parser.add_argument("--output", "-o", type=Path, default=Path("lifted-lm-output"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path, help="where the larger text's training is saved")
    parser.add_argument("--only-draw", action="store_true", help="tables and pictures from rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()
