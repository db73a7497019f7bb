"""Runs inside a sandbox, under the standard library alone: a process that forks one child a program, in turn.

The first process (`main`) holds the control channel to the host and never runs a line of a program. For every program
the host passes it a fresh socket; a child closes everything else, takes its limits, and answers calls over that socket
(`onelayer.grading.answers`), or judges tests (`onelayer.grading.checker`). When the host says so, every process of the
sandbox but the first is killed and waited for. Only a sandbox that is then as it was at the start takes the next
program; any other ends, and the host starts a new one.

As process 1 of its own process namespace, the first process cannot be killed or stopped from inside, and every process
that loses its parent becomes its child, so none can get away. It is not dumpable, so its memory and its open files are
closed to processes of the same user.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import random
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
from typing import Any, NoReturn

from onelayer.grading import answers, checker
from onelayer.grading.plain import Channel

# What programs import most: read once here instead of once a program.
_COMMON = ("bisect", "collections", "copy", "functools", "heapq", "itertools", "math", "operator", "re",
           "string", "typing")  # fmt: skip
_NOT_DUMPABLE, _ADOPT_ORPHANS = 4, 36  # PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER
_MOST_FILES = 64
_TICK_MS = 100


def main(control: socket.socket, settings: dict[str, Any]) -> NoReturn:
    """Serve the host until it closes the control channel.

    The host says ``r`` (and passes the sockets) to run a program and ``e`` to end it; the answer to ``e``, and to the
    start, is one line that says how the last program came to its end.
    """
    walled = bool(settings["walled"])
    if walled and os.getpid() != 1:
        # What follows kills every process in sight.
        raise SystemExit("not the first process of a sandbox")
    control = _alone(control)
    library = ctypes.CDLL(None)
    if sys.platform == "linux" and library.prctl(_NOT_DUMPABLE, 0, 0, 0, 0) != 0:
        raise SystemExit("prctl refused to close this process's memory to others")
    if sys.platform == "linux" and not walled:
        library.prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in _COMMON:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    how = ""
    while True:
        control.sendall(how.encode() + b"\n")
        message, sockets, _, _ = socket.recv_fds(control, 1, 2)
        if message != b"r":
            os._exit(0)
        folder = settings["folder"] if walled else tempfile.mkdtemp(dir=settings["folder"])
        child = os.fork()
        if child == 0:
            _become(settings, folder, sockets)
        for descriptor in sockets:
            os.close(descriptor)
        how = _watch(control, child, settings)
        if not walled:
            shutil.rmtree(folder, ignore_errors=True)
        elif os.listdir(folder) or os.listxattr(folder) or os.stat(folder).st_mode & 0o7777 != 0o700:
            # Ending is simpler to get right than mending whatever a program may have done to its folder.
            os._exit(0)


def _alone(control: socket.socket) -> socket.socket:
    """Move the control channel to descriptor 3 and close everything above, whatever number the host's ends had."""
    os.dup2(control.detach(), 3)
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if number > 3:
            with contextlib.suppress(OSError):  # the listing's own is closed already
                os.close(number)
    return socket.socket(fileno=3)


def _watch(control: socket.socket, child: int, settings: dict[str, Any]) -> str:
    """Wait for the host's word, then end every other process; return how the child ended, where that was its doing."""
    how = ""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while not poll.poll(_TICK_MS):
        died = _reap(child)
        how = how or died
        if settings["walled"] and _resident_bytes() > settings["memory_bytes"]:
            _kill_all()
            how = "its processes together took more memory than the limit"
    died = _reap(child)
    how = how or died
    if control.recv(1) != b"e":
        os._exit(0)
    if settings["walled"]:
        while True:
            _kill_all()
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return how
            # A process that is dying has closed its socket already, and is killed too late to change why it dies.
            if pid == child and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
                how = how or _died(status)
    _end_family(child)
    return how


def _kill_all() -> None:
    if os.getpid() == 1:  # of a process namespace: kill(2) then reaches nothing outside
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)


def _end_family(child: int) -> None:
    """Without a process namespace: end the child's process group, and every orphan that came to us."""
    left = {child}
    while left:
        for pid in left:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                left = {int(pid) for pid in children.read().split()}
        except OSError:
            left = set()


def _reap(child: int) -> str:
    """Let go of every process that has ended; say how the child did, where it is among them and went wrong."""
    how = ""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return how
        if pid == 0:
            return how
        if pid == child:
            how = _died(status)


def _died(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit status {os.WEXITSTATUS(status)}" if os.WEXITSTATUS(status) else ""


def _resident_bytes() -> int:
    pages = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/statm") as statm:
                    pages += int(statm.read().split()[1])
            except (OSError, IndexError):
                pass  # it has just ended
    return pages * resource.getpagesize()


def _become(settings: dict[str, Any], folder: str, sockets: list[int]) -> NoReturn:
    """Turn the fresh child into a program's process, or a checker's: nothing of ours stays open, limits are set."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        # The sockets that came take the numbers from 3; no other descriptor stays.
        moved = [os.dup2(descriptor, 40 + turn) for turn, descriptor in enumerate(sockets)]
        kept = [os.dup2(descriptor, 3 + turn) for turn, descriptor in enumerate(moved)]
        os.closerange(3 + len(kept), _MOST_FILES)
        os.chdir(folder)
        limits = {
            resource.RLIMIT_CPU: int(settings["seconds"]) + 1,
            resource.RLIMIT_AS: settings["memory_bytes"],
            resource.RLIMIT_FSIZE: settings["file_bytes"],
            resource.RLIMIT_NPROC: settings["processes"],
        }
        for kind, limit in limits.items():
            most = resource.getrlimit(kind)[1]
            limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
            # Outside Linux some of them cannot be set.
            with contextlib.ExitStack() if settings["walled"] else contextlib.suppress(ValueError, OSError):
                resource.setrlimit(kind, (limit, limit))
        channels = [Channel(socket.socket(fileno=number), settings["message_bytes"]) for number in kept]
        for name in [name for name in sys.modules if name.startswith("onelayer")]:
            del sys.modules[name]
        sys.argv = ["program.py"]
        random.seed(0)  # a judgement is to be the same every time
        if settings["role"] == "checker":
            checker.judge(*channels)
        else:
            answers.answer_calls(*channels)
    except BaseException:
        os._exit(70)
    os._exit(0)
