"""Contributions to composites against numbers worked by hand, and against the plain ones where the two must agree."""

from __future__ import annotations

import numpy as np
import pytest

from onelayer.analysis.contribution import Bootstrap, scan


def test_one_set_draws_as_before() -> None:
    runs = np.random.default_rng(0).random((3, 12))
    one = Bootstrap(12, 200, 0.9, 4).scores(runs)
    assert np.array_equal(one, Bootstrap([12], 200, 0.9, 4).scores(runs))


def test_sets_are_drawn_apart() -> None:
    """Of two sets of constant figures a mean over draws within each set never moves; over all of them it would."""
    figures = np.array([[0.0] * 5 + [1.0] * 3])
    draws = Bootstrap([5, 3], 300, 0.9, 0).scores(figures)
    assert np.ptp(draws) < 1e-12
    assert draws[0] == pytest.approx(3 / 8)
    assert np.ptp(Bootstrap(8, 300, 0.9, 0).scores(figures)) > 0.1


def test_a_weighted_mean_over_sets() -> None:
    """Two sets of 4 and 2 problems with half the weight each: columns scaled by 6/8 and 6/4."""
    scale = np.array([6 / 8] * 4 + [6 / 4] * 2)
    base = np.array([[0.0, 0.0, 1.0, 1.0, 0.0, 0.5]]) * scale
    full = np.array([[1.0, 1.0, 1.0, 0.0, 0.5, 1.0]]) * scale
    layer = np.array([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]]) * scale
    found = scan(base, full, {0: layer}, Bootstrap([4, 2], 400, 0.9, 1))
    assert found.base.value == pytest.approx((0.5 + 0.25) / 2)
    assert found.full.value == pytest.approx((0.75 + 0.75) / 2)
    assert found.scores[0].value == pytest.approx((0.75 + 0.5) / 2)
    assert found.gain.value == pytest.approx(0.375)
