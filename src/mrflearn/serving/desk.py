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
    """A question that is not answered: the status to send, the reason, and when to ask again."""

    def __init__(self, status: HTTPStatus, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after = retry_after  # seconds


class Desk:
    """The models by name, and the workers that ask them.

    At most `workers` questions are under way, those that were given up on counted in, so that
    junk cannot pile up work.  Each ends, as its task bounds what can be asked.
    """

    def __init__(self, models: Mapping[str, Any], seconds: float = 20.0, workers: int = 4) -> None:
        self.models = models
        self.seconds = seconds
        self.tasks = {
            name: {task.name: task for task in _tasks(name, model)}
            for name, model in models.items()
        }
        self._pool = ThreadPoolExecutor(workers)
        self._free = Semaphore(workers)
        self._work: set[Future[Any]] = set()

    def catalogue(self) -> dict[str, Any]:
        """The models and their tasks, as the page needs them."""
        return {
            "models": [
                {
                    "name": name,
                    "kind": type(self.models[name]).__name__,
                    "tasks": [
                        {
                            "name": task.name,
                            "hint": task.hint,
                            "example": task.example,
                            "most_words": task.most,
                        }
                        for task in tasks.values()
                    ],
                }
                for name, tasks in self.tasks.items()
            ]
        }

    def answer(self, question: Any) -> dict[str, Any]:
        """The blocks of an answer; `RefusalError` where there is none."""
        task, text = self._task(question)
        if not self._free.acquire(blocking=False):
            raise RefusalError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too many questions at once; try again.",
                retry_after=1,
            )
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
        wanted = ("model", "task", "text")
        if not isinstance(question, dict) or any(
            not isinstance(question.get(name), str) for name in wanted
        ):
            raise RefusalError(
                HTTPStatus.BAD_REQUEST, 'a question is {"model": ..., "task": ..., "text": ...}.'
            )
        tasks = self.tasks.get(question["model"])
        if tasks is None:
            known = ", ".join(self.tasks)
            reason = f"there is no model '{question['model']}'; there are {known}."
            raise RefusalError(HTTPStatus.NOT_FOUND, reason)
        task = tasks.get(question["task"])
        if task is None:
            reason = f"there is no task '{question['task']}'; there are {', '.join(tasks)}."
            raise RefusalError(HTTPStatus.NOT_FOUND, reason)
        return task, question["text"]


def _tasks(name: str, model: Any) -> list[Task]:
    """The tasks of a model; an error that names it where it has none."""
    try:
        return tasks_of(model)
    except MrflearnError as error:
        raise SettingsError(f"model '{name}' cannot be served: {error}") from error
