"""Models that label: chain CRFs and taggers, CRFs of several layers, CRFs on graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

import mrflearn
from mrflearn import plots
from mrflearn.describe.blocks import (
    Block,
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
    answer,
)
from mrflearn.describe.description import Answers, Description, Task, batches
from mrflearn.errors import DataError, StorageError
from mrflearn.evaluation.calibration import token_reliability
from mrflearn.evaluation.chunks import ChunkScore, chunk_report
from mrflearn.evaluation.tagging import confusion, tagging_report
from mrflearn.features.recipes import MADE, LabelledSequence, Recipe
from mrflearn.io.formats import DOCUMENT_MARK
from mrflearn.io.spans import Scheme, are_chunk_tags
from mrflearn.io.tag_files import TagExample, TagSource

BATCH = 1000  # examples that are labelled together where nothing is printed meanwhile
MOST_LABELS = 60  # of a picture of transitions
MOST_WORDS = 500  # of a sentence on the page
ALL = 10**9  # entries, however many there are
EXAMPLES = ("He reckons the deficit", "the dog sees the cat", "the man said so .")
MISTAKE = ("true", "predicted", "tokens")
Layers = Sequence[Sequence[str]]


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
    counted: ClassVar = ("sentences", "tokens")
    tabs: ClassVar = False  # between the cells of a row
    labellings: ClassVar = 5  # on the page
    scheme: Scheme | None = None  # that chunk tags are kept well-formed in

    @abstractmethod
    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Any]:
        """The examples of a file, one at a time."""

    def _asked(self, part: list[Any]) -> dict[str, Any]:
        """The examples as methods of the model take them."""
        return {"X": [example.tokens for example in part]}

    def _best(self, part: list[Any], n: int, figures: bool) -> list[list[Labelling]]:
        """The `n` best labellings of each example, with probabilities where these are asked for."""
        asked = self._asked(part)
        if not figures:
            return [[Labelling([list(own)], {})] for own in self.model.predict(**asked)]
        return [
            [Labelling([labels], {"probability": share}) for labels, share in own]
            for own in self.model.n_best(n=n, **asked)
        ]

    def _marginals(self, part: list[Any]) -> list[Any]:
        """The probability of each label: for each example a list of layers, of tokens."""
        return [[own] for own in self.model.predict_marginals(**self._asked(part))]

    @abstractmethod
    def _truth(self, example: Any, number: int) -> Layers:
        """The true labels of each layer; an error where there are none."""

    def _rows(self, example: Any) -> Layers:
        """The cells of each token, as they stand in the file."""
        rows: Layers = example.rows
        return rows

    def _titles(self) -> Sequence[str]:
        """The names of the layers, where there are several."""
        return [""]

    def _named(self, example: Any, layers: Sequence[Any]) -> Any:
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
                blocks: list[Block] = [Data(self._record(example, found, own, n))]
                if getattr(example, "document", 0) > document:
                    document = example.document
                    cells = [DOCUMENT_MARK, "-X-", *["O"] * (len(example.rows[0]) - 1)]
                    blocks.append(Text(" ".join(cells) + "\n"))
                shown = _spans(example, inside) if spans else self._shown(example, found, own, n)
                yield [*blocks, *shown]

    def _shown(self, example: Any, best: list[Labelling], sure: Any, n: int) -> list[Block]:
        """Rows with the labels of each labelling, best first; of several each has a headline."""
        found: list[Block] = []
        for rank, own in enumerate(best):
            if n > 1:
                found.append(Text(f"# {rank} {own.figure:.6f}"))
            found.append(Tokens(self._rows(example), own.layers, sure, self.tabs))
        return found

    def _record(self, example: Any, best: list[Labelling], sure: Any, n: int) -> dict[str, Any]:
        listed = [{"labels": self._named(example, own.layers), **own.figures} for own in best]
        words = [row[0] for row in self._rows(example) if row]
        record = {**({"words": words} if "tokens" in self.counted else {}), **listed[0]}
        record |= {"nbest": listed} if n > 1 else {}
        return record if sure is None else {**record, "marginals": self._named(example, sure)}

    def _compared(self, file: Path) -> tuple[list[Layers], list[Layers], list[list[str]]]:
        """The true labels of each example and layer, the best that were found, and the words."""
        truth, found, words = list[Layers](), list[Layers](), list[list[str]]()
        for part in batches(self._examples(file), BATCH):
            for example in part:
                truth.append(self._truth(example, len(truth)))
                words.append([row[0] if row else "" for row in self._rows(example)])
            found += [own.layers for (own,) in self._best(part, 1, figures=False)]
        if not truth:
            raise DataError(f"there are no {self.counted[0]} in it.")
        return truth, found, words

    def evaluate(
        self,
        file: Path,
        n: int,
        train: Path | None = None,
        scheme: Scheme | None = None,
        calibration: bool = False,
    ) -> list[Block]:
        """Accuracy on all words and on those unseen in training, chunk scores as conlleval's."""
        self.scheme, known = scheme, getattr(self.model, "known_words_", None)
        if train is not None:
            known = {row[0] for own in self._examples(train) for row in own.rows if row}
        pairs, answers, words = self._compared(file)
        truth, found = [own for (own,) in pairs], [own for (own,) in answers]
        report = tagging_report(truth, found, words=None if known is None else words, known=known)
        table = confusion(truth, found)
        sequences, single = self.counted
        facts: dict[str, Any] = {"file": str(file), sequences: len(truth)}
        facts |= {single: report.tokens.total, "accuracy": Percent(report.tokens.accuracy)}
        if report.seen is not None and report.unseen is not None:
            facts["accuracy_seen"] = Percent(report.seen.accuracy)
            facts["accuracy_unseen"] = Percent(report.unseen.accuracy)
            facts["unseen_tokens"] = report.unseen.total
        facts[f"{sequences.removesuffix('s')}_accuracy"] = Percent(report.sentences.accuracy)
        shown: list[Block] = []
        if are_chunk_tags(table.labels):
            chunks = chunk_report(truth, found)
            scores = {name: chunk_figures(own) for name, own in chunks.by_label.items()}
            facts |= (total := chunk_figures(chunks.total))
            rows = [[name, *own.values()] for name, own in {"all": total, **scores}.items()]
            shown = [Table(("label", *total), rows, title="Chunks"), Data({"by_label": scores})]
        mistakes = table.worst(n)
        shown.append(Table(MISTAKE, mistakes, key="mistakes", records=True, title="Mistakes"))
        reliable = None
        if calibration:
            parts = batches(self._examples(file), BATCH)
            sure = (own[0] for part in parts for own in self._marginals(part))
            reliable = token_reliability(sure, truth)
            facts["calibration_error"] = Percent(reliable.expected_error)
            header = ("confidence", "tokens", "mean", "right")
            shown.append(Table(header, reliable.rows(), title="Calibration"))

        def draw() -> Any:
            if reliable:
                return plots.draw_reliability({"tokens": reliable})
            return plots.draw_confusion(table)

        confused = {"labels": table.labels, "counts": table.counts.tolist()}
        return [Facts(facts), *shown, Data({"confusion": confused}), Picture(draw)]

    def _tag_task(self, hint: str, example: str, read: Callable[[list[str]], Any]) -> Task:
        """The labels of a sentence, which `read` makes an example of, and the next best."""
        n = self.labellings

        def tag(asked: list[str]) -> list[Block]:
            part = [read(asked)]
            (best,), (sure,) = self._best(part, n, figures=True), self._marginals(part)
            words = [row[0] for row in self._rows(part[0])]
            layers = zip(self._titles(), best[0].layers, sure, strict=True)
            found: list[Block] = [
                Tokens([(word,) for word in words], [labels], [marginals], title=title)
                for title, labels, marginals in layers
            ]
            rows = [[own.figure, *own.layers[0]] for own in best]
            table = Table(("probability", *words), rows, title="best labellings")
            return [*found, table] if n > 1 else found

        return Task("tag", f"words{hint}, separated by spaces", example, tag, most=MOST_WORDS)


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

    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Any]:
        return self._recipe().read(file, format=file_format)

    def _truth(self, example: Any, number: int) -> Layers:
        del number
        if example.layers is None:
            raise DataError("there are no labels to compare with.")
        found: Layers = example.layers
        return found

    def tasks(self) -> list[Task]:
        """Labels with probabilities."""
        recipe = self._recipe(words=True)
        width, wanted = len(recipe.seen), "/".join(recipe.seen)

        def read(words: list[str]) -> LabelledSequence:
            rows = [word.rsplit("/", width - 1) for word in words]
            for word, row in zip(words, rows, strict=True):
                if len(row) != width:
                    problem = f"'{word}' should be {wanted}: the model looks at these columns."
                    raise DataError(problem)
            return LabelledSequence(words if width == 1 else rows, None, tuple(map(tuple, rows)))

        tags = zip(EXAMPLES[0].split(), ("PRP", "VBZ", "DT", "NN"), strict=True)
        example = " ".join("/".join([word, *[tag] * (width - 1)]) for word, tag in tags)
        hint = "" if width == 1 else f" as {wanted}"
        return [self._tag_task(hint, example, read)]


class ChainDescription(RecipeLabeller):
    """A chain CRF."""

    pictures: ClassVar = frozenset({"inspect", "evaluate"})
    ignores: ClassVar = frozenset[str]()

    def facts(self) -> dict[str, Any]:
        model = self.model
        facts = {"class": self.kind, "labels": model.classes_, "attributes": model.num_attributes_}
        return facts | {"temperature": getattr(model, "temperature_", 1.0)}

    def learned(self, n: int, label: str | None = None) -> list[Block]:
        """The labels, and the largest attributes and transitions, of one label or of all."""
        model, labels = self.model, self.model.classes_
        features = model.top_features(label, n)
        steps = [(*names, weight) for names, weight in model.top_transitions(ALL)]
        edges = model.top_edge_features(ALL)
        if label is not None:
            steps = [row for row in steps if label in row]
            edges = [row for row in edges if label in row[1:3]]
        pair, triple = ("label", "next label"), ("label", "next", "next but one")
        names = triple if model.order == 2 else pair
        tables = {
            "features": (("attribute", "label"), features, "Largest weights"),
            "transitions": (names, steps[:n], "Transitions"),
            "edges": (("attribute", *pair), edges[:n], "Attributes of transitions"),
        }
        caption = (
            "Weights of moving from the label of a row to that of a column: red is likely, blue "
            "unlikely, white was never seen."
        )
        return [
            Facts(self.facts()),
            *(
                Table((*header, "weight"), rows, key=key, title=title, floats="+.4f")
                for key, (header, rows, title) in tables.items()
            ),
            *_matrix(labels, steps, "weight", caption),
        ]

    def _asked(self, part: list[Any]) -> dict[str, Any]:
        constraints = None if self.scheme is None else mrflearn.Constraints(scheme=self.scheme)
        return {**super()._asked(part), "constraints": constraints}


class TaggerDescription(Labeller):
    """A tagger: words in, tags out."""

    pictures: ClassVar = frozenset({"inspect", "evaluate"})
    objective: ClassVar = "minus the bound, nats per position"

    def facts(self) -> dict[str, Any]:
        model = self.model
        facts = {"class": self.kind, "settings": model.get_params(), "tags": model.classes_}
        facts["words"] = len(model.known_words_)
        if hasattr(model, "interpolation_"):
            return facts | {"interpolation": model.interpolation_}
        return facts | {"log_likelihood_per_position": Nats(model.bound_)}

    def learned(self, n: int) -> list[Block]:
        """Settings, words and tags; of a hidden Markov model the most frequent steps as well."""
        model, tags = self.model, self.model.classes_
        if not hasattr(model, "interpolation_"):
            return [Facts(self.facts())]
        steps = model.top_steps(ALL)
        header = ("tag", "next tag", "times", "probability")
        caption = "How often the tag of a column follows that of a row; <S>: the boundary."
        return [
            Facts(self.facts()),
            Table(header, steps[:n], key="steps", title="Steps between tags"),
            *_matrix([*tags, "<S>"], [(a, c, p) for a, c, _, p in steps], "probability", caption),
        ]

    def evaluate(self, file: Path, n: int, calibration: bool = False) -> list[Block]:  # type: ignore[override]
        """The same; tags that were never seen in training are reported."""
        found = super().evaluate(file, n, calibration=calibration)
        confused, classes = answer(found)["confusion"], set(self.model.classes_)
        rows = zip(confused["labels"], map(sum, confused["counts"]), strict=True)
        odd = {tag: count for tag, count in rows if count and tag not in classes}
        said = "was never seen in training; its {} tokens count as wrong"
        notes = [Note(f"the tag '{tag}' {said.format(count)}") for tag, count in odd.items()]
        return [*notes, *found, Data({"unknown_tags": odd})]

    def tasks(self) -> list[Task]:
        """Tags with probabilities, and the best taggings."""
        known = self.model.known_words_
        example = max(EXAMPLES, key=lambda text: np.mean([w in known for w in text.split()]))

        def read(words: list[str]) -> TagExample:
            return TagExample(tuple(words), None, tuple((word,) for word in words))

        return [self._tag_task("", example, read)]

    def _source(self) -> TagSource:
        """Where words and tags stood in the file it was trained on."""
        # Trained in Python: plain text, or what the ending of a file's name says.
        return getattr(self.model, "source_", None) or TagSource("text", ("word", "tag"), "tag")

    def _examples(self, file: Path, file_format: str | None = None) -> Iterator[Any]:
        source = self._source()
        try:
            yield from source.read(file, format=file_format)
        except DataError as error:
            if str(file) != "-" or file_format is not None:
                raise
            hint = f"{error} (A pipe is read as {source.format}, as trained on; see --format.)"
            raise DataError(hint) from error

    def _truth(self, example: Any, number: int) -> Layers:
        column = self._source().column
        if example.tags is None:
            raise DataError(f"there are no tags in it (column '{column}').")
        if None in example.tags:
            raise DataError(
                f"sentence {number + 1} has words without a tag (`_`) in column '{column}', so "
                "that there is nothing to compare with."
            )
        return [example.tags]

    def _rows(self, example: Any) -> Layers:
        return example.rows or [(word,) for word in example.words]

    def _asked(self, part: list[Any]) -> dict[str, Any]:
        return {"X": [example.words for example in part]}

    def _shown(self, example: Any, best: list[Labelling], sure: Any, n: int) -> list[Block]:
        if example.sentence is None:
            return super()._shown(example, best, sure, n)
        column = self._source().column
        column = column if column in ("upos", "xpos") else "upos"
        return [Text(_conllu(example.sentence, best, sure, column, headlines=n > 1))]


def _spans(example: Any, spans: Sequence[Any]) -> list[Block]:
    """The chunks of a sentence: where they are, what they are, how sure that is, their words."""
    lines = [
        "\t".join([*map(str, own[:3]), f"{own.probability:.4f}", " ".join(words)])
        for own in spans
        for words in [[row[0] for row in example.rows[own.start : own.end] if row]]
    ]
    return [Data({"spans": [own._asdict() for own in spans]}), Text("\n".join([*lines, ""]))]


def _conllu(
    sentence: Any, best: list[Labelling], sure: Any, column: str, *, headlines: bool
) -> str:
    """The sentence of CoNLL-U with its column of tags filled, once for each tagging."""
    lines: list[str] = []
    for rank, own in enumerate(best):
        lines += sentence.comments
        if headlines:
            lines += [f"# nbest = {rank}", f"# probability = {own.figure:.6f}"]
        (labels,) = own.layers
        tokens = iter(zip(labels, sure[0] if sure else [{}] * len(labels), strict=True))
        for row in sentence.rows:
            if row.id.isdecimal():  # multiword tokens and empty nodes have no tag
                tag, probabilities = next(tokens)
                row = row._replace(**{column: tag})
                if sure:  # among the other remarks of the row
                    more = f"TagProbability={probabilities[tag]:.4f}"
                    row = row._replace(misc=more if row.misc == "_" else f"{row.misc}|{more}")
            lines.append("\t".join(row))
        lines.append("")
    return "\n".join(lines)


def chunk_figures(score: ChunkScore) -> dict[str, Any]:
    """Precision, recall and F1, and how many true chunks there are."""
    shares = {name: Percent(getattr(score, name)) for name in ("precision", "recall", "f1")}
    return {**shares, "chunks": score.actual}


def _matrix(labels: Sequence[str], steps: Sequence[Any], what: str, caption: str) -> list[Matrix]:
    """Figures of pairs of labels as a matrix, where there are few enough of them."""
    pairs = {row[:2]: row[2] for row in steps if len(row) == 3}
    if not pairs or not 1 < len(labels) <= MOST_LABELS:
        return []
    matrix = np.array([[pairs.get((one, other), 0.0) for other in labels] for one in labels])
    return [Matrix(matrix, labels, what, caption=caption)]
