"""The exact optimum of CCMpred's objective, from nothing but numpy and scipy.

    python benchmarks/potts_reference.py 1atzA.aln reference.mat     # minutes on several cores

Written apart from the library, on purpose, so that the two can be compared: letters are one-hot,
couplings one square matrix, everything float64, and L-BFGS goes on until nothing changes.  The
matrix has CCMpred's format; `benchmarks/potts.py --matrix` compares its L strongest contacts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.optimize import OptimizeResult, minimize

LETTERS = "-ACDEFGHIKLMNPQRSTVWY"
EVERY = 20  # steps between two writings
FIELDS, COUPLINGS = 0.01, 0.2  # CCMpred's defaults; the second for every other column


def read(path: Path) -> np.ndarray:
    """Sequences x columns; what is not an amino acid is a gap."""
    number = {letter: index for index, letter in enumerate(LETTERS)}
    lines = [line.strip().upper() for line in path.read_text().splitlines() if line.strip()]
    return np.array([[number.get(letter, 0) for letter in line] for line in lines])


def votes(rows: np.ndarray) -> np.ndarray:
    """One over the number of sequences that agree in more than 80 % of the columns, rounded up."""
    most = -(-4 * rows.shape[1] // 5)
    return np.array([1.0 / ((rows == row).sum(axis=1) > most).sum() for row in rows])


class Objective:
    """Minus the weighted log-pseudolikelihood plus the price of squares, and its gradient.

    The vector holds fields (columns x 20, those of the gap are 0), then one 21 x 21 table a pair.
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.columns, self.states = rows.shape[1], len(LETTERS)
        self.seen = np.eye(self.states)[rows].reshape(len(rows), -1)
        self.weight = votes(rows)
        self.price = COUPLINGS * (self.columns - 1)
        self.pairs = np.triu_indices(self.columns, 1)
        self.split = self.columns * (self.states - 1)

    def start(self) -> np.ndarray:
        """No couplings, and the fields of the frequencies of each column."""
        seen = (self.weight @ self.seen).reshape(self.columns, -1) + 0.2
        fields = np.log(seen[:, 1:] / seen[:, :1])
        return np.append(fields.ravel(), np.zeros(len(self.pairs[0]) * self.states**2))

    def square(self, tables: np.ndarray) -> np.ndarray:
        """All couplings as one symmetric matrix (column, state) x (column, state)."""
        first, second = self.pairs
        whole = np.zeros((self.columns, self.columns, self.states, self.states))
        whole[first, second] = tables
        whole[second, first] = tables.transpose(0, 2, 1)
        return whole.transpose(0, 2, 1, 3).reshape(self.seen.shape[1], -1)

    def tables(self, matrix: np.ndarray) -> np.ndarray:
        """What a matrix of slopes says about each pair: both of its conditionals read the table."""
        first, second = self.pairs
        shape = (self.columns, self.states, self.columns, self.states)
        blocks = matrix.reshape(shape).transpose(0, 2, 1, 3)
        return blocks[first, second] + blocks[second, first].transpose(0, 2, 1)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        fields = vector[: self.split].reshape(self.columns, -1)
        tables = vector[self.split :].reshape(-1, self.states, self.states)
        scores = (self.seen @ self.square(tables)).reshape(-1, self.columns, self.states)
        scores[:, :, 1:] += fields
        scores -= scores.max(axis=2, keepdims=True)
        chance = np.exp(scores)
        sums = chance.sum(axis=2, keepdims=True)
        own = self.seen.reshape(scores.shape)
        log_chance = (scores * own).sum(axis=2) - np.log(sums[:, :, 0])
        chance /= sums
        slope = (chance - own) * self.weight[:, None, None]
        value = -(self.weight @ log_chance).sum()
        value += FIELDS * (fields**2).sum() + self.price * (tables**2).sum()
        by_field = slope.sum(axis=0)[:, 1:] + 2 * FIELDS * fields
        by_table = self.tables(self.seen.T @ slope.reshape(len(slope), -1))
        by_table += 2 * self.price * tables
        return float(value), np.concatenate([by_field.ravel(), by_table.ravel()])


def scores(tables: np.ndarray, columns: int) -> np.ndarray:
    """Frobenius norms of zero-sum tables without the gap, corrected by the average product."""
    centred = tables - tables.mean(axis=1, keepdims=True) - tables.mean(axis=2, keepdims=True)
    centred += tables.mean(axis=(1, 2), keepdims=True)
    norms = np.zeros((columns, columns))
    norms[np.triu_indices(columns, 1)] = np.sqrt((centred[:, 1:, 1:] ** 2).sum(axis=(1, 2)))
    norms += norms.T
    corrected = norms - np.outer(norms.mean(axis=0), norms.mean(axis=0)) / norms.mean()
    np.fill_diagonal(corrected, 0.0)
    return corrected


def write(objective: Objective, found: OptimizeResult, path: Path, ending: str) -> None:
    """The matrix of scores to a file; what is known about it to standard output."""
    couplings = found.x[objective.split :].reshape(-1, objective.states, objective.states)
    np.savetxt(path, scores(couplings, objective.columns), fmt="%.8f", delimiter="\t")
    value, slope = objective(found.x)
    said = {"objective": value, "steepest slope": float(np.abs(slope).max()), "ending": ending}
    print(json.dumps(said), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("alignment", type=Path, help="one sequence a line")
    parser.add_argument("matrix", type=Path, help="where the scores go")
    parser.add_argument("--iterations", type=int, default=2000)
    options = parser.parse_args()
    objective = Objective(read(options.alignment))
    steps = 0

    def keep(intermediate_result: OptimizeResult) -> None:
        nonlocal steps
        steps += 1
        if steps % EVERY == 0:  # a search that is cut short loses little
            write(objective, intermediate_result, options.matrix, f"{steps} steps so far")

    found = minimize(
        objective,
        objective.start(),
        jac=True,
        method="L-BFGS-B",
        callback=keep,
        options={"maxiter": options.iterations, "maxfun": 10**6, "ftol": 1e-13, "gtol": 1e-4},
    )
    write(objective, found, options.matrix, str(found.message))


if __name__ == "__main__":
    main()
