"""`mrflearn train lm|vectors|ngram|pcfg|composite`: models of text, from text, counts or trees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mrflearn.cli.answers import remark
from mrflearn.cli.inputs import holds_moments, input_argument, input_option
from mrflearn.cli.options import Engine, shard_paths
from mrflearn.cli.training import Job, Learned
from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.estimators.word_vectors import WordSpace
    from mrflearn.features.moments import Moments

TextOrMoments = Annotated[
    list[Path],
    input_argument(
        "Text, one sentence a line (gzip and - are fine), or a .moments file (see count)."
    ),
]


def _read(path: Path) -> Path | Moments:
    """The moments in a file of them, else the path of a text."""
    from mrflearn.features.moments_file import load_moments

    return load_moments(path) if holds_moments(path) else path


def _source(job: Job, model: WordSpace, paths: list[Path]) -> Path | Moments:
    """What the model is to learn from: one text as it is, several counted where they are read."""
    if holds_moments(paths[0]):
        reason = f"{paths[0]} was counted over its own words already; leave it out."
        job.refuse(reason, "min_count", "vocabulary_size")
    if job.engine is Engine.local and len(paths) == 1:
        job.refuse("it goes with several files: one file is read here by one process.", "n_jobs")
        return _read(paths[0])
    for path in paths:
        if holds_moments(path):
            raise DataError("moments are counts already; give one such file alone.", path=path)
    with job.place() as place:
        return model.count_shards(shard_paths(paths, job.engine), place)


def lm(
    job: Job,
    text: TextOrMoments,
    validation: Annotated[
        Path | None, input_option("Text to stop by (--estimator bound), else to report on.")
    ] = None,
) -> Learned:
    """Learn a language model that sees both sides of a word, in time independent of the corpus.

    Several files, or any with --engine spark, are counted where they are read; then the counts
    alone are learned from, here.

    Example: mrflearn train lm train.txt --validation valid.txt --dims 30 -o model
    """
    from mrflearn.estimators.language_model import LanguageModel
    from mrflearn.execution.memory import peak_memory

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
        "vocabulary": len(model.vocabulary_),
        "bound": model.bound,
        "weights": list(model.ceiling_.weights),
        "train_bound_per_position": model.bound_,
        "validation_bound_per_position": model.validation_bound_,
        "slack": model.ceiling_.slack,
        "peak_memory_mb": None if peak is None else round(peak / (1 << 20), 1),
    }
    told = {"training text": model.bound_, str(validation): model.validation_bound_}
    lines = [
        f"{name}: at least {value:.4f} nats per position"
        for name, value in told.items()
        if value is not None
    ]
    lines += ["(proven lower bounds; positions count words and the separators before sentences)"]
    size = f"{len(model.vocabulary_):,} words, {model.bound}"
    return Learned(model, facts, size, lines)


def vectors(job: Job, text: TextOrMoments) -> Learned:
    """Word vectors straight from pair counts: in closed form, a million words in seconds.

    Then `neighbors` asks for near words, `evaluate` for agreement with people's scores, and
    `convert MODEL vectors.txt` writes the format of word2vec.

    Example: mrflearn train vectors train.txt.gz -o vectors
    """
    from mrflearn.estimators.word_vectors import WordVectors

    model = WordVectors(**job.settings())
    source = _source(job, model, text)
    moments = model.count(source) if isinstance(source, Path) else source
    job.fit(model, moments)
    facts = {
        "vocabulary": len(model.vocabulary_),
        "dims": model.dims,
        "context": model.context,
        "words": moments.words,
        "sentences": moments.sentences,
    }
    line = (
        f"from {moments.words:,} words in {moments.sentences:,} sentences, "
        f"{model.context} on each side"
    )
    size = f"{len(model.vocabulary_):,} words, {model.dims} dimensions"
    return Learned(model, facts, size, [line])


def ngram(
    job: Job,
    text: Annotated[Path, input_argument("One sentence a line (gzip and - are fine).")],
    validation: Annotated[Path | None, input_option("Text to report the perplexity of.")] = None,
) -> Learned:
    """Learn an n-gram language model with modified Kneser-Ney smoothing.

    Example: mrflearn train ngram train.txt --order 5 --validation valid.txt -o model
    """
    from mrflearn.estimators.ngram import NgramLanguageModel

    model = job.fit(NgramLanguageModel(**job.settings()), text)
    if model.fallback_orders_:
        orders = ", ".join(map(str, model.fallback_orders_))
        remark(f"order {orders}: too few counts to estimate discounts; fixed ones are used")
    facts = {
        "order": model.order,
        "ngrams": model.ngrams_,
        "vocabulary": len(model.vocabulary_),
        "discounts": model.discounts_,
        "fallback_orders": model.fallback_orders_,
    }
    sizes = ", ".join(f"{count:,}" for count in model.ngrams_)
    lines = _perplexity(model, facts, validation)
    return Learned(model, facts, f"order {model.order}, {sizes} n-grams", lines)


def _perplexity(model: Any, facts: dict[str, Any], validation: Path | None) -> list[str]:
    """Adds the perplexity of a held-out text, if there is one, and says it."""
    if validation is None:
        return []
    found = facts["validation_perplexity"] = model.perplexity(validation)
    return [f"perplexity of {validation}: {found:.2f} ({model.unknown_policy_})"]


def pcfg(
    job: Job,
    trees: Annotated[Path, input_argument("Trees in brackets, as the Penn Treebank's.")],
) -> Learned:
    """Read a probabilistic grammar off a treebank, to parse, score and continue sentences with.

    Example: mrflearn train pcfg treebank.mrg --vertical 1 -o grammar
    """
    from mrflearn.estimators.pcfg import PCFG

    model = job.fit(PCFG(**job.settings()), trees)
    shape = model.model_.shape
    facts = {
        "phrases": shape.phrases,
        "preterminals": shape.preterminals,
        "rules": len(shape),
        "vocabulary": len(model.vocabulary_),
    }
    size = (
        f"{len(shape):,} rules, {shape.phrases} phrases, {shape.preterminals} tags, "
        f"{len(model.vocabulary_):,} words"
    )
    return Learned(model, facts, size)


def composite(
    job: Job,
    documents: Annotated[
        Path,
        input_argument(
            "One sentence a line, a blank line between documents (gzip and - are fine); or a "
            "folder of such files."
        ),
    ],
    validation: Annotated[
        Path | None, input_option("Documents to report the perplexity of.")
    ] = None,
) -> Learned:
    """Learn a language model of documents: word n-grams, phrase structure and topics in one.

    Example: mrflearn train composite news.txt --topics 10 --grammar latent:10,20 -o model
    """
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
        "order": model.order,
        "topics": model.topics,
        "vocabulary": len(model.vocabulary_),
        "iterations": len(history),
        "train_log_likelihood": -history[-1].value if history else None,
        "reason": model.fit_.reason,
    }

    steps = f"{len(history)} steps of EM in {model.rounds} rounds"
    lines = [steps, *_perplexity(model, facts, validation)]
    size = f"{len(model.vocabulary_):,} words"
    return Learned(model, facts, size, lines)
