"""Exact entropies and probabilities of the built-in English against samples and enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mrflearn.datasets.english import (
    document_log_probability,
    english,
    entropy_per_sentence,
    sample_documents,
)
from mrflearn.errors import DataError
from support.english_truth import count_derivations, log_probabilities, log_probability


@pytest.fixture(scope="module")
def documents():
    return sample_documents(400, sentences=10, seed=21)


def by_derivation(sentence, mixture):
    """log p(derivation without topics): the rules' share, then each word in its class."""
    total = sentence.log_structure
    for word, symbol in zip(sentence.words, sentence.classes, strict=True):
        known = english().word_classes[symbol]
        total += math.log(known.joint(mixture).sum(0)[known.column["a" if word == "an" else word]])
    return total


def words_of(document):
    return [sentence.words for sentence in document.sentences]


def test_the_mean_surprise_of_samples_is_the_exact_entropy(documents):
    exact = {m: entropy_per_sentence(m).per_sentence for m in english().mixtures}
    excess = [
        -by_derivation(sentence, document.mixture) - exact[document.mixture]
        for document in documents
        for sentence in document.sentences
    ]
    assert abs(np.mean(excess)) < 4 * np.std(excess) / math.sqrt(len(excess))


def test_entropy_of_derivations_adds_that_of_topics_given_words(documents):
    mixture = english().mixtures[3]
    weights = np.array(mixture)
    gap = 0.0
    for symbol, known in english().word_classes.items():
        if known.topical:
            joint = weights[:, None] * known.probabilities
            posterior = joint / np.where(joint.sum(0) > 0, joint.sum(0), 1)
            surprise = -joint * np.log(np.where(posterior > 0, posterior, 1))
            gap += english().grammar.expected_counts[symbol] * surprise.sum()
    strings = entropy_per_sentence(mixture)
    derivations = entropy_per_sentence(mixture, of="derivations")
    assert gap > 0.1
    assert derivations.per_sentence == pytest.approx(strings.per_sentence + gap)


def test_entropy_without_a_mixture_is_the_mean_over_mixtures():
    each = [entropy_per_sentence(mixture).per_sentence for mixture in english().mixtures]
    mean = entropy_per_sentence()
    assert mean.per_sentence == pytest.approx(np.mean(each))
    assert max(each) - min(each) > 0.1
    assert mean.per_word == mean.per_sentence / english().grammar.expected_length
    assert mean.perplexity == pytest.approx(math.exp(mean.per_word))


def test_no_sampled_sentence_has_two_derivations(documents):
    sentences = [words for document in documents[:40] for words in words_of(document)]
    np.testing.assert_allclose(count_derivations(sentences), 1, rtol=1e-9)


def test_string_probabilities_are_those_of_the_only_derivation(documents):
    for document in documents[:20]:
        expected = [by_derivation(s, document.mixture) for s in document.sentences]
        found = log_probabilities(words_of(document), document.mixture)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_probability_of_a_document_sums_its_mixture_out():
    (document,) = sample_documents(1, sentences=5, seed=4)
    given = [log_probabilities(words_of(document), m).sum() for m in english().mixtures]
    expected = np.logaddexp.reduce(given) - math.log(30)
    assert document_log_probability(document) == pytest.approx(expected, rel=1e-10)


def test_not_knowing_the_mixture_costs_at_most_log_30(documents):
    for document in documents[:20]:
        known = sum(by_derivation(s, document.mixture) for s in document.sentences)
        assert document_log_probability(document) >= known - math.log(30) - 1e-9


def test_what_is_not_of_the_grammar_has_probability_zero():
    mixture = english().mixtures[0]
    good = ["an", "honest", "striker", "kicked", "a", "ball", "."]
    assert math.isfinite(log_probability(good, mixture))
    for wrong in (
        "a honest striker kicked a ball .",
        "an honest striker kicked an ball .",
        "an honest striker kick a ball .",
        "an honest striker kicked a wug .",
        "an honest striker kicked a ball",
        "kicked striker .",
        "an",
        "",
    ):
        assert log_probability(wrong.split(), mixture) == -math.inf
    assert log_probabilities([], mixture).shape == (0,)


def test_topics_change_the_words_and_not_the_grammar():
    sport, cooking = np.eye(6)[:2]
    sentence = ["the", "striker", "kicked", "the", "ball", "."]
    assert math.isfinite(log_probability(sentence, sport))
    assert log_probability(sentence, cooking) == -math.inf
    half = log_probability(sentence, (sport + cooking) / 2)
    assert half == pytest.approx(log_probability(sentence, sport) + 3 * math.log(0.5))


def test_probability_of_a_short_sentence_by_hand():
    """S -> _s[past], a name, an intransitive verb: every factor read off the records."""
    source = english()
    of = {(rule.left, rule.right): rule.probability for rule in source.grammar.rules}
    path = [
        ("TOP", ("S[decl]",)),
        ("S[decl]", ("_s[past]", ".:.")),
        ("_s[past]", ("_subj[per,sg]", "VP[per,sg,past]")),
        ("_subj[per,sg]", ("_np[per,sg]",)),
        ("_np[per,sg]", ("_base[per,sg]",)),
        ("_base[per,sg]", ("NP[name]",)),
        ("NP[name]", ("NNP[first]",)),
        ("VP[per,sg,past]", ("_p[per,VBD]",)),
        ("_p[per,VBD]", ("_lite[per,VBD]",)),
        ("_lite[per,VBD]", ("_core[per,VBD]",)),
        ("_core[per,VBD]", ("_act[VBD]",)),
        ("_act[VBD]", ("VBD[intr.act]",)),
    ]
    names, verbs = source.word_classes["NNP[first]"], source.word_classes["VBD[intr.act]"]
    music = np.eye(6)[4]
    expected = math.fsum(math.log(of[rule]) for rule in path)
    expected += math.log(names.probabilities[0, names.column["Anna"]])
    expected += math.log(verbs.probabilities[4, verbs.column["sang"]])
    assert log_probability(["Anna", "sang", "."], music) == pytest.approx(expected)


@pytest.mark.parametrize("mixture", [[1.0], [0.5] * 6, [2, -1, 0, 0, 0, 0]])
def test_what_is_no_mixture_is_refused(mixture):
    with pytest.raises(DataError, match="is not a mixture of topics"):
        entropy_per_sentence(mixture)
    with pytest.raises(DataError, match="6 weights"):
        log_probability(["Anna"], mixture)
