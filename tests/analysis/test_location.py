"""Where the gain sits: hand-worked profiles, and what is undefined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onelayer.analysis.contribution import Bootstrap, Scan, scan
from onelayer.analysis.drawn import drawn_figure, scaled
from onelayer.analysis.location import centre_of_mass, gini, location, third_of, top_share, top_sizes
from onelayer.analysis.problem_sets import ProblemSets

PROFILES = st.lists(st.integers(-5, 20).map(lambda n: n / 10), min_size=2, max_size=9).filter(lambda p: max(p) > 0)


def test_by_hand() -> None:
    depths = np.array([0, 0.5, 1])
    assert centre_of_mass(np.array([1.0, 0.0, 3.0]), depths) == pytest.approx(0.75)
    assert centre_of_mass(np.array([2.0, 2.0, 2.0]), depths) == pytest.approx(0.5)
    # A layer that harms counts as nothing, not as mass on the other side.
    assert centre_of_mass(np.array([-9.0, 1.0, 1.0]), depths) == pytest.approx(0.75)
    assert gini(np.array([1.0, 1.0, 1.0, 1.0])) == pytest.approx(0)
    assert gini(np.array([0.0, 0.0, 0.0, 1.0])) == pytest.approx(3 / 4)
    # |1−3| counted both ways, over 2 · 2 · 4: 4/16.
    assert gini(np.array([1.0, 3.0])) == pytest.approx(1 / 4)
    assert top_share(np.array([1.0, -1.0, 3.0]), [2]) == pytest.approx(3 / 4)
    assert top_share(np.array([1.0, -1.0, 3.0]), [1]) == 0


@given(PROFILES, st.floats(0.1, 1000))
def test_gini_is_the_mean_difference_and_blind_to_scale(profile: list[float], scale: float) -> None:
    above = np.maximum(profile, 0)
    pairs = np.abs(above[:, None] - above[None]).sum() / (2 * len(above) * above.sum())
    assert gini(np.array(profile)) == pytest.approx(pairs)
    assert gini(scale * np.array(profile)) == pytest.approx(pairs)
    assert -1e-12 <= pairs <= 1 - 1 / len(profile) + 1e-12


@given(PROFILES)
def test_the_centre_of_a_mirrored_profile_is_mirrored(profile: list[float]) -> None:
    depths = np.linspace(0, 1, len(profile))
    centre = centre_of_mass(np.array(profile), depths)
    assert 0 <= centre <= 1
    assert centre_of_mass(np.array(profile[::-1]), depths) == pytest.approx(1 - centre)


def test_thirds() -> None:
    assert [third_of(layer, 8) for layer in range(8)] == [0, 0, 0, 1, 1, 2, 2, 2]
    counts = np.bincount([third_of(layer, 28) for layer in range(28)])
    assert list(counts) == [9, 9, 10]  # layer 18 of 28 stands at 2/3 exactly
    assert third_of(0, 1) == 0
    for depth in range(2, 60):
        for layer in range(depth):
            assert third_of(layer, depth) == min(math.floor(3 * layer / (depth - 1) + 1e-12), 2)


def test_sizes() -> None:
    assert top_sizes(8) == [1, 2, 4]
    assert top_sizes(28) == [1, 7, 14]
    assert top_sizes(3) == [1, 2]


def test_where_no_layer_helps_nothing_is_said() -> None:
    nothing = np.array([[-0.1, 0.0], [1.0, 0.0]])
    assert np.isnan(gini(nothing)).tolist() == [True, False]
    draws = np.array([0.5, np.nan, *[0.5] * 98])
    assert drawn_figure(0.4, draws, 0.95) == {"value": 0.4, "low": 0.5, "high": 0.5}
    assert drawn_figure(0.4, np.array([0.5, np.nan]), 0.95) is None
    assert drawn_figure(math.nan, np.full(9, 0.5), 0.95) is None


def test_a_draw_without_a_gain_overflows_nothing() -> None:
    huge = np.array([[1.7e308, 1.7e308, 0.0], [0.1, 0.2, 0.3]])
    assert gini(huge)[0] == pytest.approx(1 / 3)
    assert np.abs(scaled(huge)).max() == 1


def studies(levels: list[float], full: float = 0.9) -> tuple[Scan, Scan, dict[int, np.ndarray]]:
    """The contributions on select and on report, and the draws of the latter."""
    found = []
    for number in range(2):
        rng = np.random.default_rng(number)

        def runs(level: float, seeds: int = 3, rng: np.random.Generator = rng) -> Any:
            return rng.binomial(4, level, (seeds, 400)) / 4

        bootstrap = Bootstrap(ProblemSets.of_ids([str(one) for one in range(400)]), 300, 0.95, number)
        base, top, arms = runs(0.2, 1), runs(full), {k: runs(level) for k, level in enumerate(levels)}
        found.append(scan(base, top, dict(arms), bootstrap))
    of_base, of_full = bootstrap.scores(base), bootstrap.scores(top)
    drawn = {k: (bootstrap.scores(arm) - of_base) / (of_full - of_base) for k, arm in arms.items()}
    return found[0], found[1], drawn


def test_a_study() -> None:
    levels = [0.25, 0.3, 0.4, 0.8, 0.85, 0.5, 0.4, 0.3]
    select, report, drawn = studies(levels)
    found = location(select, report, drawn, 8, 0.95)
    assert found["reason"] is None
    assert not found["partial"]
    c = np.array([report.contributions[layer].interval.value for layer in range(8)])  # type: ignore[union-attr]
    assert [third["layers"] for third in found["thirds"]] == [[0, 1, 2], [3, 4], [5, 6, 7]]
    for third in found["thirds"]:
        figure = third["contribution"]
        assert figure["value"] == pytest.approx(c[third["layers"]].mean())
        assert figure["low"] < figure["value"] < figure["high"]
    assert [one["from"] for one in found["differences"]] == ["first", "last"]
    assert all(one["difference"]["low"] > 0 for one in found["differences"])
    assert found["centre"]["depth"]["value"] == pytest.approx((c * np.arange(8) / 7).sum() / c.sum())
    assert found["centre"]["even"] == pytest.approx(0.5)
    assert found["gini"]["value"]["value"] > 2 * found["gini"]["noise"]
    top = found["top"][1]
    assert (top["k"], sorted(top["layers"]), top["even"]) == (2, [3, 4], 0.25)
    assert top["share"]["value"] == pytest.approx(c[[3, 4]].sum() / c.sum())


def test_noise_alone() -> None:
    """Layers that are truly alike have a Gini coefficient of about what noise gives."""
    select, report, drawn = studies([0.5] * 8)
    found = location(select, report, drawn, 8, 0.95)
    assert found["gini"]["value"]["value"] == pytest.approx(found["gini"]["noise"], rel=0.6)


def test_a_partial_scan_is_labelled() -> None:
    select, report, drawn = studies([0.3, 0.5, 0.4])
    found = location(select, report, drawn, 12, 0.95)
    assert (found["partial"], found["scanned"], found["layers_of_model"]) == (True, 3, 12)
    assert found["to_depth"] == pytest.approx(2 / 11)
    assert [third["contribution"] is None for third in found["thirds"]] == [False, True, True]
    assert found["differences"] == []
    assert found["centre"]["even"] == pytest.approx(1 / 11)


def test_undefined_where_contributions_are() -> None:
    select, report, drawn = studies([0.3, 0.5, 0.4], full=0.2)
    found = location(select, report, drawn, 3, 0.95)
    assert "contributions are undefined" in found["reason"]
    assert (found["thirds"], found["centre"], found["gini"], found["top"]) == ([], None, None, [])
    select, report, drawn = studies([0.3, 0.5])
    assert location(select, report, drawn, 2, 0.95)["reason"].startswith("2 layers were scanned")
