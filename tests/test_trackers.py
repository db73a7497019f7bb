"""Trackers are told of a run's curves where a study names them, and change nothing else."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from conftest import TINY, deep_copy, write_study
from onelayer import phases, trackers
from onelayer.config import load_study
from onelayer.errors import UserError
from onelayer.grid import find_runs
from onelayer.manifest import read_manifest
from onelayer.store import read_json


def report_to(*names: str) -> None:
    settings = deep_copy(TINY)
    settings["resources"]["report_to"] = list(names)
    write_study("tiny", settings)


@pytest.mark.usefixtures("project")
def test_tensorboard_gets_the_curve_of_every_run_and_the_run_stays_the_same() -> None:
    phases.prepare_phase(load_study("tiny"))
    phases.base_phase(load_study("tiny"))
    manifests = []
    for names in ((), ("tensorboard",)):
        report_to(*names)
        study = load_study("tiny")
        phases.train_phase(study, find_runs(study, ["layer-00-s0"]), None)
        manifests.append(read_manifest(Path("data/tiny/runs/layer-00-s0")))
        assert Path("logs/tiny/tensorboard").exists() == bool(names)
        if not names:
            shutil.rmtree("data/tiny/runs/layer-00-s0")
    plain, tracked = manifests
    assert plain is not None
    assert tracked is not None
    assert plain.fingerprint == tracked.fingerprint
    assert plain.files == tracked.files
    told = EventAccumulator("logs/tiny/tensorboard/layer-00-s0").Reload()
    rewards = [(event.step, round(event.value, 6)) for event in told.Scalars("train/reward")]
    history = read_json(Path("data/tiny/runs/layer-00-s0/history.json"), "")
    assert rewards == [(row["step"], round(row["reward"], 6)) for row in history]
    assert "TENSORBOARD_LOGGING_DIR" not in os.environ
    assert not [path for path in Path("data").rglob("*") if "tfevents" in path.name]


@pytest.mark.usefixtures("project")
def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(trackers, "version", missing)
    report_to("wandb")
    study = load_study("tiny")
    for refused in (
        lambda: phases.prepare_phase(study),
        lambda: phases.train_phase(study, find_runs(study, ["full-s0"]), None),
    ):
        with pytest.raises(
            UserError, match=r"studies/tiny.yaml: resources.report_to: found wandb, .*`pip install wandb`"
        ):
            refused()
    assert not Path("data/tiny").exists()


@pytest.mark.usefixtures("project")
def test_what_the_user_set_for_a_tracker_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    report_to("tensorboard")
    with trackers.tracking(load_study("tiny"), "full-s0"):
        assert os.environ["WANDB_PROJECT"] == "mine"
        assert os.environ["TENSORBOARD_LOGGING_DIR"].endswith("logs/tiny/tensorboard/full-s0")
    assert os.environ["WANDB_PROJECT"] == "mine"
    assert "TENSORBOARD_LOGGING_DIR" not in os.environ
