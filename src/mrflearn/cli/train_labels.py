"""`mrflearn train crf|graph|hmm|tagger`: models that label tokens or nodes, from labelled files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import typer

import mrflearn
from mrflearn.cli.train import Job
from mrflearn.describe.blocks import answer
from mrflearn.describe.labellers import TaggerDescription
from mrflearn.errors import DataError
from mrflearn.features.recipes import Recipe
from mrflearn.io.graphs import read_graphs
from mrflearn.io.tag_files import TagSource

RATED = ("accuracy", "accuracy_seen", "accuracy_unseen", "unseen_tokens")


def crf(job: Job, file: Path, structure: str | None, **given: Any) -> Any:
    """Learn a CRF: chunks, names, parts of speech; one label a token, or several."""
    validation = given["validation"]
    if given["calibrate"] and validation is None:
        raise typer.BadParameter("--calibrate needs held-out data: name --validation.")
    recipe = Recipe.of(
        file,
        format=given["file_format"],
        columns=_names(given["column_names"]),
        labels=_names(given["labels"]),
        template=given["template"],
        features=job.given["features"],
    )
    layers = len(recipe.layers)
    kind = structure or ("factorial" if layers > 1 else "chain")
    if kind != "factorial" and layers > 1:
        raise typer.BadParameter(
            f"--structure {kind} learns one label a token, and here are {layers}: name one column "
            "with --labels, or take --structure factorial."
        )
    idle = f"has no effect with --structure {kind}."
    settings = job.settings(kind, idle) | {"features": recipe}
    job.refuse(idle, "engine" if kind == "chain" else "validation")
    job.facts |= {"format": recipe.format, "columns": recipe.columns}
    if kind == "chain":
        model = _chain(job, recipe, file, mrflearn.CRF(**settings), validation)
    else:
        model = _layered(job, recipe, file, settings, kind)
    if given["calibrate"]:
        model.calibrate(*recipe.labelled(validation))
    return model


def _names(listed: str | None) -> list[str] | None:
    return listed.split(",") if listed else None


def _chain(job: Job, recipe: Recipe, file: Path, model: Any, validation: Path | None) -> Any:
    held_out = None if validation is None else recipe.labelled(validation)
    sentences, labels = recipe.labelled(file)

    def checked() -> Iterator[list[Any]]:
        yield from sentences
        refuse_single_label(labels, file, recipe.labels if recipe.columns else "")

    return job.fit(model, checked(), labels, validation=held_out)


def _layered(job: Job, recipe: Recipe, file: Path, settings: dict[str, Any], structure: str) -> Any:
    examples = recipe.layered(file)
    sentences = [example.tokens for example in examples]
    for layer, name in enumerate(recipe.layers):
        own = (example.layers[layer] for example in examples if example.layers)
        refuse_single_label(own, file, name if recipe.columns else "")
    if structure == "skip":
        # Without the chain's weights to begin with, messages may not converge.
        start = {"start": "chain"} if settings.get("estimator") == "bp" else {}
        model: Any = mrflearn.SkipChainCRF(**{**start, **settings})
        job.fit(model, sentences, [example.labels for example in examples])
    else:
        model = mrflearn.FactorialCRF(**settings)
        job.fit(model, sentences, [example.layers for example in examples])
    job.facts |= {"structure": structure, "weights": sum(map(len, model.model_.weights))}
    return model


def graph(job: Job, file: Path) -> Any:
    """Learn a CRF on graphs of any form: labels of nodes, by features of nodes and edges."""
    examples = list(read_graphs(file))
    if not examples:
        raise DataError("there are no graphs in it.", path=file)
    refuse_single_label((own.labels.values() for own in examples), file)
    graphs, labels = [own.networkx() for own in examples], [own.labels for own in examples]
    job.facts |= {
        "graphs": len(examples),
        "nodes": sum(len(own.nodes) for own in examples),
        "edges": sum(len(own.edges) for own in examples),
    }
    return job.fit(mrflearn.GraphCRF(**job.settings()), graphs, labels)


def hmm(job: Job, file: Path, validation: Path | None, **given: Any) -> Any:
    """Count a hidden Markov model of tags: trigrams, endings of words; a second for a treebank."""
    source, words, tags = _tagged(job, file, **given)
    if validation is not None:
        source.complete(validation)  # a malformed file is found before training
    model = job.fit(mrflearn.HMMTagger(**job.settings()), words, tags)
    job.facts["order"] = model.order
    return _rated(job, model, source, validation)


def tagger(
    job: Job, file: Path, unlabelled: Path | None, validation: Path | None, **given: Any
) -> Any:
    """Learn one Markov random field of words and tags, by a bound on its likelihood."""
    for name in ("l2", "unlabelled_weight"):
        if isinstance(job.given[name], list) and validation is None:
            job.refuse("to choose one of several, name --validation.", name)
    source, words, tags = _tagged(job, file, unlabelled, **given)
    gaps = any(own is None or None in own for own in tags)
    if not gaps:
        reason = "every word has its tag, so nothing is left to guess; --unlabelled names more text"
        job.refuse(reason, "unlabelled_weight", "rounds")
    held_out = None if validation is None else source.complete(validation)
    model = mrflearn.JointTagger(**job.settings())
    job.fit(model, words, tags, validation=held_out)
    job.facts["l2"] = model.l2_
    job.facts |= {"unlabelled_weight": model.unlabelled_weight_} if gaps else {}
    return _rated(job, model, source, validation)


def _tagged(
    job: Job,
    file: Path,
    unlabelled: Path | None = None,
    *,
    file_format: str | None,
    column_names: str | None,
    tags: str | None,
) -> tuple[TagSource, list[Any], list[Any]]:
    """How tags stand in a file, its sentences, and their tags: None where there are none."""
    source = TagSource.of(file, format=file_format, columns=_names(column_names), column=tags)
    words, known = cast("tuple[list[Any], list[Any]]", source.tagged(file))
    refuse_single_label(known, file, source.column)
    if unlabelled is not None:
        words += (plain := [example.words for example in source.read(unlabelled)])
        known += [None] * len(plain)
    job.facts |= {"column": source.column, "sentences": len(words)}
    job.facts["tokens"] = sum(map(len, words))
    return source, words, known


def _rated(job: Job, model: Any, source: TagSource, validation: Path | None) -> Any:
    """A fitted tagger; its accuracy on held-out text is reported."""
    model.source_ = source
    if validation is not None:
        found = answer(TaggerDescription(model).evaluate(validation, 0))
        job.facts["validation"] = {name: found[name] for name in RATED if name in found}
    return model


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
