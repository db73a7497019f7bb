"""Baselines from the first problem to the page, really trained: each takes the rate of its own search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from conftest import TINY, deep_copy, write_study
from onelayer import phases
from onelayer.analysis.study import analyze
from onelayer.config import load_study
from onelayer.grid import all_runs, families, family_search_runs, find_runs, layer_runs
from onelayer.manifest import read_manifest
from onelayer.report.html import write_study_page
from onelayer.search import choose_rate, rank_layers
from onelayer.state import StudyState


@pytest.mark.usefixtures("project")
def test_from_search_to_page() -> None:
    settings = deep_copy(TINY)
    settings["runs"]["lora"] = {"rank": 2, "learning_rates": [0.001, 0.03]}
    settings["runs"]["tuned_layers"] = {"learning_rates": [0.002, 0.02]}
    write_study("tiny", settings)
    study = load_study("tiny")

    def done(*runs: str) -> None:
        phases.train_phase(study, find_runs(study, list(runs)), None)
        phases.evaluate_phase(study, find_runs(study, list(runs)), None)

    phases.prepare_phase(study)
    phases.base_phase(study)
    phases.evaluate_phase(study, find_runs(study, ["base"]), None)
    choose_rate(study)
    done("full-s0", *(run.name for run in layer_runs(study)))
    best = rank_layers(study)["layers"][0]["layer"]
    chosen = {}
    for family in families(study):
        done(*(run.name for run in family_search_runs(study, family)))
        chosen[family.name] = choose_rate(study, family)["learning_rate"]
        done(f"{family.name}-s0")

    state = StudyState(study, thorough=True)
    assert all(state.training(run).done and state.evaluation(run).done for run in all_runs(study))
    tuned = read_manifest(Path("data/tiny/runs/tuned-best-s0"))
    lora = read_manifest(Path("data/tiny/runs/lora-r2-s0"))
    assert tuned is not None
    assert lora is not None
    assert tuned.details["layers"] == tuned.settings["layers"] == [best]
    assert tuned.details["learning_rate"] == chosen["tuned-best"]
    assert lora.details["learning_rate"] == chosen["lora-r2"]
    names = load_file("data/tiny/runs/tuned-best-s0/adapted.safetensors")
    assert {name.split(".")[2] for name in names} == {str(best)}

    rows = {row["name"]: row for row in analyze(study)["baselines"]}
    assert list(rows) == ["full", f"layer-{best:02d}", "lora-r2", "tuned-best"]
    assert rows["tuned-best"]["layer"] == best
    assert rows["lora-r2"]["trained_parameters"] < rows["tuned-best"]["trained_parameters"]
    assert rows["tuned-best"]["trained_parameters"] == rows[f"layer-{best:02d}"]["trained_parameters"]
    assert rows["lora-r2"]["checkpoint_bytes"] < rows["full"]["checkpoint_bytes"]
    assert rows["lora-r2"]["search_seconds"] > 0
    scores = json.loads(Path("data/tiny/runs/lora-r2-s0/scores.json").read_text())
    assert rows["lora-r2"]["score"]["value"] == scores["report"]["score"]
    assert "Beside the baselines" in write_study_page("tiny").read_text()
    assert phases.verify(study, thorough=True) == []
    assert Path("data/tiny/ranking.json").exists()
