"""`mrflearn train field`: an untied Markov random field from samples or from an alignment."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

import mrflearn
from mrflearn.cli.options import shard_paths
from mrflearn.cli.output import remark
from mrflearn.cli.train import Job
from mrflearn.errors import DataError, MrflearnError, TrainingError
from mrflearn.io.alignments import ALPHABETS, Molecule, holds_alignment, read_alignment
from mrflearn.io.files import write_text
from mrflearn.io.samples import SampleTable, read_samples

MOSTLY = 0.5  # of the sequences


def field(
    job: Job,
    samples: list[Path],
    columns: str | None,
    molecule: Molecule,
    drop_inserts: bool,
    missing: bool,
) -> Any:
    """Learn a Markov random field with free parameters on every variable and edge."""
    graph, estimator = job.given["graph"] or "complete", job.given["estimator"] or "auto"
    engine = job.given["engine"]
    sharded = len(samples) > 1 or engine == "spark"
    alignment = not sharded and holds_alignment(samples[0])
    family = alignment and graph == "complete" and estimator in ("auto", "pl")
    _refuse_idle(job, estimator, graph, sharded=sharded, alignment=alignment, family=family)
    settings = job.settings("alignments" if family else "samples")
    if sharded:
        for path in samples:
            if holds_alignment(path):
                problem = "an alignment is learned from as one file, on this machine."
                raise DataError(problem, path=path)
        model: Any = mrflearn.MarkovField(**settings)
        with job.place() as place:
            paths = shard_paths(samples, engine)
            model.fit_shards(paths, place, columns=_picked(columns), missing=missing)
        job.facts |= {"samples": None}
    else:
        rows = read_rows(samples[0], columns, molecule, drop_inserts)
        job.facts |= {"samples": len(rows)}
        if rows.molecule is not None:
            settings = {"states": len(ALPHABETS[molecule])} | settings
        if family:
            model = job.fit(mrflearn.PottsField(**settings), rows)
            job.facts["estimator"] = "pl"
            remark(f"{len(rows)} sequences count as {model.n_effective_:.1f}")
        else:
            model = _on_graph(job, rows, graph, settings)
    job.facts["edges"] = len(model.edges_)
    return model


def _on_graph(job: Job, rows: SampleTable, graph: str, settings: dict[str, Any]) -> Any:
    """The field on a graph that is named, or on the one that the rows themselves suggest."""
    if graph != "learn":
        return job.fit(mrflearn.MarkovField(**settings | {"graph": graph}), rows)
    states = {name: value for name, value in settings.items() if name == "states"}
    found = mrflearn.FieldStructure(**states | job.settings("--graph learn")).fit(rows)
    remark(f"{len(found.edges_)} edges found among {found.n_features_in_} variables")
    model = mrflearn.MarkovField(**settings | {"graph": found.graph_})
    try:
        return job.fit(model, rows)
    except MrflearnError as error:
        output: Path = job.ctx.params["output"]
        kept = output.with_name(output.name + ".edges")  # for --graph edges:FILE
        with write_text(kept) as stream:
            stream.writelines(f"{a} {b}\n" for a, b in found.edges_)
        raise TrainingError(
            f"{error} The edges that were found are kept: --graph edges:{kept}."
        ) from error


def _refuse_idle(
    job: Job, estimator: str, graph: str, *, sharded: bool, alignment: bool, family: bool
) -> None:
    """An error where an option was given that would have no effect, with the reason."""
    local = not sharded and estimator not in ("auto", "lap", "consensus")
    reasons: tuple[tuple[bool, str, Iterable[str]], ...] = (
        (estimator != "lap", "only lap has auxiliary fields; say --estimator lap", ["auxiliary"]),
        (family, "the regularisation of an alignment's field is --l2-couplings", ["l1", "l2"]),
        (not family, "only for an alignment on the complete graph by pl", job.only("alignments")),
        (not alignment, "only for alignments", ["molecule", "drop_inserts"]),
        (sharded, "several files are counted again, and not saved.", ["checkpoint"]),
        (not sharded, "one file shows by itself whether values are missing", ["missing"]),
        (local, "the work on one file is shared by lap and consensus only", ["n_jobs"]),
        (graph != "learn", "only where edges are found: --graph learn", job.only("--graph learn")),
    )
    for idle, reason, names in reasons:
        if idle:
            job.refuse(reason, *names)
    if sharded and graph == "learn":
        job.refuse("edges are found in one file on this machine; name the graph.", "graph")


def read_rows(
    path: Path, columns: str | None, molecule: Molecule, drop_inserts: bool
) -> SampleTable:
    """All rows of a file of samples, or of an alignment."""
    if not holds_alignment(path):
        if drop_inserts or molecule != "protein":
            raise typer.BadParameter("--molecule and --drop-inserts are only for alignments.")
        return read_samples(path, columns=_picked(columns))
    if columns is not None:
        raise typer.BadParameter(f"--columns: {path} is an alignment, and all of it is used.")
    alignment = read_alignment(path, molecule, drop_inserts=drop_inserts)
    if alignment.unknown:
        remark(f"{alignment.unknown:,} letters outside the {molecule} alphabet are gaps")
    hollow = int(((alignment.values == 0).mean(axis=0) > MOSTLY).sum())
    if hollow and not drop_inserts:
        remark(
            f"{hollow} of {alignment.values.shape[1]} columns are gaps in most sequences; "
            "where lower case marks insertions, --drop-inserts leaves them out"
        )
    return SampleTable(None, alignment.values, molecule=molecule)


def _picked(columns: str | None) -> list[str | int] | None:
    """The columns that a text names; None for all of them."""
    if columns is None:
        return None
    return [int(word) if word.isdigit() else word for word in columns.split(",")]
