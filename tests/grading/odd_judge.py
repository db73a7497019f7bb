"""A judge that misbehaves on demand; apart from the tests, so that its process imports next to nothing."""

from __future__ import annotations

import os
import time
from typing import Any

from onelayer.errors import UserError
from onelayer.tasks.contract import Grade, Problem


class OddJudge:
    """Judges a number as right where it is even, and does what other answers say."""

    def splits(self) -> dict[str, Any]:
        return {}

    def grade(self, problem: Problem, completion: str) -> Grade:
        if completion == "raise":
            raise ValueError("what is this?")
        if completion == "hang":
            time.sleep(600)
        if completion == "die":
            os._exit(3)
        if completion == "nan":
            return Grade(float("nan"), "x")  # type: ignore[arg-type]
        if completion == "none":
            return None  # type: ignore[return-value]
        if completion == "no sandbox":
            raise UserError("the sandbox does not start")
        if completion == "pid":
            return Grade(True, str(os.getpid()))
        return Grade(int(completion) % 2 == 0, completion)


class TimedJudge(OddJudge):
    """The same judge, on answers whose overdue judgement counts as wrong; it says when it was made ready."""

    ready = False

    def get_ready(self) -> None:
        type(self).ready = True

    @property
    def overdue(self) -> Grade:
        return Grade(False, None, "timeout")

    def grade(self, problem: Problem, completion: str) -> Grade:
        return Grade(True, "ready") if completion == "ready" and self.ready else super().grade(problem, completion)
