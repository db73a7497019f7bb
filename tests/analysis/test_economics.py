"""What runs took, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.made_evidence import Answer, make_evidence, make_study
from onelayer.analysis.cost import economics


def answers(right: int) -> list[list[Answer]]:
    return [[("a", number < right)] for number in range(10)]


def cost(train: float, memory: int, size: int) -> dict[str, Any]:
    return {"train_seconds": train, "evaluate_seconds": 2.0, "peak_memory_bytes": memory, "checkpoint_bytes": size,
            "trained_parameters": size // 4}  # fmt: skip


RIGHT = {"base": 2, "full-s0": 8, "full-s1": 6, "layer-00-s0": 4, "layer-00-s1": 6}
RUNS = {name: answers(right) for name, right in RIGHT.items()}
COSTS = {
    "base": cost(100, 500, 400) | {"trained_parameters": None},
    "full-s0": cost(30, 1000, 400),
    "full-s1": cost(50, 900, 400),
    "layer-00-s0": cost(20, 600, 100),
    "layer-00-s1": cost(28, 700, 100),
}


def test_costs_by_setting() -> None:
    details = {name: {"tokens": 50 + number, "device": "cpu"} for number, name in enumerate(RUNS) if name != "base"}
    found = economics(make_evidence(make_study(layers=1), RUNS, details=details), COSTS)
    base, full, layer = found["settings"]
    assert full["train_seconds"] == 40
    assert full["peak_memory_bytes"] == 1000
    assert full["train_tokens"] == 51.5
    assert base["train_tokens"] is None
    assert full["evaluate_tokens"] == 100
    assert layer["of_full"] == {
        "train_seconds": 0.6, "peak_memory_bytes": 0.7, "checkpoint_bytes": 0.25, "trained_parameters": 0.25,
    }  # fmt: skip
    assert set(base["of_full"].values()) == {None}
    assert full["gain"]["value"] == pytest.approx(0.5)
    assert full["gain_per_hour"]["value"] == pytest.approx(0.5 / 40 * 3600)
    assert full["gain_per_hour"]["low"] == pytest.approx(full["gain"]["low"] * 90)
    assert layer["gain_per_hour"]["value"] == pytest.approx(0.3 / 24 * 3600)
    assert base["gain"] is None
    assert found["machines"] == ["cpu, 2 processors"]


def test_a_whole_scan_beside_one_full_run() -> None:
    scan = economics(make_evidence(make_study(layers=1), RUNS), COSTS)["scan"]
    assert scan["one_full_run_seconds"] == 42
    assert scan["seconds"] == 30 + 50 + 20 + 28 + 4 * 2
    assert scan["in_full_runs"] == pytest.approx(136 / 42)
    assert scan["parts"]["search"] == {"runs": 0, "train_seconds": 0.0, "evaluate_seconds": 0.0}
    assert scan["base"]["train_seconds"] == 100
    assert scan["others"]["runs"] == 0
    assert scan["missing"] == 0


def test_runs_that_are_not_there_are_counted_as_missing() -> None:
    there = {name: problems for name, problems in RUNS.items() if name != "layer-00-s1"}
    found = economics(make_evidence(make_study(layers=1), there), COSTS)
    assert found["scan"]["missing"] == 1
    assert found["settings"][2]["runs"] == 1
    assert found["settings"][2]["train_seconds"] == 20
    assert found["scan"]["seconds"] == 30 + 50 + 20 + 3 * 2
