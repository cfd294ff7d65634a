"""What `tag`, `evaluate` and `inspect` say of CRFs with several layers, or with skip edges."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli.answers import say, say_json, say_table
from mrflearn.cli.labelling import batches, mistakes_of, with_recipe, words_of

if TYPE_CHECKING:
    from mrflearn.estimators.factorial_crf import FactorialCRF
    from mrflearn.estimators.field_crf import FieldCRF
    from mrflearn.estimators.layered_sequences import Decoded, LayerMarginals
    from mrflearn.estimators.skip_chain_crf import SkipChainCRF
    from mrflearn.evaluation.layers import LayerReport
    from mrflearn.features.recipes import LabelledSequence, Recipe

    Layered = FactorialCRF | SkipChainCRF

BATCH = 200


def _decoded(model: Layered, part: list[LabelledSequence], file: Path) -> list[Decoded]:
    from mrflearn.estimators.skip_chain_crf import SkipChainCRF

    items = [example.items for example in part]
    if isinstance(model, SkipChainCRF):
        return model.decode(items, words=words_of(part, file))
    return model.decode(items)


def tag_layered(
    model: Layered,
    folder: Path,
    file: Path,
    marginals: bool,
    file_format: str | None,
    batch: int,
    as_json: bool,
) -> None:
    """The rows of the input, each with a label of every layer behind it."""
    recipe = with_recipe(model, folder).recipe_
    for part in batches(recipe.read(file, format=file_format), batch):
        chances = _marginals(model, part, file) if marginals else [None] * len(part)
        for example, own, chance in zip(part, _decoded(model, part, file), chances, strict=True):
            if as_json:
                say_json(_record(example, own, recipe.layers, chance))
                continue
            labels = [
                cell
                for k, layer in enumerate(own.layers)
                for cell in _with_chances(layer, None if chance is None else chance[k])
            ]
            for row, *cells in zip(example.rows, *labels, strict=True):
                say(" ".join([*row, *cells]))
            say()
        sys.stdout.flush()  # whoever reads a pipe should not wait for the next batch


def _marginals(model: Layered, part: list[LabelledSequence], file: Path) -> list[LayerMarginals]:
    from mrflearn.estimators.skip_chain_crf import SkipChainCRF

    items = [example.items for example in part]
    if isinstance(model, SkipChainCRF):
        return [[own] for own in model.predict_marginals(items, words=words_of(part, file))]
    return model.predict_marginals(items)


def _with_chances(layer: list[str], chances: list[dict[str, float]] | None) -> list[list[str]]:
    if chances is None:
        return [layer]
    return [layer, [f"{own[label]:.4f}" for label, own in zip(layer, chances, strict=True)]]


def _record(
    example: LabelledSequence, own: Decoded, layers: tuple[str, ...], chance: Any
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "words": [row[0] for row in example.rows if row],
        "labels": dict(zip(layers, own.layers, strict=True)),
        "score": own.score,
        "kind": own.kind,
        "converged": own.converged,
    }
    if chance is not None:
        record["marginals"] = dict(zip(layers, chance, strict=True))
    return record


def evaluate_layered(model: Layered, folder: Path, file: Path, n: int, as_json: bool) -> None:
    """Accuracy and, for chunk tags, F1 of each layer; tokens right in all layers at once."""
    from mrflearn.evaluation.layers import layers_report
    from mrflearn.evaluation.tagging import confusion

    recipe = with_recipe(model, folder).recipe_
    truth: dict[str, list[list[str]]] = {name: [] for name in recipe.layers}
    found: dict[str, list[list[str]]] = {name: [] for name in recipe.layers}
    for part in batches(recipe.layered(file), BATCH):
        for example, own in zip(part, _decoded(model, part, file), strict=True):
            for name, true, guess in zip(
                recipe.layers, example.layers or (), own.layers, strict=True
            ):
                truth[name].append(list(true))
                found[name].append(guess)
    report = layers_report(truth, found)
    layers = {name: _figures(own) for name, own in report.layers.items()}
    for name, figures in layers.items():
        figures["mistakes"] = mistakes_of(confusion(truth[name], found[name]), n)
    first = next(iter(report.layers.values())).tagging
    answer = {
        "file": str(file),
        "sentences": first.sentences.total,
        "tokens": first.tokens.total,
        "joint_accuracy": report.joint.accuracy,
        "layers": layers,
    }
    if as_json:
        say_json(answer)
    else:
        _tell(answer)


def _figures(report: LayerReport) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "accuracy": report.tagging.tokens.accuracy,
        "sentence_accuracy": report.tagging.sentences.accuracy,
    }
    if report.chunks is not None:
        total = report.chunks.total
        figures |= {"precision": total.precision, "recall": total.recall, "f1": total.f1}
    return figures


def _tell(answer: dict[str, Any]) -> None:
    say(f"{answer['file']}: {answer['sentences']:,} sentences, {answer['tokens']:,} tokens")
    if len(answer["layers"]) > 1:
        say(f"right in all layers at once: {100 * answer['joint_accuracy']:.2f} %")
    say()
    shares = ("accuracy", "precision", "recall", "f1")
    rows = [
        [name, *(f"{100 * own[share]:.2f}" if share in own else "-" for share in shares)]
        for name, own in answer["layers"].items()
    ]
    say_table(["layer, %", "accuracy", "precision", "recall", "F1"], rows)
    wrong = [
        [name, mistake["true"], mistake["predicted"], str(mistake["tokens"])]
        for name, own in answer["layers"].items()
        for mistake in own["mistakes"]
    ]
    if wrong:
        say()
        say_table(["layer", "true label", "predicted", "tokens"], wrong)


def inspect_layered(model: Layered, top: int, label: str | None, as_json: bool) -> None:
    """The labels of each layer and the heaviest weights."""
    recipe: Recipe | None = getattr(model, "recipe_", None)
    numbers = [str(k) for k in range(len(model.names_))]
    layers = list(recipe.layers) if recipe is not None else numbers
    if label is not None and not any(label in own for own in model.names_):
        raise typer.BadParameter(f"--label {label}: no layer of {', '.join(layers)} has it.")
    answer: dict[str, Any] = {
        "class": type(model).__name__,
        "estimator": model.estimator,
        "labels": dict(zip(layers, map(list, model.names_), strict=True)),
        **field_weights(model, top, label),
    }
    if as_json:
        say_json(answer)
        return
    sizes = ", ".join(f"{name} ({len(own)} labels)" for name, own in answer["labels"].items())
    say(f"{answer['class']} by {model.estimator}: {sizes}; {model.num_attributes_:,} attributes")
    tell_weights(answer)


def field_weights(model: FieldCRF, top: int, label: str | None) -> dict[str, Any]:
    """How many attributes and weights there are, and the heaviest of them."""
    field = model.model_
    pairs = zip(field.templates, field.weights, strict=True)
    return {
        "attributes": model.num_attributes_,
        "weights": {template.name: len(weights) for template, weights in pairs},
        "features": [own._asdict() for own in model.top_features(label, top)],
    }


def tell_weights(answer: dict[str, Any]) -> None:
    """The same as tables."""
    say()
    say_table(["factors", "weights"], [[n, f"{c:,}"] for n, c in answer["weights"].items()])
    say()
    rows = [
        [own["attribute"], own["factors"], " ".join(own["labels"]), f"{own['weight']:+.4f}"]
        for own in answer["features"]
    ]
    say_table(["attribute", "factors", "labels", "weight"], rows)
