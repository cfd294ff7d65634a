"""A training as the command line asks for it, and what is said and written when it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrflearn.cli.answers import Json, remark, say, say_json
from mrflearn.cli.asking import refuse_idle
from mrflearn.cli.generated import (
    ALL_CORES,
    as_arguments,
    estimators,
    generated,
    in_group,
    is_choice,
    option_name,
    parameters,
    with_options,
)
from mrflearn.cli.options import Engine, Output, Overwrite, Quiet, check_place, place_to_run
from mrflearn.cli.pictures import keep, picture_of
from mrflearn.cli.report import write_report
from mrflearn.describe import describe

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor

INTERRUPTED = 130  # what shells give for a command that Ctrl-C ended


def _check_saving(
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="A file to save training to every minute.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", is_eager=True, help="Go on from the checkpoint.")
    ] = False,
) -> None:
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint: the file to go on from.")


def _plot(plot: Annotated[Path | None, picture_of("the curve of training")] = None) -> None:
    del plot  # checked when it is parsed


def _end(overwrite: Overwrite = False, quiet: Quiet = False, as_json: Json = False) -> None:
    del overwrite, quiet, as_json


# Options that several nouns share, as the functions that check them.
SHARED: dict[str, Callable[..., None]] = {
    "checkpoint": _check_saving,
    "engine": check_place,
    "plot": _plot,
    "": _end,
}


@dataclass
class Job:
    """One training, as the command line asks for it.

    `given` has the options that nouns share and those of estimators, by Python's names; the latter
    are None where they were not given, so that the estimator's own default holds.
    """

    noun: str
    command: typer.Context
    given: dict[str, Any]
    seconds: float = 0.0

    @property
    def saved(self) -> dict[str, Any]:
        """The checkpoint, as `fit` takes it."""
        return {name: self.given[name] for name in ("checkpoint", "resume")}

    @property
    def engine(self) -> Engine:
        """Where the work runs."""
        chosen: Engine = self.given["engine"]
        return chosen

    def settings(self, kind: str = "", why: str = "") -> dict[str, Any]:
        """The arguments of that estimator that were given.

        Options that it does not have are refused where the reason `why` is given.
        """
        kinds = estimators(self.noun)
        own = kinds[kind or self.noun]
        names = {name for rows in kinds.values() for name in rows}
        told = {name: self.given[name] for name in names if self.given.get(name) is not None}
        for name, value in told.items() if why else ():
            if name not in own:
                raise typer.BadParameter(f"{option_name(name)}: {why}")
            forms = own[name][0].split("|")
            if is_choice(forms) and str(value) not in forms:
                raise typer.BadParameter(f"{option_name(name)} {value} {why}")
        found: dict[str, Any] = {"n_jobs": -1} if self.noun in ALL_CORES else {}
        found |= {"verbose": not self.given["quiet"]} if "verbose" in own else {}
        given = {name: value for name, value in told.items() if name in own}
        return found | {name: None if own == "none" else own for name, own in given.items()}

    def only(self, kind: str) -> list[str]:
        """The arguments that no other estimator of the noun has."""
        others = [rows for name, rows in estimators(self.noun).items() if name != kind]
        own = estimators(self.noun)[kind]
        return [name for name in own if not any(name in rows for rows in others)]

    def refuse(self, reason: str, *names: str) -> None:
        """An error where one of these options was given."""
        refuse_idle(self.command, dict.fromkeys(names, reason))

    def fit(self, model: Any, *data: Any, **more: Any) -> Any:
        """The fitted model; the time it took is reported."""
        began = time.perf_counter()
        model.fit(*data, **more)
        self.seconds = time.perf_counter() - began
        return model

    @contextmanager
    def place(self, *, local: bool = True) -> Iterator[Executor | None]:
        """An executor of the cluster or, unless the estimator has its own, of local processes."""
        if self.engine is Engine.local and not local:
            yield None
        else:
            with place_to_run(self.engine, self.given["master"], self.given["n_jobs"]) as place:
                yield place


@dataclass(frozen=True)
class Learned:
    """A fitted model, and what is reported of it beside how training went.

    `facts` are for --json and the report; `size` and `source` are what people are told first, then
    `lines`.
    """

    model: Any
    facts: dict[str, Any]
    size: str
    lines: Sequence[str] = ()
    source: str = ""


def training_command(learn: Callable[..., Learned], shared: Sequence[str]) -> Callable[..., None]:
    """The command that trains a noun: `learn` makes a model of a job and of its own arguments.

    It has the options of `learn`, those of the estimators of that noun, and those `shared` groups
    that these can do: "checkpoint", "engine", "plot".
    """
    noun = learn.__name__
    _, *own = in_group("Data", parameters(learn))
    checks = [SHARED[name] for name in (*shared, "")]

    def command(command: typer.Context, output: Path, **given: Any) -> None:
        data = {part.name: given.pop(part.name) for part in own}
        for check in checks:
            check(**{part.name: given[part.name] for part in parameters(check)})
        job = Job(noun, command, as_arguments(noun, given))
        _report(job, learn(job, **data), output)

    files = [part for part in own if part.default is Parameter.empty]
    parts = [Parameter("command", Parameter.KEYWORD_ONLY, annotation=typer.Context), *files]
    parts += [Parameter("output", Parameter.KEYWORD_ONLY, annotation=Output)]
    parts += [part for part in own if part not in files] + generated(noun)
    for check in checks:
        group = "Output" if check in (_plot, _end) else "Running"
        known = {part.name for part in parts}
        parts += in_group(group, (own for own in parameters(check) if own.name not in known))
    command.__doc__ = learn.__doc__
    return with_options(command, parts)


def _report(job: Job, learned: Learned, output: Path) -> None:
    """Saves the model, draws and says what was asked for, and ends as the training ended."""
    model, given = learned.model, job.given
    model.save(output, overwrite=given["overwrite"] or given.get("resume", False))
    outcome = getattr(model, "outcome_", None)
    facts: dict[str, Any] = {"model": str(output), **learned.facts}
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
        drawn = describe(model).training()
        if drawn:
            keep(drawn[0].figure(), given["plot"])
        else:
            remark("no picture: training took no steps to draw a curve of.")
    facts["seconds"] = round(job.seconds, 4)
    write_report(model, output, facts, quiet=given["quiet"])
    if given["as_json"]:
        say_json(facts)
    else:
        by = f" by {facts['estimator']}" if "estimator" in facts else ""
        say(f"{output}: {learned.size}, learned{learned.source}{by} in {job.seconds:.2f} s")
        for line in lines:
            say(line)
    if outcome is not None and (outcome.failed or outcome.ending == "interrupted"):
        how = "failed" if outcome.failed else "was interrupted"
        remark(f"training {how}; the model that was saved is where it got to.")
        raise typer.Exit(1 if outcome.failed else INTERRUPTED)


def _learned_by(model: Any, *, quiet: bool) -> str:
    """The estimator that a model was trained by; of one chosen for it, it is said why."""
    choice = getattr(model, "choice_", None)
    if choice is None:
        return str(model.estimator)
    if not quiet:
        remark(f"--estimator auto: {choice.estimator}, since {choice.reason}")
    return str(choice.estimator)
