"""The command `mrflearn`: verbs, exit codes, and nothing else.

Exit code 0: done; 1: bad input or failed training, reported in one line on standard error; 2: wrong
usage; 130: interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any

import typer

from mrflearn import __version__
from mrflearn.cli.options import COMMANDS, add_command, command_parameters, training_parameters
from mrflearn.cli.output import remark
from mrflearn.describe.description import VERBS
from mrflearn.errors import MrflearnError, MrflearnWarning

# Settings that Python and the command line call by different names.
OTHERWISE = {"random_state": "--seed", "verbose": "--quiet"}
SETTING = re.compile(r"\b([a-z][a-z0-9_]*)=('[^']*'|\"[^\"]*\"|\.{3}|[\w+-]+(?:\.\w+)*)")


app = typer.Typer(
    name="mrflearn",
    help="Learn Markov random fields, and ask them questions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
train = typer.Typer(help="Learn a model from data.", no_args_is_help=True)
app.add_typer(train, name="train")
for noun, entry in COMMANDS["train"].items():
    add_command(train, noun, entry, training_parameters(noun), "train")
for name, entry in COMMANDS.items():
    if "help" in entry:
        module = "ask" if name in VERBS else name
        add_command(app, name, entry, command_parameters(name), module)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mrflearn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
        ),
    ] = False,
) -> None:
    """Learn Markov random fields, and ask them questions."""
    del version  # handled by its callback


@cache
def command_tree() -> Any:
    """All commands, in the order in which a newcomer needs them.

    They take longer to build than most of them to run.
    """
    tree: Any = typer.main.get_command(app)
    tree.commands = {name: tree.commands[name] for name in ("demo", "train")} | tree.commands
    return tree


def main() -> None:
    """Runs the command line; every foreseen mistake ends in one line and exit code 1."""
    try:
        with _warnings_as_remarks():
            command_tree()(prog_name="mrflearn")
    except MrflearnError as error:
        sys.stderr.write(f"mrflearn: {in_own_words(str(error), _options(sys.argv[1:]))}\n")
        sys.exit(1)
    except OSError as error:
        # Where the reader of our output (head, less) has gone, other tools say nothing more either.
        if error.errno == errno.ENOSPC:
            sys.stderr.write(f"mrflearn: the output cannot be written: {error.strerror}.\n")
        elif not isinstance(error, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        # Where there is no GPU, torch says in words alone that it found no memory.
        shortage = ("can't allocate memory", "out of memory")
        if not isinstance(error, MemoryError) and not any(own in str(error) for own in shortage):
            raise
        sys.stderr.write(
            "mrflearn: out of memory; try a smaller problem, or with infer a smaller --memory.\n"
        )
        sys.exit(1)


def in_own_words(message: str, options: Mapping[str, str]) -> str:
    """The message with `name='value'` as `--name value`, and `name=True` as `--name`.

    An option that turns something off, as `name=False` does, is named alone too.

    Names that are no options of the command stay as they are.
    """

    def renamed(found: re.Match[str]) -> str:
        option, value = options.get(found[1]), found[2].strip("'\"")
        if option is None:
            return found[0]
        return option if value in ("True", "False") else f"{option} {value}"

    return SETTING.sub(renamed, message)


def _options(words: list[str]) -> dict[str, str]:
    """Python's names for the options of the command that these words call, and the options."""
    command = command_tree()
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    options = [own for own in command.params if own.param_type_name == "option"]
    known = {own.opts[0] for own in options}
    named = {name.lstrip("-").replace("-", "_"): name for name in known}
    named |= {own.name: own.opts[0] for own in options}
    return named | {name: option for name, option in OTHERWISE.items() if option in known}


@contextmanager
def _warnings_as_remarks() -> Iterator[None]:
    """Each warning of the library becomes one line on standard error, shown once."""
    shown: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", MrflearnWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, MrflearnWarning):
                others(message, category, *place)
            elif str(message) not in shown:
                shown.add(str(message))
                remark(in_own_words(str(message), _options(sys.argv[1:])))

        warnings.showwarning = show  # type: ignore[assignment]
        yield
