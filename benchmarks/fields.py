"""Do tables as people have them fit with every estimator, or lead to one that does?

    MRFLEARN_DATA=... python benchmarks/fields.py [--tables votes bfi ...] [--graphs complete]
        [--estimators ...]

The votes, three surveys, a table of columns of two, three and five states, and a frame of answers
in words, each as it is and with 5 % of its cells blanked at random, are learned from by the same
call, `MarkovField(estimator=NAME, l2=0.1)`, on the complete graph and on learned edges.  Where an
estimator refuses, the first one that its message names in quotes is tried next, on the same rows:
a circle of advice ends the run with an error.  Seconds are processor time of one process, the
learning of edges included; "(limit)" marks a search that ended by its number of steps, as all do
whose steps or completions are drawn.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from mrflearn import MarkovField
from mrflearn.errors import MrflearnError
from mrflearn.estimators.field_training import FieldCriterion
from mrflearn.io.samples import read_samples

ESTIMATORS = get_args(FieldCriterion)
QUOTED = re.compile(rf"'({'|'.join(ESTIMATORS)})'")
FILES = {
    "votes": "inverse-ising/rehnquist-court-1994-2004.csv",
    "adhd": "surveys/adhd.csv",
    "wenchuan": "surveys/wenchuan.csv",
    "bfi": "surveys/bfi.csv",
}
BLANK = 0.05


class Attempt(NamedTuple):
    """How an attempt ended, and why the estimator that was asked first refused."""

    ended: str
    reason: str


def tables(names: list[str]) -> dict[str, pd.DataFrame]:
    """The tables by name, as frames of pandas."""
    folder = Path(os.environ["MRFLEARN_DATA"])
    found = {}
    for name, path in FILES.items():
        read = read_samples(folder / path, columns=list(range(9)) if name == "votes" else None)
        values = read.values.astype(float)
        found[name] = pd.DataFrame(np.where(values < 0, np.nan, values), columns=read.names)
    generator = np.random.default_rng(0)
    level = generator.normal(size=600)

    def cut(states: int) -> np.ndarray:
        noisy = level + generator.normal(size=600)
        return np.searchsorted(np.quantile(noisy, np.arange(1, states) / states), noisy)

    sizes = {"smokes": 2, "owns car": 2, "income": 3, "town": 3, "trust": 5, "health": 5}
    found["mixed"] = pd.DataFrame({name: cut(size) for name, size in sizes.items()})
    words = {
        "smokes": ["no", "yes"],
        "car": ["false", "true"],
        "income": ["low", "middle", "high"],
        "trust": ["never", "rarely", "sometimes", "often", "always"],
    }
    found["words"] = pd.DataFrame(
        {name: np.array(own, dtype=object)[cut(len(own))] for name, own in words.items()}
    )
    return {name: found[name] for name in names or found}


def blanked(table: pd.DataFrame) -> pd.DataFrame:
    """The table without 5 % of its cells."""
    gaps = np.random.default_rng(1).random(table.shape) < BLANK
    return table.mask(gaps)


def learn(table: pd.DataFrame, graph: Any, estimator: str, known: dict[str, str]) -> Attempt:
    """What became of one estimator; `known` are the seconds of those that were asked before."""
    tried, asked, reason = [], estimator, ""
    began = time.process_time()
    while asked not in known:
        try:
            known[asked] = fitted(table, graph, asked)
        except MrflearnError as error:
            tried.append(asked)
            named = [own for own in QUOTED.findall(str(error)) if own != asked]
            if not named or named[0] in tried:
                raise SystemExit(f"circle of advice: {tried}, then {error}") from error
            if not reason:
                reason, refused = str(error), time.process_time() - began
            asked = named[0]
    if reason:
        return Attempt(f"refused in {refused:.1f} s: {asked} {known[asked]}", reason)
    return Attempt(known[asked], reason)


def fitted(table: pd.DataFrame, graph: Any, estimator: str) -> str:
    """Seconds of an estimator on a table, and how it ended where it did not converge."""
    began = time.process_time()
    settings = {"l2": 0.1} if estimator != "pmm" else {}
    field = MarkovField(graph, estimator=estimator, **settings).fit(table)
    seconds = time.process_time() - began
    assert field.variable_names_ == list(map(str, table.columns))
    assert np.isfinite(field.strengths_).all()
    chosen = f" by {field.choice_.estimator}" if estimator == "auto" else ""
    ending = "" if field.outcome_.converged else f" ({field.outcome_.ending})"
    return f"{seconds:.1f} s{chosen}{ending}"


def shown(*cells: str) -> None:
    """Prints a line of the table."""
    widths = (42, 8, 9, 30, 30)
    text = [own.ljust(width) for own, width in zip(cells, widths, strict=False)]
    print("  ".join([*text, *cells[len(widths) :]]).rstrip(), flush=True)


def main() -> None:
    """Prints a line for each table, graph and estimator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=[])
    parser.add_argument("--graphs", nargs="*", default=["complete", "learn"])
    parser.add_argument("--estimators", nargs="*", default=["auto", *ESTIMATORS])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    shown("table", "graph", "estimator", "as it is", "5 % blanked", "why refused")
    for name, whole in tables(given.tables).items():
        kinds = whole, blanked(whole)
        rows, columns = whole.shape
        complete = " and ".join(str(len(own.dropna())) for own in kinds)
        title = f"{name} {rows} x {columns} ({complete} complete)"
        for graph in given.graphs:
            known: list[dict[str, str]] = [{}, {}]
            for estimator in given.estimators:
                pairs = zip(kinds, known, strict=True)
                one, other = (learn(own, graph, estimator, seen) for own, seen in pairs)
                reason = (one.reason or other.reason).partition(". ")[0]
                shown(title, graph, estimator, one.ended, other.ended, reason[:100])


if __name__ == "__main__":
    main()
