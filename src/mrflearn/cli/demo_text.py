"""The parts of `mrflearn demo` that are about text: a language model, a tagger, a parser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from mrflearn.cli.answers import say
from mrflearn.describe import describe
from mrflearn.describe.render import add_blocks

if TYPE_CHECKING:
    from mrflearn.plots.page import Page

PACKAGES = ("numpy", "scipy")
ASKED = ("array", "returns", "first", "matrix")
GAP = "the _ of the matrix"
WORDS = 1_500  # of the language model
LESSONS, TESTS = 60, 10  # documents
MOST_WORDS = 15  # of a sentence that the grammar is learned from


def show_language_model(output: Path, page: Page, seed: int) -> None:
    """Learns from docstrings, fills a gap, shows neighbours and a map."""
    from mrflearn.datasets.docstrings import docstring_sentences
    from mrflearn.estimators.language_model import LanguageModel

    text = [list(words) for words in docstring_sentences(PACKAGES)]
    tokens = sum(map(len, text))
    say(f"3. Language: {tokens:,} tokens of the docstrings of {' and '.join(PACKAGES)}")
    model = LanguageModel(20, 2, vocabulary_size=WORDS, max_iterations=100, random_state=seed)
    model.fit([words for i, words in enumerate(text) if i % 10], validation=text[::10])
    model.save(output / "language-model", overwrite=True)
    seconds = model.outcome_.seconds
    say(
        f"   a Markov random field of {WORDS:,} words in {seconds:.1f} s; held-out text: at least "
        f"{model.validation_bound_:.3f} nats per position (proven)"
    )
    for word in ASKED:
        say(f"   nearest to {word}: {', '.join(other for other, _ in model.neighbors(word, 5))}")
    filled = ", ".join(f"{word} {chance:.2f}" for word, chance in model.fill(GAP.split(), 4))
    say(f"   {GAP}: {filled}")
    page.heading("A language model that sees both sides of a word")
    page.text(
        f"Learned in {seconds:.1f} s from the counts of pairs in {tokens:,} tokens of docstrings. "
        f"'{GAP}' is filled with: {filled}."
    )
    add_blocks(page, describe(model).report())


def show_tagger(output: Path, page: Page, seed: int) -> None:
    """Learns tags from built-in English and shows where it is wrong."""
    from mrflearn.datasets.english import sample_documents
    from mrflearn.estimators.tagger import JointTagger
    from mrflearn.evaluation.tagging import confusion
    from mrflearn.plots.labels import draw_confusion

    documents = sample_documents(LESSONS + TESTS, seed=seed)
    sentences = [s for document in documents for s in document.sentences]
    cut = sum(len(document.sentences) for document in documents[:LESSONS])
    words = [list(s.words) for s in sentences]
    tags = [list(s.tags) for s in sentences]
    begun = time.perf_counter()
    model = JointTagger(max_iterations=40, random_state=seed).fit(words[:cut], tags[:cut])
    seconds = time.perf_counter() - begun
    model.save(output / "tagger", overwrite=True)
    accuracy = model.score(words[cut:], tags[cut:])
    found = model.predict(words[cut:])
    shown = " ".join(f"{w}/{t}" for w, t in zip(words[cut], found[0], strict=True))
    say(f"4. Tags: a joint field of words and tags from {cut:,} sentences in {seconds:.1f} s")
    say(f"   {100 * accuracy:.2f} % of the tags of {len(words) - cut} new sentences are right")
    say(f"   {shown}")
    page.heading("Parts of speech")
    page.text(f"{100 * accuracy:.2f} % of the tags of new sentences are right, such as: {shown}")
    page.picture(
        draw_confusion(confusion(tags[cut:], found)),
        "True tags down, predicted ones across; what lies beside the diagonal is wrong.",
    )


def show_composite(output: Path, page: Page, seed: int) -> None:
    """Learns n-grams, grammar and topics together, parses a sentence and shows the topics."""
    from mrflearn.datasets.english import sample_documents
    from mrflearn.estimators.composite import CompositeLanguageModel

    documents = sample_documents(LESSONS + TESTS, seed=seed + 1)
    short = [
        [s for s in document.sentences if len(s.words) <= MOST_WORDS] for document in documents
    ]
    text = [[list(s.words) for s in sentences] for sentences in short]
    trees = [s.tree for sentences in short[:LESSONS] for s in sentences]
    begun = time.perf_counter()
    model = CompositeLanguageModel(
        3, grammar=trees, topics=6, max_iterations=6, rounds=1, random_state=seed
    )
    model.fit(text[:LESSONS])
    seconds = time.perf_counter() - begun
    model.save(output / "composite-model", overwrite=True)
    alone = CompositeLanguageModel(3).fit(text[:LESSONS])
    both, trigram = model.perplexity(text[LESSONS:]), alone.perplexity(text[LESSONS:])
    (tree,) = model.parse([text[LESSONS][0]])
    say(f"5. Composite: trigrams, a treebank grammar and 6 topics in one model, {seconds:.1f} s")
    say(f"   perplexity of new documents: {both:.1f} (trigrams alone: {trigram:.1f})")
    say(f"   {tree}")
    page.heading("Trigrams, grammar and topics in one model")
    page.text(
        f"Perplexity of new documents per token: {both:.1f}; of trigrams alone: {trigram:.1f}. "
        "The most probable tree of a new sentence:"
    )
    page.lines(str(tree))
    add_blocks(page, describe(model).report())
