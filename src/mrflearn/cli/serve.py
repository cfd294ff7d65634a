"""`mrflearn serve`: a page on this machine to ask models questions on."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from mrflearn.cli.output import remark, say

SECONDS_TO_FINISH = 5.0  # for questions under way when it is ended


def serve(models: list[Path], host: str, port: int, seconds: float) -> None:
    """Show models on a web page: type text, see tags, gaps filled, neighbours, couplings."""
    from mrflearn.estimators.loading import load
    from mrflearn.serving.desk import Desk
    from mrflearn.serving.server import make_server

    names = [path.resolve().name for path in models]
    loaded = {  # by the names of their folders, by paths where two have the same
        (name if names.count(name) == 1 else str(path)): load(path)
        for name, path in zip(names, models, strict=True)
    }
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
