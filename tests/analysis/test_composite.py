"""Composite scores against numbers worked by hand."""

from __future__ import annotations

import math

import pytest

from onelayer.analysis.composite import composites, mean_of
from onelayer.analysis.sampling import Estimate
from onelayer.suite.benchmarks import leaves, weights

MEMBERS = {
    "math": ["math500", "gsm8k", "olympiadbench", "amc"],
    "code": ["humaneval-plus", "mbpp"],
    "overall": ["math", "code"],
}
SCORES = {
    "math500": Estimate(0.6, 0.02),
    "gsm8k": Estimate(0.8, 0.01),
    "olympiadbench": Estimate(0.25, 0.02),
    "amc": Estimate(0.35, 0.04),
    "humaneval-plus": Estimate(0.4, 0.03),
    "mbpp": Estimate(0.6, 0.04),
}


def test_by_hand() -> None:
    found = composites(SCORES, MEMBERS)
    assert found["math"] is not None
    assert found["code"] is not None
    assert found["overall"] is not None
    assert found["math"].value == pytest.approx(0.5)
    assert found["math"].se == pytest.approx(0.05 / 4)  # 0.02² + 0.01² + 0.02² + 0.04² = 0.05²
    assert found["code"].value == pytest.approx(0.5)
    assert found["code"].se == pytest.approx(0.025)
    # The mean of two categories, not of six benchmarks: moving a code score weighs twice as much.
    assert found["overall"].value == pytest.approx(0.5)
    assert found["overall"].se == pytest.approx(math.hypot(0.0125, 0.025) / 2)
    moved = composites({**SCORES, "mbpp": Estimate(0.8, 0.04)}, MEMBERS)["overall"]
    assert moved is not None
    assert moved.value == pytest.approx((0.5 + 0.6) / 2)


def test_a_missing_part_leaves_it_undefined() -> None:
    found = composites({name: score for name, score in SCORES.items() if name != "amc"}, MEMBERS)
    assert found["math"] is None
    assert found["overall"] is None
    assert found["code"] is not None


def test_an_unknown_error_is_not_taken_for_none() -> None:
    assert mean_of([Estimate(0.2, None), Estimate(0.4, 0.1)]) == Estimate(pytest.approx(0.3), None)


def test_weights_add_up() -> None:
    assert weights("overall", MEMBERS) == {
        "math500": 0.125, "gsm8k": 0.125, "olympiadbench": 0.125, "amc": 0.125, "humaneval-plus": 0.25, "mbpp": 0.25,
    }  # fmt: skip
    assert weights("amc", MEMBERS) == {"amc": 1.0}
    assert leaves("overall", MEMBERS) == tuple(SCORES)
    overall = composites(SCORES, MEMBERS)["overall"]
    assert overall is not None
    assert overall.value == pytest.approx(
        sum(SCORES[name].value * w for name, w in weights("overall", MEMBERS).items())
    )
