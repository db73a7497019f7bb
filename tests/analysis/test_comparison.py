"""Comparisons against numbers worked by hand, and against SciPy's t-tests."""

from __future__ import annotations

import math
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from onelayer.analysis.comparison import compare_arms, holm
from onelayer.analysis.contribution import Bootstrap
from onelayer.analysis.problem_sets import ProblemSets


def bootstrap(problems: int, resamples: int = 2000) -> Bootstrap:
    return Bootstrap(ProblemSets([""] * problems), resamples, 0.95, 7)


def test_one_seed_each_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.uniform(size=(2, 1, 300))
    found = compare_arms(first, second, bootstrap(300, 20_000))
    theirs = stats.ttest_rel(first[0], second[0])
    low, high = theirs.confidence_interval(0.95)
    assert found.p == pytest.approx(theirs.pvalue, rel=0.1)
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high), abs=1e-3)
    assert found.difference.value == pytest.approx(first.mean() - second.mean())


def test_problems_that_are_all_alike_leave_the_welch_test_of_the_seeds() -> None:
    first, second = np.array([0.5, 0.6, 0.62]), np.array([0.3, 0.38])
    found = compare_arms(np.repeat(first[:, None], 50, 1), np.repeat(second[:, None], 50, 1), bootstrap(50))
    theirs = stats.ttest_ind(first, second, equal_var=False)
    low, high = theirs.confidence_interval(0.95)
    assert found.p == pytest.approx(theirs.pvalue)
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))


def test_what_seed_and_problem_do_together_is_counted_once() -> None:
    """Runs that differ by independent answers alone: the variance is that of their mean over problems."""
    rng = np.random.default_rng(2)
    first, second = rng.binomial(4, 0.5, (2, 3, 4000)) / 4
    found = compare_arms(first, second, bootstrap(4000))
    expected = 2 * 0.25 / 4 / 3 / 4000
    reach = (found.difference.high - found.difference.low) / 2
    assert reach >= 1.9 * math.sqrt(expected)
    assert (reach / 1.96) ** 2 <= expected * 4  # two seeds' luck, but no second count of a large residual


def test_nothing_that_varies() -> None:
    same = compare_arms(np.full((2, 5), 0.5), np.full((3, 5), 0.5), bootstrap(5))
    apart = compare_arms(np.full((2, 5), 0.75), np.full((3, 5), 0.5), bootstrap(5))
    assert (same.difference.value, same.p) == (0, 1)
    assert (apart.difference.low, apart.difference.high, apart.p) == (0.25, 0.25, 0)
    rounded = compare_arms(np.full((1, 3), 0.1 + 0.2), np.full((1, 3), 0.3), bootstrap(3))
    assert rounded.p == 1


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4), st.integers(3, 40))
def test_the_interval_holds_zero_just_where_p_is_above(seed: int, m: int, n: int, problems: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.uniform(size=(m, problems)), rng.uniform(0, 1.2, size=(n, problems))
    draws = bootstrap(problems, 100)
    found, other = compare_arms(first, second, draws), compare_arms(second, first, draws)
    assert (found.difference.low <= 0 <= found.difference.high) == (found.p >= 0.05)
    assert other.difference.value == pytest.approx(-found.difference.value)
    assert other.p == pytest.approx(found.p)


def closed_test(ps: list[float]) -> list[float]:
    """Holm's corrected p-values by the closure of Bonferroni's test: over every subset that a hypothesis is in."""
    families = list(chain.from_iterable(combinations(range(len(ps)), size) for size in range(1, len(ps) + 1)))
    return [
        min(max(len(family) * min(ps[one] for one in family) for family in families if index in family), 1.0)
        for index in range(len(ps))
    ]


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_the_closed_bonferroni_test_and_statsmodels_own(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(closed_test(ps))
    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
