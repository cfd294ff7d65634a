"""Options and arguments that several commands share: one name, one meaning, told once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.inputs import model_argument


class ChunkScheme(StrEnum):
    """How chunks are written as tags."""

    iob1 = "IOB1"
    iob2 = "IOB2"
    bioes = "BIOES"


class LikelihoodMethod(StrEnum):
    """How log-probabilities of data are found."""

    exact = "exact"
    ais = "ais"
    pl = "pl"
    bound = "bound"
    ring = "ring"


class NumberType(StrEnum):
    """Types of numbers that training computes with."""

    float32 = "float32"
    float64 = "float64"


ModelFolder = Annotated[Path, model_argument("A model directory.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or auto.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Number = Annotated[int, typer.Option("--number", "-n", min=1, help="How many words to show.")]
MinCount = Annotated[
    int, typer.Option("--min-count", min=1, help="Words seen less often are read as <unk>.")
]
VocabularySize = Annotated[
    int | None,
    typer.Option("--vocabulary-size", min=3, help="Keep the most frequent words only."),
]
Checkpoint = Annotated[
    Path | None, typer.Option("--checkpoint", help="A file to save training to every minute.")
]
Resume = Annotated[bool, typer.Option("--resume", is_eager=True, help="Go on from the checkpoint.")]


def check_resume(checkpoint: Path | None, resume: bool) -> None:
    """An error where training is to go on, and nobody says from where."""
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint: the file to go on from.")
