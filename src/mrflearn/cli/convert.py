"""`mrflearn convert`: one file format into another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

import mrflearn
from mrflearn.cli.options import holds_moments, listed, refuse_idle
from mrflearn.cli.output import remark, say_json
from mrflearn.errors import SettingsError
from mrflearn.features.moments_file import convert_moments
from mrflearn.io.files import ending
from mrflearn.io.formats import convert_file
from mrflearn.models.storage import check_target

ONLY_FOR_COUNTS = {"vocabulary": "only for counts, in .moments and MRF-LM's .dat files."}


def convert(
    ctx: typer.Context,
    source: Path,
    target: Path,
    vocabulary: Path | None,
    overwrite: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Turn a file into another format, or check that it reads."""
    done, facts = f"{source} -> {target}", {"source": str(source), "target": str(target)}
    if holds_moments(source) or holds_moments(target):
        refuse_idle(ctx, dict.fromkeys(given, "for files of sentences; leave it out."))
        convert_moments(source, target, vocabulary)
    elif source.is_dir() or (ending(source) == ".arpa" and not target.suffix):
        reason = "for files; a model becomes what the name to write ends in."
        refuse_idle(ctx, dict.fromkeys(given, reason) | ONLY_FOR_COUNTS)
        _convert_model(source, target, overwrite=overwrite)
    else:
        refuse_idle(ctx, ONLY_FOR_COUNTS)
        given["columns"] = listed(given.pop("column_names"))
        given["keep"] = listed(given["keep"])
        reads, writes = convert_file(source, target, **given)
        done = f"{source} ({reads}) -> {target} ({writes})"
        facts |= {"from": reads, "to": writes}
    if as_json:
        say_json(facts)
    remark(done)


def _convert_model(source: Path, target: Path, *, overwrite: bool) -> None:
    """Writes a model to a file, or an ARPA file to a model directory."""
    if not source.is_dir():
        check_target(target, overwrite=overwrite)
        mrflearn.NgramLanguageModel.from_arpa(source).save(target, overwrite=overwrite)
        return
    model = mrflearn.load(source)
    if not hasattr(model, "export"):
        raise SettingsError(
            f"{source} holds a {type(model).__name__}, which no other format can hold; "
            "language models become .arpa files or word vectors, fields .uai networks."
        )
    model.export(target)
    if target.name.removesuffix(".gz").endswith(".uai") and hasattr(model, "gauge_constant_"):
        remark(
            "tables are 0 at state 0 (the reference gauge): log Z of this network is log Z of the "
            f"fields and couplings that inspect shows, minus {model.gauge_constant_:.6g} nats"
        )
