"""Trees of whole documents are those of their sentences one by one, in order."""

from __future__ import annotations

import pytest
import torch

from mrflearn import CompositeLanguageModel
from mrflearn.io.trees import Tree

TEXT = [
    [["the", "cat", "sat"], ["a", "dog", "ran", "home"], ["the", "dog", "sat"]],
    [["stocks", "fell"], ["the", "stocks", "of", "banks", "fell"], ["banks", "fell"]],
] * 6


@pytest.fixture(scope="session")
def parser() -> CompositeLanguageModel:
    settings = {"max_iterations": 3, "rounds": 1, "random_state": 2}
    return CompositeLanguageModel(2, grammar=(3, 4), topics=2, **settings).fit(TEXT)


def test_trees_of_documents_are_those_of_sentences_one_by_one(
    parser: CompositeLanguageModel,
) -> None:
    documents = [TEXT[0], [], [["banks", "sat"], [], ["a", "cat", "fell", "home"]]]
    single: list[list[Tree | None]] = [
        [parser.parse([words], document=sentences[:k])[0] for k, words in enumerate(sentences)]
        for sentences in documents
    ]
    assert parser.parse_documents(documents) == single
    assert single[2][1] is None
    words = [[tree.words if tree else () for tree in trees] for trees in single]
    assert words == [[tuple(w) for w in sentences] for sentences in documents]


def test_a_treebank_grammar_that_remembers_no_sisters_has_fewer_phrases() -> None:
    trees = [Tree("S", tuple(Tree(tag, (), "a") for tag in tags)) for tags in ("XYZ", "YZX", "ZXY")]
    sizes = []
    for horizontal in (0, 1):
        settings = {"max_iterations": 1, "rounds": 1, "horizontal": horizontal}
        model = CompositeLanguageModel(1, grammar=trees, **settings).fit([[["a", "a", "a"]] * 3])
        sizes.append(model.fit_.model.shape.grammar.phrases)
        (tree,) = model.parse([["a", "a", "a"]])
        assert len(tree.children) == 3  # nothing of the split nodes is left
        assert model.parse([["a", "a"]]) == [None]  # a part of a split node is no tree
    assert sizes == [2, 4]


def test_topics_of_the_sentences_before_choose_the_scores(parser: CompositeLanguageModel) -> None:
    before = parser._folded([[["banks", "fell"]] * 5])[2].before
    assert before.shape == (5, 2)
    assert abs(before[0] - before[4]).max() > 0.01


def test_a_front_door_keeps_to_one_thread_and_gives_the_others_back(
    parser: CompositeLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(
        type(parser),
        "_score",
        lambda *_: seen.append(torch.get_num_threads()) or torch.zeros(1).numpy(),
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        parser.score_samples([[["the"]]])
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)
