"""`mrflearn serve`: a page on this machine to ask models questions on."""

from __future__ import annotations

import sys
from pathlib import Path

from mrflearn.cli.output import remark, say
from mrflearn.errors import SettingsError
from mrflearn.serving.server import make_server, serve_until_ended
from mrflearn.serving.service import Service


def serve(models: list[Path], host: str, port: int, seconds: float) -> None:
    """Show models on a web page: type text, see tags, gaps filled, neighbours, couplings."""
    names = [path.resolve().name for path in models]
    paths = {  # by the names of their folders, by paths where two have the same
        (name if names.count(name) == 1 else str(path)): path
        for name, path in zip(names, models, strict=True)
    }
    service = Service(paths, seconds)
    for name, reason in service.refused.items():
        remark(f"model '{name}' cannot be served: {reason}")
    if not service.tasks:
        raise SettingsError("none of the models can be served.")
    server = make_server(service, host, port)
    place = f"[{host}]" if ":" in host else host
    say(f"http://{place}:{server.server_address[1]}/ ({', '.join(service.tasks)}); Ctrl-C ends it.")
    sys.stdout.flush()
    serve_until_ended(server, service, lambda: remark("ended"))
