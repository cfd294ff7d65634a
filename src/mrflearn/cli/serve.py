"""`mrflearn serve`: a page on this machine to ask models questions on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mrflearn.cli.answers import remark, say
from mrflearn.cli.inputs import model_argument


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

    Nothing is loaded from elsewhere.  Ctrl-C ends it.

    Example: mrflearn serve chunker lm-model
    """
    from mrflearn.serving.desk import Desk
    from mrflearn.serving.server import make_server

    loaded = _load_all(models)
    server = make_server(Desk(loaded, seconds), host, port)
    say(f"http://{host}:{server.server_address[1]}/ ({', '.join(loaded)}); Ctrl-C ends it.")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        remark("ended")
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
