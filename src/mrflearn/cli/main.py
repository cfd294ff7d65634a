"""The command `mrflearn`: verbs, exit codes, and nothing else.

Exit code 0: done; 1: bad input or failed training, told in one line on standard error; 2: wrong
usage; 130: interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from mrflearn import __version__
from mrflearn.cli import (
    convert,
    count,
    demo,
    evaluate,
    fill,
    infer,
    inspect,
    neighbors,
    next_word,
    parse,
    sample,
    score,
    serve,
    tag,
    train,
)
from mrflearn.cli.answers import remark
from mrflearn.cli.wording import in_own_words, options_of
from mrflearn.errors import MrflearnError, MrflearnWarning


class Verbs(TyperGroup):
    """The commands in the order in which a newcomer needs them."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """`demo` and `train`, then what a trained model is asked, then the rest."""
        del ctx
        return sorted(self.commands, key=lambda name: name not in ("demo", "train"))


app = typer.Typer(
    name="mrflearn",
    cls=Verbs,
    help="Learn Markov random fields, and ask them questions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", short_help="See it all on built-in data, in half a minute.")(demo.demo)
app.add_typer(train.app, name="train")
app.command("tag", short_help="Label every token of a text.")(tag.tag)
app.command("fill", short_help="Find words for a gap in a sentence.")(fill.fill)
app.command("neighbors", short_help="Find the words nearest to a word.")(neighbors.neighbors)
app.command("next-word", short_help="Go on with a sentence.")(next_word.next_word)
app.command("parse", short_help="Draw trees over sentences.")(parse.parse)
app.command("sample", short_help="Draw new rows or sentences.")(sample.sample)
app.command("score", short_help="Say how probable data are.")(score.score)
app.command("evaluate", short_help="Compare answers with the truth.")(evaluate.evaluate)
app.command("inspect", short_help="Show what a model has learned.")(inspect.inspect)
app.command("serve", short_help="Show models on a web page.")(serve.serve)
app.command("infer", short_help="Find log Z and marginals of a network.")(infer.infer)
app.command("count", short_help="Count text once, to learn from again and again.")(count.count)
app.command("convert", short_help="Turn a file into another format.")(convert.convert)


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
def _command() -> Any:
    """The tree of commands, which takes longer to build than most of them to run."""
    return typer.main.get_command(app)


def main() -> None:
    """Runs the command line; every foreseen mistake ends in one line and exit code 1."""
    try:
        with _warnings_as_remarks():
            _command()()
    except MrflearnError as error:
        options = options_of(_command(), sys.argv[1:])
        sys.stderr.write(f"mrflearn: {in_own_words(str(error), options)}\n")
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; say nothing more, as other tools do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not _is_shortage(error):
            raise
        sys.stderr.write(
            "mrflearn: out of memory; try a smaller problem, or with infer a smaller --memory.\n"
        )
        sys.exit(1)


@contextmanager
def _warnings_as_remarks() -> Iterator[None]:
    """Each warning of the library becomes one line on standard error, shown once."""
    told: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", MrflearnWarning)
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, MrflearnWarning):
                others(message, category, filename, lineno, file, line)
            elif str(message) not in told:
                told.add(str(message))
                remark(str(message))

        warnings.showwarning = show
        yield


def _is_shortage(error: RuntimeError) -> bool:
    """Whether torch found no memory, which it tells in words alone where there is no GPU."""
    return any(words in str(error) for words in ("can't allocate memory", "out of memory"))


if __name__ == "__main__":
    main()
