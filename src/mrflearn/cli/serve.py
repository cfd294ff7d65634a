"""`mrflearn serve`: a page on this machine to ask models questions on."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import remark, say
from mrflearn.cli.inputs import model_argument

SECONDS_TO_FINISH = 5.0  # for questions under way when it is ended


def serve(
    models: Annotated[list[Path], model_argument("Model directories.")],
    host: Annotated[
        str, typer.Option(help="Where to listen; the default is reached from this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Give up on a question after so long.")
    ] = 20.0,
) -> None:
    """Show models on a web page: type text, see tags, gaps filled, neighbours, couplings.

    Nothing is loaded from elsewhere.  Ctrl-C or SIGTERM ends it, with exit code 0: questions under
    way get a few seconds more.

    Example: mrflearn serve chunker lm-model
    """
    from mrflearn.serving.desk import Desk
    from mrflearn.serving.server import make_server

    loaded = _load_all(models)
    desk = Desk(loaded, seconds)
    server = make_server(desk, host, port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    place = f"[{host}]" if ":" in host else host
    say(f"http://{place}:{server.server_address[1]}/ ({', '.join(loaded)}); Ctrl-C ends it.")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
        server.wait_for_requests(SECONDS_TO_FINISH)
        remark("ended")
        if not desk.idle:  # a question that was given up on would hold the interpreter's exit
            sys.stderr.flush()
            os._exit(0)
    finally:
        server.server_close()


def _load_all(paths: list[Path]) -> dict[str, Any]:
    """The models by the names of their folders, by whole paths where two have the same."""
    from mrflearn.estimators.loading import load

    names = [path.resolve().name for path in paths]
    return {
        (name if names.count(name) == 1 else str(path)): load(path)
        for name, path in zip(names, paths, strict=True)
    }
