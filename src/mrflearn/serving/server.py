"""A small HTTP server for this machine's own browser: one page, and questions as JSON.

    GET /         the page
    GET /models   the models and what each can be asked
    GET /report   all that there is to say of a model: /report?model=NAME
    POST /ask     {"model": name, "task": name, "text": question} -> {"blocks": [...]}

`"options"` of a question, such as `{"n": 3}`, are those that /models lists.

Whatever cannot be answered gets a 4xx or a 503 and a JSON object {"error": reason}.

A page of another site must not ask: requests name this server in `Host`, questions are JSON by
their `Content-Type`, which browsers send elsewhere by leave only, and an `Origin` is this server's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from ipaddress import ip_address
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from mrflearn.errors import SettingsError
from mrflearn.serving.service import RefusalError, Service

ENDING = signal.SIGINT, signal.SIGTERM
SECONDS_TO_FINISH = 5.0  # for questions under way when it is ended
MOST_BYTES = 16_384
MOST_DIGITS = 12  # of a request's length; Python refuses to read very long numbers
SECONDS_TO_SEND = 10  # for a browser to send its question
# host:port, an IPv6 address being in brackets; the port is 80 where there is none.
AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
# The page brings its own style and script and may load nothing else.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:"
)
SAFE = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}


class Server(ThreadingHTTPServer):
    """A thread for each request; `server_close` waits for those under way."""

    daemon_threads = False
    request_queue_size = 128  # connections that wait to be accepted

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing where a client has left; else the traceback, as it is a fault of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def make_server(service: Service, host: str, port: int) -> Server:
    """A server that is bound and waits for `serve_forever`; port 0 takes any free one."""
    page = files("mrflearn.serving").joinpath("page.html").read_bytes()
    own = {"service": service, "page": page, "loopback": _is_loopback(host)}
    try:
        return Server(host, port, type("Handler", (_Handler,), own))
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror}. Try another --port."
        raise SettingsError(problem) from error


def serve_until_ended(server: Server, service: Service, ended: Callable[[], None]) -> None:
    """Answers until SIGINT or SIGTERM; questions under way get a few seconds more."""

    def stop(*_: object) -> None:
        """Ends the loop between two requests: an exception could cut off the one it hands over."""
        for number in ENDING:
            signal.signal(number, signal.default_int_handler)  # the second time, at once
        Thread(target=server.shutdown, daemon=True).start()

    for number in ENDING:
        signal.signal(number, stop)
    try:
        server.serve_forever(poll_interval=0.1)
        finished = service.wait(SECONDS_TO_FINISH)
        ended()
        if not finished:  # a question that was given up on would hold the interpreter's exit
            sys.stderr.flush()
            os._exit(0)
    finally:
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = SECONDS_TO_SEND
    server_version = "mrflearn"
    sys_version = ""

    service: ClassVar[Service]
    page: ClassVar[bytes]
    loopback: ClassVar[bool]

    def do_GET(self) -> None:
        self._reply(self._read)

    def do_POST(self) -> None:
        self._reply(self._ask)

    def _reply(self, find: Callable[[], Any]) -> None:
        """Sends the page or the object that is found, or why there is none."""
        status, headers = HTTPStatus.OK, dict(SAFE)
        try:
            found = find()
        except RefusalError as refusal:
            status, found = refusal.status, {"error": str(refusal)}
            headers |= {"Retry-After": "1"} if refusal.passes else {}
        kind = "text/html" if isinstance(found, bytes) else "application/json"
        # JSON in ASCII: a question may hold half a character.
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        headers |= {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _read(self) -> Any:
        self._check_host()
        place = urlsplit(self.path)
        match place.path:
            case "/":
                return self.page
            case "/report":
                return self.service.report(dict(parse_qsl(place.query)).get("model", "")).encode()
            case "/models":
                return self.service.catalogue()
            case "/ask":
                raise RefusalError(HTTPStatus.METHOD_NOT_ALLOWED, "questions are sent by POST.")
        raise RefusalError(HTTPStatus.NOT_FOUND, "there are /, /models, /report and /ask.")

    def _ask(self) -> Any:
        body = self._body()  # before any refusal: a reply that leaves it unread may be lost
        self._check_host()
        self._check_origin()
        if self.path != "/ask":
            raise RefusalError(HTTPStatus.NOT_FOUND, "questions go to /ask.")
        if self.headers.get_content_type() != "application/json":
            reason = "a question's Content-Type is application/json."
            raise RefusalError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, reason)
        try:
            question = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RefusalError(HTTPStatus.BAD_REQUEST, "the question is not JSON.") from error
        return self.service.answer(question)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise RefusalError(HTTPStatus.LENGTH_REQUIRED, "the request does not say its length.")
        if len(length) > MOST_DIGITS or int(length) > MOST_BYTES:
            reason = f"{length[:MOST_DIGITS]} bytes; a question has at most {MOST_BYTES}."
            raise RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        return self.rfile.read(int(length))

    def _check_host(self) -> None:
        """The request is for this server: on loopback, by a name of this machine and the port.

        Another site's page could otherwise reach a server on loopback under a name of its own.
        """
        hosts = self.headers.get_all("Host", [])
        name, port = _authority(hosts[0] if len(hosts) == 1 else "")
        own = self.server.server_address[1]  # type: ignore[index]  # of a socket of IP
        if name is None or (self.loopback and (port != own or not _is_loopback(name))):
            asked = ", ".join(hosts) or "no host"
            reason = f"the request is for {asked}; this server is localhost:{own}."
            raise RefusalError(HTTPStatus.FORBIDDEN, reason)

    def _check_origin(self) -> None:
        """The page that asks, where the browser names it, came from this server."""
        for origin in self.headers.get_all("Origin", []):
            scheme, _, authority = origin.partition("://")
            same = _authority(authority, scheme) == _authority(self.headers["Host"], scheme)
            if scheme not in ("http", "https") or not same:
                raise RefusalError(HTTPStatus.FORBIDDEN, f"a page of {origin} may not ask here.")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        """Nothing: what is asked is the asker's own business."""


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _authority(text: str, scheme: str = "http") -> tuple[str | None, int]:
    """The host and the port of `host:port`; no host where it is not of this form."""
    found = AUTHORITY.fullmatch(text)
    if found is None:
        return None, 0
    usual = 443 if scheme == "https" else 80
    return (found[1] or found[2]).lower(), int(found[3] or usual)
