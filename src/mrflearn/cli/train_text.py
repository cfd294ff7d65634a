"""`mrflearn train lm|vectors|ngram|pcfg|composite`: models of text, from text, counts or trees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.options import holds_moments, shard_paths
from mrflearn.cli.output import remark
from mrflearn.cli.training import Job, Learned
from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.estimators.word_vectors import WordSpace
    from mrflearn.features.moments import Moments


def _read(path: Path) -> Path | Moments:
    """The moments in a file of them, else the path of a text."""
    from mrflearn.features.moments_file import load_moments

    return load_moments(path) if holds_moments(path) else path


def _source(job: Job, model: WordSpace, paths: list[Path]) -> Path | Moments:
    """What the model is to learn from: one text as it is, several counted where they are read."""
    engine = job.given["engine"]
    if holds_moments(paths[0]):
        reason = f"{paths[0]} was counted over its own words already; leave it out."
        job.refuse(reason, "min_count", "vocabulary_size")
    if engine == "local" and len(paths) == 1:
        job.refuse("it goes with several files: one file is read here by one process.", "n_jobs")
        return _read(paths[0])
    for path in paths:
        if holds_moments(path):
            raise DataError("moments are counts already; give one such file alone.", path=path)
    with job.place() as place:
        return model.count_shards(shard_paths(paths, engine), place)


def lm(job: Job, text: list[Path], validation: Path | None) -> Learned:
    """Learn a language model that sees both sides of a word, in time independent of the corpus."""
    from mrflearn.estimators.language_model import LanguageModel
    from mrflearn.execution.resources import peak_memory

    model = LanguageModel(**job.settings())
    if model.bound != "chains":
        job.refuse(f"these are the weights of chains; {model.bound} have none.", "weights")
    if model.triples and model.bound != "windows":
        job.refuse(f"goes with --bound windows; {model.bound} cannot bound them.", "triples")
    if model.estimator != "bound":
        job.refuse(f"goes with --estimator bound, not {model.estimator}.", "checkpoint")
    source = _source(job, model, text)
    held_out = None if validation is None else _read(validation)
    job.fit(model, source, validation=held_out, **job.saved)
    peak = peak_memory()
    facts = {
        "weights": list(model.ceiling_.weights),
        "slack": model.ceiling_.slack,
        "peak_memory_mb": None if peak is None else round(peak / (1 << 20), 1),
    }
    bounds = {"training text": model.bound_, str(validation): model.validation_bound_}
    lines = [
        f"{name}: at least {value:.4f} nats per position"
        for name, value in bounds.items()
        if value is not None
    ]
    lines += ["(proven lower bounds; positions count words and the separators before sentences)"]
    return Learned(model, f"{len(model.vocabulary_):,} words, {model.bound}", facts, lines)


def vectors(job: Job, text: list[Path]) -> Learned:
    """Word vectors straight from pair counts: in closed form, a million words in seconds."""
    from mrflearn.estimators.word_vectors import WordVectors

    model = WordVectors(**job.settings())
    source = _source(job, model, text)
    moments = model.count(source) if isinstance(source, Path) else source
    job.fit(model, moments)
    line = (
        f"from {moments.words:,} words in {moments.sentences:,} sentences, "
        f"{model.context} on each side"
    )
    size = f"{len(model.vocabulary_):,} words, {model.dims} dimensions"
    return Learned(model, size, {"words": moments.words, "sentences": moments.sentences}, [line])


def ngram(job: Job, text: Path, validation: Path | None) -> Learned:
    """Learn an n-gram language model with modified Kneser-Ney smoothing."""
    from mrflearn.estimators.ngram import NgramLanguageModel

    model = job.fit(NgramLanguageModel(**job.settings()), text)
    if model.fallback_orders_:
        orders = ", ".join(map(str, model.fallback_orders_))
        remark(f"order {orders}: too few counts to estimate discounts; fixed ones are used")
    names = ("ngrams", "discounts", "fallback_orders")
    facts = {name: getattr(model, f"{name}_") for name in names}
    sizes = " + ".join(f"{count:,}" for count in model.ngrams_)
    lines = _perplexity(model, facts, validation)
    return Learned(model, f"order {model.order}, {sizes} n-grams", facts, lines)


def _perplexity(model: Any, facts: dict[str, Any], validation: Path | None) -> list[str]:
    """Adds the perplexity of a held-out text, if there is one, and a line that says it."""
    if validation is None:
        return []
    value = facts["validation_perplexity"] = model.perplexity(validation)
    return [f"perplexity of {validation}: {value:.2f} ({model.unknown_policy_})"]


def pcfg(job: Job, trees: Path) -> Learned:
    """Read a probabilistic grammar off a treebank, to parse, score and continue sentences with."""
    from mrflearn.estimators.pcfg import PCFG

    model = job.fit(PCFG(**job.settings()), trees)
    shape = model.model_.shape
    size = f"{len(shape):,} rules, {shape.phrases} phrases, {shape.preterminals} tags"
    return Learned(model, f"{size}, {len(model.vocabulary_):,} words")


def composite(job: Job, documents: Path, validation: Path | None) -> Learned:
    """Learn a language model of documents: word n-grams, phrase structure and topics in one."""
    from mrflearn.estimators.composite import CompositeLanguageModel

    model = CompositeLanguageModel(**job.settings())
    grammar = str(model.grammar)
    if not grammar.startswith("latent"):
        job.refuse("only a latent grammar begins at random", "restarts")
    if not grammar.startswith("treebank"):
        job.refuse("only a treebank's grammar has nodes to split", "horizontal")
    with job.place(local=False) as place:
        job.fit(model, documents, executor=place, **job.saved)
    history = model.fit_.history
    facts = {
        "iterations": len(history),
        "train_log_likelihood": -history[-1].value if history else None,
        "reason": model.fit_.reason,
    }
    steps = f"{len(history)} steps of EM in {model.rounds} rounds"
    lines = [steps, *_perplexity(model, facts, validation)]
    return Learned(model, f"{len(model.vocabulary_):,} words", facts, lines)
