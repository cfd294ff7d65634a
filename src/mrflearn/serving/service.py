"""Questions to models: found, answered within bounds of number and time, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as TookTooLong
from http import HTTPStatus
from inspect import getdoc
from pathlib import Path
from threading import Semaphore
from typing import Any

from mrflearn.describe import describe, tasks_of
from mrflearn.describe.blocks import plain
from mrflearn.describe.description import Task
from mrflearn.errors import MrflearnError
from mrflearn.estimators.base import load
from mrflearn.serving.examples import explained


class RefusalError(Exception):
    """A question that is not answered: the status to send, the reason, and whether that passes."""

    def __init__(self, status: HTTPStatus, reason: str, *, passes: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.passes = passes


class Service:
    """The models by name, fitted ones or directories of saved ones, and the workers that ask them.

    Those that cannot be asked are in `refused`, with the reason.

    At most `workers` questions are under way, those that were given up on counted in, so that
    malformed requests cannot pile up work.  Each ends, as its task bounds what can be asked.
    """

    def __init__(self, models: Mapping[str, Any], seconds: float = 20.0, workers: int = 4) -> None:
        self.models: dict[str, Any] = {}
        self.seconds = seconds
        self.tasks: dict[str, dict[str, Task]] = {}
        self.refused: dict[str, str] = {}  # the models that cannot be asked, and why
        self._listed = []
        for name, own in models.items():
            try:
                model = load(own) if isinstance(own, str | Path) else own
                tasks = {task.name: task for task in tasks_of(model)}
                shown = [explained(task) for task in tasks.values()]  # asks for its examples
            except Exception as error:  # features may be made by a function of the user's
                known = isinstance(error, MrflearnError)
                self.refused[name] = str(error) if known else f"{type(error).__name__}: {error}"
                continue
            self.models[name], self.tasks[name] = model, tasks
            kind = {"kind": type(model).__name__, "about": str(getdoc(type(model))).split("\n")[0]}
            self._listed.append({"name": name, **kind, "tasks": shown})
        self._pool = ThreadPoolExecutor(workers)
        self._free = Semaphore(workers)
        self._work: set[Future[Any]] = set()

    def catalogue(self) -> dict[str, Any]:
        """The models and their tasks, as the page needs them, and those that cannot be asked."""
        return {"models": self._listed, "refused": self.refused}

    def answer(self, question: Any) -> dict[str, Any]:
        """The blocks of an answer; `RefusalError` where there is none."""
        task, text, options = self._task(question)
        blocks = self._result(lambda: [block.shown() for block in task(text, **options)])
        return {"blocks": [plain(own) for own in blocks if own]}

    def report(self, name: str) -> str:
        """All that there is to say of a model, as a page; `RefusalError` where there is none."""
        model = _entry(self.models, "model", name)
        return str(self._result(lambda: describe(model).page(name).html()))

    def _result(self, ask: Callable[[], Any]) -> Any:
        """What a worker finds in time."""
        if not self._free.acquire(blocking=False):
            reason = "too many questions at once; try again."
            raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, reason, passes=True)
        work = self._pool.submit(ask)
        self._work.add(work)
        work.add_done_callback(self._release)
        try:
            return work.result(timeout=self.seconds)
        except TookTooLong as error:
            reason = f"no answer after {self.seconds:g} s; ask for less, or allow more seconds."
            raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, reason) from error
        except MrflearnError as error:
            raise RefusalError(HTTPStatus.BAD_REQUEST, str(error)) from error
        except Exception as error:  # a fault of ours: the page says so, and the server goes on
            reason = f"the answer failed ({type(error).__name__}: {error})."
            raise RefusalError(HTTPStatus.INTERNAL_SERVER_ERROR, reason) from error

    def wait(self, seconds: float) -> bool:
        """Whether the questions under way, those given up on among them, end within this time."""
        return not wait(self._work, seconds).not_done

    def _release(self, work: Future[Any]) -> None:
        self._work.discard(work)
        self._free.release()

    def _task(self, question: Any) -> tuple[Task, str, dict[str, Any]]:
        match {"options": {}, **question} if isinstance(question, dict) else question:
            case {"model": str(name), "task": str(task), "text": str(text), "options": dict(given)}:
                return _entry(_entry(self.tasks, "model", name), "task", task), text, given
        reason = 'a question is {"model": ..., "task": ..., "text": ..., "options": {...}}.'
        raise RefusalError(HTTPStatus.BAD_REQUEST, reason)


def _entry(known: Mapping[str, Any], what: str, name: str) -> Any:
    if name not in known:
        reason = f"there is no {what} '{name}'; there are {', '.join(known)}."
        raise RefusalError(HTTPStatus.NOT_FOUND, reason)
    return known[name]
