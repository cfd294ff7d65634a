"""PLSA beside scikit-learn's KL-NMF on Brown: seconds an iteration, and held-out perplexity.

    MRFLEARN_DATA=FOLDER OMP_NUM_THREADS=1 python benchmarks/plsa.py [--iterations 100]

Lower-cased alphabetic tokens, types in 5 to 250 documents, 50 topics.  Held-out: fitted on nine of
ten documents; topic shares of the others from their even tokens, perplexity of the odd ones, 0.99
model + 0.01 unigram for both.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, csr_matrix
from sklearn.decomposition import NMF

from mrflearn.models.topics import PLSA, document_counts

TOPICS = 50


def read_documents(path: Path) -> list[list[str]]:
    documents: list[list[str]] = []
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            if line.startswith("#DOC\t"):
                documents.append([])
                continue
            words = (token.rsplit("/", 1)[0].lower() for token in line.split())
            documents[-1] += [word for word in words if word.isalpha()]
    return documents


def nmf(counts: csr_array, iterations: int) -> NMF:
    settings = {"beta_loss": "kullback-leibler", "solver": "mu", "init": "random", "tol": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it did not converge
        return NMF(TOPICS, max_iter=iterations, random_state=0, **settings).fit(csr_matrix(counts))


def perplexity(
    words: np.ndarray, first: csr_array, second: csr_array, unigram: np.ndarray
) -> float:
    shares = np.full((first.shape[0], words.shape[1]), 1 / words.shape[1])
    for _ in range(50):  # topics held as they are
        shares = PLSA(words, shares).step(first)[1].documents
    pairs = second.tocoo()
    mixed = 0.99 * (shares[pairs.row] * words[pairs.col]).sum(axis=1) + 0.01 * unigram[pairs.col]
    return float(np.exp(-(pairs.data @ np.log(mixed)) / pairs.data.sum()))


def seconds_of_ours(counts: csr_array, repeats: int = 15) -> float:
    model, best = PLSA.random(*counts.shape, TOPICS, seed=0), np.inf
    for _ in range(repeats):
        begun = time.perf_counter()
        _, model = model.step(counts)
        best = min(best, time.perf_counter() - begun)
    return best


def seconds_of_nmf(counts: csr_array) -> float:
    """From two lengths of run, so that its start does not count; the better of two."""
    found = []
    for iterations in (5, 15):
        times = []
        for _ in range(2):
            begun = time.perf_counter()
            nmf(counts, iterations)
            times.append(time.perf_counter() - begun)
        found.append(min(times))
    return (found[1] - found[0]) / 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=0, help="fit for held-out perplexity")
    options = parser.parse_args()
    path = Path(os.environ["MRFLEARN_DATA"]) / "brown" / "brown-tagged.txt.gz"
    documents = read_documents(path)
    spread = Counter(word for words in documents for word in set(words))
    kept = {w: i for i, w in enumerate(sorted(w for w, c in spread.items() if 5 <= c <= 250))}
    ids = [np.array([kept[w] for w in words if w in kept]) for words in documents]
    counts = document_counts(ids, len(kept))
    ours, theirs = seconds_of_ours(counts), seconds_of_nmf(counts)
    print(f"{counts.nnz:,} counts, {TOPICS} topics, seconds an iteration")
    print(f"ours {ours:.4f}, KL-NMF {theirs:.4f}, ratio {theirs / ours:.2f}")
    if options.iterations:
        train = document_counts([x for i, x in enumerate(ids) if i % 10], len(kept))
        test = [x for i, x in enumerate(ids) if i % 10 == 0]
        halves = [document_counts([x[k::2] for x in test], len(kept)) for k in (0, 1)]
        unigram = np.asarray(train.sum(axis=0)).ravel() + 1
        unigram = unigram / unigram.sum()
        model = PLSA.random(*train.shape, TOPICS, seed=0)
        for _ in range(options.iterations):
            _, model = model.step(train)
        parts = nmf(train, options.iterations).components_.T
        rival = perplexity(parts / parts.sum(axis=0), *halves, unigram)
        mine = perplexity(model.words, *halves, unigram)
        print(
            f"held-out after {options.iterations} iterations: ours {mine:.0f}, KL-NMF {rival:.0f}"
        )


if __name__ == "__main__":
    main()
