"""`mrflearn train lm|vectors|ngram|pcfg|composite`: models of text, from text, counts or trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mrflearn.cli.options import holds_moments, shard_paths
from mrflearn.cli.output import remark
from mrflearn.cli.train import Job
from mrflearn.errors import DataError
from mrflearn.execution.resources import peak_memory
from mrflearn.features.moments_file import load_moments
from mrflearn.io.corpus import refuse_documents


def lm(job: Job, text: list[Path], validation: Path | None) -> Any:
    """A language model that sees both sides of a word."""
    model = job.make()
    refuse_documents(*text, *filter(None, [validation]))
    job.fit(model, _source(job, model, text), validation=_read(validation))
    peak = peak_memory()
    job.facts["peak_memory_mb"] = None if peak is None else round(peak / (1 << 20), 1)
    remark("bounds are proven; positions count words and the separators before sentences")
    if validation is None:
        remark(
            "the bound is that of the training text, and new text has a lower one: hold some text "
            "out and name it by --validation, or rate it by `mrflearn score`"
        )
    if not model.unknown_seen_:
        remark(
            "no training word is <unk>, so text with new words will have hardly a probability: "
            f"--min-count {(model.min_count or 1) + 1} reads rare words as <unk>"
        )
    return model


def vectors(job: Job, text: list[Path]) -> Any:
    """Word vectors from pair counts."""
    refuse_documents(*text)
    model = job.make()
    source = _source(job, model, text)
    moments = model.count(source) if isinstance(source, Path) else source
    job.facts |= {"words": moments.words, "sentences": moments.sentences}
    return job.fit(model, moments)


def _source(job: Job, model: Any, paths: list[Path]) -> Any:
    """The path of one text, or moments: read from a file, or counted where the texts are read."""
    engine = job.given["engine"]
    if engine == "spark" or len(paths) > 1:
        for path in filter(holds_moments, paths):
            raise DataError("moments are counts already; give one such file alone.", path=path)
        with job.place() as place:
            return model.count_shards(shard_paths(paths, engine), place)
    job.refuse("it goes with several files: one file is read here by one process.", "n_jobs")
    if holds_moments(paths[0]):
        reason = f"{paths[0]} was counted over its own words already; leave it out."
        job.refuse(reason, "min_count", "vocabulary_size")
    return _read(paths[0])


def _read(path: Path | None) -> Any:
    """The moments in a file of them, else the path of a text."""
    return load_moments(path) if path is not None and holds_moments(path) else path


def from_file(job: Job, file: Path, validation: Path | None = None) -> Any:
    """N-grams, a grammar, or both with topics; the perplexity of a held-out text is reported."""
    model = job.make()
    if not getattr(model, "tokenize", True):
        refuse_documents(file, *filter(None, [validation]))
    job.fit(model, file)
    if hasattr(model, "fit_"):
        history, reason = model.fit_.history, model.fit_.reason
        likelihood = -history[-1].value if history else None
        facts = {"iterations": len(history), "train_log_likelihood": likelihood, "reason": reason}
        job.facts |= facts
    if getattr(model, "fallback_orders_", ()):
        orders = ", ".join(map(str, model.fallback_orders_))
        remark(f"order {orders}: too few counts to estimate discounts; fixed ones are used")
    if validation is not None:
        job.facts["validation_perplexity"] = model.perplexity(validation)
        job.facts["unknown_policy"] = model.unknown_policy_
    return model
