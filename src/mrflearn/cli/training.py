"""A training as the command line asks for it, and what is printed and written when it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from mrflearn.cli.options import (
    ALL_CORES,
    COMMANDS,
    add_command,
    as_arguments,
    check_place,
    estimators,
    generated,
    is_choice,
    option_name,
    parameters,
    place_to_run,
    refuse_idle,
    shared,
)
from mrflearn.cli.output import remark, say, say_json, write_page, write_picture
from mrflearn.describe import describe
from mrflearn.errors import MissingExtraError

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor

INTERRUPTED = 130  # what shells give for a command that Ctrl-C ended
REPORT = "report.html"
GROUPS = ("Arguments", "Data", "Output", "Model", "Optimisation", "Running")
PLACE = ("engine", "master", "n_jobs")


@dataclass
class Job:
    """One training, as the command line asks for it.

    `given` has the options that nouns share and those of estimators, by Python's names; the latter
    are None where they were not given, so that the estimator's own default holds.
    """

    noun: str
    ctx: typer.Context
    given: dict[str, Any]
    seconds: float = 0.0

    @property
    def saved(self) -> dict[str, Any]:
        """The checkpoint, as `fit` takes it."""
        return {name: self.given[name] for name in ("checkpoint", "resume")}

    def settings(self, kind: str = "", why: str = "") -> dict[str, Any]:
        """The arguments of that estimator that were given.

        Options that it does not have are refused where the reason `why` is given.
        """
        kinds = estimators(self.noun)
        own = kinds[kind or self.noun]
        names = {name for rows in kinds.values() for name in rows}
        given = {name: self.given[name] for name in names if self.given.get(name) is not None}
        for name, value in given.items() if why else ():
            if name not in own:
                raise typer.BadParameter(f"{option_name(name)}: {why}")
            forms = own[name][0].split("|")
            if is_choice(forms) and str(value) not in forms:
                raise typer.BadParameter(f"{option_name(name)} {value} {why}")
        values: dict[str, Any] = {"n_jobs": -1} if self.noun in ALL_CORES else {}
        values |= {"verbose": not self.given["quiet"]} if "verbose" in own else {}
        given = {name: value for name, value in given.items() if name in own}
        return values | {name: None if own == "none" else own for name, own in given.items()}

    def only(self, kind: str) -> list[str]:
        """The arguments that no other estimator of the noun has."""
        others = [rows for name, rows in estimators(self.noun).items() if name != kind]
        own = estimators(self.noun)[kind]
        return [name for name in own if not any(name in rows for rows in others)]

    def refuse(self, reason: str, *names: str) -> None:
        """An error where one of these options was given."""
        refuse_idle(self.ctx, dict.fromkeys(names, reason))

    def fit(self, model: Any, *data: Any, **more: Any) -> Any:
        """The fitted model; the time it took is reported."""
        began = time.perf_counter()
        model.fit(*data, **more)
        self.seconds = time.perf_counter() - began
        return model

    @contextmanager
    def place(self, *, local: bool = True) -> Iterator[Executor | None]:
        """An executor of the cluster or, unless the estimator has its own, of local processes."""
        if self.given["engine"] == "local" and not local:
            yield None
        else:
            with place_to_run(*(self.given[name] for name in PLACE)) as place:
                yield place


@dataclass(frozen=True)
class Learned:
    """A fitted model, and what is reported beside what its description says and how training went.

    `facts` are for --json and the report; `size` and `source` are what people read first, then
    `lines`.
    """

    model: Any
    size: str
    facts: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()
    source: str = ""


class GroupedCommand(TyperCommand):
    """A command whose help shows its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments first, then each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for own in self.get_params(ctx):
            record = own.get_help_record(ctx)
            if record is not None:
                group = getattr(own, "rich_help_panel", None) or "Output"
                argument = own.param_type_name == "argument"
                groups.setdefault("Arguments" if argument else group, []).append(record)
        for name in GROUPS:
            if name in groups:
                with formatter.section(name):
                    formatter.write_dl(groups[name])


def add_training(app: typer.Typer, noun: str, learn: Callable[..., Learned]) -> None:
    """Adds the command that trains a noun: `learn` makes a model of a job and of its data.

    It has the options of the estimators of that noun as well, and those that these `can` do.
    """
    entry = COMMANDS["train"][noun]
    own = _under("Data", parameters(entry))

    def command(ctx: typer.Context, output: Path, **given: Any) -> None:
        data = {part.name: given.pop(part.name) for part in own}
        if given.get("resume") and given["checkpoint"] is None:
            raise typer.BadParameter("--resume needs --checkpoint: the file to continue from.")
        if "engine" in given:
            check_place(*(given[name] for name in PLACE))
        job = Job(noun, ctx, as_arguments(noun, given))
        _report(job, learn(job, **data), output)

    files = len(entry["arguments"])
    parts = [*own[:files], *shared("output"), *own[files:], *generated(noun)]
    known = {part.name for part in parts}
    more = [name for name in entry.get("can", ()) if name not in known]
    parts += _under("Running", shared(*(name for name in more if name != "plot")))
    parts += shared(*(name for name in more if name == "plot"), "overwrite", "quiet", "as_json")
    add_command(app, noun, entry, command, parts, GroupedCommand)


def _under(heading: str, parts: list[Parameter]) -> list[Parameter]:
    """The same parameters, shown in help under that heading."""
    for part in parts:
        for info in part.annotation.__metadata__:
            info.rich_help_panel = heading
    return parts


def _report(job: Job, learned: Learned, output: Path) -> None:
    """Saves the model, draws and prints what was asked for, and ends as the training ended."""
    model, given = learned.model, job.given
    model.save(output, overwrite=given["overwrite"] or given.get("resume", False))
    outcome = getattr(model, "outcome_", None)
    description = describe(model)
    facts: dict[str, Any] = {"model": str(output), **description.facts(), **learned.facts}
    lines = list(learned.lines)
    if hasattr(model, "estimator"):
        facts["estimator"] = _learned_by(model, quiet=given["quiet"])
    if outcome is not None:
        job.seconds, facts["objective"] = outcome.seconds, outcome.value
        names = ("iterations", "evaluations", "converged", "ending", "reason")
        facts |= {name: getattr(outcome, name) for name in names}
        ended = f"after {outcome.iterations} iterations: {outcome.reason}"
        lines.insert(0, f"objective {outcome.value:.6g} nats {ended}")
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
    if given["as_json"]:
        say_json(facts)
    else:
        by = f" by {facts['estimator']}" if "estimator" in facts else ""
        say(f"{output}: {learned.size}, learned{learned.source}{by} in {job.seconds:.2f} s")
        for line in lines:
            say(line)
    if outcome is not None and (outcome.failed or outcome.ending == "interrupted"):
        how = "failed" if outcome.failed else "was interrupted"
        remark(f"training {how}; the model that was saved is where it stopped.")
        raise typer.Exit(1 if outcome.failed else INTERRUPTED)


def _learned_by(model: Any, *, quiet: bool) -> str:
    """The estimator that a model was trained by; where it was chosen, a remark says why."""
    choice = getattr(model, "choice_", None)
    if choice is None:
        return str(model.estimator)
    if not quiet:
        remark(f"--estimator auto: {choice.estimator}, since {choice.reason}")
    return str(choice.estimator)
