"""What the verbs `score` and `sample` say of a field."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import remark, say, say_json
from mrflearn.cli.field_rows import Molecule, read_rows, whole_rows
from mrflearn.cli.options import LikelihoodMethod
from mrflearn.errors import InferenceError

if TYPE_CHECKING:
    from mrflearn.estimators.field_answers import FieldQuestions


def score_field(
    field: FieldQuestions,
    file: Path,
    method: LikelihoodMethod | None,
    columns: str | None,
    molecule: Molecule,
    drop_inserts: bool,
    as_json: bool,
) -> None:
    """Tells the mean log-probability of the rows of a file."""
    rows = whole_rows(read_rows(file, columns, molecule, drop_inserts), file)
    name: Any = field.usual_method if method is None else method.value
    try:
        values = field.log_likelihood(rows, name)
    except InferenceError as error:
        raise InferenceError(f"{error} Here: --method ais (sampled) or --method pl.") from error
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    answer = {
        "log_likelihood_per_sample": float(values.mean()),
        "standard_error": spread / len(values) ** 0.5,
        "samples": len(values),
        "method": name,
    }
    if as_json:
        say_json(answer)
        return
    say(
        f"{answer['log_likelihood_per_sample']:.6f} nats a sample "
        f"(+- {answer['standard_error']:.6f}; {answer['samples']} samples, {name})"
    )


def sample_field(field: FieldQuestions, count: int, seed: int, output: Path | None) -> None:
    """Tells new rows, or writes them."""
    from mrflearn.io.samples import SampleTable, write_samples

    drawn = field.draw(count, random_state=seed)
    remark(f"drawn by: {drawn.method}")
    if output is not None:
        rows = (drawn.samples + 1) // 2 if field.spins_ else drawn.samples  # as tables hold them
        write_samples(output, SampleTable(None, rows, field.spins_))
        return
    for row in drawn.samples.tolist():
        say(" ".join(map(str, row)))
