"""Worked examples on built-in data, as blocks: what `mrflearn demo` runs, shows and reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mrflearn import CompositeLanguageModel, JointTagger, LanguageModel, MarkovField, load, plots
from mrflearn.datasets import docstring_sentences, sample_documents
from mrflearn.describe import describe
from mrflearn.describe.blocks import Block, Picture, Table, Text
from mrflearn.describe.language_models import LanguageModelDescription
from mrflearn.evaluation import confusion
from mrflearn.evaluation.recovery import recovery
from mrflearn.graph import grid, ising_parameters, random_ising
from mrflearn.inference import BeliefPropagation, Drawing, JunctionTree, MeanField, TreeReweighted

Shown = tuple[list[Block], list[Block]]  # in the terminal and on the page, and on the page alone
BIG_SIDE = 16
SIDE, TRAIN, HELD_OUT = 5, 20_000, 5_000
PACKAGES = ("numpy", "scipy")
ASKED = ("array", "returns", "first", "matrix")
GAP = "the _ of the matrix"
WORDS = 1_500  # of the language model
LESSONS, TESTS = 60, 10  # documents
MOST_WORDS = 15  # of a sentence that the grammar is learned from


def _timed(work: Callable[..., Any], *data: Any) -> tuple[Any, float]:
    """What the work gives, and how many seconds it took."""
    begun = time.perf_counter()
    return work(*data), time.perf_counter() - begun


def _large_grid(output: Path, seed: int) -> Shown:
    """Inferences that are exact, approximate, an upper and a lower bound."""
    del output
    field = random_ising(grid(BIG_SIDE, BIG_SIDE), scale=1.0, seed=seed)
    methods: dict[str, Callable[..., Any]] = {
        "junction tree": JunctionTree(),
        "belief propagation": BeliefPropagation(damping=0.5, max_sweeps=1000),
        "tree-reweighted": TreeReweighted(damping=0.5, max_sweeps=1000),
        "mean field": MeanField(),
    }
    found = {name: _timed(method, field) for name, method in methods.items()}
    exact, rows = found["junction tree"][0], []
    for name, (own, seconds) in found.items():
        error = float((own.variables - exact.variables).abs().max())
        rows.append((name, float(own.log_partition.sum()), own.kind, error, seconds))
    header = ("method", "log Z", "kind", "worst marginal error", "seconds")
    what = f"log Z of a random {BIG_SIDE} x {BIG_SIDE} Ising grid; each answer says what it is."
    return [Text(what), Table(header, rows, key="methods", records=True)], []


def _small_grid(output: Path, seed: int) -> Shown:
    """A field learned from samples by two estimators, saved, loaded and asked."""
    field = random_ising(grid(SIDE, SIDE), scale=1.0, seed=seed)
    drawn = Drawing()(field, TRAIN + HELD_OUT, seed=seed)
    seen, held_out = drawn.samples[:TRAIN].numpy(), drawn.samples[TRAIN:]
    true = ising_parameters(field)
    lattices, rows = {"truth": (true.fields.numpy(), true.couplings.numpy())}, []
    truth = np.concatenate(lattices["truth"])
    ways: dict[str, Any] = {"pseudolikelihood": "pl", "maximum likelihood": "ml"}
    for name, estimator in ways.items():
        model = MarkovField(f"grid:{SIDE}x{SIDE}", estimator=estimator).fit(seen)
        lattices[name], outcome = (model.fields_, model.couplings_), model.outcome_
        error = recovery(np.concatenate(lattices[name]), truth)
        score, effort = model.score(held_out.numpy()), (outcome.evaluations, outcome.seconds)
        rows.append((name, error.relative, error.largest, score, *effort))
    model.save(output / "grid-model", overwrite=True)
    again = load(output / "grid-model")
    best = float((field.score(held_out) - JunctionTree()(field).log_partition).mean())
    sample = again.sample(1, random_state=1)[0].reshape(SIDE, SIDE)
    drawing = "\n".join(" ".join("#" if state else "." for state in line) for line in sample)
    header = ("estimator", "relative error", "largest", "held-out nats", "evaluations", "seconds")
    shown: list[Block] = [
        Text(f"{TRAIN:,} samples of a {SIDE} x {SIDE} Ising grid, drawn {drawn.method}"),
        Table(header, rows, key="estimators", records=True, floats=".5f"),
        Text(
            f"{output / 'grid-model'}, loaded again: {again.score(held_out.numpy()):.5f} nats "
            f"(the true field itself: {best:.5f}); one sample:\n{drawing}"
        ),
    ]
    estimates = {name: np.concatenate(own) for name, own in lattices.items() if name in ways}
    pictures = {
        "The true field and couplings, and what two estimators learned.": lambda: (
            plots.draw_lattices(lattices, model.edges_, SIDE)
        ),
        "Learned against true parameters: on the line is right.": lambda: plots.draw_recovery(
            truth, estimates
        ),
    }
    figures = [Picture(draw, caption=caption) for caption, draw in pictures.items()]
    return shown, [*figures, *describe(model).report()]


def _language_model(output: Path, seed: int) -> Shown:
    """A language model of docstrings: a gap filled, neighbours, a map."""
    text = [list(words) for words in docstring_sentences(PACKAGES)]
    model = LanguageModel(20, 2, vocabulary_size=WORDS, max_iterations=100, random_state=seed)
    model.fit([words for i, words in enumerate(text) if i % 10], validation=text[::10])
    model.save(output / "language-model", overwrite=True)
    source = f"{sum(map(len, text)):,} tokens of the docstrings of {' and '.join(PACKAGES)}"
    description = LanguageModelDescription(model)
    lines = Text(
        f"{source}, {WORDS:,} words, learned in {model.outcome_.seconds:.1f} s\n"
        f"held-out text: at least {model.validation_bound_:.3f} nats per position (proven)"
    )
    return [lines, *description.nearest(ASKED), *description.fill(GAP, 4)], description.report()


def _tagger(output: Path, seed: int) -> Shown:
    """Tags learned from built-in English, and where they are wrong."""
    documents = sample_documents(LESSONS + TESTS, seed=seed)
    sentences = [s for document in documents for s in document.sentences]
    cut = sum(len(document.sentences) for document in documents[:LESSONS])
    words, tags = [list(s.words) for s in sentences], [list(s.tags) for s in sentences]
    tagger = JointTagger(max_iterations=40, random_state=seed)
    model, seconds = _timed(tagger.fit, words[:cut], tags[:cut])
    model.save(output / "tagger", overwrite=True)
    found, accuracy = model.predict(words[cut:]), model.score(words[cut:], tags[cut:])
    tagged = " ".join(f"{w}/{t}" for w, t in zip(words[cut], found[0], strict=True))
    text = Text(
        f"a joint field of words and tags from {cut:,} sentences in {seconds:.1f} s\n"
        f"{100 * accuracy:.2f} % of the tags of {len(words) - cut} new sentences are right, such "
        f"as:\n{tagged}"
    )
    caption = "True tags in rows, predicted ones in columns; what is off the diagonal is wrong."
    table = confusion(tags[cut:], found)
    return [text], [Picture(lambda: plots.draw_confusion(table), caption=caption)]


def _composite(output: Path, seed: int) -> Shown:
    """N-grams, grammar and topics learned together; a new sentence parsed."""
    documents = sample_documents(LESSONS + TESTS, seed=seed + 1)
    short = [[s for s in own.sentences if len(s.words) <= MOST_WORDS] for own in documents]
    text = [[list(s.words) for s in sentences] for sentences in short]
    trees = [s.tree for sentences in short[:LESSONS] for s in sentences]
    settings: dict[str, Any] = {"topics": 6, "max_iterations": 6, "rounds": 1}
    composite = CompositeLanguageModel(3, grammar=trees, random_state=seed, **settings)
    model, seconds = _timed(composite.fit, text[:LESSONS])
    model.save(output / "composite-model", overwrite=True)
    alone = CompositeLanguageModel(3).fit(text[:LESSONS])
    both, trigram = model.perplexity(text[LESSONS:]), alone.perplexity(text[LESSONS:])
    (tree,) = model.parse([text[LESSONS][0]])
    shown = Text(
        f"a treebank grammar, trigrams and 6 topics, learned in {seconds:.1f} s\n"
        f"perplexity of new documents per token: {both:.1f} (trigrams alone: {trigram:.1f})\n"
        f"the most probable tree of a new sentence:\n{tree}"
    )
    return [shown], describe(model).report()


STEPS = {
    "Inference": _large_grid,
    "Learning a field from samples": _small_grid,
    "A language model that sees both sides of a word": _language_model,
    "Parts of speech": _tagger,
    "Trigrams, grammar and topics in one model": _composite,
}
