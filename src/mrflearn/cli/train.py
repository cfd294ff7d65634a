"""`mrflearn train`: a training as the command line asks for it, and what is reported of it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli import options
from mrflearn.cli.output import remark, show, write_page, write_picture
from mrflearn.describe import describe
from mrflearn.describe.blocks import Facts, Nats
from mrflearn.errors import MissingExtraError

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor

INTERRUPTED = 130  # what shells give for a command that Ctrl-C ended
REPORT = "report.html"
OUTCOME = ("iterations", "evaluations", "converged", "ending", "reason")


def train(ctx: typer.Context, output: Path, **given: Any) -> None:
    """Learns a model of the noun that was named, saves it, and reports on it."""
    if given.get("resume") and given["checkpoint"] is None:
        raise typer.BadParameter("--resume needs --checkpoint: the file to continue from.")
    if "engine" in given:
        options.check_place(*(given[name] for name in options.PLACE))
    noun = str(ctx.command.name)
    entry = options.COMMANDS["train"][noun]
    rows = {*entry["arguments"], *entry.get("options", ()), *entry.get("use", ())}
    data = {name: given.pop(name) for name in rows}
    learn = getattr(import_module(f"mrflearn.cli.{entry['module']}"), noun)
    job = Job(noun, ctx, given)
    _report(job, learn(job, **data), output)


class Job:
    """One training, as the command line asks for it.

    `given` has the options that nouns share and those of estimators, by Python's names; the latter
    are None where they were not given, so that the estimator's own default holds.  `facts` are what
    is reported beside what the description of the model says and how training went.
    """

    def __init__(self, noun: str, ctx: typer.Context, given: dict[str, Any]) -> None:
        self.noun, self.ctx, self.given = noun, ctx, given
        self.facts: dict[str, Any] = {}
        self.seconds = 0.0

    def settings(self, kind: str = "", why: str = "") -> dict[str, Any]:
        """The arguments of that estimator that were given.

        Options that it does not have are refused where the reason `why` is given.
        """
        kinds = options.estimators(self.noun)
        own = kinds[kind or self.noun]
        values: dict[str, Any] = {"n_jobs": -1} if self.noun in options.ALL_CORES else {}
        values |= {"verbose": not self.given["quiet"]} if "verbose" in own else {}
        for name in dict.fromkeys(name for rows in kinds.values() for name in rows):
            value = self.given.get(name)
            if value is None:
                continue
            if name in own:
                values[name] = options.as_argument(own[name], value)
            elif why:
                raise typer.BadParameter(f"{options.option_name(name)}: {why}")
            if (
                why
                and options.is_choice(forms := own[name][0].split("|"))
                and str(value) not in forms
            ):
                raise typer.BadParameter(f"{options.option_name(name)} {value} {why}")
        return values

    def only(self, kind: str) -> list[str]:
        """The arguments that no other estimator of the noun has."""
        others = [rows for name, rows in options.estimators(self.noun).items() if name != kind]
        own = options.estimators(self.noun)[kind]
        return [name for name in own if not any(name in rows for rows in others)]

    def refuse(self, reason: str, *names: str) -> None:
        """An error where one of these options was given."""
        options.refuse_idle(self.ctx, dict.fromkeys(names, reason))

    def fit(self, model: Any, *data: Any, **more: Any) -> Any:
        """The model, fitted with the checkpoint and on the cluster that were named; it is timed."""
        takes = signature(model.fit).parameters
        more |= {name: self.given[name] for name in ("checkpoint", "resume") if name in takes}
        began = time.perf_counter()
        if "executor" in takes and self.given["engine"] == "spark":
            with self.place() as place:
                model.fit(*data, executor=place, **more)
        else:
            model.fit(*data, **more)
        self.seconds = time.perf_counter() - began
        return model

    def place(self) -> AbstractContextManager[Executor]:
        """An executor of the cluster, or of local processes."""
        return options.place_to_run(*(self.given[name] for name in options.PLACE))


def _report(job: Job, model: Any, output: Path) -> None:
    """Saves the model, draws and prints what was asked for, and ends as the training ended."""
    given, description = job.given, describe(model)
    model.save(output, overwrite=given["overwrite"] or given.get("resume", False))
    outcome = getattr(model, "outcome_", None)
    facts: dict[str, Any] = {"model": str(output), **description.facts(), **job.facts}
    if hasattr(model, "estimator"):
        facts["estimator"] = model.estimator
        if (choice := getattr(model, "choice_", None)) is not None:
            facts["estimator"] = choice.estimator
            if not given["quiet"]:
                remark(f"--estimator auto: {choice.estimator}, since {choice.reason}")
    if outcome is not None:
        job.seconds, facts["objective"] = outcome.seconds, Nats(outcome.value)
        facts |= {name: getattr(outcome, name) for name in OUTCOME}
    if given.get("plot") is not None:
        drawn = description.training()
        if drawn:
            write_picture(drawn[0].figure(), given["plot"])
        else:
            remark("no picture: training took no steps to draw a curve of.")
    facts["seconds"] = round(job.seconds, 4)
    try:
        write_page(model, output.resolve().name, output / REPORT, facts)
        if not given["quiet"]:
            remark(f"report: {output / REPORT}")
    except MissingExtraError as missing:
        remark(f"no {REPORT}: {missing}")
    show([Facts(facts)], as_json=given["as_json"])
    if outcome is not None and (outcome.failed or outcome.ending == "interrupted"):
        how = "failed" if outcome.failed else "was interrupted"
        remark(f"training {how}; the model that was saved is where it stopped.")
        raise typer.Exit(1 if outcome.failed else INTERRUPTED)
