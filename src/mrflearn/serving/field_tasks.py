"""Questions for fields: the strongest couplings, and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn.errors import DataError
from mrflearn.serving import blocks
from mrflearn.serving.tasks import Task

if TYPE_CHECKING:
    from mrflearn.estimators.field_answers import FieldQuestions

SHOWN = 20
MOST_COUPLINGS = 1000
MOST_SAMPLES = 20
MOST_DRAWN = 80  # variables of a matrix of cells


def field_tasks(model: FieldQuestions) -> list[Task]:
    """What a field can be asked."""
    fewer = min(SHOWN, len(model.edges_))

    def couplings(words: list[str]) -> list[blocks.Block]:
        return _couplings(model, _count(words, min(MOST_COUPLINGS, len(model.edges_)), fewer))

    def samples(words: list[str]) -> list[blocks.Block]:
        drawn = model.draw(_count(words, MOST_SAMPLES, 5), random_state=0)
        rows = drawn.samples.tolist()
        return [blocks.note(f"drawn {drawn.method}"), blocks.cells("samples, one a row", rows)]

    return [
        Task("couplings", "how many of the strongest", str(fewer), couplings, most=1, least=0),
        Task("samples", f"how many, at most {MOST_SAMPLES}", "5", samples, most=1, least=0),
    ]


def _couplings(model: FieldQuestions, count: int) -> list[blocks.Block]:
    names, strength = model.variable_names_, model.strengths_
    rows = [
        [*(names[i] for i in model.edges_[k]), float(strength[k])] for k in model.strongest(count)
    ]
    found = [blocks.table("strongest couplings", ["", "", "coupling"], rows)]
    if len(names) <= MOST_DRAWN:
        found.append(blocks.cells("all couplings", model.strength_matrix_.tolist(), names))
    return found


def _count(words: list[str], most: int, otherwise: int) -> int:
    if not words:
        return min(otherwise, most)
    try:
        count = int(words[0])
    except ValueError as error:
        raise DataError(f"'{words[0]}' is not a whole number.") from error
    if not 1 <= count <= most:
        raise DataError(f"{count} is not between 1 and {most}.")
    return count
