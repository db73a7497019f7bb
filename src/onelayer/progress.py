"""How far a run at work is, and how its last start failed: small files that whoever works writes and anyone can read.

They lie beside the run's unfinished work, so that on a cluster they are where every node and the login node see them.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelayer.errors import UserError
from onelayer.interruption import InterruptedWorkError
from onelayer.ownership import OwnershipLostError
from onelayer.store import PROGRESS, work_folder, write_json

ERROR = "error.json"
# A process that is at work says so at least this often, or after so many of its steps.
_SILENCE_SECONDS = 120.0
_SILENCE_STEPS = 5
_LONGEST_MESSAGE = 2000


@dataclass(frozen=True)
class Progress:
    """What the process at work on a run last said.

    Attributes:
        phase: what it is at, such as ``training`` or ``sampling report``.
        step: of ``steps``.
        watched: by name: reward or loss.
        learning_rate: the step's own, of the schedule.
        seconds_left: as it is counted there.
        memory_bytes: the most that was held so far (see `onelayer.manifest.Manifest`).
        job: Slurm's number of its job.
        host: the machine it runs on.
        said: when it was said, in seconds since 1970.
    """

    phase: str
    step: int
    steps: int
    watched: dict[str, float]
    learning_rate: float | None
    seconds_left: float
    memory_bytes: int | None
    job: str | None
    host: str | None
    said: float

    def silent_for(self) -> float | None:
        """Seconds since it said anything, where that is longer than its steps explain."""
        silence = time.time() - self.said
        a_step = self.seconds_left / max(self.steps - self.step, 1)
        return silence if silence > max(_SILENCE_SECONDS, _SILENCE_STEPS * a_step) else None


@dataclass(frozen=True)
class Failure:
    """How the last start of a run ended, where it failed."""

    message: str
    job: str | None
    host: str
    at: float


def job_number() -> str | None:
    """Slurm's number of the job that this process belongs to, as `squeue` and `scancel` take it; None outside one."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def tell(folder: Path, phase: str, step: int, steps: int, seconds_left: float, **figures: Any) -> None:
    """Leave the figures of a run at work in its folder. Raises UserError where the disk is full."""
    write_json(
        folder / PROGRESS,
        {
            "phase": phase,
            "step": step,
            "steps": steps,
            "seconds_left": round(seconds_left, 1),
            **figures,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "job": job_number(),
            "said": round(time.time(), 1),
        },
    )


def read_progress(study: str, run: str) -> Progress | None:
    """What was last said of a run's unfinished work; None where nothing was, or where it cannot be read."""
    found = []
    for path in work_folder(study, run).glob(f"*/{PROGRESS}"):
        with contextlib.suppress(FileNotFoundError):  # the run ended a moment ago
            found.append((path.stat().st_mtime, path))
    for changed, path in sorted(found, reverse=True):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
            figures = json.loads(path.read_text())
            return Progress(
                phase=figures.get("phase", "training"),
                step=figures["step"],
                steps=figures["steps"],
                watched={key: figures[key] for key in ("reward", "loss") if key in figures},
                learning_rate=figures.get("learning_rate"),
                seconds_left=figures["seconds_left"],
                memory_bytes=figures.get("memory_bytes"),
                job=figures.get("job"),
                host=figures.get("host"),
                said=figures.get("said", changed),
            )
    return None


@contextlib.contextmanager
def failures_noted(study: str, run: str) -> Iterator[None]:
    """Leave word of how the work within failed, for who watches; what was left of an earlier start is taken away.

    Work that stopped in good order, or that another process took over, did not fail.
    """
    path = work_folder(study, run) / ERROR
    path.unlink(missing_ok=True)
    try:
        yield
    except (InterruptedWorkError, OwnershipLostError):
        raise
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        note = {
            "message": f"{kind}{error}"[:_LONGEST_MESSAGE],
            "job": job_number(),
            "host": socket.gethostname(),
            "at": round(time.time(), 1),
        }
        with contextlib.suppress(UserError):  # a full disk, which is what is being raised
            write_json(path, note)
        raise


def read_failure(study: str, run: str) -> Failure | None:
    """How a run's last start failed; None where it did not."""
    try:
        note = json.loads((work_folder(study, run) / ERROR).read_text())
        return Failure(note["message"], note["job"], note["host"], note["at"])
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        return None
