"""Strategies from the first problem to the page, really trained."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conftest import TINY, deep_copy, write_study
from onelayer import phases
from onelayer.analysis.study import analyze
from onelayer.config import load_study
from onelayer.grid import Run, all_runs, find_runs, full_runs, layer_runs, sensitivity_runs, strategy_runs
from onelayer.manifest import Manifest, read_manifest
from onelayer.report.html import write_study_page
from onelayer.search import choose_rate, rank_layers
from onelayer.state import StudyState
from training_probes import interrupted_at


def manifest(run: str) -> Manifest:
    found = read_manifest(Path(f"data/tiny/runs/{run}"))
    assert found is not None
    return found


def tensors(run: str) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in load_file(f"data/tiny/runs/{run}/adapted.safetensors").items()}


def settings() -> dict[str, Any]:
    changed = deep_copy(TINY)
    changed["model"]["pretraining"]["steps"] = 200  # a base that is right now and then, so that there is a gradient
    changed["training"] |= {"prompts_per_batch": 8, "group_size": 8}
    changed["runs"]["strategies"] = {"sizes": [1], "boost": ["best"], "only": ["worst"], "spread": True, "random": 1}
    changed["runs"]["rate_sensitivity"] = {"layers": ["best"], "factors": [3]}
    return changed


@pytest.mark.usefixtures("project")
def test_from_ranking_to_page() -> None:
    write_study("tiny", settings())
    study = load_study("tiny")

    def done(*runs: Run) -> None:
        phases.train_phase(study, runs, None)
        phases.evaluate_phase(study, runs, None)

    phases.prepare_phase(study)
    phases.base_phase(study)
    phases.evaluate_phase(study, find_runs(study, ["base"]), None)
    choose_rate(study)
    done(*full_runs(study), *layer_runs(study))
    best, worst = (row["layer"] for row in rank_layers(study)["layers"])
    done(*strategy_runs(study), *sensitivity_runs(study))

    state = StudyState(study, thorough=True)
    assert all(state.training(run).done and state.evaluation(run).done for run in all_runs(study))
    boost, only, rate = (manifest(run) for run in ("boost-best1-s0", "only-worst1-s0", "rate-x3-best-1-s0"))
    assert boost.settings["layers"] == boost.details["layers"] == [best]
    assert boost.settings["boost"] == boost.details["boost"] == 2.0
    of_layer = manifest(f"layer-0{best}-s0").details["trained_parameters"]
    assert boost.details["weights_by_rate"] == {"0.001": boost.details["parameters"] - of_layer, "0.002": of_layer}
    assert boost.details["trained_parameters"] == boost.details["parameters"]
    assert only.details["layers"] == [worst]
    assert {name.split(".")[2] for name in tensors("only-worst1-s0")} == {str(worst)}
    assert (rate.details["learning_rate"], rate.details["rate_factor"]) == (0.003, 3.0)
    assert {name.split(".")[2] for name in tensors("rate-x3-best-1-s0")} == {str(best)}

    result = analyze(study)
    rows = {row["name"]: row for row in result["strategies"]}
    assert list(rows) == ["boost-best1", "only-worst1", "spread1", "random1"]
    assert rows["boost-best1"]["trained_parameters"] == boost.details["parameters"]
    assert rows["boost-best1"]["train_seconds"] == boost.wall_seconds
    assert rows["only-worst1"]["trained_parameters"] == of_layer
    assert [row["layer"] for row in result["rate_sensitivity"]["rows"]] == [best]
    assert write_study_page("tiny").exists()

    whole = tensors("boost-best1-s0")
    assert boost.details["moved"]
    shutil.rmtree("data/tiny/runs/boost-best1-s0")
    with interrupted_at(2):
        phases.train_phase(study, find_runs(study, ["boost-best1-s0"]), None)
    done(*find_runs(study, ["boost-best1-s0"]))
    again = tensors("boost-best1-s0")
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert phases.verify(study, thorough=True) == []
