"""One device a job, where several jobs share a machine that no scheduler hands devices out on.

A device is taken by a lock of the kernel's (flock) on a file of this machine, so it is free again when its process
ends, however it ends. Under Slurm nothing is taken: Slurm hands the devices out itself.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from onelayer.errors import UserError
from onelayer.interruption import check

_POLL_SECONDS = 1.0
_VISIBLE = "CUDA_VISIBLE_DEVICES"

_taken: list[TextIO] = []  # open as long as this process lives


def take_devices(count: int) -> None:
    """Let this process see only as many devices as its work asks for, and have them alone; wait until they are free.

    To be called before a library looks for devices. Nothing is done under Slurm, on a machine without devices, where
    no device is asked for, or a second time in a process.

    Raises UserError where the machine has fewer devices, and InterruptedWorkError where the process should stop.
    """
    if count == 0 or _taken or "SLURM_JOB_ID" in os.environ:
        return
    devices = visible_devices(os.environ)
    if not devices:
        return
    if len(devices) < count:
        raise UserError(f"resources.gpus: found {count}, and this machine shows {len(devices)}: {', '.join(devices)}")
    _taken.extend(lock_devices(devices, count, lock_folder()))
    os.environ[_VISIBLE] = ",".join(Path(lock.name).stem for lock in _taken)
    print(f"device: {os.environ[_VISIBLE]} of {', '.join(devices)}", flush=True)


def lock_folder() -> Path:
    """Where the locks of this machine's devices lie: each user's own, as a shared file would need shared rights."""
    folder = Path(tempfile.gettempdir()) / f"onelayer-devices-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def visible_devices(environment: Mapping[str, str]) -> list[str]:
    """The devices that a process of this machine may use, by index or identifier; empty where there are none.

    CUDA_VISIBLE_DEVICES names them where it is set; else NVIDIA's driver is asked.
    """
    if _VISIBLE in environment:
        return [name.strip() for name in environment[_VISIBLE].split(",") if name.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []  # no driver, no devices
    return re.findall(r"^GPU (\d+):", listed.stdout, re.MULTILINE)


def lock_devices(devices: Sequence[str], count: int, folder: Path) -> list[TextIO]:
    """Lock this many of the devices, waiting until so many are free; the locks last as long as the files are open.

    All or none are held while it waits, so that two that wait cannot each hold what the other needs.
    """
    said = False
    while True:
        locked = [lock for name in devices if (lock := _try_lock(folder / f"{name}.lock")) is not None]
        for lock in locked[count:]:
            lock.close()
        if len(locked) >= count:
            return locked[:count]
        for lock in locked:
            lock.close()
        if not said:
            print(f"devices: {count} asked for, {len(locked)} of {len(devices)} free; waiting", flush=True)
            said = True
        check("the work that waits for a device")
        time.sleep(_POLL_SECONDS)


def _try_lock(path: Path) -> TextIO | None:
    handle = path.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle
