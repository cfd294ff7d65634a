"""A small HTTP server for this machine's own browser: one page, and questions as JSON.

    GET /         the page
    GET /models   the models and what each can be asked
    POST /ask     {"model": name, "task": name, "text": question} -> {"blocks": [...]}

Whatever cannot be answered gets a 4xx or a 503 and a JSON object {"error": reason}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from ipaddress import ip_address
from typing import Any, ClassVar

from mrflearn.errors import MrflearnError
from mrflearn.serving.desk import Desk, RefusalError

MOST_BYTES = 16_384
MOST_DIGITS = 12  # of a request's length; Python refuses to read very long numbers
SECONDS_TO_SEND = 10  # for a browser to send its question
# The page brings its own style and script and may load nothing else.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)


def make_server(desk: Desk, host: str, port: int) -> ThreadingHTTPServer:
    """A server that is bound and waits for `serve_forever`; port 0 takes any free one."""
    page = files("mrflearn.serving").joinpath("page.html").read_bytes()

    handler = type(
        "Handler", (_Handler,), {"desk": desk, "page": page, "loopback": _is_loopback(host)}
    )
    try:
        server = ThreadingHTTPServer((host, port), handler)
    except OSError as error:
        raise MrflearnError(
            f"cannot listen on {host}:{port}: {error.strerror}. Try another --port."
        ) from error
    server.daemon_threads = True
    return server


class _Handler(BaseHTTPRequestHandler):
    timeout = SECONDS_TO_SEND
    server_version = "mrflearn"
    sys_version = ""

    desk: ClassVar[Desk]
    page: ClassVar[bytes]
    loopback: ClassVar[bool]

    def do_GET(self) -> None:
        try:
            self._check_host()
            match self.path:
                case "/":
                    self._send(HTTPStatus.OK, self.page, "text/html; charset=utf-8")
                case "/models":
                    self._send_json(HTTPStatus.OK, self.desk.catalogue())
                case "/ask":
                    raise RefusalError(HTTPStatus.METHOD_NOT_ALLOWED, "questions are sent by POST.")
                case _:
                    raise RefusalError(HTTPStatus.NOT_FOUND, "there are /, /models and /ask.")
        except RefusalError as refusal:
            self._send_json(refusal.status, {"error": str(refusal)})

    def do_POST(self) -> None:
        try:
            self._check_host()
            if self.path != "/ask":
                raise RefusalError(HTTPStatus.NOT_FOUND, "questions go to /ask.")
            self._send_json(HTTPStatus.OK, self.desk.answer(self._question()))
        except RefusalError as refusal:
            self._send_json(refusal.status, {"error": str(refusal)})

    def _question(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise RefusalError(HTTPStatus.LENGTH_REQUIRED, "the request does not say its length.")
        if len(length) > MOST_DIGITS or int(length) > MOST_BYTES:
            self.close_connection = True
            reason = f"{length[:MOST_DIGITS]} bytes; a question has at most {MOST_BYTES}."
            raise RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise RefusalError(HTTPStatus.BAD_REQUEST, "the question is not JSON.") from error

    def _check_host(self) -> None:
        """Another site's page must not reach a server on loopback under a name of its own."""
        name = self.headers.get("Host", "").rsplit(":", 1)[0].strip("[]")
        if self.loopback and not _is_loopback(name):
            raise RefusalError(HTTPStatus.FORBIDDEN, f"this server is not {name or 'there'}.")

    def _send_json(self, status: HTTPStatus, answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode()  # ASCII: a question may hold half a character
        self._send(status, body, "application/json; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        """Nothing: what is asked is the asker's own business."""


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
