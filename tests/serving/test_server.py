"""The server by plain HTTP: answers are the models' own, and junk gets a 4xx with a reason."""

from __future__ import annotations

import http.client
import json
import select
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn import CRF, WordVectors
from mrflearn.describe import tasks_of
from mrflearn.describe.description import Task
from mrflearn.errors import DataError, MrflearnError
from mrflearn.serving.examples import explained
from mrflearn.serving.server import MOST_BYTES, make_server
from mrflearn.serving.service import RefusalError, Service

JSON = {"Content-Type": "application/json"}


def request(
    address: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, Any]:
    place = urlsplit(address)
    link = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    try:
        link.request(method, path, body, headers)
        reply = link.getresponse()
        content = reply.read()
    finally:
        link.close()
    kind = reply.headers.get_content_type()
    return reply.status, json.loads(content) if kind == "application/json" else content.decode()


def ask(address: str, model: str, task: str, text: str, **options: Any) -> tuple[int, Any]:
    question = {"model": model, "task": task, "text": text, "options": options}
    return request(address, "POST", "/ask", json.dumps(question).encode(), **JSON)


def test_the_page_brings_all_it_needs(address: str) -> None:
    status, page = request(address, "GET", "/")
    assert status == 200
    assert "<title>mrflearn</title>" in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_catalogue_names_models_and_questions(address: str) -> None:
    status, found = request(address, "GET", "/models")
    asked = {model["name"]: [task["name"] for task in model["tasks"]] for model in found["models"]}
    assert status == 200
    assert asked == {
        "tagger": ["tag"],
        "layers": ["tag"],
        "skips": ["tag"],
        "hidden": ["tag"],
        "joint": ["tag"],
        "composite": ["parse", "next word", "topics"],
        "words": ["fill", "neighbors"],
        "vectors": ["neighbors", "analogy"],
        "ngrams": ["next word", "score"],
        "grid": ["marginals", "best", "couplings", "samples"],
    }


def test_every_example_has_an_answer(address: str) -> None:
    for model in request(address, "GET", "/models")[1]["models"]:
        for task in model["tasks"]:
            for example in task["examples"] or [""]:
                status, answer = ask(address, model["name"], task["name"], example)
                assert status == 200, answer
                assert answer["blocks"]


def test_tags_are_the_models_own(address: str, models: dict[str, Any]) -> None:
    _, answer = ask(address, "tagger", "tag", "the cat barks")
    tokens = answer["blocks"][0]
    words = ["the", "cat", "barks"]
    assert tokens["rows"] == [[word] for word in words]
    assert tokens["layers"] == [models["tagger"].predict_single(words)]
    (chances,) = tokens["marginals"]
    for own, wanted in zip(chances, models["tagger"].predict_marginals_single(words), strict=True):
        assert own == pytest.approx(wanted)


def test_gaps_are_filled_as_the_model_fills_them(address: str, models: dict[str, Any]) -> None:
    _, answer = ask(address, "words", "fill", "the _ barks")
    filled = models["words"].fill(["the", "_", "barks"], 11)
    wanted = [pair for pair in filled if pair[0] != "<unk>"][:10]
    assert answer["blocks"][0]["rows"] == [[word, pytest.approx(p)] for word, p in wanted]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"junk", 400),
        (b"[1, 2]", 400),
        (b'{"model": "tagger"}', 400),
        (b'{"model": "tagger", "task": "tag", "text": 5}', 400),
        (b"[" * 9_000, 400),
        (b'{"model": "nobody", "task": "tag", "text": "a"}', 404),
        (b'{"model": "tagger", "task": "sing", "text": "a"}', 404),
        (b'{"model": "tagger", "task": "tag", "text": "  "}', 400),
        (b'{"model": "words", "task": "fill", "text": "no gap"}', 400),
        (b'{"model": "words", "task": "neighbors", "text": "neverseen"}', 400),
        (b'{"model": "vectors", "task": "analogy", "text": "the dog"}', 400),
        (b'{"model": "grid", "task": "samples", "text": "many"}', 400),
        (b'{"model": "grid", "task": "samples", "text": "", "options": {"n": 1000000}}', 400),
        (b'{"model": "grid", "task": "samples", "text": "", "options": {"n": "3"}}', 400),
        (b'{"model": "grid", "task": "samples", "text": "", "options": {"self": 3}}', 400),
        (b'{"model": "grid", "task": "samples", "text": "", "options": [3]}', 400),
    ],
)
def test_junk_gets_a_reason(address: str, body: bytes, status: int) -> None:
    found, answer = request(address, "POST", "/ask", body, **JSON)
    assert found == status
    assert answer["error"]


def test_what_is_too_large_is_not_read(address: str) -> None:
    status, answer = request(address, "POST", "/ask", b"x" * (MOST_BYTES + 1))
    assert status == 413
    assert str(MOST_BYTES) in answer["error"]


@pytest.mark.parametrize(("length", "status"), [("9" * 5_000, 413), ("\u00b2", 411), ("-1", 411)])
def test_lengths_that_are_none_are_refused(address: str, length: str, status: int) -> None:
    found, answer = request(address, "POST", "/ask", None, **{"Content-Length": length})
    assert found == status
    assert answer["error"]


def test_half_a_character_is_answered(address: str) -> None:
    assert ask(address, "tagger", "tag", "\ud800 dog")[0] == 200


def test_an_answer_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("fall", "", lambda words: [{}][len(words)], most=1)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr("mrflearn.serving.service.tasks_of", lambda model: [task])
    with pytest.raises(RefusalError, match="the answer failed") as refusal:
        Service({"m": None}).answer({"model": "m", "task": "fall", "text": "long"})
    assert refusal.value.status == 500


def test_other_paths_and_methods(address: str) -> None:
    assert request(address, "GET", "/etc/passwd")[0] == 404
    assert request(address, "GET", "/ask")[0] == 405
    assert request(address, "POST", "/", b"{}")[0] == 404
    assert request(address, "PUT", "/ask", b"{}")[0] == 501


def test_other_names_do_not_reach_loopback(address: str) -> None:
    port = urlsplit(address).port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert request(address, "GET", "/models", Host=host)[0] == 200
    elsewhere = (
        "evil.example",
        f"evil.example:{port}",
        "localhost:80@evil",
        f"localhost:{port}@evil",
    )
    odd = ("", "localhost", "localhost:1", f"a@localhost:{port}", f"localhost:{port}:{port}")
    odd += (f"::1:{port}", f"[localhost]:{port}", f"localhost:{port}, evil.example", "[::1")
    for host in (*elsewhere, *odd):
        assert request(address, "GET", "/models", Host=host)[0] == 403, host


def test_other_sites_may_not_ask(address: str) -> None:
    body = json.dumps({"model": "ngrams", "task": "score", "text": "the"}).encode()
    port = urlsplit(address).port
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{port}.evil",
        "http://127.0.0.1",
    ):
        assert request(address, "POST", "/ask", body, Origin=origin, **JSON)[0] == 403, origin
    assert request(address, "POST", "/ask", body, Origin=address, **JSON)[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_questions_that_are_not_declared_as_json_are_refused(
    address: str, kind: str | None
) -> None:
    body = json.dumps({"model": "ngrams", "task": "score", "text": "the"}).encode()
    headers = {} if kind is None else {"Content-Type": kind}
    assert request(address, "POST", "/ask", body, **headers)[0] == 415


def test_every_task_bounds_its_questions(models: dict[str, Any]) -> None:
    for model in models.values():
        for task in tasks_of(model):
            with pytest.raises(DataError, match=str(task.most)):
                task(" ".join(["the"] * (task.most + 1)))
            if task.most > 1:  # else its example is as long as can be
                example = explained(task)["examples"][0].split()
                more = cycle([word for word in example if word != "_"])
                example += islice(more, task.most - len(example))
                assert task(" ".join(example)), task.name


def test_many_at_once_are_answered_or_put_off(address: str) -> None:
    def one(number: int) -> int:
        return ask(address, "ngrams", "score", "the dog")[0]

    with ThreadPoolExecutor(50) as clients:
        assert set(clients.map(one, range(50))) <= {200, 503}


def test_connections_that_come_at_once_wait_to_be_accepted(models: dict[str, Any]) -> None:
    server = make_server(Service({"ngrams": models["ngrams"]}), "127.0.0.1", 0)
    links = [socket.socket() for _ in range(50)]
    try:
        for link in links:  # nobody accepts them yet
            link.setblocking(False)
            link.connect_ex(server.server_address)
        _, ready, _ = select.select([], links, [], 5)
        until = time.monotonic() + 10
        while len(ready) < len(links) and time.monotonic() < until:
            _, ready, _ = select.select([], links, [], 0.1)
            time.sleep(0.01)
        assert len(ready) == len(links)
    finally:
        for link in links:
            link.close()
        server.server_close()


def test_nothing_is_said_where_a_client_leaves(capfd: pytest.CaptureFixture[str]) -> None:
    class Big(Task):
        def __call__(self, text: str) -> list[dict[str, Any]]:
            return [{"kind": "note", "text": "x" * 10_000_000}]

    service = Service({})
    service.tasks = {"big": {"big": Big("big", "", lambda words: [], most=1)}}
    server = make_server(service, "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    body = json.dumps({"model": "big", "task": "big", "text": "a"})
    head = f"POST /ask HTTP/1.0\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
    for _ in range(3):
        link = socket.create_connection((host, port))
        # Closing with a linger of 0 resets the connection, as a browser's closed tab does.
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        link.recv(1)
        link.close()
    server.shutdown()
    server.server_close()  # waits for the threads
    thread.join()
    assert capfd.readouterr().err == ""


def test_a_server_on_ipv6(models: dict[str, Any]) -> None:
    try:
        server = make_server(Service({"ngrams": models["ngrams"]}), "::1", 0)
    except MrflearnError as error:
        pytest.skip(f"no IPv6 here: {error}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://[::1]:{server.server_address[1]}"
    assert ask(address, "ngrams", "score", "the")[0] == 200
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_model_that_cannot_be_served_is_named(models: dict[str, Any]) -> None:
    unsuitable = CRF().fit([[["a"], ["b"]]], [["x", "y"]])
    service = Service({"first": models["ngrams"], "second": unsuitable})
    assert [model["name"] for model in service.catalogue()["models"]] == ["first"]
    assert "trained on features" in service.catalogue()["refused"]["second"]


@given(st.text(max_size=40))
def test_any_text_is_answered_or_refused(address: str, text: str) -> None:
    for model, task in (("tagger", "tag"), ("words", "fill"), ("grid", "couplings")):
        status, answer = ask(address, model, task, text)
        assert status in (200, 400)
        assert answer.keys() == ({"blocks"} if status == 200 else {"error"})


class Slow:
    """Stands in for a model whose answers wait to be let go."""

    def __init__(self) -> None:
        self.go = Event()

    def answer(self) -> list[dict[str, Any]]:
        self.go.wait(30)
        return []


def test_a_slow_answer_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    task = Task("wait", "", slow.answer, most=0)
    monkeypatch.setattr("mrflearn.serving.service.tasks_of", lambda model: [task])
    service = Service({"slow": slow}, seconds=0.05, workers=1)
    question = {"model": "slow", "task": "wait", "text": ""}
    with pytest.raises(RefusalError, match=r"no answer after 0\.05 s"):
        service.answer(question)
    assert not service.wait(0)
    with pytest.raises(RefusalError, match="too many questions") as refusal:
        service.answer(question)
    assert refusal.value.passes
    slow.go.set()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            assert service.answer(question) == {"blocks": []}
            return
        except RefusalError:
            time.sleep(0.01)
    pytest.fail("the service never became free again")


def test_models_without_a_page_are_named() -> None:
    with pytest.raises(MrflearnError, match="no page for a Slow"):
        tasks_of(Slow())


def test_a_taken_port_is_told(address: str, models: dict[str, Any]) -> None:
    port = urlsplit(address).port or 0
    with pytest.raises(MrflearnError, match="Try another --port"):
        make_server(Service({}), "127.0.0.1", port)


def test_examples_are_words_of_the_model_however_few() -> None:
    for task in tasks_of(WordVectors(1, 1).fit([["8", "9"], ["9", "8"]])):
        (example,) = explained(task)["examples"]
        assert set(example.split()) <= {"8", "9"}
        assert task(example)
