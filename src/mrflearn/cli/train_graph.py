"""`mrflearn train graph`: a CRF on graphs of any form from a file of labelled graphs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import Json, say, say_json
from mrflearn.cli.engine import Jobs
from mrflearn.cli.inputs import input_argument
from mrflearn.cli.labelling import refuse_single_label
from mrflearn.cli.options import Checkpoint, Quiet, Resume, Seed, check_resume
from mrflearn.cli.output import Output, Overwrite
from mrflearn.cli.report import write_report
from mrflearn.cli.train_layered import Estimator
from mrflearn.cli.training_facts import conclude, learned_by, tell_training, training_facts


class Algorithm(StrEnum):
    """How the weights are found."""

    lbfgs = "lbfgs"
    l2sgd = "l2sgd"


def graph(
    file: Annotated[
        Path,
        input_argument("Labelled graphs, one a line of JSON, as networkx.node_link_data."),
    ],
    output: Output,
    estimator: Annotated[
        Estimator, typer.Option(help="pw: piecewise; auto: as suits the graphs, and says why ...")
    ] = Estimator.pw,
    algorithm: Annotated[Algorithm, typer.Option(help="l2sgd: in small steps.")] = Algorithm.lbfgs,
    c1: Annotated[float, typer.Option(min=0.0, help="Strength of the L1 penalty.")] = 0.0,
    c2: Annotated[float, typer.Option(min=0.0, help="Strength of the L2 penalty.")] = 1.0,
    max_iterations: Annotated[
        int | None, typer.Option(min=1, help="When to stop at the latest; default: at no count.")
    ] = None,
    min_freq: Annotated[float, typer.Option(min=0.0, help="Drop features seen less often.")] = 0.0,
    parts: Annotated[
        bool, typer.Option("--parts", help="Graphs may be in parts that no edge joins.")
    ] = False,
    jobs: Jobs = -1,
    seed: Seed = 0,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a CRF on graphs of any form: labels of nodes, by features of nodes and edges.

    A line of the file is a graph: {"nodes": [{"id": "a", "features": ["tall"], "label": "left"},
    ...], "edges": [{"source": "a", "target": "b", "features": ["near"]}, ...]}.

    Example: mrflearn train graph people.jsonl -o model
    """
    from mrflearn.errors import DataError
    from mrflearn.estimators.graph_crf import GraphCRF
    from mrflearn.io.graphs import read_graphs

    check_resume(checkpoint, resume)
    examples = list(read_graphs(file))
    if not examples:
        raise DataError("there are no graphs in it.", path=file)
    refuse_single_label((own.labels.values() for own in examples), file)
    model = GraphCRF(
        estimator.value,
        connected=not parts,
        algorithm=algorithm.value,
        c1=c1,
        c2=c2,
        max_iterations=max_iterations,
        min_freq=min_freq,
        n_jobs=jobs,
        random_state=seed,
        verbose=not quiet,
    )
    graphs, labels = [own.networkx() for own in examples], [own.labels for own in examples]
    model.fit(graphs, labels, checkpoint=checkpoint, resume=resume)
    model.save(output, overwrite=overwrite or resume)
    answer: dict[str, Any] = {
        "model": str(output),
        "graphs": len(examples),
        "nodes": sum(len(own.nodes) for own in examples),
        "edges": sum(len(own.edges) for own in examples),
        "labels": model.classes_,
        "estimator": learned_by(model, quiet=quiet),
        "attributes": model.num_attributes_,
        **training_facts(model.outcome_),
    }
    write_report(model, output, answer, quiet=quiet)
    if as_json:
        say_json(answer)
    else:
        say(
            f"{output}: {len(answer['labels'])} labels, {answer['attributes']:,} attributes, "
            f"learned from {answer['graphs']:,} graphs by {answer['estimator']} in "
            f"{answer['seconds']:.2f} s"
        )
        tell_training(answer)
    conclude(model.outcome_)
