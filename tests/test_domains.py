"""Each domain and algorithm through every phase: programs under Dr. GRPO, episodes under GiGPO and GRPO."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, deep_copy, write_params, write_study
from onelayer.analysis.study import analyze
from onelayer.compare import METRICS, compare
from onelayer.config import ReportOptions, Study, load_study
from onelayer.grading.worker import GradingError
from onelayer.grid import BASE, all_runs
from onelayer.manifest import read_manifest
from onelayer.phases import base_phase, evaluate_phase, prepare_phase, train_phase
from onelayer.records import read_records
from onelayer.report.html import write_report, write_study_page
from onelayer.store import HISTORY, read_json, run_folder
from onelayer.tasks.contract import Outcome, WorldError
from onelayer.tasks.household import HouseholdWorld


def settings_of(kind: str, algorithm: str) -> dict[str, Any]:
    settings = deep_copy(TINY)
    settings["algorithm"] = algorithm
    settings["runs"] = {"seeds": [0], "layers": [1]}
    settings["model"]["context"] = 64
    settings["model"]["pretraining"] |= {"steps": 150 if kind == "household" else 60, "batch_size": 32}
    settings["model"] |= {"width": 32, "intermediate": 64}
    if kind == "household":
        settings["task"] = {
            "kind": "household", "rooms": 2, "things": 1, "max_turns": 5, "careless": 0.5,
            "sizes": {"train": 2, "select": 1, "report": 1},
        }  # fmt: skip
        settings["training"] |= {"max_tokens": 2, "prompts_per_batch": 2, "group_size": 8}
        settings["evaluation"] |= {"max_tokens": 2, "samples": 10}
    else:
        settings["task"] = {
            "kind": "expressions", "sizes": {"train": 20, "select": 5, "report": 10},
            "sandbox": {"seconds": 2, "memory_mb": 256},
        }  # fmt: skip
        settings["training"] |= {"max_tokens": 7}
        settings["evaluation"] |= {"max_tokens": 7}
    return settings


def run_all(name: str, settings: dict[str, Any]) -> Study:
    write_study(name, settings)
    study = load_study(name)
    prepare_phase(study)
    base_phase(study)
    runs = [run for run in all_runs(study) if run is not BASE]
    train_phase(study, runs, None)
    evaluate_phase(study, all_runs(study), None)
    return study


@pytest.fixture(scope="module")
def project_of_worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies of one household, under GiGPO and under GRPO."""
    folder = tmp_path_factory.mktemp("domains")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_params(["gigpo", "grpo"])
        for algorithm in ("gigpo", "grpo"):
            study = run_all(algorithm, settings_of("household", algorithm))
            analyze(study)
    return folder


def test_episodes_from_settings_to_report(project_of_worlds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project_of_worlds)
    records = read_records("gigpo", "full-s0")
    assert set(records["status"]) == {"ok"}
    assert records["completion"].str.contains("\n").all()
    history = read_json(run_folder("gigpo", "full-s0") / HISTORY, "")
    assert all({"success", "turns", "invalid"} <= row.keys() and "clipped" not in row for row in history)
    # Same base, same instances, same first batch: the algorithms differ in what they make of it.
    other = read_json(run_folder("grpo", "full-s0") / HISTORY, "")
    assert history[0]["success"] == other[0]["success"]
    assert history[0]["grad_norm"] != other[0]["grad_norm"]

    compare(["gigpo", "grpo"])
    assert json.loads(METRICS.read_text())["correlations"]["gigpo~grpo"]["layers"] == 1
    page = write_report(["gigpo", "grpo"], ReportOptions()).read_text()
    assert "gigpo beside grpo" in page
    assert "share of episodes won in a batch" in page
    alone = write_study_page("gigpo")
    assert alone == Path("data/gigpo/report.html")
    assert "gigpo beside grpo" not in alone.read_text()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_programs_from_settings_to_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_params(["programs"])
    study = run_all("programs", settings_of("expressions", "dr_grpo"))
    records = read_records("programs", "layer-01-s0")
    assert set(records["status"]) <= {"ok", "timeout", "crashed"}
    manifest = read_manifest(run_folder("programs", "layer-01-s0"))
    assert manifest is not None
    assert manifest.settings["algorithm"] == "dr_grpo"
    assert manifest.settings["grading"]["limits"] == {"seconds": 2.0, "memory_mb": 256}
    assert manifest.details["failed_judgements"] == 0
    assert analyze(study)["algorithm"] == "dr_grpo"


def test_without_a_sandbox_no_program_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that does not start ends the run with a message; nothing is scored 0, nothing is left for done."""
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "bin"
    empty.mkdir()
    write_params(["programs"])
    write_study("programs", settings_of("expressions", "dr_grpo"))
    study = load_study("programs")
    prepare_phase(study)
    base_phase(study)
    monkeypatch.setenv("PATH", str(empty))
    with pytest.raises(Exception, match="bubblewrap"):
        evaluate_phase(study, [BASE], None)
    assert not (run_folder("programs", "base") / "records.parquet").exists()


class _Fragile(HouseholdWorld):
    """Households that break down every fourth time that a thing is taken."""

    taken = 0

    def act(self, action: str) -> Outcome:
        _Fragile.taken += action == "a"
        if action == "a" and _Fragile.taken % 4 == 0:
            raise WorldError("the shelf fell down")
        return super().act(action)


@pytest.mark.parametrize("failures", ["stop", "count"])
def test_broken_worlds_stop_a_run_or_are_counted_and_said(
    project_of_worlds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: str
) -> None:
    shutil.copytree(project_of_worlds, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    settings = settings_of("household", "gigpo")
    settings["grading"] = {"failures": failures}
    settings["training"] |= {"steps": 2, "prompts_per_batch": 2}
    write_study("gigpo", settings)
    study = load_study("gigpo")
    monkeypatch.setattr("onelayer.tasks.household.HouseholdWorld", _Fragile)
    runs = [run for run in all_runs(study) if run is not BASE]
    if failures == "stop":
        with pytest.raises(GradingError, match="the world failed: the shelf fell down"):
            train_phase(study, runs, None)
        return
    train_phase(study, runs, None)
    evaluate_phase(study, all_runs(study), None)
    manifest = read_manifest(run_folder("gigpo", "full-s0"))
    assert manifest is not None
    history = read_json(run_folder("gigpo", "full-s0") / HISTORY, "")
    assert manifest.details["failed_judgements"] == round(sum(row.get("broken", 0) for row in history) * 16) > 0
    notes = " ".join(analyze(study)["notes"])
    assert "of the episodes could not be judged and were left out of the score" in notes
    assert "answers broke in training; they were left out" in notes
