"""What strategies and rate sensitivity ask for, and what of it is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, deep_copy, write_study
from onelayer.config import load_study
from test_config import refused


def settings(depth: int = 4, **runs: Any) -> dict[str, Any]:
    changed = deep_copy(TINY)
    changed["model"]["layers"] = depth
    changed["runs"] = {"seeds": [0, 1], **runs}
    return changed


KEY = "studies/tiny.yaml: runs."


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "strategies: expected one of boost, only, middle, spread and random at least, found none"),
        ({"sizes": [], "middle": True}, "strategies.sizes: found []"),
        ({"sizes": [2, 2], "middle": True}, "strategies.sizes: expected each value once, found 2 more than once"),
        ({"sizes": [0], "middle": True}, "strategies.sizes[0]: found 0"),
        ({"sizes": [2, 5], "spread": True}, "strategies.sizes[1]: found 5, expected at most the model's 4 layers"),
        ({"sizes": [2], "boost": ["top"]}, "strategies.boost[0]: found 'top'"),
        ({"sizes": [2], "only": ["best", "best"]}, "strategies.only: expected each value once"),
        ({"sizes": [2], "boost": ["best"], "factor": 0}, "strategies.factor: found 0"),
        ({"sizes": [2], "boost": ["best"], "factor": -2}, "strategies.factor: found -2"),
        ({"sizes": [2], "boost": ["best"], "factor": float("inf")}, "strategies.factor: found inf"),
        ({"sizes": [2], "middle": True, "factor": 2}, "strategies: expected boost with factor"),
        ({"sizes": [2], "random": -1}, "strategies.random: found -1"),
        ({"sizes": [2], "random": 7}, "strategies.random: found 7 draws, expected at most 6"),
        ({"sizes": [2], "middle": True, "seeds": [0, 2]}, "strategies.seeds[1]: found 2, expected one of runs.seeds"),
        ({"sizes": [2], "middle": True, "seeds": []}, "strategies.seeds: found []"),
        ({"sizes": [2], "middle": True, "depth": 3}, "strategies.depth: unknown key"),
    ],
)
def test_refused_strategies(given: dict[str, Any], expected: str) -> None:
    message = refused(settings(strategies=given))
    assert message.startswith(KEY + expected)
    assert "\n" not in message


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "rate_sensitivity.factors: missing"),
        ({"factors": [3, 3.0000001]}, "rate_sensitivity.factors: expected each value once, found 3 more than once"),
        ({"factors": [0]}, "rate_sensitivity.factors[0]: found 0"),
        ({"factors": [1, 3]}, "rate_sensitivity: factors: found 1, expected other multiples"),
        ({"factors": [3], "layers": [0, 4]}, "rate_sensitivity.layers[1]: found layer 4, expected one that is scanned"),
        ({"factors": [3], "layers": [0], "count": 2}, "rate_sensitivity: count is of the layers from an end"),
        (
            {"factors": [3], "count": 3},
            "rate_sensitivity.count: found 3 layers from each of 2 ends, expected at most 2",
        ),
        ({"factors": [3], "seeds": [5]}, "rate_sensitivity.seeds[0]: found 5, expected one of runs.seeds"),
    ],
)
def test_refused_rates(given: dict[str, Any], expected: str) -> None:
    message = refused(settings(rate_sensitivity=given))
    assert message.startswith(KEY + expected)
    assert "\n" not in message


@pytest.mark.usefixtures("project")
def test_a_ranking_of_few_layers_gives_few() -> None:
    runs = {"layers": [1, 3], "strategies": {"sizes": [3], "only": ["worst"]}}
    assert "strategies.sizes[0]: found 3, expected at most 2: boost and only take their layers" in refused(
        settings(**runs)
    )
    unscanned = settings(rate_sensitivity={"factors": [3], "layers": [2]})
    unscanned["runs"]["layers"] = [1, 3]
    assert "found layer 2, expected one that is scanned, whose runs are those at 1 (1, 3)" in refused(unscanned)
    assert not Path("data").exists()


@pytest.mark.usefixtures("project")
def test_layers_of_no_ranking_are_of_the_whole_model() -> None:
    write_study("tiny", settings() | {"runs": {"layers": [1, 3], "strategies": {"sizes": [3], "middle": True}}})
    assert load_study("tiny").runs.strategies is not None
