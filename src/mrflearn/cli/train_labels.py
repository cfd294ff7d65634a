"""`mrflearn train crf|graph|hmm|tagger`: models that label tokens or nodes, from labelled files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli.training import Job, Learned
from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.features.recipes import Recipe
    from mrflearn.io.tag_files import TagSource

Rated = tuple[Path, Any, Any] | None  # a file, its words and its tags


def crf(job: Job, file: Path, structure: str | None, **given: Any) -> Learned:
    """Learn a CRF: chunks, names, parts of speech; one label a token, or several."""
    from mrflearn.features.recipes import Recipe

    columns, labels, validation = given["column_names"], given["labels"], given["validation"]
    if given["calibrate"] and validation is None:
        raise typer.BadParameter("--calibrate needs held-out data: name --validation.")
    recipe = Recipe.of(
        file,
        format=given["file_format"],
        columns=columns.split(",") if columns else None,
        labels=labels.split(",") if labels else None,
        template=given["template"],
    )
    layers = len(recipe.layers)
    kind = structure or ("factorial" if layers > 1 else "chain")
    if kind != "factorial" and layers > 1:
        raise typer.BadParameter(
            f"--structure {kind} learns one label a token, and here are {layers}: name one column "
            "with --labels, or take --structure factorial."
        )
    idle = f"has no effect with --structure {kind}."
    settings = job.settings(kind, idle)
    if kind == "chain":
        job.refuse(idle, "engine")
        return _chain(job, recipe, file, settings, validation, calibrate=given["calibrate"])
    job.refuse(idle, "validation")
    return _layered(job, recipe, file, settings, kind)


def _chain(
    job: Job,
    recipe: Recipe,
    file: Path,
    settings: dict[str, Any],
    validation: Path | None,
    *,
    calibrate: bool,
) -> Learned:
    from mrflearn.estimators.crf import CRF

    held_out = None if validation is None else recipe.labelled(validation)
    items, labels = recipe.labelled(file)

    def checked() -> Iterator[list[Any]]:
        yield from items
        refuse_single_label(labels, file, recipe.labels if recipe.columns else "")

    model = job.fit(CRF(**settings), checked(), labels, validation=held_out, **job.saved)
    model.recipe_ = recipe
    lines = []
    if calibrate and validation is not None:
        model.calibrate(*recipe.labelled(validation))
        lines = [f"temperature of the probabilities: {model.temperature_:.4f}"]
    size = f"{len(model.classes_)} labels, {model.num_attributes_:,} attributes"
    facts = {"format": recipe.format, "columns": recipe.columns}
    return Learned(model, size, facts, lines)


def _layered(
    job: Job, recipe: Recipe, file: Path, settings: dict[str, Any], structure: str
) -> Learned:
    from mrflearn.estimators.factorial_crf import FactorialCRF
    from mrflearn.estimators.skip_chain_crf import SkipChainCRF

    examples = recipe.layered(file)
    items = [example.items for example in examples]
    for layer, name in enumerate(recipe.layers):
        own = (example.layers[layer] for example in examples if example.layers)
        refuse_single_label(own, file, name if recipe.columns else "")
    with job.place(local=False) as place:
        more = {"executor": place, **job.saved}
        if structure == "skip":
            # Without the chain's weights to begin with, messages may not converge.
            start = {"start": "chain"} if settings.get("estimator") == "bp" else {}
            # The words come with the file, whatever features are made of them.
            model: Any = SkipChainCRF(**{"word": None, **start, **settings})
            more |= {"words": recipe.words(examples, file)}
            job.fit(model, items, [example.labels for example in examples], **more)
        else:
            model = FactorialCRF(**settings)
            job.fit(model, items, [example.layers for example in examples], **more)
    model.recipe_ = recipe
    weights = sum(len(own) for own in model.model_.weights)
    facts = {"structure": structure, "format": recipe.format, "columns": recipe.columns}
    layers = zip(recipe.layers, model.names_, strict=True)
    labels = ", ".join(f"{name} ({len(own)} labels)" for name, own in layers)
    size = f"{'skip-chain' if structure == 'skip' else structure} CRF of {labels}"
    size += f", {model.num_attributes_:,} attributes, {weights:,} weights"
    return Learned(model, size, {**facts, "weights": weights})


def graph(job: Job, file: Path) -> Learned:
    """Learn a CRF on graphs of any form: labels of nodes, by features of nodes and edges."""
    from mrflearn.estimators.graph_crf import GraphCRF
    from mrflearn.io.graphs import read_graphs

    examples = list(read_graphs(file))
    if not examples:
        raise DataError("there are no graphs in it.", path=file)
    refuse_single_label((own.labels.values() for own in examples), file)
    graphs, labels = [own.networkx() for own in examples], [own.labels for own in examples]
    model = GraphCRF(**job.settings())
    with job.place(local=False) as place:
        job.fit(model, graphs, labels, executor=place, **job.saved)
    facts = {
        "graphs": len(examples),
        "nodes": sum(len(own.nodes) for own in examples),
        "edges": sum(len(own.edges) for own in examples),
    }
    size = f"{len(model.classes_)} labels, {model.num_attributes_:,} attributes"
    return Learned(model, size, facts, source=f" from {len(examples):,} graphs")


def hmm(job: Job, file: Path, validation: Path | None, **given: Any) -> Learned:
    """Count a hidden Markov model of tags: trigrams, endings of words; a second for a treebank."""
    from mrflearn.estimators.hmm_tagger import HMMTagger

    source = _source(file, **given)
    words, tags = source.tagged(file)
    refuse_single_label(tags, file, source.column)
    held_out = None if validation is None else (validation, *source.complete(validation))
    model = job.fit(HMMTagger(**job.settings()), words, tags)
    weights = ", ".join(f"{weight:.2f}" for weight in model.interpolation_)
    lines = [f"weights of tag n-grams, short ones first: {weights}"]
    return _tagger(model, source, words, {"order": model.order}, lines, held_out)


def tagger(
    job: Job, file: Path, unlabelled: Path | None, validation: Path | None, **given: Any
) -> Learned:
    """Learn one Markov random field of words and tags, by a bound on its likelihood."""
    from mrflearn.estimators.tagger import JointTagger

    for name in ("l2", "unlabelled_weight"):
        if isinstance(job.given[name], list) and validation is None:
            job.refuse("to choose one of several, name --validation.", name)
    source = _source(file, **given)
    sentences, known = source.tagged(file)
    refuse_single_label(known, file, source.column)
    tags: list[Any] = [*known]
    if unlabelled is not None:
        plain = [example.words for example in source.read(unlabelled)]
        sentences, tags = [*sentences, *plain], [*tags, *[None] * len(plain)]
    gaps = any(own is None or None in own for own in tags)
    if not gaps:
        reason = "every word has its tag, so nothing is left to guess; --unlabelled names more text"
        job.refuse(reason, "unlabelled_weight", "rounds")
    rated = None if validation is None else (validation, *source.complete(validation))
    model = JointTagger(**job.settings())
    held_out = None if rated is None else rated[1:]
    job.fit(model, sentences, tags, validation=held_out, **job.saved)
    facts = {"l2": model.l2_}
    facts |= {"unlabelled_weight": model.unlabelled_weight_} if gaps else {}
    lines = [f"log-likelihood at least {model.bound_:.4f} nats per position ({model.bound})"]
    return _tagger(model, source, sentences, facts, lines, rated)


def _source(
    file: Path, file_format: str | None, column_names: str | None, tags: str | None
) -> TagSource:
    from mrflearn.io.tag_files import TagSource

    names = column_names.split(",") if column_names else None
    return TagSource.of(file, format=file_format, columns=names, column=tags)


def _tagger(
    model: Any,
    source: TagSource,
    sentences: Any,
    facts: dict[str, Any],
    lines: list[str],
    rated: Rated,
) -> Learned:
    """A fitted tagger, with its accuracy on held-out text."""
    from mrflearn.evaluation.tagging import tagging_report

    model.source_ = source
    facts |= {"column": source.column, "sentences": len(sentences)}
    facts["tokens"] = sum(map(len, sentences))
    if rated is not None:
        path, words, truth = rated
        known = model.known_words_
        report = tagging_report(truth, model.predict(words), words=words, known=known)
        parts = {"": report.tokens, "_seen": report.seen, "_unseen": report.unseen}
        shares = {f"accuracy{name}": own.accuracy for name, own in parts.items() if own is not None}
        every, seen, unseen = (f"{100 * share:.2f} %" for share in shares.values())
        total = 0 if report.unseen is None else report.unseen.total
        facts["validation"] = {**shares, "unseen_tokens": total}
        others = f"on the {total:,} others {unseen}" if total else "there are no others"
        lines += [f"{path}: accuracy {every}; on words seen in training {seen}; {others}"]
    order = f"order {model.order}, " if "order" in facts else ""
    size = f"{order}{len(model.classes_)} tags, {len(model.known_words_):,} words"
    return Learned(model, size, facts, lines)


def refuse_single_label(labels: Iterable[Iterable[Any]], file: Path, column: str = "") -> None:
    """An error where all labels are the same: every answer would be that one."""
    seen: set[str] = set()
    for own in labels:
        for label in own:
            seen |= {label} if isinstance(label, str) else set(label or ())
            if len(seen) > 1:
                return
    if seen:
        where = f" in column '{column}'; --labels names another" if column else ""
        raise DataError(f"there is one label, '{seen.pop()}', to learn{where}.", path=file)
