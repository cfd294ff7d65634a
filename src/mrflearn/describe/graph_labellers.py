"""CRFs of several layers or with skip edges, and CRFs on graphs of any form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mrflearn.describe.blocks import Block, Data, Facts, Percent, Table
from mrflearn.describe.description import OptionError, Task
from mrflearn.describe.labellers import (
    MISTAKE,
    Labeller,
    Labelling,
    Layers,
    RecipeLabeller,
    chunk_figures,
)
from mrflearn.errors import DataError, SettingsError
from mrflearn.evaluation.layers import layers_report
from mrflearn.evaluation.tagging import confusion
from mrflearn.io.graphs import read_graphs


class FieldLabeller(Labeller):
    """A CRF on graphs, with weights by templates; its answers say how they were found."""

    def facts(self) -> dict[str, Any]:
        model = self.model
        pairs = zip(model.model_.templates, model.model_.weights, strict=True)
        return {
            "class": self.kind,
            "estimator": model.estimator,
            "labels": model.classes_,
            "attributes": model.num_attributes_,
            "weights": {template.name: len(weights) for template, weights in pairs},
        }

    def learned(self, n: int, label: str | None = None) -> list[Block]:
        """The labels, how many weights the kinds of factors have, and the largest of them."""
        try:
            top = self.model.top_features(label, n)
        except SettingsError as error:
            raise OptionError(f"--label {label}: {error}") from error
        rows = [(f.attribute, f.factors, " ".join(f.labels), f.weight) for f in top]
        header = ("attribute", "factors", "labels", "weight")
        return [
            Facts(self.facts()),
            Data({"features": [f._asdict() for f in top]}),
            Table(header, rows, title="Largest weights", floats="+.4f"),
        ]

    def _best(self, part: list[Any], n: int, figures: bool) -> list[list[Labelling]]:
        del figures  # they come with every answer
        asked, names = self._asked(part), ("score", "kind", "converged")
        found = self.model.n_best(n=n, **asked) if n > 1 else zip(self.model.decode(**asked))
        return [
            [
                Labelling(self._layers(own, example), {name: getattr(own, name) for name in names})
                for own in answers
            ]
            for example, answers in zip(part, found, strict=True)
        ]

    def _layers(self, found: Any, example: Any) -> Layers:
        """The labels of an answer, layer by layer."""
        del example
        layers: Layers = found.layers
        return layers


class LayeredDescription(FieldLabeller, RecipeLabeller):
    """A CRF with several layers of labels."""

    ignores: ClassVar = Labeller.ignores | {"calibration"}
    labellings: ClassVar = 1

    def facts(self) -> dict[str, Any]:
        recipe = getattr(self.model, "recipe_", None)
        layers = recipe.layers if recipe is not None else map(str, range(len(self.model.names_)))
        labels = dict(zip(layers, map(list, self.model.names_), strict=True))
        return {**super().facts(), "labels": labels}

    def evaluate(self, file: Path, n: int) -> list[Block]:  # type: ignore[override]
        """Accuracy and, for chunk tags, F1 of each layer; tokens right in all layers at once."""
        pairs, answers, _ = self._compared(file)
        names = self._titles()
        truth = {name: [own[k] for own in pairs] for k, name in enumerate(names)}
        found = {name: [own[k] for own in answers] for k, name in enumerate(names)}
        report = layers_report(truth, found)
        mistakes = {name: confusion(truth[name], found[name]).worst(n) for name in names}
        layers: dict[str, dict[str, Any]] = {
            name: {
                "accuracy": Percent(own.tagging.tokens.accuracy),
                "sentence_accuracy": Percent(own.tagging.sentences.accuracy),
                **({} if own.chunks is None else chunk_figures(own.chunks.total)),
                "mistakes": [dict(zip(MISTAKE, row, strict=True)) for row in mistakes[name]],
            }
            for name, own in report.layers.items()
        }
        facts = {"file": str(file), "sentences": len(pairs), "tokens": report.joint.total}
        facts["joint_accuracy"] = Percent(report.joint.accuracy)
        shares = ("accuracy", "precision", "recall", "f1")
        rows = [[name, *map(own.get, shares)] for name, own in layers.items()]
        wrong = [[name, *row] for name, own in mistakes.items() for row in own]
        return [
            Facts(facts),
            Data({"layers": layers}),
            Table(("layer", *shares), rows, title="Layers"),
            Table(("layer", *MISTAKE), wrong, title="Mistakes"),
        ]

    def _marginals(self, part: list[Any]) -> list[Any]:
        found: list[Any] = self.model.predict_marginals(**self._asked(part))
        return found

    def _titles(self) -> Sequence[str]:
        return self._recipe().layers

    def _named(self, example: Any, layers: Sequence[Any]) -> Any:
        del example
        return dict(zip(self._titles(), layers, strict=True))


class SkipChainDescription(LayeredDescription):
    """A chain CRF with skip edges, which a rule finds by the words."""

    _marginals = Labeller._marginals


class GraphDescription(FieldLabeller):
    """A CRF on graphs of any form; its tokens are nodes."""

    ignores: ClassVar = Labeller.ignores | {"file_format"}
    counted: ClassVar = ("graphs", "nodes")
    tabs: ClassVar = True

    def tasks(self) -> list[Task]:
        """No graph fits on a line, but what was learned from them does."""

        def weights(words: list[str]) -> list[Block]:
            return self.learned(20, " ".join(words) or None)

        most = max(len(own.split()) for own in self.model.classes_)
        hint, example = "a label; nothing: all labels", self.model.classes_[0]
        return [Task("weights", hint, example, weights, most=most, least=0)]

    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Any]:
        del file_format
        return read_graphs(file)

    def _rows(self, example: Any) -> Layers:
        return [(str(node),) for node in example.nodes]

    def _asked(self, part: list[Any]) -> dict[str, Any]:
        return {"X": [own.networkx() for own in part]}

    def _truth(self, example: Any, number: int) -> Layers:
        known = [label for label in example.labels.values() if isinstance(label, str)]
        if len(known) < len(example.nodes):
            raise DataError(
                f"graph {number} (counted from 0) has nodes without one label, so that there is "
                "nothing to compare with."
            )
        return [known]

    def _marginals(self, part: list[Any]) -> list[Any]:
        found = zip(part, self.model.predict_marginals(**self._asked(part)), strict=True)
        return [[[own[node] for node in graph.nodes]] for graph, own in found]

    def _layers(self, found: Any, example: Any) -> Layers:
        return [[found.labels[node] for node in example.nodes]]

    def _named(self, example: Any, layers: Sequence[Any]) -> Any:
        return dict(zip(example.nodes, layers[0], strict=True))
