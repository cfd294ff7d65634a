"""A protein family by pseudolikelihood, beside what CCMpred and plmc reported for it.

    MRFLEARN_DATA=... python benchmarks/potts.py                     # 1atzA, one core
    MRFLEARN_DATA=... python benchmarks/potts.py --family PF00014.fasta
    MRFLEARN_DATA=... python benchmarks/potts.py --structure 1atzA.pdb   # precision of contacts
    python benchmarks/potts.py --alignment FILE --published MY.json --device cuda

CCMpred and plmc are C programs that no package installs, so the figures of peers come from a file
(--published): the objective where each stopped, its seconds, its strongest contacts.  Ours are
measured now, with the same penalties, sequence weights and objective.  Where a peer's list has all
L strongest contacts, the share in common comes first.  --matrix compares with scores in CCMpred's
format: its own (`ccmpred ALN MATRIX`) or those of the exact optimum (`potts_reference.py`).
--structure (a file, or one of protein-msa) adds the precision of contacts, of --matrix too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mrflearn import PottsField
from mrflearn.evaluation.contacts import compare_contacts
from mrflearn.graph.contacts import strongest_pairs
from mrflearn.io.alignments import read_alignment
from mrflearn.io.contacts import read_contacts
from mrflearn.io.structures import read_structure

LETTERS = "-ACDEFGHIKLMNPQRSTVWY"
PUBLISHED = Path(__file__).parent / "potts_peers.json"


def strongest(scores: np.ndarray, count: int) -> list[str]:
    """Contacts of columns at least four apart, counted from 1, the strongest first."""
    pairs = strongest_pairs(torch.as_tensor(scores), count, apart=4)
    return [f"{a + 1}-{b + 1}" for a, b in pairs.tolist()]


def measure(
    alignment: Path, device: str, *, ignore_gaps: bool = False
) -> tuple[PottsField, dict[str, Any]]:
    """Our field, and what it took: reading is left out, sequence weights are not."""
    family = read_alignment(alignment, drop_inserts=alignment.suffix != ".aln")
    rows = family.values
    wall, processor = time.perf_counter(), time.process_time()
    field = PottsField(states=21, device=device, ignore_gaps=ignore_gaps).fit(family)
    contacts = field.contacts_
    ended = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    began = time.perf_counter()
    ended["mutants"] = field.scan_mutants().scores.size
    ended["scan"] = time.perf_counter() - began
    outcome = field.outcome_
    return field, {
        "objective": outcome.value,
        "evaluations": outcome.evaluations,
        "ending": outcome.ending,
        **ended,
        "contacts": strongest(contacts, rows.shape[1]),
    }


def precision(field: PottsField, structure: Path, scores: dict[str, np.ndarray]) -> list[str]:
    """The shares of contacts among the strongest pairs at least 6 columns apart, and 24."""
    found, lines = read_structure(structure), []
    for name, own in scores.items():
        letters = LETTERS[len(LETTERS) - field.frequencies_.shape[1] :]  # gaps may be ignored
        compared = compare_contacts(own, field.frequencies_, letters, found)
        near, far = compared.precision(), compared.precision(apart=24)
        few = int((own > 0).sum()) // 2 <= len(own)  # a list of the strongest alone
        shares = [
            " ".join(f"{k} {v:.3f}" for k, v in part.items() if not few or _known(own, k))
            for part in ((near,) if few else (near, far))
        ]
        lines.append(f"precision of {name}: {'; long range '.join(shares)}")
    return lines


def _known(ranks: np.ndarray, share: str) -> bool:
    """Whether a list has so many pairs at least 6 columns apart; `share`: such as L/2."""
    return int((np.triu(ranks, 6) > 0).sum()) >= len(ranks) / int(share.partition("/")[2] or 1)


def ranks(listed: list[str], columns: int) -> np.ndarray:
    """Contacts in their order as a matrix of scores."""
    matrix = np.zeros((columns, columns))
    for place, pair in enumerate(listed):
        one, two = (int(own) - 1 for own in pair.split("-"))
        matrix[one, two] = matrix[two, one] = len(listed) - place
    return matrix


def in_common(ours: list[str], other: list[str], name: str) -> str:
    """How many of two lists of the same length are on both."""
    shared = len({*ours} & {*other})
    return (
        f"{shared} of our {len(ours)} strongest contacts ({100 * shared / len(ours):.1f} %): {name}"
    )


def reached(field: PottsField, objective: float) -> str:
    """When our search passed a peer's value."""
    for row in field.outcome_.history:
        if row.value <= objective:
            return f"{row.evaluations} evaluations, {row.seconds:.1f} s"
    return "never"


def compare(field: PottsField, ours: dict[str, Any], name: str, peer: dict[str, Any]) -> list[str]:
    """What a reader wants to know about one peer."""
    listed = peer["contacts"]
    shared = len(set(listed) & set(ours["contacts"][: len(listed)]))
    lines = [f"{name}: {peer['seconds']} s, {peer['ending']}"]
    if peer["objective"] is not None:
        gap = ours["objective"] - peer["objective"]
        lines.append(
            f"  its objective {peer['objective']:,.1f}, ours {ours['objective']:,.1f} ({gap:+,.1f})"
        )
        lines.append(f"  ours passes its objective after {reached(field, peer['objective'])}")
    lines.append(f"  {shared} of its {len(listed)} strongest contacts are among our {len(listed)}")
    lines.append(f"  our seconds / its seconds: {ours['processor'] / peer['seconds']:.2f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", default="1atzA.aln", help="a file of protein-msa")
    parser.add_argument("--alignment", type=Path, help="any alignment instead")
    parser.add_argument("--published", type=Path, default=PUBLISHED, help="figures of peers")
    parser.add_argument("--matrix", type=Path, help="scores that CCMpred wrote for it")
    parser.add_argument("--structure", type=Path, help="a PDB or mmCIF file")
    parser.add_argument("--ignore-gaps", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    alignment = options.alignment
    if alignment is None:
        if "MRFLEARN_DATA" not in os.environ:
            sys.exit("set MRFLEARN_DATA to the folder that holds protein-msa, or give --alignment")
        alignment = Path(os.environ["MRFLEARN_DATA"]) / "protein-msa" / options.family
    torch.set_num_threads(1)  # the peers had one core
    structure = options.structure
    if structure is not None and not structure.exists():
        structure = alignment.parent / structure
    field, ours = measure(alignment, options.device, ignore_gaps=options.ignore_gaps)
    peers = json.loads(options.published.read_text())
    published = peers["families"].get(alignment.name, {})
    if options.matrix is not None:
        other = strongest(read_contacts(options.matrix), len(ours["contacts"]))
        ours["shared_with_matrix"] = len({*other} & {*ours["contacts"]}) / len(other)
    judged: list[str] = []
    if structure is not None:
        scores = {"our scores": field.contacts_}
        scores |= {} if options.matrix is None else {"the matrix": read_contacts(options.matrix)}
        columns = len(field.contacts_)
        scores |= {name: ranks(own["contacts"], columns) for name, own in published.items()}
        judged = precision(field, structure, scores)
        known = peers.get("precision", {}).get(alignment.name, {})
        judged += [f"precision of {name}: {shares}" for name, shares in known.items()]
        ours["precision"] = judged
    if options.json:
        print(json.dumps({"family": alignment.name, "ours": ours, "published": published}))
        return
    for line in judged:
        print(line)
    for name, peer in published.items():
        if len(peer["contacts"]) == len(ours["contacts"]):
            print(in_common(ours["contacts"], peer["contacts"], name))
    if options.matrix is not None:
        print(in_common(ours["contacts"], other, str(options.matrix)))
    spent = f"{ours['wall']:.1f} s on the clock, {ours['processor']:.1f} s of processor"
    print(f"{alignment.name}: {spent}; {ours['mutants']:,} mutants in {ours['scan']:.3f} s")
    print(f"objective {ours['objective']:,.1f} after {ours['evaluations']} evaluations")
    for name, peer in published.items():
        print("\n".join(compare(field, ours, name, peer)))


if __name__ == "__main__":
    main()
