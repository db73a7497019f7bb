"""A real disk that fills up: a small tmpfs laid over a folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs the rights to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def enlarge(folder: Path, kilobytes: int) -> None:
    """Give a small disk more room."""
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(folder)], check=True)
