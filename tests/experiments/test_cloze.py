"""Gaps are drawn from every word, and guesses are counted as they should be."""

from __future__ import annotations

import pytest
import torch

from mrflearn import NgramLanguageModel
from mrflearn.errors import DataError
from mrflearn.io.corpus import Vocabulary
from mrflearn.models.lifted import NeighbourModel
from support.experiments import experiment_module

CLOZE = experiment_module("lifted_lm", "cloze")
Gap, choose_gaps, cloze = CLOZE.Gap, CLOZE.choose_gaps, CLOZE.cloze
left_guesser, neighbour_guesser = CLOZE.left_guesser, CLOZE.neighbour_guesser
TEXT = [line.split() for line in ("the cat sat", "the <unk> sat", "a cat ran")]


def test_gaps_are_every_known_word_once() -> None:
    gaps = choose_gaps(TEXT, count=100, unless=["<unk>"])
    assert len(gaps) == len(set(gaps)) == 8
    assert "<unk>" not in [gap.answer for gap in gaps]
    some = choose_gaps(TEXT, count=3, seed=1)
    assert some == choose_gaps(TEXT, count=3, seed=1)
    assert set(some) <= set(choose_gaps(TEXT, count=100))
    with pytest.raises(DataError, match="no word"):
        choose_gaps([["<unk>"]], count=1, unless=["<unk>"])


def test_first_and_top_guesses_are_counted() -> None:
    gaps = [Gap(("a", "b"), 0), Gap(("a", "b"), 1), Gap(("c",), 0), Gap(("d",), 0)]
    guesses = [["a", "x"], ["x", "b"], ["x", "y"], []]
    found = cloze(lambda _, top: guesses, gaps, top=2)
    assert (found.first, found.among_top, found.gaps) == (0.25, 0.5, 4)
    assert found.standard_error == 0.25
    with pytest.raises(DataError, match="1 lists of guesses for 4 gaps"):
        cloze(lambda _, top: [["a"]], gaps)


def test_a_model_of_the_left_context_guesses_words_only() -> None:
    model = NgramLanguageModel(order=2).fit(TEXT)
    guesses = left_guesser(model)([Gap(("the", "cat", "sat"), 2)], 4)
    expected = [word for word, _ in model.next_word(["the", "cat"], n=9) if word != "</s>"]
    assert guesses == [expected[:4]]
    assert cloze(left_guesser(model), choose_gaps(TEXT, count=9), top=6).among_top > 0.9


@pytest.mark.parametrize("order", [2, 3, 5])
def test_ngrams_of_both_sides_guess_the_most_probable_sentences(order: int) -> None:
    text = TEXT + [line.split() for line in ("a cat sat on the mat", "the mat sat on a cat")]
    model = NgramLanguageModel(order).fit(text)
    words = [word for word in model.vocabulary_.words if word != "<S>"]
    for gap in choose_gaps(text, count=99):
        sentences = [[*gap.left, w, *gap.words[gap.position + 1 :]] for w in words]
        scores = dict(zip(words, model.score_samples(sentences), strict=True))
        (guesses,) = CLOZE.two_sided_guesser(model)([gap], 4)
        best = sorted(scores.values(), reverse=True)[:4]
        assert [scores[word] for word in guesses] == pytest.approx(best)


def test_a_model_of_both_sides_guesses_the_best_of_all_completions() -> None:
    vocabulary = Vocabulary(("<S>", "<unk>", "a", "b", "c"))
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(2, 5, 5, generator=generator, dtype=torch.float64)
    unary = torch.randn(5, generator=generator, dtype=torch.float64)
    model = NeighbourModel(unary, {"table": table})

    def score(words: list[str]) -> float:
        ids = [0, 0, *vocabulary.encode(words).tolist(), 0, 0]
        pairs = sum(table[k - 1, ids[i], ids[i + k]] for k in (1, 2) for i in range(len(ids) - k))
        return float(unary[ids].sum() + pairs)

    gaps = [Gap(("a", "b", "c", "b"), i) for i in range(4)] + [Gap(("c",), 0)]
    for gap, guesses in zip(
        gaps, neighbour_guesser(model.potentials(), vocabulary)(gaps, 3), strict=True
    ):
        filled = {
            word: score([*gap.left, word, *gap.words[gap.position + 1 :]])
            for word in ("<unk>", "a", "b", "c")
        }
        assert guesses == sorted(filled, key=lambda word: -filled[word])[:3]
