"""Models that label: chain CRFs and taggers, CRFs of several layers, CRFs on graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

import mrflearn
from mrflearn import evaluation, plots
from mrflearn.describe.blocks import (
    Data,
    Facts,
    Matrix,
    Nats,
    Note,
    Percent,
    Picture,
    Table,
    Text,
    Tokens,
    shares,
)
from mrflearn.describe.description import Answers, Blocks, Description, OptionError, Task, batches
from mrflearn.errors import DataError, SettingsError, StorageError
from mrflearn.evaluation.calibration import token_reliability
from mrflearn.features.recipes import MADE, Recipe
from mrflearn.features.word_numbers import word_form
from mrflearn.io.formats import DOCUMENT_MARK
from mrflearn.io.graphs import read_graphs
from mrflearn.io.spans import SCHEMES, Scheme, are_chunk_tags
from mrflearn.io.tag_files import TagSource

BATCH = 1000  # examples that are labelled together where nothing is printed meanwhile
MOST_LABELS = 60  # of a picture of transitions
MOST_WORDS = 500  # of a sentence on the page
ALL = 10**9  # entries, however many there are
MISTAKE = ("true", "predicted", "tokens")
Layers = Sequence[Sequence[Any]]


class Example(NamedTuple):
    """A sequence or a graph: its tokens as the model takes them, and what the file says of them."""

    tokens: Any
    rows: Sequence[Sequence[str]]  # the cells of each token; empty where the file has features
    layers: Layers | None  # true labels: a list of labels (None: not known) for each layer
    document: int = 0
    sentence: Any = None  # of CoNLL-U

    @property
    def words(self) -> list[str]:
        """The first cell of each row."""
        return [row[0] for row in self.rows if row]


class Labelling(NamedTuple):
    """The labels of an example layer by layer, and their scores: none where nobody asks."""

    layers: Layers
    figures: Mapping[str, Any]

    @property
    def figure(self) -> float:
        """What ranks labellings."""
        return float(next(iter(self.figures.values())))


class Labeller(Description):
    """A model that labels the tokens of sequences, or the nodes of graphs."""

    pictures: ClassVar = frozenset({"evaluate"})
    ignores: ClassVar = frozenset({"spans", "scheme", "train"})
    counted: ClassVar = ("sentence", "token")
    tabs: ClassVar = False  # between the cells of a row
    labellings: ClassVar = 5  # on the page
    where: str = ""  # in a file true labels stand
    scheme: Scheme | None = None  # that chunk tags are kept well-formed in

    @abstractmethod
    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Example]:
        """The examples of a file, one at a time."""

    def _asked(self, part: list[Example]) -> dict[str, Any]:
        """The examples as methods of the model take them."""
        return {"X": [example.tokens for example in part]}

    def _best(self, part: list[Example], n: int, figures: bool) -> list[list[Labelling]]:
        """The `n` best labellings of each example, with probabilities where these are asked for."""
        asked = self._asked(part)
        if not figures:
            return [[Labelling([list(own)], {})] for own in self.model.predict(**asked)]
        found = self.model.n_best(n=n, **asked)
        return [[Labelling([labels], {"probability": p}) for labels, p in own] for own in found]

    def _marginals(self, part: list[Example]) -> list[Any]:
        """The probability of each label: for each example a list of layers, of tokens."""
        return [[own] for own in self.model.predict_marginals(**self._asked(part))]

    def _titles(self) -> Sequence[str]:
        """The names of the layers, where there are several."""
        return [""]

    def _named(self, example: Example, layers: Sequence[Any]) -> Any:
        """What an answer says of each layer, as JSON has it."""
        del example
        return layers[0]

    def tag(
        self,
        file: Path,
        n: int,
        marginals: bool,
        spans: bool,
        scheme: Scheme | None,
        file_format: str | None,
        batch: int,
        as_json: bool,
    ) -> Answers:
        """Every example as it comes in: a record of its labellings, and rows of them or chunks."""
        self.scheme, document = scheme, 0
        for part in batches(self._examples(file, file_format), batch):
            nothing = [None] * len(part)
            sure = self._marginals(part) if marginals else nothing
            chunks = self.model.predict_spans(n=n, **self._asked(part)) if spans else nothing
            best = self._best(part, n, figures=as_json or n > 1)
            for example, found, own, inside in zip(part, best, sure, chunks, strict=True):
                blocks: Blocks = [Data(self._record(example, found, own, n))]
                if example.document > document:
                    document = example.document
                    cells = [DOCUMENT_MARK, "-X-", *["O"] * (len(example.rows[0]) - 1)]
                    blocks.append(Text(" ".join(cells) + "\n"))
                shown = _spans(example, inside) if spans else self._shown(example, found, own, n)
                yield [*blocks, *shown]

    def _shown(self, example: Example, best: list[Labelling], sure: Any, n: int) -> Blocks:
        """Rows with the labels of each labelling, best first; of several each has a headline."""
        found: Blocks = []
        for rank, own in enumerate(best):
            if n > 1:
                found.append(Text(f"# {rank} {own.figure:.6f}"))
            found.append(Tokens(example.rows, own.layers, sure, self.tabs))
        return found

    def _record(self, example: Example, best: list[Labelling], sure: Any, n: int) -> dict[str, Any]:
        listed = [{"labels": self._named(example, own.layers), **own.figures} for own in best]
        record = {"words": example.words, **listed[0]}
        record |= {"nbest": listed} if n > 1 else {}
        return record if sure is None else {**record, "marginals": self._named(example, sure)}

    def _compared(self, file: Path) -> tuple[list[Layers], list[Layers], list[list[str]]]:
        """For each layer the true labels of all examples and the best found; and the words."""
        truth, found, words = list[Layers](), list[Layers](), list[list[str]]()
        sequence, single = self.counted
        for part in batches(self._examples(file), BATCH):
            for number, example in enumerate(part, start=len(truth) + 1):
                if example.layers is None:
                    raise DataError(f"there are no labels to compare with{self.where}.")
                if any(None in own for own in example.layers):
                    raise DataError(
                        f"{sequence} {number} has {single}s without a label{self.where}, so that "
                        "there is nothing to compare with."
                    )
                truth.append(example.layers)
                words.append(example.words or [""] * len(example.rows))
            found += [own.layers for (own,) in self._best(part, 1, figures=False)]
        if not truth:
            raise DataError(f"there are no {sequence}s in it.")
        return list(zip(*truth, strict=True)), list(zip(*found, strict=True)), words

    def evaluate(
        self,
        file: Path,
        n: int,
        train: Path | None = None,
        scheme: Scheme | None = None,
        calibration: bool = False,
    ) -> Blocks:
        """Accuracy on all words and on those unseen in training, chunk scores as conlleval's."""
        self.scheme = scheme
        known = getattr(self.model, "known_words_", None)
        if train is not None:
            known = {word for example in self._examples(train) for word in example.words}
        (truth,), (found,), words = self._compared(file)
        seen = {} if known is None else {"words": words, "known": known}
        report = evaluation.tagging_report(truth, found, **seen)
        table = evaluation.confusion(truth, found)
        chunks = evaluation.chunk_report(truth, found) if are_chunk_tags(table.labels) else None
        sequence, single = self.counted
        facts: dict[str, Any] = {"file": str(file), f"{sequence}s": len(truth)}
        facts |= {f"{single}s": report.tokens.total, **_rated(report, chunks, sequence)}
        shown: Blocks = []
        if chunks is not None:
            total = _chunks(chunks.total)
            scores = {name: _chunks(own) for name, own in chunks.by_label.items()}
            rows = [[name, *own.values()] for name, own in {"all": total, **scores}.items()]
            shown = [Table(("label", *total), rows, title="Chunks"), Data({"by_label": scores})]
        worst = Table(MISTAKE, table.worst(n), key="mistakes", records=True, title="Mistakes")
        shown.append(worst)
        picture = Picture(partial(plots.draw_confusion, table))
        if calibration:
            parts = batches(self._examples(file), BATCH)
            sure = (own[0] for part in parts for own in self._marginals(part))
            reliable = token_reliability(sure, truth)
            facts["calibration_error"] = Percent(reliable.expected_error)
            header = ("confidence", "tokens", "mean", "right")
            shown.append(Table(header, reliable.rows(), title="Calibration"))
            picture = Picture(partial(plots.draw_reliability, {"tokens": reliable}))
        times = zip(table.labels, table.counts.sum(axis=1).tolist(), strict=True)
        odd = {tag: count for tag, count in times if count and tag not in self.model.classes_}
        new = "the tag '{}' was never seen in training; its {} tokens count as wrong"
        notes = [Note(new.format(*own)) for own in odd.items()]
        confused = {"labels": table.labels, "counts": table.counts.tolist()}
        more = Data({"confusion": confused, "unknown_tags": odd})
        return [*notes, Facts(facts), *shown, more, picture]

    def _tag_task(self, columns: Sequence[str] = ("word",)) -> Task:
        """The labels of words, which stand with their further columns, and the next best."""
        several = self.labellings > 1
        options: dict[str, Any] = {"n": (self.labellings, range(1, 21))} if several else {}
        if "scheme" not in self.ignores and are_chunk_tags(self.model.classes_):
            options["scheme"] = (None, (None, *SCHEMES))
        tag = partial(self._tagged, columns)
        return Task("tag", "", tag, most=MOST_WORDS, columns=columns, options=options)

    def _tagged(self, columns: Sequence[str], asked: list[str], **options: Any) -> Blocks:
        asker, width, n = copy(self), len(columns), options.get("n", 1)
        asker.scheme = options.get("scheme")  # of this question alone
        rows = [tuple(word.rsplit("/", width - 1)) for word in asked]
        for word, row in zip(asked, rows, strict=True):
            if len(row) != width:
                wanted = "/".join(columns)
                raise DataError(f"'{word}' should be {wanted}: the model looks at these columns.")
        part = [Example(asked if width == 1 else rows, rows, None)]
        (best,), (sure,) = asker._best(part, n, figures=True), asker._marginals(part)
        layers = zip(self._titles(), best[0].layers, sure, strict=True)
        found = [Tokens(rows, [labels], [own], title=title) for title, labels, own in layers]
        listed = [[own.figure, *own.layers[0]] for own in best]
        table = Table(("probability", *part[0].words), listed, title="Best labellings")
        new = ", ".join(self._new_words(part[0]))
        note = Note(f"not seen in training, and labelled by spelling and context: {new}")
        return [*found, *([table] if n > 1 else []), *([note] if new else [])]

    def _new_words(self, example: Example) -> list[str]:
        """The words that were not seen in training, where the model knows."""
        known = getattr(self.model, "known_words_", example.words)
        return [word for word in example.words if word not in known]


class RecipeLabeller(Labeller):
    """A labeller that keeps a recipe for making features from files."""

    def _recipe(self, *, words: bool = False) -> Recipe:
        """How features are made from a file, or with `words` from words alone."""
        recipe: Recipe | None = getattr(self.model, "recipe_", None)
        if recipe is None or not (recipe.columns or (recipe.format in MADE and not words)):
            raise StorageError(
                f"this {self.kind} does not know how its features are made from a file: it was "
                "trained on features. Ask it in Python, or train it on words, there with "
                f"{self.kind}(features=...), here with `mrflearn train crf`."
            )
        return recipe

    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Example]:
        for own in self._recipe().read(file, format=file_format):
            yield Example(own.tokens, own.rows, own.layers, own.document)

    def tasks(self) -> list[Task]:
        """Labels with probabilities."""
        return [self._tag_task(self._recipe(words=True).seen)]


class ChainDescription(RecipeLabeller):
    """A chain CRF."""

    pictures: ClassVar = frozenset({"inspect", "evaluate"})
    ignores: ClassVar = frozenset[str]()
    settings: ClassVar[tuple[str, ...]] = ("classes_", "num_attributes_", "temperature_")

    def learned(self, n: int, label: str | None = None) -> Blocks:
        """The labels, and the largest attributes and transitions, of one label or of all."""
        model, labels = self.model, self.model.classes_
        steps = [(*names, weight) for names, weight in model.top_transitions(ALL)]
        edges = model.top_edge_features(ALL) if hasattr(model, "top_edge_features") else []
        if label is not None:
            steps = [row for row in steps if label in row]
            edges = [row for row in edges if label in row[1:3]]
        pair, triple = ("label", "next label"), ("label", "next", "next but one")
        names = triple if getattr(model, "order", 1) == 2 else pair
        # A second order has pairs of labels among its triples: their third cell is empty.
        moves = [(*row[:2], *[None] * (len(names) + 1 - len(row)), *row[2:]) for row in steps[:n]]
        features = model.top_features(label, n)
        tables = {
            "features": (("attribute", "label"), features, "Largest weights"),
            "transitions": (names, moves, "Transitions"),
            "edges": (("attribute", *pair), edges[:n], "Attributes of transitions"),
        }
        listed = [
            Table((*header, "weight"), rows, key=key, title=title, floats="+.4f")
            for key, (header, rows, title) in tables.items()
        ]
        caption = (
            "Weights of moving from the label of a row to that of a column: red is likely, blue "
            "unlikely, white neutral or never seen."
        )
        return [Facts(self.facts()), *listed, *_matrix(labels, steps, "weight", "label", caption)]

    def _new_words(self, example: Example) -> list[str]:
        """Words that make attributes, none of which has a weight."""
        known, new = set(self.model.attributes_), []
        for word, item in zip(example.words, self._recipe()(example.tokens), strict=True):
            own = {name for name in item if str(name).lower().endswith(word.lower())}
            new += [word] if own and not own & known else []
        return new

    def _asked(self, part: list[Example]) -> dict[str, Any]:
        rules = self.scheme and mrflearn.Constraints(scheme=self.scheme)
        return {**super()._asked(part), "constraints": rules}


class NeuralDescription(ChainDescription):
    """A chain CRF under a neural encoder."""

    settings: ClassVar = ("classes_", "temperature_")

    def facts(self) -> dict[str, Any]:
        sizes = {name: len(getattr(self.model, f"{name}_")) for name in ("words", "attributes")}
        weights = sum(own.numel() for own in self.model.network_.parameters())
        return {**super().facts(), **sizes, "weights": weights}

    def _new_words(self, example: Example) -> list[str]:
        known = set(self.model.words_)
        return [word for word in example.words if word_form(word) not in known]


class TaggerDescription(Labeller):
    """A tagger: words in, tags out."""

    pictures: ClassVar = frozenset({"inspect", "evaluate"})
    objective: ClassVar = "minus the bound, nats per position"

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        # Trained in Python: plain text, or what the ending of a file's name says.
        usual = TagSource("text", ("word", "tag"), "tag")
        self.source: TagSource = getattr(model, "source_", None) or usual
        self.where = f" in column '{self.source.column}'"

    def facts(self) -> dict[str, Any]:
        model, facts = self.model, {**super().facts(), "settings": self.model.get_params()}
        facts |= {"tags": model.classes_, "words": len(model.known_words_)}
        if hasattr(model, "interpolation_"):
            return facts | {"interpolation": model.interpolation_}
        return facts | {"log_likelihood_per_position": Nats(model.bound_)}

    def learned(self, n: int) -> Blocks:
        """Settings, words and tags; of a hidden Markov model the most frequent steps as well."""
        model, tags = self.model, self.model.classes_
        if not hasattr(model, "interpolation_"):
            return [Facts(self.facts())]
        steps = model.top_steps(ALL)
        header = ("tag", "next tag", "times", "probability")
        caption = "How often the tag of a column follows that of a row; <S>: the boundary."
        table = Table(header, steps[:n], key="steps", title="Steps between tags")
        pairs = [(a, c, p) for a, c, _, p in steps]
        heat = _matrix([*tags, "<S>"], pairs, "probability", "tag", caption)
        return [Facts(self.facts()), table, *heat]

    def tasks(self) -> list[Task]:
        """Tags with probabilities, and the best taggings."""
        return [self._tag_task()]

    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Example]:
        try:
            for words, tags, rows, document, own in self.source.read(file, format=file_format):
                layers = None if tags is None else [tags]
                yield Example(words, rows or [(w,) for w in words], layers, document, own)
        except DataError as error:
            if str(file) != "-" or file_format is not None:
                raise
            hint = f"{error} (A pipe is read as {self.source.format}, as trained on; see --format.)"
            raise DataError(hint) from error

    def _shown(self, example: Example, best: list[Labelling], sure: Any, n: int) -> Blocks:
        if example.sentence is None:
            return super()._shown(example, best, sure, n)
        column = self.source.column if self.source.column in ("upos", "xpos") else "upos"
        sentences = []
        for rank, own in enumerate(best):
            (tags,) = own.layers
            chances = [p[tag] for tag, p in zip(tags, sure[0], strict=True)] if sure else None
            found = example.sentence.tagged(column, tags, chances)
            figure = (f"# nbest = {rank}", f"# probability = {own.figure:.6f}") if n > 1 else ()
            sentences.append(str(replace(found, comments=(*found.comments, *figure))))
        return [Text("".join(sentences)[:-1])]


class FieldLabeller(Labeller):
    """A CRF on graphs, with weights by templates; its answers say how they were found."""

    settings: ClassVar = ("estimator", "classes_", "num_attributes_")

    def facts(self) -> dict[str, Any]:
        model = self.model
        pairs = zip(model.model_.templates, model.model_.weights, strict=True)
        weights = {template.name: len(own) for template, own in pairs}
        return {**super().facts(), "weights": weights}

    def learned(self, n: int, label: str | None = None) -> Blocks:
        """The labels, how many weights the kinds of factors have, and the largest of them."""
        try:
            top = self.model.top_features(label, n)
        except SettingsError as error:
            raise OptionError(f"--label {label}: {error}") from error
        rows = [(f.attribute, f.factors, " ".join(f.labels), f.weight) for f in top]
        header = ("attribute", "factors", "labels", "weight")
        table = Table(header, rows, title="Largest weights", floats="+.4f")
        return [Facts(self.facts()), Data({"features": [f._asdict() for f in top]}), table]

    def _best(self, part: list[Example], n: int, figures: bool) -> list[list[Labelling]]:
        del figures  # they come with every answer
        asked, names = self._asked(part), ("score", "kind", "converged")
        found = self.model.n_best(n=n, **asked) if n > 1 else zip(self.model.decode(**asked))
        return [
            [Labelling(own.layers, {name: getattr(own, name) for name in names}) for own in answers]
            for answers in found
        ]


class LayeredDescription(FieldLabeller, RecipeLabeller):
    """A CRF with several layers of labels, or with skip edges."""

    ignores: ClassVar = Labeller.ignores | {"calibration"}
    labellings: ClassVar = 1

    def facts(self) -> dict[str, Any]:
        recipe = getattr(self.model, "recipe_", None)
        layers = recipe.layers if recipe is not None else map(str, range(len(self.model.names_)))
        labels = dict(zip(layers, map(list, self.model.names_), strict=True))
        return {**super().facts(), "labels": labels}

    def evaluate(self, file: Path, n: int) -> Blocks:  # type: ignore[override]
        """Accuracy and, for chunk tags, F1 of each layer; tokens right in all layers at once."""
        truth, found, words = self._compared(file)
        true, guess = (dict(zip(self._titles(), own, strict=True)) for own in (truth, found))
        report = evaluation.layers_report(true, guess)
        mistakes = {k: evaluation.confusion(own, guess[k]).worst(n) for k, own in true.items()}
        layers = {name: _rated(own.tagging, own.chunks) for name, own in report.layers.items()}
        for name, listed in mistakes.items():
            layers[name]["mistakes"] = [dict(zip(MISTAKE, row, strict=True)) for row in listed]
        facts = {"file": str(file), "sentences": len(words), "tokens": report.joint.total}
        facts["joint_accuracy"] = Percent(report.joint.accuracy)
        rated = ("accuracy", "precision", "recall", "f1")
        rows = [[name, *map(own.get, rated)] for name, own in layers.items()]
        wrong = [[name, *row] for name, own in mistakes.items() for row in own]
        table = Table(("layer", *rated), rows, title="Layers")
        worst = Table(("layer", *MISTAKE), wrong, title="Mistakes")
        return [Facts(facts), Data({"layers": layers}), table, worst]

    def _marginals(self, part: list[Example]) -> list[Any]:
        found = super()._marginals(part)
        return found if self.model.single else [layers for (layers,) in found]

    def _titles(self) -> Sequence[str]:
        return self._recipe().layers

    def _named(self, example: Example, layers: Sequence[Any]) -> Any:
        del example
        return dict(zip(self._titles(), layers, strict=True))


class GraphDescription(FieldLabeller):
    """A CRF on graphs of any form; its tokens are nodes."""

    ignores: ClassVar = Labeller.ignores | {"file_format"}
    counted: ClassVar = ("graph", "node")
    tabs: ClassVar = True

    def tasks(self) -> list[Task]:
        """No graph fits on a line, but what was learned from them does."""
        labels = self.model.classes_
        most = max(len(own.split()) for own in labels)
        options = {"n": (20, range(1, 201))}
        return [Task("weights", labels[0], self._weights, most=most, least=0, options=options)]

    def _weights(self, words: list[str], n: int) -> Blocks:
        return self.learned(n, " ".join(words) or None)

    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Example]:
        del file_format
        for own in read_graphs(file):
            known = [label if isinstance(label, str) else None for label in own.labels.values()]
            yield Example(own.networkx(), [(str(node),) for node in own.nodes], [known])

    def _marginals(self, part: list[Example]) -> list[Any]:
        return [[list(own.values())] for (own,) in super()._marginals(part)]

    def _named(self, example: Example, layers: Sequence[Any]) -> Any:
        return dict(zip(example.tokens, layers[0], strict=True))

    def _record(self, example: Example, best: list[Labelling], sure: Any, n: int) -> dict[str, Any]:
        return {k: v for k, v in super()._record(example, best, sure, n).items() if k != "words"}


def _spans(example: Example, spans: Sequence[Any]) -> Blocks:
    """The chunks of a sentence: where they are, what they are, how sure that is, their words."""
    lines = [
        "\t".join([*map(str, own[:3]), f"{own.probability:.4f}", " ".join(words)])
        for own in spans
        for words in [example.words[own.start : own.end]]
    ]
    return [Data({"spans": [own._asdict() for own in spans]}), Text("\n".join([*lines, ""]))]


def _rated(tagging: Any, chunks: Any, sequence: str = "sentence") -> dict[str, Any]:
    """Shares of right tokens and sequences, and of chunks where labels are chunk tags."""
    rated: dict[str, Any] = {"accuracy": Percent(tagging.tokens.accuracy)}
    if tagging.unseen is not None:
        rated["accuracy_seen"] = Percent(tagging.seen.accuracy)
        rated["accuracy_unseen"] = Percent(tagging.unseen.accuracy)
        rated["unseen_tokens"] = tagging.unseen.total
    rated[f"{sequence}_accuracy"] = Percent(tagging.sentences.accuracy)
    return rated | ({} if chunks is None else _chunks(chunks.total))


def _chunks(score: evaluation.ChunkScore) -> dict[str, Any]:
    """Precision, recall and F1, and how many true chunks there are."""
    return {**shares(score), "chunks": score.actual}


def _matrix(
    labels: Sequence[str], steps: Sequence[Any], what: str, one: str, caption: str
) -> list[Matrix]:
    """Figures of pairs of labels as a matrix, where there are few enough of them."""
    pairs = {row[:2]: row[2] for row in steps if len(row) == 3}
    if not pairs or not 1 < len(labels) <= MOST_LABELS:
        return []
    matrix = np.array([[pairs.get((one, other), 0.0) for other in labels] for one in labels])
    axes = (one, f"next {one}")
    return [Matrix(matrix, labels, what, what == "weight", axes, caption=caption)]
