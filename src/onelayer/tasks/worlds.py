"""Worlds in processes of their own: one that hangs is ended, one that fails is replaced.

A world is other people's code (a Java server, a C library), and an episode that it broke must not count as lost. So
it lives in a child process with a time for every answer; whatever goes wrong there reaches the caller as WorldError,
and the next `reset` starts a new process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from operator import methodcaller
from pathlib import Path
from typing import Any

from onelayer.errors import UserError
from onelayer.tasks.contract import Outcome, Problem, View, World, WorldError

# Importing a world and starting its Java takes seconds alone, and many times that where twenty start at once.
_START_SECONDS = 180.0
# What a world gets to clean up before it is ended all the same.
_LEAVE_SECONDS = 5.0
# How often a child looks whether we still live.
_LOOK_SECONDS = 0.25
# What a child runs: its arguments are the channel, our process, and where modules are found.
_PROGRAM = """
import sys
sys.path[:] = sys.argv[3:]
from onelayer.tasks.worlds import serve
serve(int(sys.argv[1]), int(sys.argv[2]))
"""


class IsolatedWorld:
    """A world in a child process, for one thread at a time.

    Args:
        make: makes the world; it travels to the child, so it must be picklable (a class, or a partial of one).
        call_seconds: how long `reset` and `act` may take.
        name: what messages call the world.
        start_seconds: how long `make` may take in a new process.

    Raises WorldError from every method where the world hung, crashed, raised or answered nonsense, and UserError
    where it says that something is missing which the user must install or fetch.
    """

    def __init__(
        self,
        make: Callable[[], World],
        call_seconds: float,
        name: str = "the world",
        start_seconds: float = _START_SECONDS,
    ) -> None:
        self._make = make
        self._call_seconds = call_seconds
        self._name = name
        self._start_seconds = start_seconds
        self._home: _Home | None = None

    def reset(self, problem: Problem) -> View:
        """Begin the episode of a problem, in a new process where the last one failed."""
        if self._home is None:
            self._home = _Home(self._make, self._name, self._start_seconds)
        view: View = self._accepted(self._call("reset", problem), _view_fault)
        return view

    def act(self, action: str) -> Outcome:
        """Take an action."""
        outcome: Outcome = self._accepted(self._call("act", action), _outcome_fault)
        return replace(outcome, reward=float(outcome.reward))

    def close(self) -> None:
        """Let the world clean up, and end its process and all that it started."""
        if self._home is not None:
            with contextlib.suppress(WorldError, UserError):
                self._home.call("close", (), _LEAVE_SECONDS)
            self._end(patience=_LEAVE_SECONDS)

    def _call(self, method: str, argument: object) -> Any:
        if self._home is None:
            raise WorldError(f"{self._name} has no episode to go on with: reset begins one")
        try:
            return self._home.call(method, (argument,), self._call_seconds)
        except BaseException:  # an interrupt too: the answer to this call must not be taken for the next one's
            self._end()
            raise

    def _accepted(self, answer: Any, fault_of: Callable[[object], str | None]) -> Any:
        fault = fault_of(answer)
        if fault is not None:
            self._end()
            raise WorldError(f"{self._name} answered nonsense: {fault}")
        return answer

    def _end(self, patience: float = 0.0) -> None:
        home, self._home = self._home, None
        if home is not None:
            home.end(patience)


def ask(make: Callable[[], Any], method: str, name: str, seconds: float = _START_SECONDS) -> Any:
    """Make an object in a child process, call one method without arguments, and end the process.

    Raises WorldError and UserError as `IsolatedWorld` does.
    """
    home = _Home(make, name, seconds)
    try:
        return home.call(method, (), seconds)
    finally:
        home.end()


def ending(code: int | None) -> str:
    """Say how a process ended from what `Popen.returncode` holds."""
    if code is None:
        return "still running"
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code}, {signal.Signals(-code).name}"
    return f"signal {-code}"


def _view_fault(view: object) -> str | None:
    if not isinstance(view, View):
        return f"expected a view, found {type(view).__name__}"
    if not isinstance(view.text, str) or not isinstance(view.anchor, str):
        return "expected a view of texts"
    return None


def _outcome_fault(outcome: object) -> str | None:
    if not isinstance(outcome, Outcome):
        return f"expected an outcome, found {type(outcome).__name__}"
    if isinstance(outcome.reward, bool) or not isinstance(outcome.reward, int | float):
        return f"expected a number as the reward, found {outcome.reward!r}"
    if not math.isfinite(outcome.reward):
        return f"expected a finite reward, found {outcome.reward!r}"
    for field in ("done", "success", "valid"):
        if not isinstance(getattr(outcome, field), bool):
            return f"expected {field} to be true or false, found {getattr(outcome, field)!r}"
    return _view_fault(outcome.view)


class _Home:
    """A child process that makes an object and answers calls of its methods, one at a time."""

    def __init__(self, make: Callable[[], Any], name: str, seconds: float) -> None:
        self._name = name
        # Temporary files of the world, and its standard error; a world that is killed leaves its files here.
        self._folder = tempfile.TemporaryDirectory(prefix="onelayer-world-", ignore_cleanup_errors=True)
        self._errors = Path(self._folder.name) / "stderr"
        ours, theirs = Pipe()
        self._channel = ours
        channel, parent = str(theirs.fileno()), str(os.getpid())
        # Modules are found where we find them, and not through the environment, which a world's own programs would see.
        modules = [path or os.getcwd() for path in sys.path]
        try:
            with theirs, self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, channel, parent, *modules],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=(theirs.fileno(),),
                    # A group of its own, so that the world's Java can be ended with it.
                    start_new_session=True,
                    env={**os.environ, "TMPDIR": self._folder.name},
                )
        except OSError as error:
            ours.close()
            self._folder.cleanup()
            raise WorldError(f"{name} could not be started: {error}") from None
        try:
            self._exchange(pickle.dumps(make), "start", seconds)
        except BaseException:
            self.end()
            raise

    def call(self, method: str, arguments: tuple[object, ...], seconds: float) -> Any:
        """Call a method of the object and wait for its answer. Raises WorldError and UserError."""
        return self._exchange((method, arguments, seconds), method, seconds)

    def end(self, patience: float = 0.0) -> None:
        """End the process and all that it started; first wait a while (seconds) for it to leave by itself."""
        if patience:
            with contextlib.suppress(OSError):
                self._channel.send(None)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        self._channel.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of the dead
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()

    def _exchange(self, message: object, what: str, seconds: float) -> Any:
        try:
            self._channel.send(message)
            if not self._channel.poll(seconds):
                raise WorldError(f"{self._name} did not answer {what!r} within {seconds:g} seconds and was ended")
            kind, answer = self._channel.recv()
        except (EOFError, OSError):
            raise WorldError(self._death()) from None
        except (pickle.UnpicklingError, AttributeError, ImportError, TypeError, ValueError) as error:
            raise WorldError(f"{self._name} answered {what!r} with what cannot be read: {error}") from None
        if kind == "user error":
            raise UserError(answer)
        if kind == "world error":
            raise WorldError(answer)
        if kind == "error":
            raise WorldError(f"{self._name} failed at {what!r}: {answer}")
        return answer

    def _death(self) -> str:
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)  # the channel closes a little before the process has ended
        last = self._errors.read_text(errors="replace").strip().rpartition("\n")[2]
        return f"the process of {self._name} ended ({ending(code)})" + (f": {last}" if last else "")


def serve(descriptor: int, parent: int) -> None:
    """In the child: make the object that the first message names, and answer calls until a message says None.

    A message is (method, arguments, seconds); an answer is (kind, answer), where kind is "done", "user error",
    "world error" or "error". Where the channel closes without a word, the child ends with all that it started.
    """
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    channel = Connection(descriptor)
    try:
        made = channel.recv()
        held: list[Any] = []
        _send(channel, _tried(lambda: held.append(pickle.loads(made)())))
        while (message := channel.recv()) is not None:
            method, arguments, seconds = message
            # Where native code holds the interpreter and our parent is gone, nothing else here could end it.
            faulthandler.dump_traceback_later(seconds + 2 * _LEAVE_SECONDS, exit=True)
            answer = _tried(methodcaller(method, *arguments), held[0])
            faulthandler.cancel_dump_traceback_later()
            _send(channel, answer)
    except (EOFError, OSError):
        _leave()


def _tried(work: Callable[..., object], *arguments: object) -> tuple[str, object]:
    try:
        return "done", work(*arguments)
    except UserError as error:
        return "user error", str(error)
    except WorldError as error:
        return "world error", str(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"


def _send(channel: Connection, answer: tuple[str, object]) -> None:
    try:
        channel.send(answer)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        channel.send(("error", f"its answer cannot be sent: {error}"))


def _leave_with(parent: int) -> None:
    # Linux's signal at a parent's death follows the thread that started us, and threads come and go while worlds live
    # on; a look at the parent works on every Unix. The whole group goes, Java too.
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    _leave()


def _leave() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
