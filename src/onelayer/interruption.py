"""When a process should save and stop: it was told to (SIGTERM), or its job's time is nearly up.

A Slurm job that reaches its time limit is killed. So the work asks here, wherever it can save, whether it should stop;
then it saves and ends with the exit code `COME_BACK`, and the job that comes back goes on from there.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from types import FrameType

# EX_TEMPFAIL of BSD's sysexits.h: a failure that trying again mends.
COME_BACK = 75

# Between the end of a run's process and the end of its job, Snakemake writes its notes and ends.
_SECONDS_TO_END = 15.0


class InterruptedWorkError(Exception):
    """The work stopped before its end, with what it had so far saved; starting it again goes on."""


class _Stop:
    """What this process knows of its end."""

    def __init__(self) -> None:
        self.signalled = False
        self.deadline: float | None = None  # of time.monotonic

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signalled = True


_stop = _Stop()


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Within the block, SIGTERM only asks to stop, and the end of the Slurm job that this process is part of is known.

    To be entered in the main thread, as signals are handled there.
    """
    left = seconds_left(os.environ)
    _stop.signalled = False
    _stop.deadline = None if left is None else time.monotonic() + left
    before = signal.signal(signal.SIGTERM, _stop.on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _stop.signalled, _stop.deadline = False, None


def ask_to_stop() -> None:
    """Ask this process to stop, as SIGTERM does."""
    _stop.signalled = True


def reason_to_stop(seconds_to_next: float = 0.0) -> str | None:
    """Say why the work should save and stop now; None where it can go on.

    Args:
        seconds_to_next: how long it may take until the work can ask again and save.
    """
    if _stop.signalled:
        return "it was told to (SIGTERM)"
    if _stop.deadline is None:
        return None
    left = _stop.deadline - time.monotonic()
    if left > seconds_to_next + _SECONDS_TO_END:
        return None
    return f"its job ends in {max(left, 0):.0f} s"


def check(name: str) -> None:
    """Raise InterruptedWorkError where work that has nothing to save should stop."""
    reason = reason_to_stop()
    if reason is not None:
        raise InterruptedWorkError(f"{name}: stopped before it began, for {reason}")


def seconds_left(environment: Mapping[str, str]) -> float | None:
    """Seconds until the Slurm job that a process is part of reaches its time limit; None outside Slurm or without one.

    Newer versions of Slurm say so in the environment; of others, `squeue` is asked.
    """
    job = environment.get("SLURM_JOB_ID")
    if job is None:
        return None
    end = environment.get("SLURM_JOB_END_TIME", "")
    if end.isdecimal():
        return float(end) - time.time()
    try:
        shown = subprocess.run(
            ["squeue", "--noheader", "--jobs", job, "--format", "%L"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"the time limit of Slurm job {job} is not known, so it is not heeded: {error}", flush=True)
        return None
    return parse_time_left(shown.stdout)


def parse_time_left(text: str) -> float | None:
    """Seconds of a time as Slurm writes it, ``[days-][[hours:]minutes:]seconds``; None of ``UNLIMITED`` or the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)", text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds
