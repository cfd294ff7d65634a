"""What `mrflearn tag` answers with a chain CRF: labels, the best labellings, chunks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import say, say_json
from mrflearn.cli.labelling import batches, document_mark, joined, with_recipe
from mrflearn.cli.options import ChunkScheme

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.estimators.crf_answers import Constraints
    from mrflearn.features.recipes import LabelledSequence


def tag_crf(
    crf: CRF,
    folder: Path,
    file: Path,
    n: int,
    marginals: bool,
    spans: bool,
    scheme: ChunkScheme | None,
    file_format: str | None,
    batch: int,
    as_json: bool,
) -> None:
    """Every sentence as it comes in, with its labels."""
    from mrflearn.estimators.crf_answers import Constraints

    recipe = with_recipe(crf, folder).recipe_
    constraints = Constraints(scheme=scheme.value) if scheme else None
    asked = _Asked(n, marginals, spans, constraints)
    document = 0
    for part in batches(recipe.read(file, format=file_format), batch):
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
    n: int
    marginals: bool
    spans: bool
    constraints: Constraints | None

    def answers(self, crf: CRF, part: list[LabelledSequence]) -> list[dict[str, Any]]:
        """One record a sentence."""
        items = [example.items for example in part]
        best = crf.n_best(items, self.n, self.constraints)
        records: list[dict[str, Any]] = [
            {
                "words": [row[0] for row in example.rows if row],
                "labels": own[0][0],
                "probability": own[0][1],
            }
            for example, own in zip(part, best, strict=True)
        ]
        if self.n > 1:
            _add(records, "nbest", [[_labelling(*pair) for pair in own] for own in best])
        if self.marginals:
            _add(records, "marginals", crf.predict_marginals(items, self.constraints))
        if self.spans:
            found = crf.predict_spans(items, self.n, self.constraints)
            _add(records, "spans", [[span._asdict() for span in own] for own in found])
        return records


def _labelling(labels: list[str], probability: float) -> dict[str, Any]:
    return {"labels": labels, "probability": probability}


def _add(records: list[dict[str, Any]], name: str, values: list[Any]) -> None:
    for record, value in zip(records, values, strict=True):
        record[name] = value


def _tell(example: LabelledSequence, answer: dict[str, Any], asked: _Asked) -> None:
    if asked.spans:
        for span in answer["spans"]:
            words = " ".join(answer["words"][span["start"] : span["end"]])
            place = f"{span['start']}\t{span['end']}\t{span['label']}"
            say(f"{place}\t{span['probability']:.4f}\t{words}")
        say()
        return
    for rank, labelling in enumerate(answer.get("nbest", [answer])):
        if asked.n > 1:
            say(f"# {rank} {labelling['probability']:.6f}")
        for t, (row, label) in enumerate(zip(example.rows, labelling["labels"], strict=True)):
            chance = [f"{answer['marginals'][t][label]:.4f}"] if asked.marginals else []
            say(joined([*row, label, *chance]))
        say()
