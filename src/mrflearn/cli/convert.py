"""`mrflearn convert`: one file format into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrflearn.cli.answers import remark
from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.options import ChunkScheme
from mrflearn.errors import MrflearnError


def convert(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="A file (gzip and - are fine), or a model.")],
    target: Annotated[Path, typer.Argument(help="The file, or model, to write.")],
    source_format: Annotated[
        str | None, typer.Option("--from", help="Its format; default: by its ending.")
    ] = None,
    target_format: Annotated[
        str | None, typer.Option("--to", help="Its format; default: by its ending.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Names of the columns, such as word,pos,chunk.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="Those to write, such as word,chunk; default: all.")
    ] = None,
    scheme: Annotated[
        ChunkScheme | None, typer.Option(help="Write the last column's chunks so.")
    ] = None,
) -> None:
    """Turn a file into another format, or check that it reads.

    Example: mrflearn convert train.conll train-bioes.conll --columns word,pos,chunk --scheme BIOES
    """
    from mrflearn.data.conversion import convert_file

    if source.is_dir() or _is_model_to_be(source, target):
        options = ("source_format", "target_format", "columns", "keep", "scheme")
        reason = "for files; a model becomes what the name to write ends in."
        refuse_idle(context, dict.fromkeys(options, reason))
        _convert_model(source, target)
        remark(f"{source} -> {target}")
        return
    reads, writes = convert_file(
        source,
        target,
        source_format=source_format,
        target_format=target_format,
        columns=columns.split(",") if columns else None,
        keep=keep.split(",") if keep else None,
        scheme=scheme.value if scheme else None,
    )
    remark(f"{source} ({reads}) -> {target} ({writes})")


def _is_model_to_be(source: Path, target: Path) -> bool:
    """Whether an ARPA file is to become a model directory."""
    return Path(source.name.removesuffix(".gz")).suffix == ".arpa" and not target.suffix


def _convert_model(source: Path, target: Path) -> None:
    """Writes a model to a file, or an ARPA file to a model directory."""
    if not source.is_dir():
        from mrflearn.estimators.ngram import NgramLanguageModel

        NgramLanguageModel.from_arpa(source).save(target)
        return
    from mrflearn.estimators.loading import load

    model = load(source)
    if not hasattr(model, "export"):
        raise MrflearnError(
            f"{source} holds a {type(model).__name__}, which no other format can hold; "
            "language models become .arpa files or word vectors, fields .uai networks."
        )
    model.export(target)
