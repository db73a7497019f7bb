"""A device a job, on pretended devices, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onelayer import devices
from onelayer.errors import UserError

# Takes devices as a job does, says which, and holds them until it is told to end.
JOB = """
import os, sys
from pathlib import Path
from onelayer import devices
devices.lock_folder = lambda: Path(sys.argv[2])
devices.take_devices(int(sys.argv[1]))
print("mine", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
sys.stdin.readline()
"""


class Job:
    def __init__(self, count: int, folder: Path, visible: str = "0,1,GPU-5a") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOB, str(count), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": visible},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def mine(self) -> str:
        while not (line := self.line()).startswith("mine "):
            assert line, "it ended"
        return line.removeprefix("mine ")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_jobs_take_different_devices_and_the_dead_give_theirs_back(tmp_path: Path) -> None:
    jobs = [Job(1, tmp_path) for _ in range(3)]
    try:
        taken = [job.mine() for job in jobs]
        assert sorted(taken) == ["0", "1", "GPU-5a"]
        jobs.append(Job(2, tmp_path))
        assert jobs[3].line() == "devices: 2 asked for, 0 of 3 free; waiting"
        jobs[0].end()
        jobs[2].end()
        assert set(jobs[3].mine().split(",")) == {taken[0], taken[2]}
    finally:
        for job in jobs:
            job.end()


def test_more_than_the_machine_has_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(devices, "lock_folder", lambda: tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(UserError, match=r"resources\.gpus: found 2, and this machine shows 1: 3"):
        devices.take_devices(2)


@pytest.mark.parametrize(
    ("count", "environment"),
    [
        (0, {"CUDA_VISIBLE_DEVICES": "0,1"}),  # none is asked for
        (1, {"CUDA_VISIBLE_DEVICES": ""}),  # the machine has none
        (1, {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_ID": "7"}),  # Slurm hands them out
    ],
)
def test_where_there_is_nothing_to_take_nothing_changes(
    count: int, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(devices, "lock_folder", lambda: tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    devices.take_devices(count)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == environment["CUDA_VISIBLE_DEVICES"]
    assert not list(tmp_path.iterdir())


def test_the_driver_is_asked_where_the_environment_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert devices.visible_devices({}) == []
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-11)'\necho 'GPU 1: NVIDIA H100 (UUID: GPU-22)'\n")
    driver.chmod(0o755)
    assert devices.visible_devices({}) == ["0", "1"]
    assert devices.visible_devices({"CUDA_VISIBLE_DEVICES": "1, 0"}) == ["1", "0"]
    assert devices.visible_devices({"CUDA_VISIBLE_DEVICES": "-1"}) == []
