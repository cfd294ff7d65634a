"""A generative field of a protein family: how soon do its samples have the family's correlations?

    MRFLEARN_DATA=... python benchmarks/boltzmann.py --device cuda       # 1atzA, 10,000 chains
    python benchmarks/boltzmann.py --alignment FILE --chains 500 --max-iterations 20

`PottsField(estimator="pcd")` stops where the Pearson correlation of the connected correlations
f_ij(a, b) - f_i(a) f_j(b) of all pairs of columns and letters, its chains against the data, is
--correlation (adabmDCA's criterion).  The chains of training have moved with the couplings, so new
ones are compared, too: from letters drawn by the fields alone, after --fresh sweeps.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch

from mrflearn import PottsField
from mrflearn.estimators.potts import sequence_weights
from mrflearn.io.alignments import read_alignment
from mrflearn.objectives.contrastive import GibbsChains, connected_correlations, pearson

STATES = 21


def fresh_chains(field: PottsField, rows: torch.Tensor, sweeps: list[int]) -> list[float]:
    """The correlation of new chains with the data after so many sweeps."""
    potentials = field.potentials_
    device = potentials.unary_scores().device
    moves, generator = GibbsChains(potentials.graph), torch.Generator(device).manual_seed(1)
    rows = rows.to(device)
    seen = connected_correlations(moves.frequencies(rows, sequence_weights(rows, STATES)))
    chains, done, found = moves.begin(potentials, field.chains, generator), 0, []
    for end in sweeps:
        chains = moves.sweep(potentials, chains, end - done, generator)
        drawn = connected_correlations(moves.frequencies(chains))
        found.append(float(pearson(drawn, seen)))
        done = end
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", default="1atzA.aln", help="a file of protein-msa")
    parser.add_argument("--alignment", type=Path, help="any alignment instead")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--chains", type=int, default=10_000)
    parser.add_argument("--sweeps", type=int, default=5, help="between two steps")
    parser.add_argument("--correlation", type=float, default=0.95)
    parser.add_argument("--max-iterations", type=int, default=20_000)
    parser.add_argument("--fresh", type=int, nargs="*", default=[500, 1000])
    own = parser.parse_args()
    alignment = own.alignment
    if alignment is None:
        if "MRFLEARN_DATA" not in os.environ:
            sys.exit("set MRFLEARN_DATA to the folder that holds protein-msa, or give --alignment")
        alignment = Path(os.environ["MRFLEARN_DATA"]) / "protein-msa" / own.family
    family = read_alignment(alignment, drop_inserts=alignment.suffix != ".aln")
    settings = {"chains": own.chains, "sweeps": own.sweeps, "correlation": own.correlation}
    limits = {"max_iterations": own.max_iterations, "device": own.device}
    began = time.perf_counter()
    field = PottsField(states=STATES, estimator="pcd", **settings, **limits).fit(family)
    seconds = time.perf_counter() - began  # the weights of sequences included
    cuda = own.device != "cpu" and torch.cuda.is_available()
    place = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    outcome = field.outcome_
    print(f"{alignment.name}: {len(family)} sequences, {family.values.shape[1]} columns; {place}")
    print(
        f"Pearson {1 - outcome.value:.4f} after {outcome.iterations} steps of {own.sweeps} sweeps "
        f"of {own.chains:,} chains, {seconds:.1f} s ({outcome.ending})"
    )
    rows = torch.as_tensor(family.values).long()
    for sweeps, found in zip(own.fresh, fresh_chains(field, rows, own.fresh), strict=True):
        print(f"new chains after {sweeps:,} sweeps: Pearson {found:.4f}")


if __name__ == "__main__":
    main()
