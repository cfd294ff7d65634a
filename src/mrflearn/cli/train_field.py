"""`mrflearn train field`: an untied Markov random field from samples or from an alignment."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, remark, say, say_json
from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.engine import Engine, EngineOption, Jobs, Master, place_to_run, shard_paths
from mrflearn.cli.field_rows import (
    Columns,
    DropInserts,
    Letters,
    Molecule,
    Rows,
    is_alignment,
    picked,
    read_rows,
)
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.options import Checkpoint, Device, Quiet, Resume, Seed, check_resume
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report
from mrflearn.cli.training_facts import conclude, learned_by, tell_training, training_facts
from mrflearn.errors import DataError, MrflearnError, TrainingError

if TYPE_CHECKING:
    from mrflearn.estimators.potts import PottsField
    from mrflearn.graph.factor_graph import FactorGraph


class Estimator(StrEnum):
    """The training principles a field can be learned by."""

    auto = "auto"
    lap = "lap"
    pl = "pl"
    ml = "ml"
    bp = "bp"
    pw = "pw"
    pmm = "pmm"
    consensus = "consensus"


class Auxiliary(StrEnum):
    """What LAP lets the neighbours of a clique follow."""

    exact = "exact"
    dense = "dense"
    pairwise = "pairwise"


def field(
    context: typer.Context,
    samples: Annotated[
        list[Path],
        input_argument(
            "Rows of states (csv, npy, text, digits, parquet; one file or many), or an "
            "alignment (FASTA, a2m, a3m, Stockholm, Clustal)."
        ),
    ],
    output: Output,
    graph: Annotated[
        str,
        typer.Option(
            help="grid:RxC, torus:RxC, cube:XxYxZ, chimera:M,N,T, chain:N, complete, "
            "edges:FILE, or learn: find the edges first."
        ),
    ] = "complete",
    states: Annotated[
        int | None, typer.Option(min=2, help="Counted from 0. Default: what each column shows.")
    ] = None,
    estimator: Annotated[
        Estimator,
        typer.Option(
            help="auto: ml where the graph is narrow, lap where values are missing or cliques are "
            "many, pl elsewhere (and for missing values on dense graphs), and says which; "
            "lap: each clique from its neighbourhood, for small degree and any size; "
            "pl: pseudolikelihood; ml: exact, for small widths; bp: loopy; "
            "consensus: each variable by itself, averaged; pw: each clique by itself; "
            "pmm: pseudo-moment matching, in closed form."
        ),
    ] = Estimator.auto,
    auxiliary: Annotated[
        Auxiliary, typer.Option(help="For lap: what a clique's neighbours may follow.")
    ] = Auxiliary.exact,
    l2: Annotated[float, typer.Option(min=0.0, help="L2 regularisation strength.")] = 0.0,
    l1: Annotated[
        float, typer.Option(min=0.0, help="L1 regularisation strength of couplings.")
    ] = 0.0,
    columns: Columns = None,
    molecule: Letters = Molecule.protein,
    drop_inserts: DropInserts = False,
    identity: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="For alignments: what counts as a copy; 0: nothing."),
    ] = 0.8,
    l2_couplings: Annotated[
        float, typer.Option(min=0.0, help="For alignments: L2 strength of couplings / (L - 1).")
    ] = 0.2,
    device: Device = "cpu",
    missing: Annotated[
        bool, typer.Option("--missing", help="For several files: values may be missing (lap).")
    ] = False,
    engine: EngineOption = Engine.local,
    master: Master = None,
    jobs: Jobs = 1,
    seed: Seed = 0,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a Markov random field with free parameters on every variable and edge.

    Alignments on the complete graph by auto or pl are learned as CCMpred does, with its penalties.
    Several files, or one with --engine spark, are counted where they are read (lap, ml, bp, pw).

    Example: mrflearn train field spikes.txt --graph complete -o spikes-model
    """
    from mrflearn.estimators.field import MarkovField

    check_resume(checkpoint, resume)
    saved = {"checkpoint": checkpoint, "resume": resume}
    sharded = len(samples) > 1 or engine is Engine.spark
    if sharded and checkpoint is not None:
        raise typer.BadParameter("--checkpoint: several files are counted anew, and not saved.")
    alignment = not sharded and is_alignment(samples[0])
    family = alignment and graph == "complete" and estimator in (Estimator.auto, Estimator.pl)
    idle = _idle(estimator, sharded=sharded, alignment=alignment, family=family)
    refuse_idle(context, idle)
    common: dict[str, Any] = {"device": device, "random_state": seed, "verbose": not quiet}
    choices: dict[str, Any] = {"estimator": estimator.value, "auxiliary": auxiliary.value}
    choices |= {"l2": l2, "l1": l1, "n_jobs": jobs}
    model: Any
    count: int | None = None
    if sharded:
        _refuse_alignments(samples)
        if graph == "learn":
            raise typer.BadParameter(
                "--graph learn: edges are found in one file on this machine; name the graph."
            )
        with place_to_run(engine, master, jobs) as place:
            model = MarkovField(graph, states=states, **choices, **common)
            paths = shard_paths(samples, engine)
            model.fit_shards(paths, place, columns=picked(columns), missing=missing)
    else:
        if master is not None:
            raise typer.BadParameter("--master goes with --engine spark.")
        rows = read_rows(samples[0], columns, molecule, drop_inserts)
        count, common["states"] = len(rows.values), states or rows.states
        if family:
            model = _family(rows, identity or None, l2_couplings, common, saved)
        else:
            wires = _found(rows, common["states"], device, seed) if graph == "learn" else graph
            model = MarkovField(wires, **choices, **common)
            try:
                model.fit(rows, **saved)
            except MrflearnError as error:
                if isinstance(wires, str):
                    raise
                kept = _keep_edges(wires, output)
                raise TrainingError(
                    f"{error} The edges that were found are kept: --graph edges:{kept}."
                ) from error
    model.save(output, overwrite=overwrite or resume)
    by = Estimator.pl.value if family else learned_by(model, quiet=quiet)
    answer = _answer(model, count, output, by)
    write_report(model, output, answer, quiet=quiet)
    _tell(answer, as_json)
    conclude(model.outcome_)


def _idle(estimator: Estimator, *, sharded: bool, alignment: bool, family: bool) -> dict[str, str]:
    """The options that would have no effect, each with the reason."""
    idle: dict[str, str] = {}
    if estimator is not Estimator.lap:
        idle["auxiliary"] = "only lap has auxiliary fields; say --estimator lap"
    if family:
        idle |= dict.fromkeys(("l1", "l2"), "the regularisation of a family is --l2-couplings")
    else:
        reason = "only for an alignment on the complete graph by pl"
        idle |= dict.fromkeys(("identity", "l2_couplings"), reason)
    if not alignment:
        idle |= dict.fromkeys(("molecule", "drop_inserts"), "only for alignments")
    if not sharded:
        idle["missing"] = "one file shows by itself whether values are missing"
        if estimator not in (Estimator.auto, Estimator.lap, Estimator.consensus):
            idle["jobs"] = "the work on one file is shared by lap and consensus only"
    return idle


def _found(rows: Rows, states: int | None, device: str, seed: int) -> FactorGraph:
    """The graph that the rows themselves suggest."""
    from mrflearn.estimators.structure import FieldStructure

    structure = FieldStructure(states=states, device=device, random_state=seed).fit(rows)
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


def _refuse_alignments(paths: list[Path]) -> None:
    for path in paths:
        if is_alignment(path):
            raise DataError("an alignment is learned from as one file, on this machine.", path=path)


def _family(
    rows: Rows,
    identity: float | None,
    l2_couplings: float,
    common: dict[str, Any],
    saved: dict[str, Any],
) -> PottsField:
    from mrflearn.estimators.potts import PottsField

    model = PottsField(identity=identity, l2_couplings=l2_couplings, **common)
    model.fit(rows.values, **saved)
    remark(f"{len(rows.values)} sequences count as {model.n_effective_:.1f}")
    return model


def _answer(model: Any, samples: int | None, output: Path, estimator: str) -> dict[str, Any]:
    return {
        "model": str(output),
        "samples": samples,
        "variables": model.n_features_in_,
        "edges": len(model.edges_),
        "estimator": estimator,
        **training_facts(model.outcome_),
    }


def _tell(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say_json(answer)
        return
    samples = answer["samples"]
    say(
        f"{answer['model']}: {answer['variables']} variables, {answer['edges']} edges, learned"
        + (f" from {samples} samples" if samples is not None else "")
        + f" by {answer['estimator']} in {answer['seconds']:.2f} s"
    )
    tell_training(answer)
