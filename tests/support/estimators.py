"""A small model of every estimator, with data to fit it on and a question to ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

import mrflearn
from mrflearn.datasets.english import sample_documents
from support.toy_language import toy_sentences

WORDS, TAGS = toy_sentences(12, seed=0)
ITEMS = [[{"word": word, "ending": word[-2:]} for word in words] for words in WORDS]
LAYERS = [[tags, ["x" if tag == "the" else "y" for tag in tags]] for tags in TAGS]
ROWS = np.random.default_rng(0).integers(0, 2, (40, 4))


@dataclass(frozen=True)
class Example:
    """A model with its settings, what it is fitted on, and what it is asked to compare two."""

    model: Any
    data: tuple[Any, ...]
    ask: Callable[[Any], Any]

    def fitted(self) -> Any:
        """The model, fitted."""
        return self.model.fit(*self.data)


def estimators() -> dict[str, Example]:
    """Every public estimator that can be saved, by the name of its class."""
    documents = sample_documents(4, seed=0)
    trees = [sentence.tree for document in documents for sentence in document.sentences]
    text = [[list(s.words) for s in document.sentences] for document in documents]
    doors = [
        Example(mrflearn.MarkovField("chain:4", l2=0.1), (ROWS,), lambda model: model.score(ROWS)),
        Example(mrflearn.PottsField(), (ROWS,), lambda model: model.score(ROWS)),
        Example(
            mrflearn.FieldStructure(gamma=0.0, combine="or"),
            (ROWS,),
            lambda model: [group.scope.tolist() for group in model.graph_.groups],
        ),
        Example(
            mrflearn.CRF(max_iterations=5),
            (ITEMS, TAGS),
            lambda model: model.predict(ITEMS).tolist(),
        ),
        Example(
            mrflearn.FactorialCRF(max_iterations=5, n_jobs=1),
            (ITEMS, LAYERS),
            lambda model: model.predict(ITEMS),
        ),
        Example(
            mrflearn.SkipChainCRF(rule="same-word", max_iterations=5, n_jobs=1),
            (ITEMS, TAGS),
            lambda model: model.predict(ITEMS),
        ),
        Example(
            mrflearn.GraphCRF(max_iterations=5, n_jobs=1),
            ([_path(items) for items in ITEMS], TAGS),
            lambda model: model.predict([_path(items) for items in ITEMS]),
        ),
        Example(
            mrflearn.NeuralCRF(
                features=mrflearn.word_features, dims=8, hidden=8, char_filters=8, max_iterations=3
            ),
            (WORDS, TAGS),
            lambda model: model.predict(WORDS).tolist(),
        ),
        Example(mrflearn.HMMTagger(), (WORDS, TAGS), lambda model: model.predict(WORDS)),
        Example(
            mrflearn.JointTagger(max_iterations=3),
            (WORDS, TAGS),
            lambda model: model.predict(WORDS),
        ),
        Example(
            mrflearn.LanguageModel(3, 1, max_iterations=5),
            (WORDS,),
            lambda model: model.score(WORDS),
        ),
        Example(mrflearn.NgramLanguageModel(2), (WORDS,), lambda model: model.score(WORDS)),
        Example(mrflearn.WordVectors(3), (WORDS,), lambda model: model.neighbors("the")),
        Example(mrflearn.PCFG(), (trees,), lambda model: model.score([trees[0].words])),
        Example(
            mrflearn.CompositeLanguageModel(2, topics=2, max_iterations=2),
            (text,),
            lambda model: model.perplexity(text),
        ),
    ]
    return {type(door.model).__name__: door for door in doors}


def _path(items: list[dict[str, str]]) -> nx.Graph:
    graph = nx.path_graph(len(items))
    for node, item in enumerate(items):
        graph.nodes[node]["features"] = item
    return graph
