"""The whole graph on the real engines, disturbed: kills, a corrupt checkpoint, two at once."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from graph_project import (
    _untraced,
    everything,
    finished,
    here,
    metrics,
    run,
    settings,
    snakemake,
    start,
    trained,
)

from conftest import write_study

__all__ = ["_untraced", "finished", "here"]  # fixtures, by their names

pytestmark = pytest.mark.graph


def wait_for_save(run_name: str) -> None:
    for _ in range(1200):
        if list(Path(".work/tiny", run_name).glob("*/checkpoint-*/complete.json")):
            return
        time.sleep(0.05)
    raise AssertionError(f"{run_name} left no save in a minute")


def trainers() -> list[int]:
    """The processes that train in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"train" in words and (entry / "cwd").resolve() == Path.cwd():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def slow_settings() -> dict[str, Any]:
    slow = settings()
    slow["training"]["steps"] = 200
    slow["runs"]["layers"] = [1]
    return slow


@pytest.fixture(scope="module")
def undisturbed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, Any]]:
    """What the slow study leaves where nothing disturbs it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "project"
    shutil.copytree(finished, folder, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_study("tiny", slow_settings())
        snakemake()
        return everything(), metrics()


@pytest.mark.parametrize(("engine", "victim"), [("dvc", "everything"), ("snakemake", "trainer")])
def test_kill_in_the_middle_and_start_again(
    here: Path, undisturbed: tuple[dict[str, bytes], dict[str, Any]], engine: str, victim: str
) -> None:
    """However hard it ends, the next start goes on, and every figure equals an undisturbed run's."""
    write_study("tiny", slow_settings())
    command = ("dvc", "repro") if engine == "dvc" else ("snakemake", "--cores", "2")
    process = start(*command)
    wait_for_save("full-s0")
    assert Path("data/tiny/runs/full-s0/manifest.json").read_text().count('"steps": 10')  # still the old one
    if victim == "everything":
        os.killpg(process.pid, signal.SIGKILL)
    for pid in trainers():
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=300)
    assert process.returncode != 0
    output = run(*command)
    assert re.search(r"tiny/full-s0: goes on from step \d+, 200 steps", output)
    assert (everything(), metrics()) == undisturbed


def test_a_corrupt_checkpoint_is_found_and_trained_again(here: Path) -> None:
    path = Path("data/tiny/runs/layer-01-s0/adapted.safetensors")
    whole = path.read_bytes()
    path.unlink()  # DVC may have linked it to its cache
    path.write_bytes(whole[:-3] + b"abc")
    output = run("dvc", "repro")
    assert "layer-01-s0/adapted.safetensors: its sha256 is not the one its manifest records" in output
    assert trained(output) == {"layer-01-s0"}
    assert path.read_bytes() == whole


def test_two_drivers_at_once_train_nothing_twice(here: Path) -> None:
    shutil.rmtree("data/tiny/runs/layer-01-s0")
    first, second = start("snakemake", "--cores", "1"), start("snakemake", "--cores", "1")
    outputs = [process.communicate(timeout=600)[0] for process in (first, second)]
    started = [name for output in outputs for name in re.findall(r"tiny/(\S+): starts,", output)]
    assert started == ["layer-01-s0"], outputs
    snakemake()  # whatever the race left out
    assert "Nothing to be done" in snakemake("-n")


def test_a_second_make_in_one_folder_is_refused(tmp_path: Path) -> None:
    from conftest import ROOT

    script = str(ROOT / "workflow/scripts/exclusive.py")
    lock = str(tmp_path / "locks" / "make.lock")
    first = start("python", script, lock, "sleep", "60")
    try:
        for _ in range(200):
            if Path(lock).exists() and Path(lock).read_text():
                break
            time.sleep(0.05)
        output = run("python", script, lock, "echo", "ran", expect=2)
        assert output == (
            f"error: {lock}: held by process {first.pid}, which is already at work in this folder; wait for it to"
            " end, or stop it\n"
        )
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    assert run("python", script, lock, "echo", "ran") == "ran\n"
    run("python", script, lock, "false", expect=1)
