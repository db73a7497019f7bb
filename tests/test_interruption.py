"""A run that is told to stop, or whose job ends soon, saves between rollouts and resumes to the same result."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import TINY, deep_copy, new_project, write_study
from onelayer import interruption, phases, training
from onelayer.config import load_study
from onelayer.grid import find_runs
from onelayer.interruption import InterruptedWorkError, parse_time_left, reason_to_stop, seconds_left

SETTINGS = deep_copy(TINY)
SETTINGS["task"]["sizes"]["train"] = 8  # two rollouts an epoch,
SETTINGS["training"] |= {"steps": 8, "prompts_per_minibatch": 2}  # of two steps each
SETTINGS["resources"]["save_every_seconds"] = 1000


def results(run: str) -> dict[str, bytes]:
    folder = Path("data/tiny/runs", run)
    return {name: (folder / name).read_bytes() for name in ("adapted.safetensors", "history.json")}


def train(run: str) -> None:
    study = load_study("tiny")
    phases.train_phase(study, find_runs(study, [run]), None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    with new_project(folder, SETTINGS):
        study = load_study("tiny")
        phases.prepare_phase(study)
        phases.base_phase(study)
        train("layer-01-s0")
    return folder


@pytest.fixture
def whole(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What the run left undisturbed; here it is yet to be trained."""
    shutil.copytree(trained, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    found = results("layer-01-s0")
    shutil.rmtree("data/tiny/runs/layer-01-s0")
    return found


def at_step(step: int, what: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Let something happen in the middle of a run, before a step."""
    original = training.WorkplaceCallback.on_step_begin

    def happen(self: training.WorkplaceCallback, args: object, state: object, *rest: object, **more: object) -> None:
        original(self, args, state, *rest, **more)  # type: ignore[arg-type]
        if state.global_step == step:  # type: ignore[attr-defined]
            what()

    patch.setattr(training.WorkplaceCallback, "on_step_begin", happen)


def test_told_to_stop_it_saves_after_the_rollout_and_goes_on_to_the_same_result(
    whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at_step(2, lambda: os.kill(os.getpid(), signal.SIGTERM), patch)
        with pytest.raises(InterruptedWorkError) as caught:
            train("layer-01-s0")
    assert str(caught.value) == (
        "tiny/layer-01-s0: stopped after step 4 of 8, for it was told to (SIGTERM); it was saved and goes on from there"
    )
    assert not Path("data/tiny/runs/layer-01-s0/manifest.json").exists()
    capsys.readouterr()
    train("layer-01-s0")
    assert "tiny/layer-01-s0: goes on from step 4, 8 steps" in capsys.readouterr().out
    assert results("layer-01-s0") == whole


def test_before_the_job_ends_it_saves_in_time_for_one_more_rollout(
    whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def reason(seconds_to_next: float = 0.0) -> str | None:
        asked.append(seconds_to_next)
        return "its job ends" if len(asked) == 3 else None

    monkeypatch.setattr(training, "reason_to_stop", reason)
    with pytest.raises(InterruptedWorkError, match="stopped after step 6 of 8, for its job ends"):
        train("layer-01-s0")
    assert len(asked) == 3  # between rollouts only
    assert all(0 < seconds < 60 for seconds in asked)
    assert asked == sorted(asked)  # the longest rollout so far decides
    train("layer-01-s0")
    assert results("layer-01-s0") == whole


@pytest.mark.usefixtures("whole")
def test_the_command_ends_with_a_code_of_its_own_and_no_traceback() -> None:
    longer = deep_copy(SETTINGS)
    longer["training"]["steps"] = 100_000
    write_study("tiny", longer)
    with subprocess.Popen(
        ["onelayer", "train", "tiny", "full-s0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "starts, " in line:
                break
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == interruption.COME_BACK == 75, output
    assert "it was saved and goes on from there" in output
    assert "Traceback" not in output
    assert list(Path(".work/tiny/full-s0").glob("*/checkpoint-*/complete.json"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10\n", 10),
        ("1:05", 65),
        ("2:00:01", 7201),
        ("1-00:00:00", 86400),
        ("3-02:01:00", 266460),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_times_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert parse_time_left(text) == seconds


def test_the_end_of_the_job_is_of_the_environment_or_of_squeue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert seconds_left({}) is None
    end = seconds_left({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": str(int(time.time()) + 100)})
    assert end is not None
    assert 90 < end <= 100
    monkeypatch.setenv("PATH", str(tmp_path))
    assert seconds_left({"SLURM_JOB_ID": "7"}) is None
    assert "the time limit of Slurm job 7 is not known, so it is not heeded" in capsys.readouterr().out
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\n[ "$3" = 7 ] && echo 1:40\n')
    squeue.chmod(0o755)
    assert seconds_left({"SLURM_JOB_ID": "7"}) == 100


def test_there_is_a_reason_to_stop_only_while_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 100))
    assert reason_to_stop(1000) is None
    with interruption.listening():
        assert reason_to_stop() is None
        assert reason_to_stop(60) is None
        reason = reason_to_stop(95)
        assert reason is not None
        assert reason.startswith("its job ends in ")
        interruption.check("x")
        os.kill(os.getpid(), signal.SIGTERM)
        assert reason_to_stop() == "it was told to (SIGTERM)"
        with pytest.raises(InterruptedWorkError, match="x: stopped before it began"):
            interruption.check("x")
    assert reason_to_stop(1000) is None
