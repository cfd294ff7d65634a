"""The command `mrflearn`: verbs, exit codes, and nothing else.

Exit code 0: done; 1: bad input, told in one line on standard error; 2: wrong usage.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

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
from mrflearn.cli.wording import in_own_words, options_of
from mrflearn.errors import MrflearnError

app = typer.Typer(
    name="mrflearn",
    help="Learn Markov random fields, and ask them questions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.add_typer(train.app, name="train")
app.command("score")(score.score)
app.command("evaluate")(evaluate.evaluate)
app.command("tag")(tag.tag)
app.command("sample")(sample.sample)
app.command("inspect")(inspect.inspect)
app.command("fill")(fill.fill)
app.command("neighbors")(neighbors.neighbors)
app.command("parse")(parse.parse)
app.command("next-word")(next_word.next_word)
app.command("serve")(serve.serve)
app.command("infer")(infer.infer)
app.command("count")(count.count)
app.command("convert")(convert.convert)


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


def main() -> None:
    """Runs the command line; every foreseen mistake ends in one line and exit code 1."""
    try:
        app()
    except MrflearnError as error:
        options = options_of(typer.main.get_command(app), sys.argv[1:])
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


def _is_shortage(error: RuntimeError) -> bool:
    """Whether torch found no memory, which it tells in words alone where there is no GPU."""
    return any(words in str(error) for words in ("can't allocate memory", "out of memory"))


if __name__ == "__main__":
    main()
