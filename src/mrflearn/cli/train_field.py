"""`mrflearn train field`: an untied Markov random field from samples or from an alignment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from mrflearn.cli.options import of_estimators, picked, shard_paths
from mrflearn.cli.output import remark, write_picture
from mrflearn.cli.train import Job
from mrflearn.describe.fields import FieldDescription
from mrflearn.errors import DataError, MrflearnError, TrainingError
from mrflearn.estimators.field_inputs import molecule_of
from mrflearn.io.alignments import ALPHABETS, Molecule, holds_alignment, read_alignment
from mrflearn.io.files import write_text
from mrflearn.io.samples import SampleTable, read_samples

LEARN = "--graph learn"


def field(
    job: Job,
    samples: list[Path],
    columns: str | None,
    molecule: Molecule | None,
    drop_inserts: bool,
    focus: str | None,
    missing: bool,
    bootstrap: int | None,
    network: Path | None,
) -> Any:
    """A field with free parameters on every variable and edge."""
    if len(samples) > 1 or job.given["engine"] == "spark" or holds_alignment(samples[0]):
        job.refuse("goes with one table of samples on this machine", "bootstrap", "network")
    if len(samples) > 1 or job.given["engine"] == "spark":
        return _of_shards(job, samples, columns, missing)
    job.refuse("one file shows by itself whether values are missing", "missing")
    graph, estimator = job.given["graph"] or "complete", job.given["estimator"] or "auto"
    alignment = holds_alignment(samples[0])
    family = alignment and graph == "complete" and estimator in ("auto", "pl", "pcd")
    if family:
        job.refuse("the regularisation of an alignment's field is --l2-couplings", "l1", "l2")
        # PottsField has no other graph, and takes "pl" where nothing is said.
        job.given |= {"graph": None, "estimator": "pcd" if estimator == "pcd" else None}
    else:
        settings = of_estimators("field").items()
        only = [name for name, (*_, kinds) in settings if list(kinds) == ["alignments"]]
        job.refuse("only for an alignment on the complete graph by pl or pcd", *only)
        if estimator not in ("auto", "lap", "consensus") and bootstrap is None:
            job.refuse("the work on one file is shared by lap and consensus only", "n_jobs")
    beside = LEARN if graph == "learn" else ""
    model = job.make("alignments" if family else "samples", beside=beside)
    rows = read_rows(samples[0], columns, molecule, drop_inserts, focus, family=family)
    job.facts["samples"] = len(rows)
    if (kind := molecule_of(rows)) is not None:
        model.states = model.states or len(ALPHABETS[kind])
    if graph == "learn":
        _on_found_edges(job, model, rows)
    else:
        job.fit(model, rows)
    if family:
        remark(f"{len(rows)} sequences count as {model.n_effective_:.1f}")
        return model
    _resample(job, model, rows, bootstrap, network)
    return model


def _resample(
    job: Job, model: Any, rows: SampleTable, resamples: int | None, network: Path | None
) -> None:
    """Keeps the intervals of a bootstrap with the model, and draws the network."""
    if resamples is not None:
        from mrflearn.evaluation import bootstrap

        began = time.perf_counter()
        model.keep_intervals(bootstrap(model, rows, resamples, n_jobs=job.given.get("n_jobs")))
        remark(f"{resamples:,} resamples fitted in {time.perf_counter() - began:.1f} s")
        job.facts["resamples"] = resamples
    if network is not None:
        _, _, drawn = FieldDescription(model).strongest(len(model.edges_))
        write_picture(drawn.figure(), drawn.caption, network)


def _of_shards(job: Job, paths: list[Path], columns: str | None, missing: bool) -> Any:
    """The field of several files, which are counted where they are read."""
    for path in filter(holds_alignment, paths):
        raise DataError("an alignment is learned from as one file, on this machine.", path=path)
    job.refuse("only for alignments", "molecule", "drop_inserts", "focus")
    job.refuse("several files are counted again, and not saved.", "checkpoint")
    if job.given["graph"] == "learn":
        job.refuse("edges are found in one file on this machine; name the graph.", "graph")
    model = job.make("samples")
    with job.place() as place:
        shards = shard_paths(paths, job.given["engine"])
        model.fit_shards(shards, place, columns=picked(columns), missing=missing)
    job.facts["samples"] = None
    return model


def _on_found_edges(job: Job, model: Any, rows: SampleTable) -> None:
    """The field on the graph that the rows themselves suggest."""
    model.set_params(graph=job.make(LEARN, beside="samples"))
    try:
        job.fit(model, rows)
    except MrflearnError as error:
        if not hasattr(model, "structure_"):
            raise
        output: Path = job.ctx.params["output"]
        kept = output.with_name(output.name + ".edges")  # for --graph edges:FILE
        with write_text(kept) as stream:
            stream.writelines(f"{a} {b}\n" for a, b in model.structure_.edges_)
        found = f"The edges that were found are kept: --graph edges:{kept}."
        raise TrainingError(f"{error} {found}") from error
    edges = len(model.structure_.edges_)
    remark(f"{edges} edges found among {model.n_features_in_} variables")


def read_rows(
    path: Path,
    columns: str | None,
    *others: Any,
    usual: Molecule | None = None,
    family: bool = False,
) -> Any:
    """All rows of a file of samples, or of an alignment: its states alone, or as a `family`.

    The `others` are a molecule (the `usual` one where it is None), whether insertions are left out,
    and a sequence to focus on; remarks say what was read otherwise than written.
    """
    molecule, drop_inserts, focus = others
    if not holds_alignment(path):
        if any(others):
            named = "--molecule, --drop-inserts and --focus"
            raise typer.BadParameter(f"{named} are only for alignments.")
        return read_samples(path, columns=picked(columns))
    if columns is not None:
        raise typer.BadParameter(f"--keep: {path} is an alignment, and all of it is used.")
    alignment = read_alignment(path, molecule or usual, drop_inserts=drop_inserts, focus=focus)
    for text in alignment.remarks(chosen=bool(molecule or usual), dropped=drop_inserts):
        remark(text)
    return alignment if family else SampleTable(None, alignment.values, molecule=alignment.molecule)
