"""Do tables as people have them fit with every estimator, or lead to one that does?

    MRFLEARN_DATA=... python benchmarks/fields.py [--tables votes wenchuan ...] [--estimators ...]

The votes, three surveys, a table of columns of two, three and five states, and a frame of answers
in words, each as it is and with 5 % of its cells blanked at random, are learned from by the same
call, `MarkovField(estimator=NAME, l2=0.1)`, on the complete graph and on learned edges.  Where an
estimator refuses, the first one that its message names in quotes is tried next, on the same rows:
a circle of advice, or rows that were dropped, end the run with an error.  Seconds are processor
time of one process.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import warnings
from pathlib import Path
from typing import Any, get_args

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


def learn(table: pd.DataFrame, graph: Any, estimator: str) -> str:
    """What became of one estimator: seconds, or its refusal and who took its place."""
    tried, asked = [], estimator
    began = time.process_time()
    while True:
        try:
            settings = {"l2": 0.1} if asked != "pmm" else {}
            field = MarkovField(graph, estimator=asked, **settings).fit(table)
            break
        except MrflearnError as error:
            tried.append(asked)
            named = [own for own in QUOTED.findall(str(error)) if own != asked]
            if not named or named[0] in tried:
                raise SystemExit(f"circle of advice: {tried}, then {error}") from error
            asked = named[0]
            reason = str(error)
    seconds = time.process_time() - began
    assert field.variable_names_ == list(map(str, table.columns))
    assert np.isfinite(field.strengths_).all()
    if tried:
        return f"refuses; '{field.estimator}' takes it in {seconds:.1f} s   [{reason[:150]}]"
    ending = "" if field.outcome_.converged else f"  ({field.outcome_.reason})"
    chosen = f" ({field.choice_.estimator})" if estimator == "auto" else ""
    return f"{seconds:.1f} s{chosen}{ending}"


def main() -> None:
    """Prints a line for each table and estimator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=[])
    parser.add_argument("--estimators", nargs="*", default=["auto", *ESTIMATORS])
    given = parser.parse_args()
    for name, whole in tables(given.tables).items():
        for table, kind in ((whole, "as it is"), (blanked(whole), "5 % blanked")):
            complete = len(table.dropna())
            print(f"{name}, {kind}: {table.shape}, {complete} rows complete", flush=True)
            for graph in ("complete", "learn"):
                for estimator in given.estimators:
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always")
                        became = learn(table, graph, estimator)
                    remarks = " | ".join(sorted({str(own.message)[:110] for own in said}))
                    print(f"  {graph:9s} {estimator:9s} {became}", flush=True)
                    if remarks:
                        print(f"            {remarks}", flush=True)


if __name__ == "__main__":
    main()
