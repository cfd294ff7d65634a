"""`mrflearn train lm|vectors|ngram|pcfg|composite`: models of text, from text, counts or trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mrflearn
from mrflearn.cli.options import holds_moments, shard_paths
from mrflearn.cli.output import remark
from mrflearn.cli.train import Job
from mrflearn.errors import DataError
from mrflearn.execution.resources import peak_memory
from mrflearn.features.moments_file import load_moments


def _source(job: Job, model: Any, paths: list[Path]) -> Any:
    """The path of one text, or moments: read from a file, or counted where the texts are read."""
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


def _read(path: Path | None) -> Any:
    """The moments in a file of them, else the path of a text."""
    return load_moments(path) if path is not None and holds_moments(path) else path


def lm(job: Job, text: list[Path], validation: Path | None) -> Any:
    """Learn a language model that sees both sides of a word, in time independent of the corpus."""
    model = mrflearn.LanguageModel(**job.settings())
    if model.bound != "chains":
        job.refuse(f"these are the weights of chains; {model.bound} have none.", "weights")
    if model.triples and model.bound != "windows":
        job.refuse(f"goes with --bound windows; {model.bound} cannot bound them.", "triples")
    if model.estimator != "bound":
        job.refuse(f"goes with --estimator bound, not {model.estimator}.", "checkpoint")
    job.fit(model, _source(job, model, text), validation=_read(validation))
    peak = peak_memory()
    job.facts |= {
        "weights": list(model.log_partition_bound_.weights),
        "slack": model.log_partition_bound_.slack,
        "peak_memory_mb": None if peak is None else round(peak / (1 << 20), 1),
    }
    remark("bounds are proven; positions count words and the separators before sentences")
    return model


def vectors(job: Job, text: list[Path]) -> Any:
    """Word vectors straight from pair counts: in closed form, a million words in seconds."""
    model = mrflearn.WordVectors(**job.settings())
    source = _source(job, model, text)
    moments = model.count(source) if isinstance(source, Path) else source
    job.facts |= {"words": moments.words, "sentences": moments.sentences}
    return job.fit(model, moments)


def ngram(job: Job, text: Path, validation: Path | None) -> Any:
    """Learn an n-gram language model with modified Kneser-Ney smoothing."""
    model = job.fit(mrflearn.NgramLanguageModel(**job.settings()), text)
    if model.fallback_orders_:
        orders = ", ".join(map(str, model.fallback_orders_))
        remark(f"order {orders}: too few counts to estimate discounts; fixed ones are used")
    names = ("ngrams", "discounts", "fallback_orders")
    job.facts |= {name: getattr(model, f"{name}_") for name in names}
    return _rated(job, model, validation)


def _rated(job: Job, model: Any, validation: Path | None) -> Any:
    """The same model; the perplexity of a held-out text, if there is one, is reported."""
    if validation is not None:
        job.facts["validation_perplexity"] = model.perplexity(validation)
        job.facts["unknown_policy"] = model.unknown_policy_
    return model


def pcfg(job: Job, trees: Path) -> Any:
    """Read a probabilistic grammar off a treebank, to parse, score and continue sentences with."""
    return job.fit(mrflearn.PCFG(**job.settings()), trees)


def composite(job: Job, documents: Path, validation: Path | None) -> Any:
    """Learn a language model of documents: word n-grams, phrase structure and topics in one."""
    model = mrflearn.CompositeLanguageModel(**job.settings())
    grammar = str(model.grammar)
    if not grammar.startswith("latent"):
        job.refuse("only a latent grammar begins at random", "restarts")
    if not grammar.startswith("treebank"):
        job.refuse("only a treebank's grammar has nodes to split", "horizontal")
    job.fit(model, documents)
    history = model.fit_.history
    job.facts |= {
        "rounds": model.rounds,
        "iterations": len(history),
        "train_log_likelihood": -history[-1].value if history else None,
        "reason": model.fit_.reason,
    }
    return _rated(job, model, validation)
