"""Arguments, options and help of commands: rows of `commands.toml`, and arguments of estimators.

The latter stand in `options.json`, which `make options` writes from signatures and docstrings, so
that no estimator is imported before the files it is to learn from are known to be there.  The
module of a command is imported when it is run.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from mrflearn.errors import DataError, StorageError
from mrflearn.io.files import exists, url_of

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor

COMMANDS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
TABLE = Path(__file__).with_name("options.json")
# Heading, names and help of an option, and its form and default in each estimator that has it.
Row = tuple[str, list[str], str, dict[str, tuple[str, Any]]]
FORMS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str, "bool": bool}
WORDS = {"int": "whole number", "ints": "whole numbers", "float": "number", "floats": "numbers"}
SEVERAL = {"ints": "M,N,...", "floats": "X,Y,...", "strs": "A,B,..."}
RARE = ("min_count", "vocabulary_size")  # arguments that make words unknown
COUNTED = ("context", *RARE)  # arguments of models of counts
MOMENTS = ".moments"
PLACE = ("engine", "master", "n_jobs")
GROUPS = ("Arguments", "Options", "Data", "Output", "Model", "Optimisation", "Running")


def found(given: Any) -> Any:
    """The same path or paths; an error before any work is done where a file is missing."""
    for path in given if isinstance(given, list) else [given]:
        if path is not None and path != Path("-") and not exists(path):
            raise DataError(f"there is no such file.{_near(path)}", path=path)
    return given


def found_model(given: Any) -> Any:
    """The same path or paths; an error where one is not a model directory."""
    for path in given if isinstance(given, list) else [given]:
        if not path.is_dir():
            what = "is a file" if path.exists() else "does not exist"
            raise StorageError(
                f"{path} {what}; a model is a directory written by `save` or `train`.{_near(path)}"
            )
    return given


def _near(path: Path) -> str:
    """A similar name beside it, for whoever mistyped."""
    folder = path.parent
    beside = [entry.name for entry in folder.iterdir() if entry != path] if folder.is_dir() else []
    close = get_close_matches(path.name, beside, n=1)
    return f" Is {folder / close[0]} meant?" if close else ""


def _unused(context: typer.Context, path: Path) -> Path:
    from mrflearn.models.storage import check_target

    # Both are eager, so their values are known here; a resumed training is continued.
    replace = context.params.get("overwrite") or context.params.get("resume")
    check_target(path, overwrite=bool(replace))
    return path


def _picture(path: Path | None) -> Path | None:
    if path is not None:
        from mrflearn.plots.figure import check_picture

        check_picture(path)
    return path


def _cores(jobs: int | None) -> int | None:
    if jobs is not None and jobs < 1 and jobs != -1:
        raise typer.BadParameter(f"{jobs}: needs a positive number of cores, or -1 for all.")
    return jobs


def _moments(context: typer.Context, path: Path) -> Path:
    from mrflearn.io.files import check_folder

    if not holds_moments(path):
        raise typer.BadParameter(f"{path}: counts need a name in {MOMENTS}.")
    if path.exists() and not context.params["overwrite"]:
        raise StorageError(f"{path} exists. Choose another name, or replace it by --overwrite.")
    check_folder(path.parent, path)
    return path


# The type of a value, and what may refuse it.
KINDS: dict[str, tuple[Any, Callable[..., Any] | None]] = {
    "str": (str, None),
    "words": (list[str], None),
    "int": (int, None),
    "float": (float, None),
    "flag": (bool, None),
    "eager flag": (bool, None),
    "switch": (bool, None),  # None where it is not given
    "path": (Path, None),
    "file": (Path, found),
    "files": (list[Path], found),
    "model": (Path, found_model),
    "models": (list[Path], found_model),
    "new model": (Path, _unused),
    "picture": (Path, _picture),
    "moments": (Path, _moments),
    "cores": (int, _cores),
}


def _choice(name: str, words: str) -> Any:
    """A type whose values are the words of a|b|c; lower versions of Typer read no `Literal`."""
    enumeration: Any = StrEnum
    return enumeration(name, {word: word for word in words.split("|")})


def _parameter(
    name: str, row: Sequence[Any], heading: str | None, parser: Parser | None = None
) -> Parameter:
    """A row of `commands.toml` as a parameter that Typer reads; arguments have no heading.

    Texts of options that have a `parser` are read by it.
    """
    written, text, *more = row
    is_argument = heading is None
    usual = more[0] if more else ""
    needed = written.endswith("!") or (is_argument and not more)
    kind, _, bounds = written.rstrip("!]").partition("[")
    form, check = KINDS.get(kind) or (_choice(name, kind), None)
    default = False if "flag" in kind else None if usual == "" else form(usual)
    info: Any = typer.Argument(help=text, callback=check)
    if not is_argument:
        names = more[1].split() if len(more) > 1 else ["--" + name.replace("_", "-")]
        limits = zip(("min", "max"), bounds.split(","), strict=False)
        shown: dict[str, Any] = {end: form(limit) for end, limit in limits if limit}
        shown |= {"is_eager": kind.startswith("eager"), "rich_help_panel": heading}
        shown |= {"parser": parser, "metavar": parser.metavar} if parser else {}
        info = typer.Option(*names, help=text, callback=check, **shown)
    optional = default is None and not needed
    annotation: Any = Annotated[form | None if optional else form, info]
    default = Parameter.empty if needed else default
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _parameters(rows: Mapping[str, Sequence[Any]], heading: str | None) -> list[Parameter]:
    return [_parameter(name, row, heading) for name, row in rows.items()]


def option_rows(entry: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """The options of an entry, and those of others that it uses."""
    return {**entry.get("options", {}), **_shared(*entry.get("use", ()))}


def _shared(*names: str) -> dict[str, Sequence[Any]]:
    return {name: COMMANDS["shared"][name] for name in names}


def command_parameters(name: str) -> list[Parameter]:
    """The arguments and options of a command that trains nothing."""
    entry = COMMANDS[name]
    parts = _parameters(entry.get("arguments", {}), None)
    parts += _parameters(option_rows(entry), "Options")
    return parts + (generated("lm", COUNTED) if name == "count" else [])


def training_parameters(noun: str) -> list[Parameter]:
    """The arguments and options of `train NOUN`: its files, those of its estimators, and shared."""
    entry = COMMANDS["train"][noun]
    can = {"running": [], "output": []} | entry.get("can", {})
    return [
        *_parameters(entry["arguments"], None),
        *_parameters(_shared("output"), "Output"),
        *_parameters(option_rows(entry), "Data"),
        *generated(noun),
        *_parameters(_shared(*can["running"]), "Running"),
        *_parameters(_shared(*can["output"], "overwrite", "quiet", "as_json"), "Output"),
    ]


class Command(TyperCommand):
    """A command whose help shows options under headings; those that a named model reads."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments first, then each group of options."""
        from mrflearn.cli.ask import options_read

        reads = options_read(self.name or "", sys.argv[2:])
        usual = "Output" if self.name in COMMANDS["train"] else "Options"  # of --help
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
        for own in self.get_params(ctx):
            argument, record = own.param_type_name == "argument", own.get_help_record(ctx)
            if record is not None and (argument or reads is None or own.name in reads):
                heading = getattr(own, "rich_help_panel", None) or usual
                groups["Arguments" if argument else heading].append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def add_command(
    app: typer.Typer, name: str, entry: Mapping[str, Any], parts: Sequence[Parameter], module: str
) -> None:
    """Adds a command with these parameters to an app.

    It is run by the function of `mrflearn.cli.MODULE` that is called like the module, with values
    by name and with the context where it takes `ctx`; the values of choices are plain words.
    """

    def command(**given: Any) -> None:
        run = getattr(import_module(f"mrflearn.cli.{module}"), module)
        context = given.pop("ctx")
        given |= {"ctx": context} if "ctx" in signature(run).parameters else {}
        run(**{name: getattr(value, "value", value) for name, value in given.items()})

    context = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    command.__signature__ = Signature([context, *parts])  # type: ignore[attr-defined]
    command.__annotations__ = {part.name: part.annotation for part in (context, *parts)}
    app.command(name, cls=Command, help=entry["help"], short_help=entry["short"])(command)


def check_place(engine: str, master: str | None, n_jobs: int | None) -> None:
    """An error where the options that say where work runs contradict each other."""
    if engine == "local" and master is not None:
        raise typer.BadParameter("--master goes with --engine spark.")
    if engine == "spark" and master is None:
        raise typer.BadParameter(
            "--engine spark needs --master: spark://HOST:7077, or local[2] to try it out."
        )
    if engine == "spark" and n_jobs is not None:
        raise typer.BadParameter("--jobs: on Spark the cluster has its own cores.")


def place_to_run(
    engine: str, master: str | None, n_jobs: int | None
) -> AbstractContextManager[Executor]:
    """An executor until the block ends."""
    check_place(engine, master, n_jobs)
    if master is not None:
        from mrflearn.execution.spark import Spark

        return Spark(master)
    from mrflearn.execution.executor import executor_for

    return executor_for(n_jobs)


def shard_paths(paths: Sequence[Path], engine: str) -> list[Path]:
    """The paths as workers can read them: those of a cluster run in folders of their own."""
    return [path if url_of(path) or engine != "spark" else path.absolute() for path in paths]


def listed(words: str | None) -> list[str] | None:
    """The words between commas; None where there are none."""
    return words.split(",") if words else None


def picked(columns: str | None) -> list[str | int] | None:
    """The columns that a text names; None for all of them."""
    names = listed(columns) or []
    return [int(word) if word.isdigit() else word for word in names] or None


def holds_moments(path: Path) -> bool:
    """Whether the name says that the file holds counts."""
    return Path(path.name.removesuffix(".gz")).suffix == MOMENTS


def refuse_idle(context: typer.Context, reasons: Mapping[str, str]) -> None:
    """An error where one of these options was given, with the reason why it would do nothing."""
    for own in context.command.params:
        source = context.get_parameter_source(own.name or "")
        if source is not None and source.name == "COMMANDLINE" and own.name in reasons:
            raise typer.BadParameter(f"{own.opts[0]}: {reasons[own.name]}")


@cache
def of_estimators(noun: str) -> dict[str, Row]:
    """The options of all estimators that a noun trains, by Python's names."""
    table: dict[str, dict[str, Row]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table[noun]


def is_choice(form: str) -> bool:
    """Whether the form of an argument lists words to choose from, and no types."""
    return not any(own.removesuffix("s") in FORMS for own in form.split("|"))


def generated(noun: str, only: Iterable[str] = ()) -> list[Parameter]:
    """The options of all estimators that a noun trains, or some of them, as parameters.

    An option is None where it is not given: the estimator's own default holds then.
    """
    table, parts = of_estimators(noun), []
    for name in only or table:
        heading, names, text, kinds = table[name]
        forms = next(iter(kinds.values()))[0]
        read = "switch" if forms == "bool" else forms if is_choice(forms) else "str"
        parse = None if read != "str" else Parser(names[0], forms.split("|"))
        parts.append(_parameter(name, (read, text, "", " ".join(names)), heading, parse))
    return parts


def as_argument(form: str, default: Any, value: Any) -> Any:
    """The value of an option as the estimator takes it: flags, numbers among choices, none."""
    if form == "bool":
        return not default
    if value == "none":
        return None
    return int(value) if isinstance(default, int) and is_choice(form) else value


class Parser:
    """What turns the text of an option into the first of these forms that it has."""

    def __init__(self, option: str, forms: Sequence[str]) -> None:
        self.option, self.forms = option, forms
        self.__name__ = option  # click before 8.2 asks for it
        self.metavar = f"<{'|'.join(SEVERAL.get(own, own) for own in forms)}>"

    def __call__(self, text: str) -> Any:
        readers = {f: FORMS[own] for f in self.forms if (own := f.removesuffix("s")) in FORMS}
        if text in self.forms and text not in readers:  # a word, as it is
            return text
        for form, read in readers.items():
            try:
                values = [read(part) for part in (text.split(",") if form in SEVERAL else [text])]
            except ValueError:
                continue
            if self.option == "--jobs":
                _cores(values[0])
            elif any(not isinstance(value, str) and not value >= 0 for value in values):
                raise typer.BadParameter(f"{text}: not below 0.")
            return values if form in SEVERAL else values[0]
        known = " or ".join(WORDS.get(form, form) for form in self.forms)
        raise typer.BadParameter(f"{text!r} is no {known}.")
