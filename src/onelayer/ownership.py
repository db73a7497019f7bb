"""Who holds a piece of work: one process, on whatever machine, until it ends or gives no more sign of life.

A folder holds numbered files, and the highest number is the owner: its file says which process that is, and its time
stamp is renewed as a sign of life. Whoever takes over makes the file of the next number, which only one process can
(a hard link to a name that exists is refused, on network file systems too). An owner that finds a higher number than
its own has lost the work and must not write: so the number is what Kleppmann calls a fencing token ("How to do
distributed locking", 2016).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# A network file system may show an old time stamp for a minute (the default of NFS), so silence must last longer.
SIGN_OF_LIFE_SECONDS = 10.0
SILENCE_SECONDS = 120.0

_POLL_SECONDS = 0.5
_KEPT = 8  # files of earlier owners, so that a slow process cannot make an old number again

_held: list[Claim] = []


class OwnershipLostError(Exception):
    """Another process took the work over; nothing more may be written."""


def _identity(pid: int) -> dict[str, str | int | None]:
    """What tells a process from every other: its machine, its pid there, and when it started."""
    boot = namespace = ""
    with contextlib.suppress(OSError):  # no Linux: then signs of life alone tell
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    return {
        "host": socket.gethostname(),
        "boot": boot,
        "namespace": namespace,
        "pid": pid,
        "started": _started(pid),
        "job": os.environ.get("SLURM_JOB_ID"),
    }


def _started(pid: int) -> int | None:
    """When a process started, in ticks since the machine did; None where there is no such process, or no /proc."""
    try:
        # The name, in parentheses, may hold spaces; the 22nd field is the start (proc(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


class Claim:
    """A piece of work that this process holds."""

    def __init__(self, folder: Path, number: int, name: str) -> None:
        self._path = folder / str(number)
        self._number = number
        self._name = name
        self._ended = threading.Event()
        threading.Thread(target=self._show_life, daemon=True).start()

    def check(self) -> None:
        """Raise OwnershipLostError where another process holds the work by now, or the claim's file is gone."""
        newest = _newest(self._path.parent)
        if newest == self._number:
            return
        found = "its claim was removed" if newest < self._number else f"{_read(self._path.parent, newest)} took it over"
        raise OwnershipLostError(
            f"{self._name}: {found}, because this process gave no sign of life; it stops and writes nothing more"
        )

    def release(self) -> None:
        """Let go, so that the next process need not wait; nothing happens where the work was lost."""
        self._ended.set()
        _held.remove(self)
        try:
            _make(self._path.parent, self._number + 1, {"free": True})
        except OSError:  # a full disk; or the folder is gone, and there is nothing to hold
            self._path.unlink(missing_ok=True)

    def _show_life(self) -> None:
        while not self._ended.wait(SIGN_OF_LIFE_SECONDS):
            with contextlib.suppress(OSError):  # a disk that is away for a while; whoever looks in vain takes over
                os.utime(self._path)


class _Record:
    """What a claim's file says."""

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / str(number)
        self._content: dict[str, Any] = json.loads(self._path.read_text())

    def __str__(self) -> str:
        job = self._content.get("job")
        return f"process {self._content.get('pid')} on {self._content.get('host')}" + (f" (job {job})" if job else "")

    def is_free(self, now: Callable[[], float]) -> bool:
        """Tell whether nobody holds the work: it was let go, its owner has ended, or has been silent for too long.

        ``now`` is the time that a silent owner of another machine is held against.
        """
        if self._content.get("free"):
            return True
        own = _identity(self._content["pid"])
        same_machine = own["boot"] and all(own[key] == self._content[key] for key in ("host", "boot", "namespace"))
        if same_machine:
            return bool(own["started"] != self._content["started"])
        return now() - self._path.stat().st_mtime > SILENCE_SECONDS


def _file_system_time(folder: Path) -> float:
    """The time by the clock that stamps files, which need not be this machine's."""
    probe = folder / f".now-{secrets.token_hex(8)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _read(folder: Path, number: int) -> _Record:
    return _Record(folder, number)


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
    except FileNotFoundError:
        return []


def _newest(folder: Path) -> int:
    return max(_numbers(folder), default=0)


def _make(folder: Path, number: int, content: dict[str, Any]) -> bool:
    """Make the file of a number, whole at once; False where another process was first."""
    temporary = folder / f".{number}-{secrets.token_hex(8)}"
    try:
        temporary.write_text(json.dumps(content))
        os.link(temporary, folder / str(number))
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def is_claimed(folder: Path) -> bool:
    """Tell whether a living process holds the work of a folder; nothing is written, so clocks are taken to agree."""
    newest = _newest(folder)
    try:
        return newest > 0 and not _read(folder, newest).is_free(time.time)
    except FileNotFoundError:
        return False


def claim(folder: Path, name: str, while_waiting: Callable[[], None] = lambda: None) -> Claim:
    """Take the work of a folder for this process; wait, saying so, while another holds it.

    Args:
        folder: of the claims of this work, and of nothing else.
        name: the work, for messages.
        while_waiting: called now and then meanwhile; it may raise.
    """
    folder.mkdir(parents=True, exist_ok=True)
    said = False
    while True:
        newest = _newest(folder)
        try:
            owner = _read(folder, newest) if newest else None
            if owner is None or owner.is_free(partial(_file_system_time, folder)):
                if _make(folder, newest + 1, _identity(os.getpid())):
                    if _newest(folder) == newest + 1:
                        break
                    (folder / str(newest + 1)).unlink()  # made from an old listing: a higher number was there
                continue
        except FileNotFoundError:  # removed by a newer owner between listing and reading
            continue
        if not said:
            print(f"{name}: {owner} is at work on it; waiting for it to end", flush=True)
            said = True
        while_waiting()
        time.sleep(_POLL_SECONDS)
    for number in _numbers(folder):
        if number <= newest + 1 - _KEPT:
            (folder / str(number)).unlink(missing_ok=True)
    made = Claim(folder, newest + 1, name)
    _held.append(made)
    return made


def check_ownership() -> None:
    """Raise OwnershipLostError where this process has lost a piece of work that it took."""
    for one in _held:
        one.check()
