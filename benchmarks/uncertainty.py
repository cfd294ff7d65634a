"""Do intervals of couplings cover the truth, and are standard errors as large as the spread?

    python benchmarks/uncertainty.py [--replications 200] [--samples 500] [--bootstraps 400]
        [--resamples 1000] [--jobs 2]

Simulated spin networks on a 3 x 3 grid and on complete graphs of 8 variables, learned without a
penalty on the true edges; coverage is pooled over edges, the networks are drawn anew each time.
Times are of the clock, with so many processes.  The survey is `surveys/adhd.csv` of MRFLEARN_DATA,
drawn with replacement to 500 rows; the larger table is a simulated sparse network of 200 spins.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import torch

from mrflearn import FieldStructure, MarkovField
from mrflearn.evaluation import bootstrap, standard_errors
from mrflearn.graph.builders import complete, from_networkx, grid
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import random_ising, zero_sum_gauge
from mrflearn.inference.sampling import Drawing
from mrflearn.io.samples import read_samples

GRAPHS = {"grid 3x3": grid(3, 3), "complete 8": complete(8)}
NETWORKS = {"grid 3x3": "grid:3x3", "complete 8": "complete"}


def true_couplings(potentials: object) -> np.ndarray:
    """The spin couplings of a field, in the order of its edges."""
    field = zero_sum_gauge(potentials)
    parts = [
        field.factor_scores(k)[:, 1, 1]
        for k, group in enumerate(field.graph.groups)
        if group.arity == 2
    ]
    return torch.cat(parts).numpy()


def covered(intervals: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether each interval holds the truth."""
    return (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])


def coverage(name: str, graph: FactorGraph, replications: int, samples: int, draws: int) -> None:
    """Coverage over networks drawn anew, and the spread of estimates of one of them."""
    for estimator in ("pl", "ml", "lap"):
        hits, boots, errors, estimates = [], [], [], []
        for number in range(replications):
            field = random_ising(graph, seed=number, scale=0.5)
            rows = Drawing()(field, samples, seed=number).samples.numpy()
            model = MarkovField(NETWORKS[name], estimator=estimator).fit(rows)
            truth = true_couplings(field)
            hits.append(covered(standard_errors(model, rows).intervals, truth))
            if estimator == "pl" and draws:
                found = bootstrap(model, rows, draws, random_state=number)
                boots.append(covered(found.intervals(), truth))
            # The same network again and again, for the spread of its estimates.
            again = Drawing()(random_ising(graph, seed=0, scale=0.5), samples, seed=10_000 + number)
            rows = again.samples.numpy()
            model = MarkovField(NETWORKS[name], estimator=estimator).fit(rows)
            estimates.append(model.strengths_)
            errors.append(standard_errors(model, rows).errors)
        spread = np.std(estimates, axis=0, ddof=1).mean()
        ratio = np.mean(errors) / spread
        print(
            f"{name:10s} {estimator:4s} coverage of 95 % intervals {100 * np.mean(hits):5.1f} %; "
            f"mean standard error / mean spread {ratio:.3f}",
            flush=True,
        )
        if boots:
            print(f"{name:10s} {estimator:4s} bootstrap coverage {100 * np.mean(boots):5.1f} %")


def times(resamples: int, jobs: int) -> None:
    """Seconds of structure learning and of bootstraps of 500 rows of 18 symptoms."""
    folder = os.environ.get("MRFLEARN_DATA")
    path = Path(folder or ".") / "surveys" / "adhd.csv"
    if not path.exists():
        print("no surveys/adhd.csv in MRFLEARN_DATA: no times")
        return
    table = read_samples(path, columns=list(range(1, 19)))
    place = np.random.default_rng(0).integers(0, len(table), 500)
    rows = table.values[place]
    FieldStructure().fit(rows)  # loads what is needed
    joined = nx.gnm_random_graph(200, 300, seed=0)
    large = Drawing()(random_ising(from_networkx(joined, 2)[0], seed=0, scale=0.5), 2000, seed=0)
    for name, own in (("500 x 18", rows), ("2,000 x 200", large.samples.numpy())):
        began = time.perf_counter()
        found = FieldStructure().fit(own)
        seconds = time.perf_counter() - began
        print(f"structure of {name}: {seconds:.3f} s, {len(found.edges_)} edges", flush=True)
    for graph in ("complete", "learn"):
        model = MarkovField(graph, estimator="pl").fit(rows)
        began = time.perf_counter()
        bootstrap(model, rows, resamples, n_jobs=jobs)
        seconds = time.perf_counter() - began
        print(f"{resamples:,} bootstraps of 500 x 18, graph {graph}: {seconds:.1f} s", flush=True)


def main() -> None:
    """Prints all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--bootstraps", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.resamples:
        times(given.resamples, given.jobs)
    for name, graph in GRAPHS.items() if given.replications else ():
        coverage(name, graph, given.replications, given.samples, given.bootstraps)


if __name__ == "__main__":
    main()
