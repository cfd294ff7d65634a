"""`mrflearn train field`: an untied Markov random field from samples or from an alignment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import remark
from mrflearn.cli.field_rows import (
    Columns,
    DropInserts,
    Letters,
    Molecule,
    SampleRows,
    is_alignment,
    picked,
    read_rows,
)
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import Engine, shard_paths
from mrflearn.cli.training import Job, Learned
from mrflearn.errors import DataError, MrflearnError, TrainingError

if TYPE_CHECKING:
    from mrflearn.graph.factor_graph import FactorGraph


def field(
    job: Job,
    samples: Annotated[
        list[Path],
        input_argument(
            "Rows of states (csv, npy, text, digits, parquet; one file or many), or an "
            "alignment (FASTA, a2m, a3m, Stockholm, Clustal)."
        ),
    ],
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="For several files: values may be missing (lap).")
    ] = False,
) -> Learned:
    """Learn a Markov random field with free parameters on every variable and edge.

    Alignments on the complete graph by auto or pl are learned as CCMpred does, with its penalties.
    Several files, or one with --engine spark, are counted where they are read (lap, ml, bp, pw).
    With --graph learn the edges are found first.

    Example: mrflearn train field spikes.txt --graph complete -o spikes-model
    """
    from mrflearn.estimators.field import MarkovField

    graph, estimator = job.given["graph"] or "complete", job.given["estimator"] or "auto"
    sharded = len(samples) > 1 or job.engine is Engine.spark
    alignment = not sharded and is_alignment(samples[0])
    family = alignment and graph == "complete" and estimator in ("auto", "pl")
    _refuse_idle(job, estimator, graph, sharded=sharded, alignment=alignment, family=family)
    settings = job.settings("alignments" if family else "samples")
    if sharded:
        for path in samples:
            if is_alignment(path):
                problem = "an alignment is learned from as one file, on this machine."
                raise DataError(problem, path=path)
        model = MarkovField(**settings)
        with job.place() as place:
            paths = shard_paths(samples, job.engine)
            model.fit_shards(paths, place, columns=picked(columns), missing=missing)
        return _learned(model)
    rows = read_rows(samples[0], columns, molecule, drop_inserts)
    states = {} if rows.states is None else {"states": rows.states}
    if family:
        return _family(job, rows, states | settings)
    found = _found(rows, states | job.settings("--graph learn")) if graph == "learn" else None
    settings |= {"graph": graph if found is None else found}
    try:
        model = job.fit(MarkovField(**states | settings), rows, **job.saved)
    except MrflearnError as error:
        if found is None:
            raise
        kept = _keep_edges(found, job.command.params["output"])
        raise TrainingError(
            f"{error} The edges that were found are kept: --graph edges:{kept}."
        ) from error
    return _learned(model, len(rows.values))


def _refuse_idle(
    job: Job, estimator: str, graph: str, *, sharded: bool, alignment: bool, family: bool
) -> None:
    """An error where an option was given that would have no effect, with the reason."""
    if estimator != "lap":
        job.refuse("only lap has auxiliary fields; say --estimator lap", "auxiliary")
    if family:
        job.refuse("the regularisation of a family is --l2-couplings", "l1", "l2")
    else:
        reason = "only for an alignment on the complete graph by pl"
        job.refuse(reason, *job.only("alignments"))
    if not alignment:
        job.refuse("only for alignments", "molecule", "drop_inserts")
    if sharded:
        job.refuse("several files are counted anew, and not saved.", "checkpoint")
        if graph == "learn":
            job.refuse("edges are found in one file on this machine; name the graph.", "graph")
    else:
        job.refuse("one file shows by itself whether values are missing", "missing")
        if estimator not in ("auto", "lap", "consensus"):
            job.refuse("the work on one file is shared by lap and consensus only", "n_jobs")
    if graph != "learn":
        job.refuse("only where edges are found: --graph learn", *job.only("--graph learn"))


def _family(job: Job, rows: SampleRows, settings: dict[str, Any]) -> Learned:
    from mrflearn.estimators.potts import PottsField

    model = job.fit(PottsField(**settings), rows.values, **job.saved)
    remark(f"{len(rows.values)} sequences count as {model.n_effective_:.1f}")
    return _learned(model, len(rows.values), estimator="pl")


def _found(rows: SampleRows, settings: dict[str, Any]) -> FactorGraph:
    """The graph that the rows themselves suggest."""
    from mrflearn.estimators.structure import FieldStructure

    structure = FieldStructure(**settings).fit(rows)
    remark(f"{len(structure.edges_)} edges found among {structure.n_features_in_} variables")
    return structure.graph_


def _keep_edges(graph: FactorGraph, output: Path) -> Path:
    """A file of the edges beside the model that was not learned, for --graph edges:FILE."""
    from mrflearn.io.files import write_text

    path = output.with_name(output.name + ".edges")
    with write_text(path) as stream:
        for group in graph.groups:
            if group.arity == 2:
                stream.writelines(f"{a} {b}\n" for a, b in group.scope.tolist())
    return path


def _learned(model: Any, samples: int | None = None, **more: Any) -> Learned:
    edges = len(model.edges_)
    facts = {"samples": samples, "variables": model.n_features_in_, "edges": edges, **more}
    source = "" if samples is None else f" from {samples} samples"
    return Learned(model, facts, f"{model.n_features_in_} variables, {edges} edges", source=source)
