"""Judging programs that a model wrote, in bubblewrap.

A program never shares a process with what judges it. It runs behind a wall (`onelayer.grading.confine`) in a process
that answers calls (`onelayer.grading.program_host`), and only plain data crosses (`onelayer.grading.plain`). Results
are compared here (`Sandbox.judge_calls`), or by test code in a second sandbox (`Sandbox.judge_tests`,
`onelayer.grading.checker`). Neither expected values nor test code ever enter the sandbox in which the program runs, so
nothing that it does there, whether to Python itself, to its process or to the channel, makes a wrong result right.

A sandbox is started once and takes programs one after another: that costs a fork a program. It takes the next only when
every process of the last is gone and its folder is as empty as it was; else, and after every time-out, it is ended and
a new one started.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from onelayer.errors import UserError
from onelayer.grading import confine
from onelayer.grading.plain import Channel, GoneError, Node, NotPlainError, encode, matches

Fallback: TypeAlias = Literal["refuse", "limits-only"]
Isolation: TypeAlias = Literal["bubblewrap", "limits-only"]
Role: TypeAlias = Literal["program", "checker"]

_FOLDER = "/box"
_START_SECONDS = 30.0
_SETTLE_SECONDS = 5.0
# What the checker may take beyond the program's time, to compare the last result and to say so.
_GRACE_SECONDS = 2.0
_CHECKER_MEMORY_MB = 1024
_CHECKER_PROCESSES = 8

# Read by the interpreter in the sandbox, where no file of ours can be seen: the modules come over the control channel.
_MODULES = ("plain", "checker", "program_host")
_BOOT = """
import json, socket, sys, types
control = socket.socket(fileno=int(sys.argv[1]))
start = json.loads(control.makefile("rb").readline())
sys.modules["onelayer"] = types.ModuleType("onelayer")
sys.modules["onelayer.grading"] = grading = types.ModuleType("onelayer.grading")
for name, source in start["modules"].items():
    module = types.ModuleType("onelayer.grading." + name)
    sys.modules[module.__name__] = module
    setattr(grading, name, module)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
module.main(control, start["settings"])
"""


class SandboxError(UserError):
    """The sandbox cannot be started, or fails its own test. This says nothing of a program."""


class JudgeError(RuntimeError):
    """The judge failed: the tests cannot be run, or the checker died. This says nothing of the program."""


@dataclass(frozen=True)
class Limits:
    """What a program may take.

    Attributes:
        seconds: by the clock on the wall, for a program with all its calls.
        memory_mb: of address space for each process, and of memory for all of them together.
        processes: processes and threads at once.
        file_mb: of files in its folder, which is in memory.
        message_mb: of one message to or from it.
    """

    seconds: float = 5.0
    memory_mb: int = 512
    processes: int = 16
    file_mb: int = 8
    message_mb: int = 4


@dataclass(frozen=True)
class Verdict:
    """The judgement of a program.

    Attributes:
        passed: whether every test held.
        status: ``ok`` where it was judged, ``timeout``, or ``crashed`` where it died or broke a limit.
        reason: why it did not pass: "wrong result", the exception, or how it died.
    """

    passed: bool
    status: Literal["ok", "timeout", "crashed"]
    reason: str


class Sandbox:
    """Judges programs, one at a time. It starts with the first program; until then it can be pickled.

    Use it from one thread: its processes end with the thread that started them, however that ends.

    With ``fallback="limits-only"`` and where bubblewrap cannot be used, programs run with limits and time-outs alone:
    they can then read and write what the user can, and use the network. It says so on stderr. ``isolation`` tells which
    it is.
    """

    def __init__(self, limits: Limits | None = None, fallback: Fallback = "refuse", bwrap: str = "bwrap") -> None:
        self.limits = limits or Limits()
        self.fallback = fallback
        self.isolation: Isolation = "bubblewrap"
        self._bwrap = bwrap
        self._sessions: dict[Role, _Session] = {}
        self._tested = False

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self._sessions:
            raise TypeError("a sandbox that has started cannot be pickled")
        return self.__dict__

    def close(self) -> None:
        """End every process. The next judgement would start anew."""
        for session in self._sessions.values():
            session.kill()
        self._sessions.clear()

    def judge_calls(
        self, program: str, entry_point: str, calls: Sequence[Sequence[Any]], expected: Sequence[Any]
    ) -> Verdict:
        """Judge a program by what its function returns for each of ``calls`` (a sequence of arguments).

        Results are compared as ``==`` does it between plain values: 1, 1.0 and True are equal, a list and a tuple are
        not, nan equals nothing. Raises SandboxError, and JudgeError where the arguments are no plain data.
        """
        if len(calls) != len(expected):
            raise ValueError(f"{len(calls)} calls with {len(expected)} expected results")
        self._test_itself()
        return self._judge_calls(program, entry_point, calls, expected)

    def judge_tests(self, program: str, tests: str, entry_point: str | None = None, setup: str = "") -> Verdict:
        """Judge a program by test code, which passes where it comes to its end without an exception.

        For HumanEval, ``tests`` is a row's ``test`` and a line that calls ``check``, and ``setup`` its prompt, whose
        helper functions are then not the program's; for MBPP, ``tests`` is the asserts, and there is no entry point.

        ``setup`` runs first, in the tests' namespace. Then the function ``entry_point`` of the program takes its name
        there; without an entry point every function and class of the program does that the tests name and ``setup``
        does not define (one named like a built-in only where the tests name nothing else). Tests see copies: that an
        argument was changed in place is not seen. Raises SandboxError, and JudgeError where the tests or the setup
        cannot be run at all.
        """
        self._test_itself()
        return self._judge_tests(program, tests, entry_point, setup)

    def _judge_calls(
        self, program: str, entry_point: str, calls: Sequence[Sequence[Any]], expected: Sequence[Any]
    ) -> Verdict:
        try:
            job = ["calls", program, entry_point, [[encode(value) for value in call] for call in calls]]
        except NotPlainError as error:
            raise JudgeError(f"the arguments of {entry_point} cannot be handed to a program: {error}") from None
        session = self._session("program")
        ours, theirs = socket.socketpair()
        channel = Channel(ours, self._message_bytes)
        deadline = time.monotonic() + self.limits.seconds
        try:
            session.run(theirs)
            channel.send(job, deadline)
            reply = channel.receive(deadline)
            verdict = _compare(reply, expected)
        except TimeoutError:
            verdict = self._timeout()
        except GoneError:
            verdict = self._gone()
        except NotPlainError as error:
            verdict = Verdict(False, "crashed", str(error))
        finally:
            ours.close()
        self._end("program", well=verdict.status == "ok")
        return verdict

    def _judge_tests(self, program: str, tests: str, entry_point: str | None, setup: str) -> Verdict:
        checker, session = self._session("checker"), self._session("program")
        ours, theirs = socket.socketpair()
        asking, answering = socket.socketpair()
        channel = Channel(ours, self._message_bytes)
        seconds = self.limits.seconds
        deadline = time.monotonic() + seconds + _GRACE_SECONDS
        # Said by the checker at the end alone; the program has no way to it.
        secret = secrets.token_hex(16)
        try:
            session.run(answering)
            checker.run(theirs, asking)
            channel.send(["judge", secret, program, tests, entry_point, setup, seconds], deadline)
            reply = channel.receive(deadline)
        except TimeoutError:
            self._end("checker", well=False)
            self._end("program", well=False)
            return Verdict(False, "timeout", f"the tests did not come to their end within {seconds:g} s")
        except (GoneError, NotPlainError) as error:
            how = checker.settle()
            self._end("checker", well=False)
            self._end("program", well=False)
            raise JudgeError(f"the checker died: {how or error}") from None
        finally:
            ours.close()
        self._end("checker", well=True)
        if len(reply) != 5 or reply[:2] != ["judged", secret]:
            self._end("program", well=False)
            raise JudgeError("the checker's answer is not its own: the tests must not end the process")
        _, _, passed, status, reason = reply
        if status == "broken":
            self._end("program", well=False)
            raise JudgeError(reason)
        verdict = Verdict(passed is True and status == "ok", status, reason)
        if status == "timeout":
            verdict = self._timeout()
        elif status == "crashed" and not reason:
            verdict = self._gone()
        self._end("program", well=status == "ok")
        return verdict

    def _timeout(self) -> Verdict:
        return Verdict(False, "timeout", f"no result within {self.limits.seconds:g} s")

    def _gone(self) -> Verdict:
        how = self._sessions["program"].settle()
        return Verdict(
            False, "crashed", f"the program died: {how}" if how else "the program ended before its calls did"
        )

    @property
    def _message_bytes(self) -> int:
        return self.limits.message_mb * 2**20

    def _end(self, role: Role, well: bool) -> None:
        """A judgement is over: make the session ready for the next program, or end it for good."""
        session = self._sessions[role]
        if well and session.reusable:
            session.end()
        else:
            session.kill()
            del self._sessions[role]

    def _session(self, role: Role) -> _Session:
        """The session, ready for a program: the last one's, where that left it as it was, or a new one."""
        session = self._sessions.get(role)
        if session is not None and session.alive() and session.settle() is not None:
            return session
        if session is not None:
            session.kill()
            del self._sessions[role]
        try:
            session = _Session(role, self.limits, self.isolation, self._bwrap)
        except SandboxError as error:
            # Only from the start: where the wall once stood, no trouble with the next may take it away.
            if self.isolation != "bubblewrap" or self.fallback != "limits-only" or self._tested or self._sessions:
                raise
            reason = str(error).splitlines()[0]
            print(f"warning: programs run without isolation of files and network: {reason}", file=sys.stderr)
            self.isolation = "limits-only"
            session = _Session(role, self.limits, self.isolation, self._bwrap)
        self._sessions[role] = session
        return session

    def _test_itself(self) -> None:
        """Once: a right program must pass and a wrong one must not, either way of judging."""
        if self._tested:
            return
        right, wrong = "def f(x):\n    return x * x", "def f(x):\n    return x + x"
        for program, passes in ((right, True), (wrong, False)):
            found: list[object] = [self._judge_calls(program, "f", [(3,)], [9])]
            try:
                found.append(self._judge_tests(program, "assert f(3) == 9", "f", ""))
            except JudgeError as error:
                found.append(error)
            if any(not isinstance(one, Verdict) or one.passed is not passes or one.status != "ok" for one in found):
                self.close()
                raise SandboxError(
                    f"the sandbox fails its own test: found {found}, expected passed={passes}. The limits may be too "
                    f"low for this machine: {self.limits}"
                )
        self._tested = True


def _compare(reply: list[Node], expected: Sequence[Any]) -> Verdict:
    kind, *rest = reply
    if kind == "results" and len(rest) == len(expected):
        passed = all(map(matches, rest, expected))
        return Verdict(passed, "ok", "" if passed else "wrong result")
    # Only texts are put into a reason: the text of anything else that a program made up could take long, or recurse.
    texts = [part[:300] for part in rest if type(part) is str]
    if kind == "raised" and len(texts) == len(rest) == 2:
        status: Literal["ok", "crashed"] = "crashed" if texts[0] == "MemoryError" else "ok"
        return Verdict(False, status, f"{texts[0][:50]}: {texts[1]}")
    if kind == "unfit" and len(texts) == len(rest) == 1:
        raise NotPlainError(texts[0])
    raise NotPlainError("an answer that is none")


class _Session:
    """One sandbox, and the process in it that forks a child a program."""

    def __init__(self, role: Role, limits: Limits, isolation: Isolation, bwrap: str) -> None:
        walled = isolation == "bubblewrap"
        if walled and sys.platform != "linux":
            _fail("bubblewrap runs on Linux alone", "")
        if walled and shutil.which(bwrap) is None:
            _fail(f"{bwrap}: not found", "")
        # Without the filter of system calls a program could leave something to the next.
        self.reusable = True
        self._waiting = True
        self._how: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._first: int | None = None
        self._rest = b""
        self._folder = None if walled else tempfile.mkdtemp(prefix="onelayer-")
        self._control, inside = socket.socketpair()
        memory_mb = limits.memory_mb if role == "program" else max(_CHECKER_MEMORY_MB, 2 * limits.memory_mb)
        processes = limits.processes if role == "program" else _CHECKER_PROCESSES
        start = {
            "modules": {name: Path(__file__).with_name(f"{name}.py").read_text() for name in _MODULES},
            "settings": {
                "role": role,
                "walled": walled,
                "folder": self._folder or _FOLDER,
                "seconds": limits.seconds + (0 if role == "program" else _GRACE_SECONDS),
                "memory_bytes": memory_mb * 2**20,
                "processes": processes + _processes_that_count(walled),
                "file_bytes": limits.file_mb * 2**20,
                "message_bytes": limits.message_mb * 2**20,
            },
        }
        passed = [inside.fileno()]
        with tempfile.TemporaryFile() as errors, contextlib.ExitStack() as opened:
            opened.enter_context(inside)
            try:
                command: list[str] = []
                if walled:
                    info = opened.enter_context(tempfile.TemporaryFile())
                    passed.append(info.fileno())
                    command = [
                        *confine.command(bwrap, _FOLDER, limits.file_mb * 2**20),
                        "--info-fd",
                        str(info.fileno()),
                    ]
                    calls = confine.system_call_filter()
                    if calls is None:
                        self.reusable = False
                    else:
                        filtering = opened.enter_context(tempfile.TemporaryFile())
                        filtering.write(calls)
                        filtering.seek(0)
                        passed.append(filtering.fileno())
                        command += ["--seccomp", str(filtering.fileno())]
                    command.append("--")
                # As isolated as -I, for nothing else is in the environment, but with the order of sets fixed: an answer
                # is to be judged the same every time.
                command += [str(confine.interpreter()), "-P", "-s", "-S", "-c", _BOOT, str(inside.fileno())]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=passed,
                    start_new_session=True, env=None if walled else confine.ENVIRONMENT, cwd=self._folder,
                )  # fmt: skip
                inside.close()
                self._control.settimeout(_START_SECONDS)
                self._control.sendall(json.dumps(start).encode() + b"\n")
                self._line()
                if walled:
                    self._first = os.pidfd_open(json.loads(os.pread(info.fileno(), 4096, 0))["child-pid"])
            except OSError as error:
                self.kill()
                errors.seek(0)
                _fail(str(error), errors.read().decode(errors="replace").strip())
        self._waiting = False

    def run(self, *sockets: socket.socket) -> None:
        """Have a child forked that holds these sockets, which are closed here. Raises GoneError."""
        try:
            socket.send_fds(self._control, [b"r"], [one.fileno() for one in sockets])
        except OSError as error:
            raise GoneError(str(error)) from None
        finally:
            for one in sockets:
                one.close()
        self._how = None

    def end(self) -> None:
        """Have every process of the program ended; `settle` waits until that is done."""
        if self._how is None and not self._waiting:
            self._waiting = True
            with contextlib.suppress(OSError):  # `settle` will find out
                self._control.sendall(b"e")

    def settle(self) -> str | None:
        """End the program and wait until the session is as it was at the start.

        Returns how the program died ("" where it did not by itself), or None where the session is of no more use.
        """
        self.end()
        if self._waiting:
            self._control.settimeout(_SETTLE_SECONDS)
            try:
                self._line()
            except OSError:
                return None
        return self._how

    def alive(self) -> bool:
        """Tell whether its first process still runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End every process of the session."""
        self._control.close()
        if self._process is not None:
            # With its first process a whole process namespace ends. bubblewrap waits for that and ends then: killed
            # itself, it would leave a zombie to the machine's own first process, which in a container waits for none.
            if self._first is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
                os.close(self._first)
                self._first = None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_SETTLE_SECONDS)
            self._process.kill()
            self._process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _line(self) -> None:
        """Read the line that says the session is ready."""
        while b"\n" not in self._rest:
            part = self._control.recv(4096)
            if not part:
                raise ConnectionError("it ended before it was ready")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        self._how = line.decode()
        self._waiting = False


def _processes_that_count(walled: bool) -> int:
    """How many processes a limit on them would count beyond a program's own.

    Since Linux 5.14 a user namespace has a count of its own, in which there is one other: the process that forks.
    Before that, and without a namespace, all of the user's processes count; we allow for those, and some more.
    """
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2] if part.isdigit())
    if walled and release >= (5, 14):
        return 1
    if sys.platform != "linux":
        return 4096
    count = 256
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.geteuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _fail(what: str, stderr: str) -> NoReturn:
    raise SandboxError(
        f"the sandbox for programs did not start: {what}{f': {stderr[-1000:]}' if stderr else ''}\n"
        "It needs bubblewrap (apt install bubblewrap) and user namespaces (sysctl user.max_user_namespaces above 0; in "
        "a container, leave to make them). Limits without isolation are used only where they are asked for by name "
        '(fallback "limits-only")'
    )
