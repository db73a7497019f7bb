"""Judging in a process of its own, which can be killed.

A judge that raises, hangs or answers nonsense says nothing of the answer it was given. What then happens is the study's
setting (``grading.failures``): the run stops with a message, or the answer counts as broken, neither right nor wrong.
Where an answer can be such that comparing it never ends, the domain says so (`TimedTask`), and it counts as wrong.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from onelayer.config import Grading
from onelayer.errors import UserError
from onelayer.tasks.contract import Grade, Problem, Task, TimedTask

_SECONDS_TO_START = 120.0
_SECONDS_TO_END = 5.0


class GradingError(UserError):
    """A judge or a world failed, and the study's setting says that the run stops."""


def stop_unless_counted(settings: Grading, problem: Problem, reason: str, what: str) -> None:
    """Raise GradingError where the study's setting is to stop at a failure; ``what`` names what would be counted."""
    if settings.failures == "stop":
        raise GradingError(
            f"problem {problem.id}: {reason}; grading.failures: count would leave such {what} out and say how many"
            " there were"
        )


class Grader:
    """Judges answers by a task's own ``grade``, one worker process at a time; `close` ends it.

    Args:
        task: the domain; it goes to the worker, so it must be picklable.
        settings: the time limit of a judgement, and what its failure does.
    """

    def __init__(self, task: Task, settings: Grading) -> None:
        self._task = task
        self._settings = settings
        self._process: Any = None
        self._pipe: Connection | None = None

    def grade(self, answers: Sequence[tuple[Problem, str]]) -> list[Grade]:
        """Judge answers, in order.

        Raises GradingError where a judgement fails and the setting is to stop, and UserError where the judge says
        that it cannot work at all (a sandbox that does not start, say).
        """
        grades: list[Grade] = []
        while len(grades) < len(answers):
            pipe = self._started()
            pipe.send(answers[len(grades) :])
            while len(grades) < len(answers):
                found = self._next(pipe)
                if not isinstance(found, Grade):
                    stop_unless_counted(
                        self._settings, answers[len(grades)][0], f"judging an answer failed: {found}", "answers"
                    )
                    found = Grade(False, None, "broken")
                grades.append(found)
                if self._pipe is None:
                    break  # the worker is gone: the rest goes to a new one
        return grades

    def close(self) -> None:
        """End the worker."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def _started(self) -> Connection:
        if self._pipe is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs, self._task), daemon=False)
            self._process.start()
            theirs.close()
            if not (self._pipe.poll(_SECONDS_TO_START) and self._pipe.recv() == "ready"):
                self.close()
                raise GradingError(f"the judge's process did not start within {_SECONDS_TO_START:.0f} s")
        return self._pipe

    def _next(self, pipe: Connection) -> Grade | str:
        """The next judgement, or in words why there is none."""
        try:
            if not pipe.poll(self._settings.seconds):
                self.close()
                overdue = self._task.overdue if isinstance(self._task, TimedTask) else None
                return overdue or f"no judgement within {self._settings.seconds:g} s"
            found = pipe.recv()
        except (EOFError, OSError):
            self._process.join(_SECONDS_TO_END)  # its pipe closes a little before it has ended
            code = self._process.exitcode
            self.close()
            return f"the judge's process died (exit code {code})"
        if isinstance(found, UserError):
            self.close()
            raise found
        if isinstance(found, Grade) and isinstance(found.correct, bool):
            return found
        return found if isinstance(found, str) else f"expected a judgement of true or false, found {found!r}"


def _work(pipe: Connection, task: Task) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the run's to deal with; it then ends this process
    # So is a request to stop, which a scheduler may send to every process of a job. What this one starts takes it.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    if isinstance(task, TimedTask):
        task.get_ready()
    pipe.send("ready")
    while True:
        try:
            answers = pipe.recv()
        except (EOFError, OSError):
            return
        for problem, completion in answers:
            try:
                pipe.send(task.grade(problem, completion))
            except UserError as error:
                pipe.send(error)
            except Exception as error:
                pipe.send(f"{type(error).__name__}: {error}")
