"""The whole graph on a real Slurm of one node, undisturbed and disturbed: what it leaves is what a local run leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from graph_project import _untraced, everything, run, settings, start
from local_slurm import Slurm, local_slurm, missing_programs, wait_until

from conftest import ROOT, write_params, write_study

__all__ = ["_untraced"]  # a fixture, by its name

pytestmark = [
    pytest.mark.graph,
    pytest.mark.skipif(
        bool(missing_programs()), reason=f"Slurm is not installed (apt install slurm-wlm munge): {missing_programs()}"
    ),
]

# The controller is asked more often than is kind to a real one.
DRIVER = (
    *("snakemake", "--cores", "all", "--profile", "slurm"),
    *("--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"),
    "--slurm-keep-successful-logs",
)


def slow_settings(**resources: Any) -> dict[str, Any]:
    """The small test study, its runs long enough to be disturbed, on one layer of its two."""
    slow = settings()
    slow["training"]["steps"] = 200
    slow["runs"]["layers"] = [1]
    slow["resources"] |= {"save_every_seconds": 1, **resources}
    return slow


def new_project(folder: Path) -> None:
    folder.mkdir()
    shutil.copy(ROOT / "Snakefile", folder)
    for name in ("workflow", "profiles", "slurm"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "data/sources").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_params(["tiny"], report={"title": "Tiny"})
        write_study("tiny", slow_settings())


def figures() -> dict[str, Any]:
    """The analysis and the metrics, less what seconds and memory the runs took."""
    analysis = json.loads(Path("data/tiny/analysis.json").read_text())
    metrics = json.loads(Path("reports/metrics.json").read_text())["tiny"]
    measured = ("cost", "economics")
    return {"analysis": {key: value for key, value in analysis.items() if key not in measured}, "metrics": metrics}


def left() -> tuple[dict[str, bytes], dict[str, Any]]:
    return everything(), figures()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with local_slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@contextmanager
def drivers() -> Iterator[list[subprocess.Popen[str]]]:
    """Where started drivers are kept; what still runs at the end, as where a test fails, is killed."""
    started: list[subprocess.Popen[str]] = []
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.fixture
def driving(untrained: None, slurm: Slurm) -> Iterator[list[subprocess.Popen[str]]]:
    with drivers() as started:
        yield started
    slurm.call("scontrol", "update", f"NodeName={slurm.host}", "State=RESUME")


@pytest.fixture(scope="module")
def projects(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The small study, run on Slurm and run locally, side by side."""
    folder = tmp_path_factory.mktemp("projects")
    found = {name: folder / name for name in ("slurm", "local")}
    with drivers() as started:
        for name, command in (("slurm", DRIVER), ("local", ("snakemake", "--cores", "1"))):
            new_project(found[name])
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(found[name])
                started.append(start(*command))
        for process in started:
            finish(process)
    return found


@pytest.fixture
def untrained(projects: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project whose full run is yet to be trained, as the current folder; its phases are one job of Slurm."""
    shutil.copytree(projects["local"], tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    write_study("tiny", slow_settings(cluster={"together": True, "minutes": 30}))
    shutil.rmtree("data/tiny/runs/full-s0")


def job_of(slurm: Slurm, run_name: str, *states: str) -> str:
    """The one job of a run, once there is one in these states."""
    found: list[str] = []

    def there() -> bool:
        found[:] = [job for job, comment in slurm.jobs(*states).items() if run_name in comment]
        return bool(found)

    wait_until(there, f"a job of {run_name} that is {states}", 120)
    assert len(found) == 1, found
    return found[0]


def saved_step(run_name: str) -> int:
    saves = [path.parent.name for path in Path(".work/tiny", run_name).glob("*/checkpoint-*/complete.json")]
    return max((int(name.removeprefix("checkpoint-")) for name in saves), default=0)


def wait_for_save(run_name: str, beyond: int = 0) -> int:
    wait_until(lambda: saved_step(run_name) > beyond, f"a save of {run_name} beyond step {beyond}", 120)
    return saved_step(run_name)


def trainer(run_name: str) -> int:
    """The process that holds a run."""
    owners = Path(".work/tiny", f"{run_name}.owners")
    newest = max((path for path in owners.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    return int(json.loads(newest.read_text())["pid"])


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output[-5000:]
    return output


def starts(run_name: str) -> list[int]:
    """The steps that a run was started from, job by job, as the logs say that Slurm keeps of each."""
    line = re.compile(rf"^tiny/{run_name}: (?:starts|goes on from step (\d+)), 200 steps$", re.MULTILINE)
    logs = sorted(Path(".snakemake/slurm_logs").rglob("*.log"), key=lambda path: int(path.stem))
    return [int(step or 0) for path in logs for step in line.findall(path.read_text())]


def test_the_whole_study_on_slurm_is_the_local_one_to_the_last_digit(projects: dict[str, Path]) -> None:
    found = []
    for folder in projects.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            found.append(left())
            assert "Nothing to be done" in run(*DRIVER, "-n")
    assert len(found[0][0]) == 12  # every checkpoint, history, record and score
    assert found[0] == found[1]


def test_jobs_nodes_and_the_controller_fail(
    slurm: Slurm, projects: dict[str, Path], driving: list[subprocess.Popen[str]]
) -> None:
    """A cancelled job, a drained node, a controller that is restarted, and a job past its time limit."""
    driver = start(*DRIVER)
    driving.append(driver)
    # A running job is cancelled: it saves and comes back.
    step = wait_for_save("full-s0")
    first = job_of(slurm, "full-s0", "RUNNING")
    slurm.call("scontrol", "update", f"NodeName={slurm.host}", "State=DRAIN", "Reason=test")
    slurm.call("scancel", first)
    # It waits for the node, which is drained, and for a controller that is restarted.
    second = job_of(slurm, "full-s0", "PENDING")
    assert second != first
    slurm.end("slurmctld")
    time.sleep(3)
    assert driver.poll() is None
    slurm.start_controller()
    assert job_of(slurm, "full-s0", "PENDING") == second
    assert saved_step("full-s0") >= step
    step = saved_step("full-s0")
    slurm.call("scontrol", "update", f"NodeName={slurm.host}", "State=RESUME")
    # It goes on, hangs, and is killed at its time limit.
    assert job_of(slurm, "full-s0", "RUNNING") == second
    wait_for_save("full-s0", beyond=step)
    os.kill(trainer("full-s0"), signal.SIGSTOP)
    step = saved_step("full-s0")
    assert slurm.call("scontrol", "update", f"JobId={second}", "EndTime=now+1") == ""
    assert job_of(slurm, "full-s0", "TIMEOUT") == second
    third = job_of(slurm, "full-s0", "PENDING", "RUNNING")
    limit = slurm.call("squeue", "-h", "-j", third, "-o", "%l")
    assert limit.strip() == "3:00:00", limit  # two phases of thirty minutes, at the third attempt
    output = finish(driver)
    assert output.count("Trying to restart job") == 2
    (log,) = Path(".snakemake/slurm_logs").rglob(f"{first}.log")
    assert "for it was told to (SIGTERM); it was saved and goes on from there" in log.read_text()
    assert starts("full-s0")[-1] >= step  # Slurm wakes a process before it ends it, and this one saves once more
    _nothing_lost_nor_trained_twice(projects, "full-s0", 3)


def test_the_driver_is_killed_and_two_start_again(
    slurm: Slurm, projects: dict[str, Path], driving: list[subprocess.Popen[str]]
) -> None:
    """A driver that is killed leaves its jobs at work; those of two others wait for them, and train nothing twice."""
    first = start(*DRIVER)
    driving.append(first)
    wait_for_save("full-s0")
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    orphan = job_of(slurm, "full-s0", "RUNNING")
    # It stands still until the jobs of both others wait for it.
    holder = trainer("full-s0")
    os.kill(holder, signal.SIGSTOP)
    both = [start(*DRIVER) for _ in range(2)]
    driving += both
    waits = f"tiny/full-s0: process {holder} on {socket.gethostname()} (job {orphan}) is at work on it"
    logs = Path(".snakemake/slurm_logs")
    wait_until(lambda: sum(waits in log.read_text() for log in logs.rglob("*.log")) == 2, "two that wait", 120)
    os.kill(holder, signal.SIGCONT)
    outputs = [driver.communicate(timeout=600)[0] for driver in both]
    run(*DRIVER)  # whatever the race of the two left out
    assert orphan in slurm.jobs("COMPLETED"), outputs
    _nothing_lost_nor_trained_twice(projects, "full-s0", 1)


def _nothing_lost_nor_trained_twice(projects: dict[str, Path], run_name: str, times: int) -> None:
    begun = starts(run_name)
    assert begun == sorted(begun)
    assert (begun.count(0), len(begun)) == (1, times), begun
    here = left()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(projects["local"])
        assert here == left()
    assert not list(Path(".work/tiny").glob("*/*/checkpoint-*"))


def test_every_command_of_the_guide_runs(
    slurm: Slurm, projects: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(projects["slurm"])
    monkeypatch.setenv("USER", "tester")
    blocks = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "docs/cluster.md").read_text(), re.MULTILINE | re.DOTALL)
    script = "\n".join(["set -euo pipefail", *blocks]).replace("micro-math", "tiny")
    output = run("bash", "-c", script)
    for expected in (
        "MinJobAge",
        "tiny: takes nothing from the hub",
        "tiny: 3 of 3 runs are trained",
        "Nothing to be done",
    ):
        assert expected in output, output[-5000:]
