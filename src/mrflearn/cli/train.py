"""`mrflearn train`: a training as the command line asks for it, and what is reported of it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import mrflearn
from mrflearn.cli import options
from mrflearn.cli.output import remark, report_unknown, show, write_picture
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
    job = Job(ctx, given)
    files = [given.pop(name) for name in job.entry["arguments"]]
    own = {name: given.pop(name) for name in options.option_rows(job.entry)}
    module, _, name = job.entry["learn"].partition(":")
    learn = getattr(import_module(f"mrflearn.cli.{module}"), name)
    _report(job, learn(job, *files, **own), output)


class Job:
    """One training, as the command line asks for it.

    `given` has the options that nouns share and those of estimators, by Python's names; the latter
    are None where they were not given, so that the estimator's own default holds.  `facts` are what
    is reported beside what the description of the model says and how training went.
    """

    def __init__(self, ctx: typer.Context, given: dict[str, Any]) -> None:
        self.ctx, self.given = ctx, given
        self.entry = options.COMMANDS["train"][ctx.command.name]
        self.facts: dict[str, Any] = {}
        self.seconds = 0.0

    def make(self, kind: str = "", *, beside: str = "") -> Any:
        """An estimator of the noun with the options that were given; the usual one by default.

        Options that neither it nor the one made `beside` it has are refused.
        """
        kind = kind or next(iter(self.entry["estimators"]))
        chosen = f"{self.entry.get('chosen_by', '')} {kind}".strip()
        values = dict(self.entry.get("settings", {}))
        for name, (_, names, _, kinds) in options.of_estimators(str(self.ctx.command.name)).items():
            value = self.given.get(name)
            if value is None:
                continue
            if kind not in kinds and beside not in kinds:
                raise typer.BadParameter(
                    f"{names[0]}: has no effect with {chosen}; it goes with {', '.join(kinds)}."
                )
            if kind in kinds:
                form, default = kinds[kind]
                if options.is_choice(form) and str(value) not in form.split("|"):
                    raise typer.BadParameter(f"{names[0]} {value} has no effect with {chosen}.")
                values[name] = options.as_argument(form, default, value)
        model = getattr(mrflearn, self.entry["estimators"][kind])(**values)
        if hasattr(model, "verbose"):
            model.verbose = not self.given["quiet"]
        for name, (setting, *fitting) in self.entry.get("goes_with", {}).items():
            if str(getattr(model, setting, fitting[0])).partition(":")[0] not in fitting:
                self.refuse(f"goes with --{setting} {' or '.join(fitting)}.", name)
        return model

    def refuse(self, reason: str, *names: str) -> None:
        """An error where one of these options was given."""
        options.refuse_idle(self.ctx, dict.fromkeys(names, reason))

    def fit(self, model: Any, *data: Any, **more: Any) -> Any:
        """The model, fitted with the checkpoint and on the cluster that were named; it is timed."""
        more |= {name: self.given.get(name) for name in ("checkpoint", "resume")}
        takes = signature(model.fit).parameters
        more = {name: value for name, value in more.items() if name in takes}
        began = time.perf_counter()
        with ExitStack() as until:
            if "executor" in takes and self.given["engine"] == "spark":
                more["executor"] = until.enter_context(self.place())
            model.fit(*data, **more)
        self.seconds = time.perf_counter() - began
        for name in self.entry.get("facts", ()):
            self.facts[name.split(".")[-1].rstrip("_")] = attrgetter(name)(model)
        return model

    def place(self) -> AbstractContextManager[Executor]:
        """An executor of the cluster, or of local processes."""
        return options.place_to_run(*(self.given[name] for name in options.PLACE))


def _report(job: Job, model: Any, output: Path) -> None:
    """Saves the model, draws and prints what was asked for, and ends as the training ended."""
    given, description = job.given, describe(model)
    outcome = getattr(model, "outcome_", None)
    model.save(output, overwrite=given["overwrite"] or given.get("resume", False))
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
        if drawn := description.training():
            write_picture(drawn[0].figure(), drawn[0].caption, given["plot"])
        else:
            remark("no picture: training took no steps to draw a curve of.")
    facts["seconds"] = round(job.seconds, 4)
    limits = {name: getattr(model, name, None) for name in options.RARE}
    report_unknown(getattr(model, "vocabulary_", None), limits)
    try:
        description.page(output.resolve().name, facts).write(output / REPORT)
        if not given["quiet"]:
            remark(f"report: {output / REPORT}")
    except MissingExtraError as missing:
        remark(f"no {REPORT}: {missing}")
    show([Facts(facts)], as_json=given["as_json"])
    if outcome is not None and (outcome.failed or outcome.ending == "interrupted"):
        how = "failed" if outcome.failed else "was interrupted"
        remark(f"training {how}; the model that was saved is where it stopped.")
        raise typer.Exit(1 if outcome.failed else INTERRUPTED)
