"""Where questions are handed in: found, asked within bounds of number and time, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from http import HTTPStatus
from threading import Semaphore
from typing import Any

from mrflearn.describe import tasks_of
from mrflearn.describe.blocks import plain
from mrflearn.describe.description import Task
from mrflearn.errors import MrflearnError, SettingsError


class RefusalError(Exception):
    """A question that is not answered: the status to send, the reason, and whether that passes."""

    def __init__(self, status: HTTPStatus, reason: str, *, passes: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.passes = passes


class Desk:
    """The models by name, and the workers that ask them.

    At most `workers` questions are under way, those that were given up on counted in, so that
    malformed requests cannot pile up work.  Each ends, as its task bounds what can be asked.
    """

    def __init__(self, models: Mapping[str, Any], seconds: float = 20.0, workers: int = 4) -> None:
        self.models = models
        self.seconds = seconds
        self.tasks: dict[str, dict[str, Task]] = {}
        for name, model in models.items():
            try:
                self.tasks[name] = {task.name: task for task in tasks_of(model)}
            except MrflearnError as error:
                raise SettingsError(f"model '{name}' cannot be served: {error}") from error
        self._pool = ThreadPoolExecutor(workers)
        self._free = Semaphore(workers)
        self._work: set[Future[Any]] = set()

    def catalogue(self) -> dict[str, Any]:
        """The models and their tasks, as the page needs them."""
        listed = []
        for name, tasks in self.tasks.items():
            shown = [
                {"name": one.name, "hint": one.hint, "example": one.example, "most_words": one.most}
                for one in tasks.values()
            ]
            listed.append({"name": name, "kind": type(self.models[name]).__name__, "tasks": shown})
        return {"models": listed}

    def answer(self, question: Any) -> dict[str, Any]:
        """The blocks of an answer; `RefusalError` where there is none."""
        task, text = self._task(question)
        if not self._free.acquire(blocking=False):
            reason = "too many questions at once; try again."
            raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, reason, passes=True)
        work = self._pool.submit(task, text)
        self._work.add(work)
        work.add_done_callback(self._release)
        try:
            shown = (block.shown() for block in work.result(timeout=self.seconds))
            return {"blocks": [plain(own) for own in shown if own]}
        except TookTooLong as error:
            reason = f"no answer after {self.seconds:g} s; ask for less."
            raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, reason) from error
        except MrflearnError as error:
            raise RefusalError(HTTPStatus.BAD_REQUEST, str(error)) from error
        except Exception as error:  # a fault of ours: the page says so, and the server goes on
            reason = f"the answer failed ({type(error).__name__}: {error})."
            raise RefusalError(HTTPStatus.INTERNAL_SERVER_ERROR, reason) from error

    @property
    def idle(self) -> bool:
        """Whether no question is under way, nor one that was given up on."""
        return not self._work

    def _release(self, work: Future[Any]) -> None:
        self._work.discard(work)
        self._free.release()

    def _task(self, question: Any) -> tuple[Task, str]:
        match question:
            case {"model": str(model), "task": str(task), "text": str(text)}:
                tasks = _entry(self.tasks, "model", model)
                return _entry(tasks, "task", task), text
        reason = 'a question is {"model": ..., "task": ..., "text": ...}.'
        raise RefusalError(HTTPStatus.BAD_REQUEST, reason)


def _entry(known: Mapping[str, Any], what: str, name: str) -> Any:
    if name not in known:
        reason = f"there is no {what} '{name}'; there are {', '.join(known)}."
        raise RefusalError(HTTPStatus.NOT_FOUND, reason)
    return known[name]
