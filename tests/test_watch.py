"""Where runs stand, told from the files that whoever works on them leaves."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conftest import TINY, deep_copy, write_study
from onelayer import watch
from onelayer.config import load_study
from onelayer.errors import UserError
from onelayer.grid import find_runs
from onelayer.interruption import InterruptedWorkError
from onelayer.ownership import OwnershipLostError
from onelayer.progress import failures_noted, read_failure, read_progress, tell
from onelayer.state import StudyState
from onelayer.store import exclusive, work_folder

pytestmark = pytest.mark.usefixtures("project")


def said(run: str, **changed: Any) -> None:
    folder = work_folder("tiny", run) / "0123456789abcdef"
    tell(folder, "training", 3, 9, 12.0, reward=0.25, learning_rate=0.002, memory_bytes=1_500_000_000)
    if changed:
        path = folder / "progress.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def standpoint(run: str) -> watch.Standpoint:
    study = load_study("tiny")
    return watch.standpoint(study, StudyState(study), find_runs(study, [run])[0])


def shown(*, live: bool = False) -> str:
    out = Console(file=io.StringIO(), width=160)
    for part in watch._study(load_study("tiny"), everything=not live):
        out.print(part)
    text: str = out.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_run_at_work_says_all_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    said("full-s0", host="node3")
    with exclusive("tiny", "full-s0"):
        text = shown(live=True)
    for figure in ("at work: training", "3/9", "0.250", "0.002", "12 s", "4711 on node3", "1.50 GB"):
        assert figure in text
    assert "1 at work, 3 waiting" in text
    assert "layer-00-s0" not in text  # it says nothing: it only waits
    assert "layer-00-s0" in shown()


def test_a_job_of_an_array_is_named_as_squeue_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SLURM_JOB_ID", "4713"), ("SLURM_ARRAY_JOB_ID", "4711"), ("SLURM_ARRAY_TASK_ID", "2")):
        monkeypatch.setenv(name, value)
    said("full-s0")
    progress = read_progress("tiny", "full-s0")
    assert progress is not None
    assert progress.job == "4711_2"


def test_a_run_whose_process_is_gone_is_stopped_however_fresh_its_last_word() -> None:
    said("full-s0", pid=2**22 + 1)
    assert standpoint("full-s0").text == "stopped: training"
    assert " 12 s" not in shown()  # nobody works on it, so no time is left to tell


@pytest.mark.parametrize(
    ("silence", "left", "told"),
    [(100, 12.0, False), (130, 12.0, True), (130, 600.0, False), (3600, 600.0, True)],
    ids=["short", "longer than five short steps", "of steps of 100 s", "longer than five long steps"],
)
def test_a_process_that_holds_a_run_and_says_nothing(silence: float, left: float, told: bool) -> None:
    said("full-s0", said=time.time() - silence, seconds_left=left)
    with exclusive("tiny", "full-s0"):
        assert ("silent for" in standpoint("full-s0").text) == told


def test_the_last_error_is_shown_until_the_next_start() -> None:
    for error in (UserError("the disk is full"), ValueError("odd")):
        with pytest.raises(type(error)), failures_noted("tiny", "layer-01-s0"):
            raise error
        assert str(error) in shown(live=True)
    failure = read_failure("tiny", "layer-01-s0")
    assert failure is not None
    assert failure.message == "ValueError: odd"
    with failures_noted("tiny", "layer-01-s0"):
        assert read_failure("tiny", "layer-01-s0") is None
    assert "odd" not in shown()


@pytest.mark.parametrize("stopped", [InterruptedWorkError("its time is up"), OwnershipLostError("taken over")])
def test_work_that_stops_in_good_order_did_not_fail(stopped: Exception) -> None:
    said("full-s0")
    with pytest.raises(type(stopped)), failures_noted("tiny", "full-s0"):
        raise stopped
    assert read_failure("tiny", "full-s0") is None
    assert standpoint("full-s0").text == "stopped: training"


def test_an_unreadable_word_is_no_word() -> None:
    said("full-s0")
    next(Path(".work/tiny/full-s0").glob("*/progress.json")).write_text("{")
    assert read_progress("tiny", "full-s0") is None
    assert standpoint("full-s0").kind == "waiting"


def test_watching_draws_anew_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = {"TERM": "xterm"}  # a dumb terminal shows the last state alone
    out = Console(file=io.StringIO(), width=120, force_terminal=True, _environ=screen)
    waited = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        said("full-s0", step=len(waited))
        if len(waited) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", sleep)
    with exclusive("tiny", "full-s0"):
        watch.watch_status([load_study("tiny")], 7.0, out)
    text: str = out.file.getvalue()  # type: ignore[attr-defined]
    assert waited == [7.0, 7.0, 7.0]
    assert "1/9" in text
    assert "2/9" in text
    assert "3/9" not in text


def test_sampling_says_how_far_it_is_and_takes_its_word_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from onelayer import evaluate, phases

    said_of: list[str] = []

    def telling(folder: Path, phase: str, step: int, steps: int, left: float) -> None:
        tell(folder, phase, step, steps, left)
        said_of.append(f"{standpoint('base').text} {step}/{steps}")

    few = deep_copy(TINY)
    few["evaluation"]["batch_size"] = 8
    write_study("tiny", few)
    study = load_study("tiny")
    monkeypatch.setattr(evaluate, "tell", telling)
    monkeypatch.setattr(evaluate, "_SECONDS_BETWEEN_WORDS", 0.0)
    phases.prepare_phase(study)
    phases.base_phase(study)
    phases.evaluate_phase(study, find_runs(study, ["base"]), None)
    assert said_of == [
        "at work: sampling select, sample 8/16",
        *(f"at work: sampling report, sample {done}/28" for done in (8, 16, 24)),
        "at work: sampling report, greedy 8/14",
    ]
    assert standpoint("base").kind == "done"
    assert not list(Path(".work").rglob("progress.json"))
