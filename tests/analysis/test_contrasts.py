"""Weighted sums of arms' scores by hand, and their parts against an additive model fitted by least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from onelayer.analysis.contrasts import ArmScore, contrast
from onelayer.analysis.problem_sets import ProblemSets


def arm(value: float, draws: list[float], seeds: int = 1, between: float = 0.0, residual: float = 0.0) -> ArmScore:
    return ArmScore(value, np.array(draws), 101, seeds, between, residual)


def test_by_hand() -> None:
    first = arm(0.6, [0.5, 0.7], seeds=3, between=0.02, residual=0.005)
    second = arm(0.4, [0.4, 0.4], seeds=2, between=0.01, residual=0.005)
    found = contrast([(1.0, first), (-2.0, second)])
    # Over the draws 0.1² ; of the seeds (0.02 − 0.005) + 4 (0.01 − 0.005).
    assert found.value == pytest.approx(-0.2)
    assert found.variance == pytest.approx(0.01 + 0.015 + 0.02)
    assert found.freedom == pytest.approx(0.045**2 / (0.01**2 / 100 + 0.02**2 / 2 + 0.04**2 / 1))
    assert found.p == pytest.approx(2 * stats.t.sf(0.2 / math.sqrt(0.045), found.freedom))
    assert found.reach(0.9) == pytest.approx(stats.t.ppf(0.95, found.freedom) * math.sqrt(0.045))
    assert contrast([(1.0, first), (-2.0, second)], shared=0.04).variance == pytest.approx(0.075)


def test_seeds_that_vary_less_than_their_answers_take_nothing_off_the_problems() -> None:
    found = contrast([(1.0, arm(0.6, [0.5, 0.7], seeds=3, between=0.001, residual=0.005))])
    assert found.variance == pytest.approx(0.01)


def test_what_seed_and_problem_do_together_is_the_residual_of_an_additive_model() -> None:
    rng = np.random.default_rng(3)
    runs = rng.uniform(size=(3, 10))
    sets = ["a"] * 4 + ["b"] * 6
    expected = 0.0
    for name, weight in (("a", 0.5), ("b", 0.5)):
        part = runs[:, [one == name for one in sets]]
        seeds, problems = part.shape
        rows = np.kron(np.eye(seeds), np.ones((problems, 1)))
        columns = np.kron(np.ones((seeds, 1)), np.eye(problems))
        design = np.hstack([rows, columns])
        fitted = design @ np.linalg.lstsq(design, part.ravel(), rcond=None)[0]
        mean_square = ((part.ravel() - fitted) ** 2).sum() / ((seeds - 1) * (problems - 1))
        expected += weight**2 * mean_square / problems
    assert ProblemSets(sets).residual(runs) == pytest.approx(expected)
    assert ProblemSets(["a", "b"]).residual(runs[:, :2]) == 0  # one problem a set: nothing to tell the two apart
