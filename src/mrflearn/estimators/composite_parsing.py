"""The most probable trees of sentences under a composite model, many sentences at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.estimators.composite_answers import Answers
from mrflearn.estimators.composite_trees import tree_of
from mrflearn.inference.parses import ParseSearch
from mrflearn.io.binarisation import PART
from mrflearn.io.documents import Document
from mrflearn.io.trees import Tree

Figures: TypeAlias = NDArray[np.float64]


def parse_sentences(
    answers: Answers, sentences: Sequence[Sequence[str]], document: Document
) -> list[Tree | None]:
    """The best tree of each sentence right after a document, None where there is none."""
    shares = answers.document_topics([document])
    spoken = [words for words in sentences if len(words)]
    found = iter(_best_trees(answers, [[words] for words in spoken], shares))
    return [next(found) if len(words) else None for words in sentences]


def parse_documents(answers: Answers, documents: Sequence[Document]) -> list[list[Tree | None]]:
    """The best tree of each sentence after those before it in its document."""
    found = iter(_best_trees(answers, documents, answers.topics_before(documents)))
    return [[next(found) if len(words) else None for words in d] for d in documents]


def _best_trees(
    answers: Answers, documents: Sequence[Document], shares: Figures
) -> list[Tree | None]:
    """The trees of all sentences that have words; `shares` has one row for each, or for all."""
    wiring, model = answers.model.shape.grammar, answers.model
    if wiring is None:
        raise SettingsError("this model was trained without a grammar; it has no trees to give.")
    spoken = [words for sentences in documents for words in sentences if len(words)]
    topics = torch.from_numpy(shares).to(model.weights).expand(len(spoken), -1)
    trees: list[Tree | None] = [None] * len(spoken)
    start = _of_whole_trees(answers)
    for numbers, batch in answers.ready(documents)[1]:
        scores = answers.scores(batch, topics).log()
        found = ParseSearch(wiring).best(scores, batch.tokens.lengths, model.rules, start)
        for number, parse in zip(numbers.tolist(), found, strict=True):
            trees[number] = tree_of(parse, spoken[number], answers.names, answers.binarised)
    return trees


def _of_whole_trees(answers: Answers) -> Float[Tensor, "s"]:
    """Scores of start symbols; a part of a split node is none, though text may be likely as one."""
    start = answers.model.start
    if not answers.binarised:
        return start
    parts = [name.startswith(PART) for name in answers.names]
    return start.masked_fill(torch.tensor(parts, device=start.device), -torch.inf)
