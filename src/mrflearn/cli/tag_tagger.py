"""What `mrflearn tag` answers with a tagger: CoNLL-U with its column filled, or rows with tags."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import say, say_json
from mrflearn.cli.labelling import batches, document_mark, joined
from mrflearn.cli.tagger_files import Tagger, source_kept
from mrflearn.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mrflearn.io.conllu import ConlluRow
    from mrflearn.io.tag_files import TagExample, TagSource


@dataclass(frozen=True)
class _View:
    """What to say of each sentence."""

    n: int
    marginals: bool
    as_json: bool


@dataclass(frozen=True)
class _Answer:
    """Tag sequences with their probabilities (None: not asked for), and those of all tags."""

    best: list[tuple[list[str], float | None]]
    shares: NDArray[np.float64] | None
    classes: list[str]

    def chance(self, place: int, tag: str) -> float:
        """The probability of a tag at a token."""
        return 0.0 if self.shares is None else float(self.shares[place, self.classes.index(tag)])


def tag_tagger(
    tagger: Tagger,
    file: Path,
    n: int,
    marginals: bool,
    file_format: str | None,
    batch: int,
    as_json: bool,
) -> None:
    """Every sentence as it comes in, with its tags."""
    view = _View(n, marginals, as_json)
    source = source_kept(tagger)
    column = source.column if source.column in ("upos", "xpos") else "upos"
    document = 0
    for part in batches(_examples(source, file, file_format), batch):
        for example, answer in zip(part, _answers(tagger, part, view), strict=True):
            if view.as_json:
                say_json(_record(example, answer, view))
                continue
            if example.document > document:
                document = example.document
                say(document_mark(len(example.rows[0])) + "\n")
            if example.sentence is None:
                _tell_rows(example, answer, view)
            else:
                _tell_conllu(example, answer, view, column)
        sys.stdout.flush()  # whoever reads a pipe should not wait for the next batch


def _examples(source: TagSource, file: Path, file_format: str | None) -> Iterator[TagExample]:
    try:
        yield from source.read(file, format=file_format)
    except DataError as error:
        if str(file) != "-" or file_format is not None:
            raise
        hint = f"{error} (A pipe is read as {source.format}, as trained on; see --format.)"
        raise DataError(hint) from error


def _answers(tagger: Tagger, part: list[TagExample], view: _View) -> list[_Answer]:
    words = [example.words for example in part]
    best: list[list[tuple[list[str], float | None]]]
    if view.n > 1 or view.as_json:
        best = [[*own] for own in tagger.n_best(words, view.n)]
    else:
        best = [[(tags, None)] for tags in tagger.predict(words)]
    shares = tagger.predict_proba(words) if view.marginals else [None] * len(part)
    classes = tagger.classes_
    return [_Answer(own, table, classes) for own, table in zip(best, shares, strict=True)]


def _record(example: TagExample, answer: _Answer, view: _View) -> dict[str, Any]:
    listed = [{"labels": tags, "probability": chance} for tags, chance in answer.best]
    record: dict[str, Any] = {"words": example.words, **listed[0]}
    if view.n > 1:
        record["nbest"] = listed
    if answer.shares is not None:
        rows = answer.shares.tolist()
        record["marginals"] = [dict(zip(answer.classes, row, strict=True)) for row in rows]
    return record


def _tell_rows(example: TagExample, answer: _Answer, view: _View) -> None:
    for rank, (tags, chance) in enumerate(answer.best):
        if view.n > 1:
            say(f"# {rank} {chance:.6f}")
        for place, (row, tag) in enumerate(zip(example.rows, tags, strict=True)):
            sure = [f"{answer.chance(place, tag):.4f}"] if view.marginals else []
            say(joined([*row, tag, *sure]))
        say()


def _tell_conllu(example: TagExample, answer: _Answer, view: _View, column: str) -> None:
    sentence = example.sentence
    if sentence is None:
        return
    for rank, (tags, chance) in enumerate(answer.best):
        for line in sentence.comments:
            say(line)
        if view.n > 1:
            say(f"# nbest = {rank}")
            say(f"# probability = {chance:.6f}")
        place = 0
        for row in sentence.rows:
            own = row
            if row.id.isdecimal():  # multiword tokens and empty nodes have no tag
                own = row._replace(**{column: tags[place]})
                own = _sure(own, answer.chance(place, tags[place])) if view.marginals else own
                place += 1
            say("\t".join(own))
        say()


def _sure(row: ConlluRow, chance: float) -> ConlluRow:
    """The row with the probability of its tag among its other remarks."""
    remark = f"TagProbability={chance:.4f}"
    return row._replace(misc=remark if row.misc == "_" else f"{row.misc}|{remark}")
