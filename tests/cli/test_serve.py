"""`mrflearn serve`: from model directories to a page, and Ctrl-C."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from mrflearn import CRF, NgramLanguageModel
from support.command import run


def test_models_are_served_until_ctrl_c(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        NgramLanguageModel(2).fit([["a", "b"], ["b"]]).save(tmp_path / folder / "model")
    CRF().fit([[["a"], ["b"]]], [["x", "y"]]).save(tmp_path / "features")
    paths = [str(tmp_path / folder / "model") for folder in ("one", "two")]
    unsuitable = str(tmp_path / "features")
    command = [sys.executable, "-m", "mrflearn", "serve", unsuitable, *paths, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        line = job.stdout.readline()
        address = line.split()[0]
        assert all(path in line for path in paths)  # two folders of one name: whole paths
        with urlopen(address) as reply:
            assert b"mrflearn" in reply.read()
        job.send_signal(signal.SIGINT)
        _, remarks = job.communicate(timeout=30)
    assert job.returncode == 0
    assert "model 'features' cannot be served: " in remarks  # and the others are
    assert "ended" in remarks
    assert "Traceback" not in remarks


SLOW = """
import socketserver, sys, time
from pathlib import Path
from mrflearn.cli import serve
from mrflearn.serving import server, service
from mrflearn.describe.description import Task

def answer():
    print("begun", flush=True)
    time.sleep(float(sys.argv[2]))
    return []

hand_over = socketserver.ThreadingMixIn.process_request

def slowly(server, *request):  # the signal comes while the request is handed over
    hand_over(server, *request)
    time.sleep(0.5)

socketserver.ThreadingMixIn.process_request = slowly
service.tasks_of = lambda model: [Task("wait", "", answer, most=0)]
server.SECONDS_TO_FINISH = float(sys.argv[3])
serve.serve([Path(sys.argv[1])], "127.0.0.1", 0, 20.0)
"""


@pytest.mark.parametrize(("takes", "grace", "answered"), [(0.5, 30.0, True), (60.0, 0.1, False)])
def test_questions_under_way_are_answered_or_abandoned(
    tmp_path: Path, takes: float, grace: float, answered: bool
) -> None:
    NgramLanguageModel(2).fit([["a", "b"], ["b"]]).save(tmp_path / "model")
    command = [sys.executable, "-c", SLOW, str(tmp_path / "model"), str(takes), str(grace)]
    body = json.dumps({"model": "model", "task": "wait", "text": ""}).encode()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        place = urlsplit(job.stdout.readline().split()[0])
        link = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        link.request("POST", "/ask", body, {"Content-Type": "application/json"})
        assert job.stdout.readline() == "begun\n"
        job.send_signal(signal.SIGTERM)
        if answered:
            assert link.getresponse().status == 200
        _, remarks = job.communicate(timeout=30)
        link.close()
    assert job.returncode == 0
    assert "ended" in remarks
    assert "Traceback" not in remarks


def test_nothing_is_served_where_no_model_is_suitable(tmp_path: Path) -> None:
    CRF().fit([[["a"], ["b"]]], [["x", "y"]]).save(tmp_path / "features")
    result = run("serve", str(tmp_path / "features"))
    assert result.code == 1
    assert "'features'" in result.err


def test_a_missing_model_is_told(tmp_path: Path) -> None:
    result = run("serve", str(tmp_path / "nothing"))
    assert result.code == 1
    assert "nothing" in result.err
