"""Small labelled sequences of items, and a chain CRF by enumeration from plain dicts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from mrflearn import CRF
from mrflearn.features.index import MARK, edge

LABELS = ("A", "B", "C", "D", "E")
Item = dict[str, Any]


def random_data(
    seed: int, sequences: int = 8, labels: int = 3, longest: int = 5, values: bool = True
) -> tuple[list[list[Item]], list[list[str]]]:
    """Items of words, numbers and lists; labels that depend on them and on each other."""
    source = random.Random(seed)
    X, y = [], []
    for _ in range(sequences):
        length = source.randint(1, longest)
        words = [source.choice("uvwxyz") for _ in range(length)]
        items: list[Item] = []
        for word in words:
            item: Item = {"w": word, "tags": source.sample(["p", "q", "r"], source.randint(0, 2))}
            if values and source.random() < 0.7:
                item["size"] = source.randint(1, 16) / 8  # exact in single precision
            if source.random() < 0.4:
                item["rare"] = str(source.randint(0, 99))
            items.append(item)
        tags, before = [], 0
        for word in words:
            before = (ord(word) + (before if source.random() < 0.3 else 0)) % labels
            tags.append(LABELS[before])
        X.append(items)
        y.append(tags)
    return X, y


def with_edges(X: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """The same items with attributes of transitions at most tokens of two sequences in three."""
    return [
        [
            item | {edge("w"): item["w"], edge("size"): item.get("size", 0.5)}
            if i % 3 and (i + j) % 4
            else item
            for j, item in enumerate(items)
        ]
        for i, items in enumerate(X)
    ]


def attributes(item: Item) -> Iterator[tuple[str, float]]:
    """(name, value) of an item that `random_data` made."""
    for name, value in item.items():
        if isinstance(value, str):
            yield f"{name}:{value}", 1.0
        elif isinstance(value, list):
            yield from ((f"{name}:{part}", 1.0) for part in value)
        else:
            yield name, float(value)


def path_score(
    sequence: Sequence[Item],
    labels: Sequence[str],
    state: Mapping[tuple[str, str], float],
    transition: Mapping[tuple[str, ...], float],
    edges: Mapping[tuple[str, str, str], float] | None = None,
) -> float:
    """The score of one labelling: every weight looked up one by one."""
    total = 0.0
    for item, label in zip(sequence, labels, strict=True):
        total += sum(value * state.get((name, label), 0.0) for name, value in attributes(item))
    total += sum(transition.get(pair, 0.0) for pair in itertools.pairwise(labels))
    for item, pair in zip(sequence[1:], itertools.pairwise(labels), strict=True):
        for name, value in attributes(item):
            if name.startswith(MARK):
                total += value * (edges or {}).get((name.removeprefix(MARK), *pair), 0.0)
    triples = zip(labels, labels[1:], labels[2:], strict=False)
    return total + sum(transition.get(triple, 0.0) for triple in triples)


def all_paths(
    sequence: Sequence[Item],
    names: Sequence[str],
    state: Mapping[tuple[str, str], float],
    transition: Mapping[tuple[str, ...], float],
    edges: Mapping[tuple[str, str, str], float] | None = None,
) -> dict[tuple[str, ...], float]:
    """The score of every labelling."""
    return {
        path: path_score(sequence, path, state, transition, edges)
        for path in itertools.product(names, repeat=len(sequence))
    }


def log_sum(scores: Sequence[float] | Mapping[Any, float]) -> float:
    """log sum exp, in double precision."""
    values = list(scores.values()) if isinstance(scores, Mapping) else list(scores)
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def scores_of(crf: CRF, sequence: Sequence[Item]) -> dict[tuple[str, ...], float]:
    """The score of every labelling under the weights of a fitted chain."""
    tables = crf.state_features_, crf.transition_features_, crf.edge_features_
    return all_paths(sequence, crf.classes_, *tables)


def assert_exact_answers(crf: CRF, X: Sequence[Sequence[Item]], y: Sequence[Sequence[str]]) -> None:
    """Best labellings, probabilities, marginals and entropies are those of enumeration."""
    best, lists = crf.predict(X).tolist(), crf.n_best(X, 4)
    chances, entropy = crf.predict_marginals(X).tolist(), crf.entropy(X)
    logs = crf.log_prob(X, y)
    for i, sequence in enumerate(X):
        scores = scores_of(crf, sequence)
        total = log_sum(scores)
        ranked = sorted(scores, key=lambda path: -scores[path])[:4]
        assert tuple(best[i]) == ranked[0]
        assert [tuple(path) for path, _ in lists[i]] == ranked[: len(lists[i])]
        exact = {path: math.exp(score - total) for path, score in scores.items()}
        assert [p for _, p in lists[i]] == pytest.approx([exact[path] for path in ranked])
        assert logs[i] == pytest.approx(scores[tuple(y[i])] - total)
        assert entropy[i] == pytest.approx(-sum(p * math.log(p) for p in exact.values()))
        for t, row in enumerate(chances[i]):
            for label in crf.classes_:
                wanted = sum(p for path, p in exact.items() if path[t] == label)
                assert row[label] == pytest.approx(wanted)
