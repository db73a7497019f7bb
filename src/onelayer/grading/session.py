"""One sandbox from the host's side: how it starts, takes a program, is cleared and ends."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from onelayer.errors import UserError
from onelayer.grading import confine
from onelayer.grading.plain import GoneError

Isolation: TypeAlias = Literal["bubblewrap", "limits-only"]
Role: TypeAlias = Literal["program", "checker"]

_FOLDER = "/box"
_START_SECONDS = 30.0
_SETTLE_SECONDS = 5.0
# What the checker may take beyond the program's time, to compare the last result and to say so.
GRACE_SECONDS = 2.0
_CHECKER_MEMORY_MB = 1024
_CHECKER_PROCESSES = 8

# Read by the interpreter in the sandbox, where no file of ours can be seen: the modules come over the control channel.
_MODULES = ("plain", "answers", "checker", "program_host")
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


class Session:
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
                "seconds": limits.seconds + (0 if role == "program" else GRACE_SECONDS),
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
