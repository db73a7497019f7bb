"""The statistics on simulated studies whose truth is known; benchmarks/simulated_studies.py is the whole of it.

Every tolerance is the binomial or normal error of so few studies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from onelayer.analysis.comparison import compare_arms, holm
from onelayer.analysis.contribution import Bootstrap, Scan, scan
from onelayer.analysis.correlation import reliability, spearman
from onelayer.analysis.problem_sets import ProblemSets
from onelayer.analysis.simulation import Design, SimulatedSplit, repeats, simulate


def generators(studies: int, seed: int) -> Iterator[np.random.Generator]:
    for study in range(studies):
        yield np.random.default_rng([seed, study])


def bootstrap(design: Design, generator: np.random.Generator) -> Bootstrap:
    return Bootstrap(ProblemSets([""] * design.problems), 300, 0.95, int(generator.integers(2**32)))


def scanned(split: SimulatedSplit, draws: Bootstrap) -> Scan:
    return scan(split.base, split.full, dict(split.layers), draws)


def scores(split: SimulatedSplit) -> np.ndarray:
    return np.array([runs.mean() for runs in split.layers.values()])


def test_a_large_study_has_the_scores_that_were_asked_for() -> None:
    design = Design((0.0, 0.5, 1.1), problems=200_000, luck=0.0)
    report = simulate(design, np.random.default_rng(1))["report"]
    assert report.base.mean() == pytest.approx(design.base, abs=0.004)
    assert report.full.mean() == pytest.approx(design.full, abs=0.004)
    expected = [design.base + c * (design.full - design.base) for c in design.contributions]
    assert scores(report) == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize("seeds", [2, 3])
def test_intervals_hold_the_truth(seeds: int) -> None:
    studies, held, gains = 200, 0, 0
    for number, generator in enumerate(generators(studies, seeds)):
        truth = (0.0, 0.4, 0.8, 1.1)[number % 4]
        design = Design(
            (truth,),
            problems=int(generator.integers(200, 501)),
            seeds=seeds,
            luck=float(generator.uniform(0, 0.15)),
        )
        found = scanned(simulate(design, generator, ("report",))["report"], bootstrap(design, generator))
        one = found.contributions[0]
        held += one is None or one.interval.low <= truth <= one.interval.high
        gains += found.gain.low <= design.full - design.base <= found.gain.high
    least, most = stats.binom.ppf(0.001, studies, 0.93), stats.binom.ppf(0.999, studies, 0.97)
    assert least <= held <= most
    assert least <= gains <= most


def test_no_layer_is_said_to_beat_full_where_none_does() -> None:
    studies, design = 100, Design((1.0,) * 12)
    said = 0
    for generator in generators(studies, 11):
        report = simulate(design, generator, ("report",))["report"]
        draws = bootstrap(design, generator)
        found = [compare_arms(runs, report.full, draws) for runs in report.layers.values()]
        corrected = holm([one.p for one in found])
        said += any(p <= 0.05 and one.difference.value > 0 for p, one in zip(corrected, found, strict=True))
    assert said <= stats.binom.ppf(0.999, studies, 0.05)


def test_a_layer_that_truly_beats_full_is_found() -> None:
    studies, design = 30, Design((1.8, *[0.8] * 7), seeds=3, luck=0.03)
    found = 0
    for generator in generators(studies, 12):
        report = simulate(design, generator, ("report",))["report"]
        draws = bootstrap(design, generator)
        corrected = holm([compare_arms(runs, report.full, draws).p for runs in report.layers.values()])
        found += corrected[0] <= 0.05
    assert found >= studies * 0.8


def test_intervals_exclude_one_just_where_the_difference_from_full_excludes_zero() -> None:
    """The two are one test: C's interval is Fieller's."""
    design, agreed = Design(tuple(np.linspace(0.7, 1.3, 10))), set()
    for generator in generators(20, 13):
        report = simulate(design, generator, ("report",))["report"]
        draws = bootstrap(design, generator)
        for layer, one in scanned(report, draws).contributions.items():
            assert one is not None
            assert isinstance(layer, int)
            difference = compare_arms(report.layers[layer], report.full, draws).difference
            apart = difference.low > 0 or difference.high < 0
            assert apart == (one.interval.low > 1 or one.interval.high < 1)
            agreed.add(apart)
    assert agreed == {True, False}


@pytest.mark.parametrize("least", [0.0, 0.8])
def test_reliability_is_the_agreement_with_a_repeat(least: float) -> None:
    """With clear layers and with layers nearly alike."""
    design = Design(tuple(np.linspace(least, 1, 12)), problems=200)
    said, agreed = [], []
    for generator in generators(60, 14):
        one, again = repeats(design, generator)
        said.append(reliability(np.stack(list(one.layers.values())), 0) or 0.0)
        agreed.append(float(spearman(scores(one), scores(again))))
    error = math.hypot(*(float(np.std(figures)) / math.sqrt(60) for figures in (said, agreed)))
    assert abs(np.mean(said) - np.mean(agreed)) <= 0.05 + 3 * error


def test_the_best_layer_is_flattered_by_the_problems_that_chose_it() -> None:
    """Layers all alike, and no luck of seeds: picked on other problems, the best one's C is right on average."""
    design = Design((0.9,) * 16, problems=200, luck=0.0)
    naive, split = [], []
    for generator in generators(80, 15):
        made = simulate(design, generator)
        found = scanned(made["report"], bootstrap(design, generator)).contributions
        for chosen_on, figures in (("report", naive), ("select", split)):
            best = found[int(np.argmax(scores(made[chosen_on])))]
            assert best is not None
            figures.append(best.interval.value - 0.9)
    error = float(np.std(split)) / math.sqrt(80)
    assert abs(np.mean(split)) <= 3 * error
    assert np.mean(naive) >= 0.04
    assert np.mean(naive) - np.mean(split) >= 3 * error
