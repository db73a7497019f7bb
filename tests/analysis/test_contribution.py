from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onelayer.analysis.contribution import (
    Bootstrap,
    Interval,
    contribution,
    middle_layers,
    ranked,
    relative_depth,
    scan,
)
from onelayer.analysis.problem_sets import ProblemSets


def bootstrap(problems: int, resamples: int = 2000, seed: int = 1) -> Bootstrap:
    return Bootstrap(ProblemSets.of_ids([str(one) for one in range(problems)]), resamples, 0.95, seed)


def test_worked_example_of_the_paper() -> None:
    assert contribution(51.8, 44.1, 50.8) == pytest.approx(7.7 / 6.7)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1), st.floats(0.1, 10), st.floats(-5, 5))
def test_contribution_ignores_scale_and_shift(score: float, base: float, gain: float, a: float, b: float) -> None:
    plain = contribution(score, base, base + gain)
    moved = contribution(a * score + b, a * base + b, a * (base + gain) + b)
    assert moved == pytest.approx(plain, rel=1e-6, abs=1e-6)


def test_base_is_zero_and_full_is_one() -> None:
    assert contribution(0.4, 0.4, 0.7) == 0
    assert contribution(0.7, 0.4, 0.7) == 1


def test_scan_by_hand() -> None:
    """Four problems that every draw weighs alike cannot move; the figures can be checked by eye."""
    base = np.full((1, 4), 0.25)
    full = np.full((2, 4), 0.75)
    layers = {0: np.full((2, 4), 0.5), 1: np.full((2, 4), 0.25), 2: np.stack([np.full(4, 0.5), np.full(4, 1.0)])}
    found = scan(base, full, layers, bootstrap(4))
    assert (found.base.value, found.full.value, found.gain.value) == (0.25, 0.75, 0.5)
    assert found.gain.low == found.gain.high == 0.5
    values = {}
    for layer, one in found.contributions.items():
        assert one is not None
        values[layer] = (one.interval.value, one.per_seed)
    assert values == {0: (0.5, (0.5, 0.5)), 1: (0.0, (0.0, 0.0)), 2: (1.0, (0.5, 1.5))}
    two_seeds = found.contributions[2]
    assert two_seeds is not None
    # The two scores 0.5 and 1 have a mean with the standard error 0.25, half the gain, and one degree of freedom.
    assert two_seeds.interval.low == pytest.approx(1 - 0.5 * 12.7062047)
    assert two_seeds.interval.high == pytest.approx(1 + 0.5 * 12.7062047)
    assert found.scores[2] == Interval(0.75, 0.0, 1.0)  # ends of 0.75 ± 3.18 that no score can have


@pytest.mark.parametrize("gain", [0.0, -0.3])
def test_without_a_gain_contributions_are_undefined(gain: float) -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(0.3, 0.6, (1, 50))
    found = scan(base, base.repeat(2, 0) + gain, {0: base}, bootstrap(50))
    assert found.contributions == {0: None}
    assert not found.defined


def independent_draws(runs: np.ndarray, weights: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The same definition, in plain loops."""
    result = []
    for draw, (weight, seeds) in enumerate(zip(weights, drawn, strict=True)):
        scores = [sum(w * x for w, x in zip(weight, run, strict=True)) for run in runs]
        center = sum(scores) / len(scores)
        mean = sum(scores[s] for s in seeds) / len(seeds)
        result.append(center + math.sqrt(len(runs) / (len(runs) - 1)) * (mean - center))
        assert draw >= 0
    return np.array(result)


def test_draws_equal_an_independent_implementation() -> None:
    rng = np.random.default_rng(5)
    runs = rng.uniform(size=(3, 7))
    one = bootstrap(7, resamples=200, seed=9)
    generator = np.random.Generator(np.random.Philox(9))
    counts = generator.multinomial(7, np.full(7, 1 / 7), size=200)
    drawn = generator.integers(3, size=(200, 3))
    assert one.scores(runs) == pytest.approx(independent_draws(runs, counts / 7, drawn), abs=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(5, 60))
def test_order_of_problems_and_layers_is_irrelevant(seed: int, seeds: int, problems: int) -> None:
    rng = np.random.default_rng(seed)
    base, full, layer = (rng.uniform(size=(n, problems)) for n in (1, seeds, seeds))
    full = np.clip(full + 0.5, 0, 1)
    order = rng.permutation(problems)
    plain = scan(base, full, {3: layer}, bootstrap(problems))
    shuffled = scan(base[:, order], full[:, order], {3: layer[:, order]}, bootstrap(problems))
    assert shuffled.gain.value == pytest.approx(plain.gain.value)
    if plain.contributions[3] and shuffled.contributions[3]:
        assert shuffled.contributions[3].interval.value == pytest.approx(plain.contributions[3].interval.value)


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_interval_holds_the_figure_and_a_layer_equal_to_full_is_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.uniform(0, 0.4, (1, 80))
    full = np.clip(base + rng.uniform(0.1, 0.6, (1, 80)), 0, 1)
    found = scan(base, full, {0: full, 1: base}, bootstrap(80))
    same, none = found.contributions[0], found.contributions[1]
    assert same is not None
    assert none is not None
    # With one seed the draws are paired exactly: no spread is left.
    assert (same.interval.low, same.interval.value, same.interval.high) == pytest.approx((1, 1, 1))
    assert (none.interval.low, none.interval.value, none.interval.high) == pytest.approx((0, 0, 0))
    assert found.gain.low <= found.gain.value <= found.gain.high


def test_intervals_cover_a_known_truth() -> None:
    """500 simulated studies of three seeds: the interval of C holds the truth about as often as it says."""
    rng = np.random.default_rng(11)
    problems, seeds, hits = 200, 3, 0
    for study in range(500):
        ease = rng.normal(0, 1, problems)

        def arm(level: float, runs: int, ease: np.ndarray = ease) -> np.ndarray:
            luck = rng.normal(0, 0.02, (runs, 1))
            chance = np.clip(level + luck + 0.1 * ease, 0, 1)
            return rng.binomial(4, chance, (runs, problems)) / 4

        found = scan(arm(0.3, 1), arm(0.7, seeds), {0: arm(0.5, seeds)}, bootstrap(problems, 400, study))
        one = found.contributions[0]
        assert one is not None
        hits += one.interval.low <= 0.5 <= one.interval.high
    assert 0.90 <= hits / 500 <= 0.98


PAPER = [.89, .87, 1.03, .75, .77, .78, .87, .80, .72, 1.04, 1.14, .92, 1.12, 1.01, .92, .95, .85, .83, .66, .52, .32,
         .40, .47, .32, .28, .35, .36, .54]  # fmt: skip


def test_ranks_of_the_paper() -> None:
    order = ranked(dict(enumerate(PAPER)))
    assert order[:5] == [10, 12, 9, 2, 13]
    assert order[5:9] == [15, 11, 14, 0]
    assert order[9:11] == [1, 6]  # a tie at two decimals: the lower layer first


@pytest.mark.parametrize(
    ("layers", "count", "expected"),
    [
        (28, 5, range(11, 16)),
        (36, 5, range(15, 20)),
        (28, 10, range(9, 19)),
        (8, 1, range(3, 4)),
        (2, 2, range(2)),
    ],
)
def test_middle_layers(layers: int, count: int, expected: range) -> None:
    assert middle_layers(layers, count) == list(expected)


@given(st.integers(1, 200), st.data())
def test_middle_layers_are_k_layers_of_the_model(layers: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, layers))
    middle = middle_layers(layers, count)
    assert len(middle) == count
    assert 0 <= middle[0] <= middle[-1] < layers


def test_relative_depth() -> None:
    assert [relative_depth(layer, 5) for layer in range(5)] == [0, 0.25, 0.5, 0.75, 1]
    assert relative_depth(0, 1) == 0
