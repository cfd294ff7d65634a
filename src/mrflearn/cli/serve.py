"""`mrflearn serve`: a page on this machine to ask models questions on."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Thread

from mrflearn.cli.output import remark, say
from mrflearn.errors import SettingsError
from mrflearn.serving.server import make_server
from mrflearn.serving.service import Service

ENDING = signal.SIGINT, signal.SIGTERM
SECONDS_TO_FINISH = 5.0  # for questions under way when it is ended


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

    def stop(*_: object) -> None:
        """Ends the loop between two requests: an exception could cut off the one it hands over."""
        for number in ENDING:
            signal.signal(number, signal.default_int_handler)  # the second time, at once
        Thread(target=server.shutdown, daemon=True).start()

    for number in ENDING:
        signal.signal(number, stop)
    place = f"[{host}]" if ":" in host else host
    say(f"http://{place}:{server.server_address[1]}/ ({', '.join(service.tasks)}); Ctrl-C ends it.")
    sys.stdout.flush()
    try:
        server.serve_forever(poll_interval=0.1)
        finished = service.wait(SECONDS_TO_FINISH)
        remark("ended")
        if not finished:  # a question that was given up on would hold the interpreter's exit
            sys.stderr.flush()
            os._exit(0)
    finally:
        server.server_close()
