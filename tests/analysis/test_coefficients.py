"""Coefficients of profiles and their p-values, against SciPy, brute force and hand-worked numbers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from onelayer.analysis.coefficients import (
    hump,
    kendall,
    partial_p,
    partial_pearson,
    partial_spearman,
    pearson,
    permutation_p,
    ranks,
    removed,
    spearman,
)

FIGURE = st.integers(-20, 20).map(lambda n: n / 10)
PAIRS = st.integers(3, 9).flatmap(lambda n: st.tuples(*[st.lists(FIGURE, min_size=n, max_size=n)] * 2))
LARGER_PAIRS = st.integers(5, 9).flatmap(lambda n: st.tuples(*[st.lists(FIGURE, min_size=n, max_size=n)] * 2))


def evenly(layers: int) -> np.ndarray:
    return hump(np.linspace(0, 1, layers))


@given(PAIRS)
def test_pearson_equals_scipys(pair: tuple[list[float], list[float]]) -> None:
    first, second = map(np.array, pair)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        assert pearson(first, second) == 0
    else:
        assert pearson(first, second) == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-9)


def test_contributions_correlate_as_their_scores_do() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.random((2, 9))
    for measure in (
        spearman,
        kendall,
        pearson,
        lambda a, b: partial_pearson(a, b, evenly(9)),
        lambda a, b: partial_spearman(a, b, evenly(9)),
    ):
        assert measure((first - 0.2) / 0.3, (second - 0.4) / 0.1) == pytest.approx(measure(first, second))


@pytest.mark.parametrize("layers", [3, 5])
def test_p_equals_scipys_exact_permutation_test(layers: int) -> None:
    """Of the size of the coefficient: SciPy's own two-sided p doubles the smaller tail instead."""
    rng = np.random.default_rng(layers)
    first, second = rng.normal(size=(2, layers))
    for ours, theirs in ((pearson, stats.pearsonr), (spearman, stats.spearmanr), (kendall, stats.kendalltau)):
        expected = stats.permutation_test(
            (second,),
            lambda order, theirs=theirs: abs(theirs(first, order).statistic),
            permutation_type="pairings",
            alternative="greater",
        ).pvalue
        assert permutation_p(first, second, 0, ours) == pytest.approx(expected)


def test_p_of_many_layers_is_near_scipys() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 15))
    assert permutation_p(first, second, 5, pearson) == pytest.approx(stats.pearsonr(first, second).pvalue, abs=0.02)
    assert permutation_p(first, second, 5, kendall) == pytest.approx(stats.kendalltau(first, second).pvalue, abs=0.02)


def by_lstsq(first: np.ndarray, second: np.ndarray, covariates: np.ndarray) -> float:
    """The partial correlation written again: SciPy's r of what NumPy's least squares leaves."""
    left = [one - covariates @ np.linalg.lstsq(covariates, one, rcond=None)[0] for one in (first, second)]
    return float(stats.pearsonr(*left).statistic)


@given(LARGER_PAIRS)
def test_partial_correlation_equals_least_squares(pair: tuple[list[float], list[float]]) -> None:
    first, second = map(np.array, pair)
    covariates = evenly(len(first))
    for sides, ours in (
        ((first, second), partial_pearson),
        ((stats.rankdata(first), stats.rankdata(second)), partial_spearman),
    ):
        found = ours(first, second, covariates)
        if min(np.abs(removed(one, covariates)).max() for one in sides) < 1e-6:
            assert found == 0
        else:
            assert found == pytest.approx(by_lstsq(*sides, covariates), abs=1e-6)


def test_one_covariate_by_the_textbook() -> None:
    """r_xy.z = (r_xy − r_xz r_yz) / √((1 − r_xz²)(1 − r_yz²)) (Fisher 1924)."""
    rng = np.random.default_rng(3)
    x, y, z = rng.normal(size=(3, 12))
    xy, xz, yz = (float(pearson(*pair)) for pair in ((x, y), (x, z), (y, z)))
    expected = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    assert partial_pearson(x, y, np.stack([np.ones(12), z], axis=1)) == pytest.approx(expected)


def test_partial_is_what_a_regression_tests() -> None:
    """t of x in a regression of y on x and the covariates is r √(df / (1 − r²)), df = n − 2 − 2."""
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 10))
    design = np.column_stack([evenly(10), first])
    slopes, (squares,), *_ = np.linalg.lstsq(design, second, rcond=None)
    t = slopes[3] / np.sqrt(squares / 6 * np.linalg.inv(design.T @ design)[3, 3])
    r = float(partial_pearson(first, second, evenly(10)))
    assert r * np.sqrt(6 / (1 - r**2)) == pytest.approx(t)


def test_removing_only_a_line_would_leave_the_hump() -> None:
    """Two parabolas agree by depth alone; a straight line through them is flat, the parabola takes all of them."""
    depths = np.linspace(0, 1, 9)
    first, second = 1 - (depths - 0.5) ** 2, 3 - 2 * (depths - 0.5) ** 2
    line = np.stack([np.ones(9), depths], axis=1)
    assert partial_pearson(first, second, line) == pytest.approx(1)
    assert partial_pearson(first, second, hump(depths)) == 0
    assert (removed(first, hump(depths)) == 0).all()


@given(LARGER_PAIRS, st.lists(FIGURE, min_size=3, max_size=3))
def test_no_parabola_moves_the_partial_correlation(pair: tuple[list[float], list[float]], added: list[float]) -> None:
    first, second = map(np.array, pair)
    covariates = evenly(len(first))
    if np.abs(removed(first, covariates)).max() > 1e-6:
        moved = partial_pearson(first + covariates @ np.array(added), second, covariates)
        assert moved == pytest.approx(partial_pearson(first, second, covariates), abs=1e-6)


def test_many_profiles_at_once() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(2, 30, 7))
    for measure in (partial_pearson, partial_spearman):
        one_by_one = [measure(a, b, evenly(7)) for a, b in zip(first, second, strict=True)]
        assert measure(first, second, evenly(7)) == pytest.approx(one_by_one)


def test_partial_p_equals_brute_force() -> None:
    """Freedman and Lane: what is left of one side in every order, with the covariates removed again."""
    rng = np.random.default_rng(6)
    first, second = rng.normal(size=(2, 6))
    covariates = evenly(6)
    left = [one - covariates @ np.linalg.lstsq(covariates, one, rcond=None)[0] for one in (first, second)]
    found = abs(by_lstsq(first, second, covariates))
    every = [abs(by_lstsq(left[0], np.array(order), covariates)) for order in permutations(left[1])]
    assert partial_p(first, second, covariates, 0) == pytest.approx(np.mean([one >= found - 1e-9 for one in every]))
    assert partial_p(ranks(first), ranks(second), covariates, 0) == pytest.approx(
        partial_p(stats.rankdata(first), stats.rankdata(second), covariates, 0)
    )


def test_profiles_that_share_only_their_hump() -> None:
    """The plain p finds the shared hump nearly always; with depth removed there is nothing to find, and none is."""
    rng = np.random.default_rng(7)
    depths = np.linspace(0, 1, 7)
    plain, partial = [], []
    for _ in range(200):
        first, second = 1 - 4 * (depths - 0.5) ** 2 + rng.normal(0, 0.15, (2, 7))
        plain.append(permutation_p(first, second, 0, pearson) <= 0.05)
        partial.append(partial_p(first, second, hump(depths), 0) <= 0.05)
    assert np.mean(plain) > 0.8
    assert 0.01 <= np.mean(partial) <= 0.1
