"""`mrflearn train crf|graph|hmm|tagger`: models that label tokens or nodes, from labelled files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.inputs import input_argument, input_option
from mrflearn.cli.training import Job, Learned
from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.features.recipes import Recipe
    from mrflearn.io.tag_files import TagSource

Sentences = Sequence[tuple[str, ...]]
TaggedFile = Annotated[
    Path, input_argument("Tagged words: .conllu, .tagged (word/tag), .mrg, or columns.")
]
ColumnNames = Annotated[
    str | None, typer.Option("--columns", help="Names of the columns, such as word,pos,chunk.")
]
FileFormat = Annotated[
    str | None, typer.Option("--format", help="The file's format; default: by its ending.")
]
Tags = Annotated[
    str | None,
    typer.Option(
        "--labels",
        "--column",
        help="The column to learn; default: upos of CoNLL-U, of others the last.",
    ),
]


Structure = StrEnum("Structure", ["chain", "factorial", "skip"])


def crf(
    job: Job,
    file: Annotated[
        Path, input_argument("Labelled words: columns, .conllu, .mrg, .crfsuite, .grmm ...")
    ],
    columns: ColumnNames = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="The column to learn, default: upos of CoNLL-U, else the last; several: pos,chunk."
        ),
    ] = None,
    structure: Annotated[
        Structure | None,
        typer.Option(help="Default: chain, or factorial where --labels names several columns."),
    ] = None,
    template: Annotated[
        Path | None, input_option("CRF++ or Wapiti templates; default: features of words.")
    ] = None,
    file_format: FileFormat = None,
    validation: Annotated[
        Path | None, input_option("Labelled words to stop by: the model best on them is kept.")
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Fit a temperature of the probabilities on --validation."),
    ] = False,
) -> Learned:
    """Learn a CRF: chunks, names, parts of speech, any label a token, or several of them at once.

    Example: mrflearn train crf train.txt --columns word,pos,chunk --labels chunk -o chunker

    Example: mrflearn train crf train.txt --columns word,pos,chunk --labels pos,chunk -o both
    """
    from mrflearn.features.recipes import Recipe

    if calibrate and validation is None:
        raise typer.BadParameter("--calibrate needs held-out data: name --validation.")
    recipe = Recipe.of(
        file,
        format=file_format,
        columns=columns.split(",") if columns else None,
        labels=labels.split(",") if labels else None,
        template=template,
    )
    layers = len(recipe.layers)
    kind = (structure or (Structure.factorial if layers > 1 else Structure.chain)).value
    if kind != "factorial" and layers > 1:
        raise typer.BadParameter(
            f"--structure {kind} learns one label a token, and here are {layers}: name one column "
            "with --labels, or take --structure factorial."
        )
    idle = f"has no effect with --structure {kind}."
    settings = job.settings(kind, idle)
    if kind == "chain":
        job.refuse(idle, "engine")
        return _chain(job, recipe, file, settings, validation, calibrate=calibrate)
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

    model = CRF(**settings)
    job.fit(model, checked(), labels, validation=held_out, **job.saved)
    model.recipe_ = recipe
    if calibrate and validation is not None:
        model.calibrate(*recipe.labelled(validation))
    temperature = f"temperature of the probabilities: {model.temperature_:.4f}"
    return Learned(
        model,
        {
            "format": recipe.format,
            "columns": recipe.columns,
            "labels": model.classes_,
            "attributes": model.num_attributes_,
            "temperature": model.temperature_,
        },
        f"{len(model.classes_)} labels, {model.num_attributes_:,} attributes",
        [temperature] if calibrate else [],
    )


def _layered(
    job: Job, recipe: Recipe, file: Path, settings: dict[str, Any], structure: str
) -> Learned:
    examples = recipe.layered(file)
    items = [example.items for example in examples]
    for layer, name in enumerate(recipe.layers):
        own = (example.layers[layer] for example in examples if example.layers)
        refuse_single_label(own, file, name if recipe.columns else "")
    model: Any
    with job.place(local=False) as place:
        if structure == "skip":
            from mrflearn.estimators.skip_chain_crf import SkipChainCRF

            # Without the chain's weights to begin with, messages may not converge.
            start = {"start": "chain"} if settings.get("estimator") == "bp" else {}
            # The words come with the file, whatever features are made of them.
            model = SkipChainCRF(**{"word": None, **start, **settings})
            more = {"words": recipe.words(examples, file), "executor": place, **job.saved}
            job.fit(model, items, [example.labels for example in examples], **more)
        else:
            from mrflearn.estimators.factorial_crf import FactorialCRF

            model = FactorialCRF(**settings)
            layers = [example.layers for example in examples]
            job.fit(model, items, layers, executor=place, **job.saved)
    model.recipe_ = recipe
    names = dict(zip(recipe.layers, map(list, model.names_), strict=True))
    facts = {
        "class": type(model).__name__,
        "structure": structure,
        "format": recipe.format,
        "columns": recipe.columns,
        "labels": names,
        "attributes": model.num_attributes_,
        "weights": sum(len(own) for own in model.model_.weights),
    }
    told = ", ".join(f"{name} ({len(own)} labels)" for name, own in names.items())
    size = f"{'skip-chain' if structure == 'skip' else structure} CRF of {told}"
    return Learned(
        model, facts, f"{size}, {facts['attributes']:,} attributes, {facts['weights']:,} weights"
    )


def graph(
    job: Job,
    file: Annotated[
        Path, input_argument("Labelled graphs, one a line of JSON, as networkx.node_link_data.")
    ],
) -> Learned:
    """Learn a CRF on graphs of any form: labels of nodes, by features of nodes and edges.

    A line of the file is a graph: {"nodes": [{"id": "a", "features": ["tall"], "label": "left"},
    ...], "edges": [{"source": "a", "target": "b", "features": ["near"]}, ...]}.

    Example: mrflearn train graph people.jsonl -o model
    """
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
        "labels": model.classes_,
        "attributes": model.num_attributes_,
    }
    size = f"{len(model.classes_)} labels, {model.num_attributes_:,} attributes"
    return Learned(model, facts, size, source=f" from {len(examples):,} graphs")


def _source(
    file: Path, file_format: str | None, columns: str | None, labels: str | None
) -> TagSource:
    from mrflearn.io.tag_files import TagSource

    names = columns.split(",") if columns else None
    return TagSource.of(file, format=file_format, columns=names, column=labels)


def _tagger(
    model: Any,
    source: TagSource,
    sentences: Sentences,
    facts: dict[str, Any],
    lines: list[str],
    held_out: tuple[Path, Sentences, Sentences] | None,
) -> Learned:
    """A fitted tagger, with what is said of every tagger, and how right it is on held-out text."""
    model.source_ = source
    facts |= {
        "column": source.column,
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "words": len(model.known_words_),
        "tags": model.classes_,
    }
    if held_out is not None:
        path, words, truth = held_out
        facts["validation"], told = _accuracy(model, words, truth)
        lines = [*lines, f"{path}: {told}"]
    order = f"order {model.order}, " if "order" in facts else ""
    size = f"{order}{len(model.classes_)} tags, {len(model.known_words_):,} words"
    return Learned(model, facts, size, lines)


def _accuracy(model: Any, words: Sentences, truth: Sentences) -> tuple[dict[str, Any], str]:
    """Shares of right tags between 0 and 1, and the same for people."""
    from mrflearn.evaluation.tagging import tagging_report

    found = model.predict(words)
    report = tagging_report(truth, found, words=words, known=model.known_words_)
    parts = {"": report.tokens, "_seen": report.seen, "_unseen": report.unseen}
    shares = {f"accuracy{name}": own.accuracy for name, own in parts.items() if own is not None}
    every, seen, unseen = (f"{100 * share:.2f} %" for share in shares.values())
    total = 0 if report.unseen is None else report.unseen.total
    others = f"on the {total:,} others {unseen}" if total else "there are no others"
    told = f"accuracy {every}; on words seen in training {seen}; {others}"
    return {**shares, "unseen_tokens": total}, told


def hmm(
    job: Job,
    file: TaggedFile,
    labels: Tags = None,
    columns: ColumnNames = None,
    file_format: FileFormat = None,
    validation: Annotated[
        Path | None, input_option("Tagged words to report the accuracy on.")
    ] = None,
) -> Learned:
    """Count a hidden Markov model of tags: trigrams, endings of words; a second for a treebank.

    --order 1 is the textbook model with one score for all new words.

    Example: mrflearn train hmm train.conllu --labels xpos --validation dev.conllu -o tagger
    """
    from mrflearn.estimators.hmm_tagger import HMMTagger

    source = _source(file, file_format, columns, labels)
    words, tags = source.tagged(file)
    refuse_single_label(tags, file, source.column)
    held_out = None if validation is None else (validation, *source.complete(validation))
    model = job.fit(HMMTagger(**job.settings()), words, tags)
    facts = {"order": model.order, "interpolation": model.interpolation_}
    weights = ", ".join(f"{weight:.2f}" for weight in model.interpolation_)
    lines = [f"weights of tag n-grams, short ones first: {weights}"]
    return _tagger(model, source, words, facts, lines, held_out)


def tagger(
    job: Job,
    file: TaggedFile,
    labels: Tags = None,
    columns: ColumnNames = None,
    file_format: FileFormat = None,
    unlabelled: Annotated[
        Path | None, input_option("Sentences without tags, to learn from as well.")
    ] = None,
    validation: Annotated[
        Path | None, input_option("Tagged words to choose by, and to report accuracy on.")
    ] = None,
) -> Learned:
    """Learn one Markov random field of words and tags, by a bound on its likelihood.

    Words act through their spelling, so that new words are tagged by what they look like.  The
    time depends on the words and tags there are, not on how long the text is.  Words without a
    tag (`_` in CoNLL-U, and all of --unlabelled) are learned from by summing over their tags.

    Example: mrflearn train tagger train.conllu --validation dev.conllu -o tagger
    """
    from mrflearn.estimators.tagger import JointTagger

    for name in ("l2", "unlabelled_weight"):
        if isinstance(job.given[name], list) and validation is None:
            job.refuse("to choose one of several, name --validation.", name)
    source = _source(file, file_format, columns, labels)
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
    held_out = None if validation is None else source.complete(validation)
    model = JointTagger(**job.settings())
    job.fit(model, sentences, tags, validation=held_out, **job.saved)
    facts: dict[str, Any] = {
        "settings": {name: getattr(model, name) for name in ("context", "words", "bound")},
        "l2": model.l2_,
        "log_likelihood_per_position": model.bound_,
    }
    facts |= {"unlabelled_weight": model.unlabelled_weight_} if gaps else {}
    lines = [f"log-likelihood at least {model.bound_:.4f} nats a position ({model.bound})"]
    rated = None if validation is None or held_out is None else (validation, *held_out)
    return _tagger(model, source, sentences, facts, lines, rated)


def refuse_single_label(labels: Iterable[Iterable[Any]], file: Path, column: str = "") -> None:
    """An error where all labels are the same: every answer would be that one."""
    found: set[str] = set()
    for own in labels:
        for label in own:
            found |= {label} if isinstance(label, str) else set(label or ())
            if len(found) > 1:
                return
    if found:
        where = f" in column '{column}'; --labels names another" if column else ""
        raise DataError(f"there is one label, '{found.pop()}', to learn{where}.", path=file)
