"""`mrflearn tag`: labels for new text, from a file or a pipe, as it comes in."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.asking import load_for, refuse_others
from mrflearn.cli.convert import ChunkScheme
from mrflearn.cli.labelling import batches, document_mark, joined, with_recipe
from mrflearn.cli.layered_answers import LAYERED, tag_layered
from mrflearn.cli.options import ModelFolder
from mrflearn.cli.tag_tagger import TagView, tag_file

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.estimators.crf_rules import Rules
    from mrflearn.statistics.recipes import Example

# The options that some kinds of model read besides those of all.
USED = {
    "CRF": ("n_best", "spans", "scheme"),
    "HMMTagger": ("n_best",),
    "JointTagger": ("n_best",),
}


def tag(
    context: typer.Context,
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(help="Text as trained on; - is standard input.")] = Path(
        "-"
    ),
    n_best: Annotated[
        int, typer.Option("--nbest", min=1, help="So many labellings, with probabilities.")
    ] = 1,
    marginals: Annotated[
        bool, typer.Option("--marginals", help="The probability of each token's label.")
    ] = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="Chunks and their probabilities in place of rows.")
    ] = False,
    scheme: Annotated[
        ChunkScheme | None, typer.Option(help="Keep chunk tags well-formed in this scheme.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="The file's format; text: words alone.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Sentences at a time; 1 answers each at once.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Label every token: the rows of the input, each with its label behind it.

    A tagger (train hmm, train tagger) gives CoNLL-U back with its column of tags filled in.
    Of several layers each has its label.  Labels already in other input are kept and not looked
    at.  With --nbest each labelling stands below a line with its rank and probability.

    Example: mrflearn tag chunker < new.txt
    """
    from mrflearn.estimators.crf import CRF
    from mrflearn.estimators.crf_rules import Rules

    labeller = load_for("tag", model)
    kind = type(labeller).__name__
    refuse_others(context, labeller, ("marginals", "file_format", "batch", *USED.get(kind, ())))
    if kind in LAYERED:
        wanted = {"marginals": marginals, "json": as_json}
        tag_layered(labeller, model, file, file_format, batch, wanted)
        return
    if not isinstance(labeller, CRF):
        tag_file(labeller, file, file_format, TagView(n_best, marginals, as_json, batch))
        return
    crf = with_recipe(labeller, model)
    asked = _Asked(n_best, marginals, spans, Rules(scheme=scheme.value) if scheme else None)
    document = 0
    for part in batches(crf.recipe_.read(file, format=file_format), batch):
        for example, answer in zip(part, asked.answers(crf, part), strict=True):
            if as_json:
                say_json(answer)
                continue
            if example.document > document:
                document = example.document
                say(document_mark(len(example.rows[0])) + "\n")
            _tell(example, answer, asked)
        sys.stdout.flush()  # whoever reads a pipe should not wait for the next batch


@dataclass(frozen=True)
class _Asked:
    n_best: int
    marginals: bool
    spans: bool
    rules: Rules | None

    def answers(self, crf: CRF, part: list[Example]) -> list[dict[str, Any]]:
        """One record a sentence."""
        items = [example.items for example in part]
        best = crf.n_best(items, self.n_best, self.rules)
        records: list[dict[str, Any]] = [
            {
                "words": [row[0] for row in example.rows if row],
                "labels": own[0][0],
                "probability": own[0][1],
            }
            for example, own in zip(part, best, strict=True)
        ]
        if self.n_best > 1:
            _add(records, "nbest", [[_labelling(*pair) for pair in own] for own in best])
        if self.marginals:
            _add(records, "marginals", crf.predict_marginals(items, self.rules))
        if self.spans:
            found = crf.predict_spans(items, self.n_best, self.rules)
            _add(records, "spans", [[span._asdict() for span in own] for own in found])
        return records


def _labelling(labels: list[str], probability: float) -> dict[str, Any]:
    return {"labels": labels, "probability": probability}


def _add(records: list[dict[str, Any]], name: str, values: list[Any]) -> None:
    for record, value in zip(records, values, strict=True):
        record[name] = value


def _tell(example: Example, answer: dict[str, Any], asked: _Asked) -> None:
    if asked.spans:
        for span in answer["spans"]:
            words = " ".join(answer["words"][span["start"] : span["end"]])
            place = f"{span['start']}\t{span['end']}\t{span['label']}"
            say(f"{place}\t{span['probability']:.4f}\t{words}")
        say()
        return
    for rank, labelling in enumerate(answer.get("nbest", [answer])):
        if asked.n_best > 1:
            say(f"# {rank} {labelling['probability']:.6f}")
        for t, (row, label) in enumerate(zip(example.rows, labelling["labels"], strict=True)):
            chance = [f"{answer['marginals'][t][label]:.4f}"] if asked.marginals else []
            say(joined([*row, label, *chance]))
        say()
