"""`mrflearn train crf|neural|graph|hmm|tagger`: models that label, from labelled files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from mrflearn.cli.options import listed
from mrflearn.cli.train import Job
from mrflearn.describe.blocks import answer
from mrflearn.describe.labellers import TaggerDescription
from mrflearn.errors import DataError
from mrflearn.features.recipes import Recipe
from mrflearn.io.graphs import read_graphs
from mrflearn.io.tag_files import TagSource

RATED = ("accuracy", "accuracy_seen", "accuracy_unseen", "unseen_tokens")


def crf(
    job: Job,
    file: Path,
    labels: str | None,
    validation: Path | None,
    structure: str | None = None,
    **given: Any,
) -> Any:
    """A CRF with one label per token, or several; a neural one has one."""
    if given["calibrate"] and validation is None:
        raise typer.BadParameter("--calibrate needs held-out data: name --validation.")
    recipe = Recipe.of(
        file,
        format=given["file_format"],
        columns=listed(given["column_names"]),
        labels=listed(labels),
        template=given["template"],
        features=job.given["features"],
    )
    kind = structure or next(iter(job.entry["estimators"]))
    if recipe.further and structure is None and "factorial" in job.entry["estimators"]:
        kind = "factorial"
    if kind != "factorial" and recipe.further:
        other = "" if kind == "neural" else ", or take --structure factorial"
        raise typer.BadParameter(
            f"a {kind} CRF learns one label a token, and here are {len(recipe.layers)}: name one "
            f"column with --labels{other}."
        )
    job.given["features"] = recipe
    if kind == "skip" and job.given["estimator"] == "bp":
        # Without the chain's weights to begin with, messages may not converge.
        job.given["start"] = job.given["start"] or "chain"
    model = job.make(kind)
    idle = f"has no effect with --structure {kind}."
    if structure is not None or kind != "neural":
        job.refuse(idle, "engine" if kind == "chain" else "validation")
    job.facts |= {"format": recipe.format, "columns": recipe.columns}
    held_out = None if validation is None else recipe.labelled(validation)
    job.fit(model, *_labelled(recipe, file, kind), validation=held_out)
    if kind not in ("chain", "neural"):
        job.facts |= {"structure": kind, "weights": sum(map(len, model.model_.weights))}
    if validation is not None and given["calibrate"]:
        model.calibrate(*recipe.labelled(validation))
    return model


def _labelled(recipe: Recipe, file: Path, kind: str) -> tuple[Iterable[Any], list[Any]]:
    """The sentences of a file, for a chain as they are read, and their labels: of all layers."""
    sentences: Iterable[Any]
    labels: list[Any]
    if kind == "factorial":
        examples = list(recipe.layered(file))
        sentences, labels = [own.tokens for own in examples], [own.layers for own in examples]
    else:
        sentences, labels = recipe.labelled(file)

    def checked() -> Iterator[Any]:
        yield from sentences
        for layer, name in enumerate(recipe.layers):
            own = (layers[layer] for layers in labels) if kind == "factorial" else labels
            refuse_single_label(own, file, name if recipe.columns else "")

    return checked() if kind in ("chain", "neural") else list(checked()), labels


def graph(job: Job, file: Path) -> Any:
    """A CRF on graphs of any form."""
    examples = list(read_graphs(file))
    if not examples:
        raise DataError("there are no graphs in it.", path=file)
    known = chain.from_iterable(own.labels.values() for own in examples)
    refuse_single_label(([own] if isinstance(own, str) else own or () for own in known), file)
    job.facts["graphs"] = len(examples)
    for name in ("nodes", "edges"):
        job.facts[name] = sum(len(getattr(own, name)) for own in examples)
    graphs, labels = [own.networkx() for own in examples], [own.labels for own in examples]
    return job.fit(job.make(), graphs, labels)


def tagger(
    job: Job,
    file: Path,
    validation: Path | None,
    file_format: str | None,
    column_names: str | None,
    tags: str | None,
    unlabelled: Path | None = None,
) -> Any:
    """A hidden Markov model of tags, or a field of words and tags; held-out text is tagged."""
    for name in ("l2", "unlabelled_weight"):
        if isinstance(job.given.get(name), list) and validation is None:
            job.refuse("to choose one of several, name --validation.", name)
    source = TagSource.of(file, format=file_format, columns=listed(column_names), column=tags)
    words, known = (list[Any](own) for own in source.tagged(file))
    refuse_single_label(known, file, source.column)
    if unlabelled is not None:
        words += (plain := [example.words for example in source.read(unlabelled)])
        known += [None] * len(plain)
    gaps = any(own is None or None in own for own in known)
    if not gaps:
        reason = "every word has its tag, so nothing is left to guess; --unlabelled names more text"
        job.refuse(reason, "unlabelled_weight", "rounds")
    # A malformed file is found before training.
    held_out = None if validation is None else source.complete(validation)
    tokens = sum(map(len, words))
    job.facts |= {"column": source.column, "sentences": len(words), "tokens": tokens}
    model = job.fit(job.make(), words, known, validation=held_out)
    if gaps:
        job.facts["unlabelled_weight"] = model.unlabelled_weight_
    model.source_ = source
    if validation is not None:
        found = answer(TaggerDescription(model).evaluate(validation, 0))
        job.facts["validation"] = {name: found[name] for name in RATED if name in found}
    return model


def refuse_single_label(labels: Iterable[Iterable[Any]], file: Path, column: str = "") -> None:
    """An error where all labels are the same: every answer would be that one."""
    seen = set(chain.from_iterable(labels)) - {None}
    if len(seen) == 1:
        where = f" in column '{column}'; --labels names another" if column else ""
        raise DataError(f"there is one label, '{seen.pop()}', to learn{where}.", path=file)
