"""Profiles of models of different depth, laid over each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import interp1d

from analysis.test_correlation import ranking
from onelayer.analysis.correlation import correlate_over_depth
from onelayer.analysis.depth import lay_over

SCANS = st.tuples(st.integers(2, 12), st.integers(0, 8)).flatmap(
    lambda sizes: st.tuples(
        st.just(sizes[0]),
        st.sets(st.integers(0, sizes[0] - 1), min_size=1),
        st.just(sizes[0] + sizes[1]),
        st.sets(st.integers(0, sizes[0] + sizes[1] - 1), min_size=2),
    )
)


def test_by_hand() -> None:
    """Depths 0, 1/3, 2/3, 1 among 0, 1/4, 1/2, 3/4, 1: 1/3 lies a third of the way from 1/4 to 1/2."""
    grid = lay_over([0, 1, 2, 3], 4, [0, 1, 2, 3, 4], 5)
    assert grid.depths == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert grid.weights == pytest.approx(
        np.array([[1, 0, 0, 0, 0], [0, 2 / 3, 1 / 3, 0, 0], [0, 0, 1 / 3, 2 / 3, 0], [0, 0, 0, 0, 1]])
    )


def test_outside_the_scanned_range_nothing_is_made_up() -> None:
    grid = lay_over([0, 1, 2, 3], 4, [3, 1], 5)
    assert grid.shallow == (1, 2)
    assert grid.deep == (1, 3)
    assert lay_over([0, 3], 4, [1, 3], 5).weights.shape == (0, 2)


@given(SCANS)
def test_equals_scipys_interpolation_and_keeps_lines(
    scans: tuple[int, set[int], int, set[int]],
) -> None:
    shallow_depth, shallow, deep_depth, deep = scans
    grid = lay_over(sorted(shallow), shallow_depth, sorted(deep), deep_depth)
    places = np.array(sorted(deep)) / (deep_depth - 1)
    profile = np.random.default_rng(len(deep)).random(len(places))
    assert grid.weights @ profile == pytest.approx(interp1d(places, profile)(grid.depths))
    assert grid.weights @ (2 * places - 1) == pytest.approx(2 * grid.depths - 1)
    assert grid.weights.sum(axis=1) == pytest.approx(np.ones(len(grid.depths)))
    inside = [k for k in sorted(shallow) if places[0] - 1e-9 <= k / (shallow_depth - 1) <= places[-1] + 1e-9]
    assert list(grid.shallow) == inside


def test_one_hump_in_two_depths() -> None:
    def levels(layers: int) -> list[float]:
        return [0.3 + 0.4 * float(np.sin(np.pi * (0.1 + 0.7 * k / (layers - 1)))) for k in range(layers)]

    shallow = ranking(levels(6), 1, "a", spread=0.005, problems=1000)
    deep = ranking(levels(9), 2, "b", spread=0.005, problems=1000)
    grid = lay_over(range(6), 6, range(9), 9)
    found = correlate_over_depth(shallow, deep, grid, 200, 0.95)
    assert found.points == 6
    assert found.pearson.value > 0.95
    assert found.spearman.low > 0.5
    assert found.ceiling is not None
    assert found.ceiling > 0.8
    # The deeper model's interpolated scores are what is correlated.
    expected = np.corrcoef(shallow.scores(range(6)), grid.weights @ deep.scores(range(9)))[0, 1]
    assert found.pearson.value == pytest.approx(expected)
    assert found.partial_pearson is not None
    assert found.pearson.low <= found.pearson.high
