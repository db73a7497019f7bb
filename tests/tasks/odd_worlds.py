"""Worlds that misbehave on demand, in a module of their own: a child process imports it, and should do so fast."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from onelayer.errors import UserError
from onelayer.tasks.contract import Outcome, Problem, View, WorldError

PROBLEM = Problem("p", "p", "")


@dataclass
class Odd:
    """A world that does what its action says."""

    turns: int = 0

    def reset(self, problem: Problem) -> View:
        self.turns = 0
        if problem.id == "missing":
            raise UserError("games.zip: not found")
        return View(f"begin {problem.id}", "start")

    def act(self, action: str) -> Outcome:
        self.turns += 1
        outcome = Outcome(View(f"turn {self.turns}", action), 1, self.turns == 3, False, True)
        match action:
            case "sleep":
                time.sleep(3600)
            case "raise":
                raise KeyError("no such room")
            case "world error":
                raise WorldError("the lamp broke")
            case "exit":
                sys.exit(7)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "abort":
                os.abort()
            case "not a view":
                return "hello"  # type: ignore[return-value]
            case "not to be sent":
                return lambda: None  # type: ignore[return-value]
            case "child":
                subprocess.Popen(["sleep", "3600"])
            case "chatter":
                os.write(1, b"x" * 1_000_000)
        rewards = {"nan": float("nan"), "inf": float("inf"), "true": True, "text": "1"}
        if action in rewards:
            return Outcome(outcome.view, rewards[action], False, False, True)  # type: ignore[arg-type]
        if action == "maybe":
            return Outcome(outcome.view, 0.0, False, None, True)  # type: ignore[arg-type]
        if action == "wordless":
            return Outcome(View(None, "a"), 0.0, False, False, True)  # type: ignore[arg-type]
        return outcome

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Tidy(Odd):
    """A world that says when it was closed."""

    mark: Path = Path()

    def close(self) -> None:
        self.mark.write_text("closed")


class NeedsJava(Odd):
    def __init__(self) -> None:
        raise UserError("no java was found")


class StartsNever(Odd):
    def __init__(self) -> None:
        time.sleep(3600)


class Unmade(Odd):
    def __init__(self) -> None:
        raise ValueError("bad jar")
