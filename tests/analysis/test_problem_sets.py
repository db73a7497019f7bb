"""Scores over several benchmarks: the unweighted mean of their means, in the figure and in every draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onelayer.analysis.contribution import Bootstrap, scan
from onelayer.analysis.problem_sets import ProblemSets, set_of
from onelayer.records import summarize

LARGE_AND_SMALL = ProblemSets.of_ids(["gsm8k:1", "gsm8k:2", "gsm8k:3", "gsm8k:4", "amc:1", "amc:7"])


def test_set_of() -> None:
    assert [set_of(one) for one in ("math500:12", "12+34", "a:b", "coin:train:3", "x:")] == ["math500", "", "", "", ""]


def test_score_is_the_mean_of_the_sets_means() -> None:
    run = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.25])
    assert LARGE_AND_SMALL.score(run) == pytest.approx((0.5 + 0.125) / 2)
    assert LARGE_AND_SMALL.by_set(run) == {"gsm8k": 0.5, "amc": 0.125}
    assert LARGE_AND_SMALL.score(np.stack([run, np.ones(6)])) == pytest.approx((0.3125 + 1) / 2)


def test_one_set_is_the_plain_mean_to_the_last_bit() -> None:
    runs = np.random.default_rng(0).random((3, 997))
    sets = ProblemSets.of_ids([f"{row}+1" for row in range(997)])
    assert sets.score(runs) == float(runs.mean())
    assert (sets.equalized(runs) == runs).all()
    drawn = sets.draw(np.random.default_rng(5), 7)
    expected = np.random.default_rng(5).multinomial(997, np.full(997, 1 / 997), size=7) / 997
    assert (drawn == expected).all()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(0, 2**31))
def test_draws_keep_every_sets_share(labels: list[int], seed: int) -> None:
    sets = ProblemSets.of_ids([f"set{label}:{row}" for row, label in enumerate(labels)])
    weights = sets.draw(np.random.default_rng(seed), 20)
    assert weights.sum(axis=1) == pytest.approx(1)
    for label in set(labels):
        share = weights[:, [row for row, one in enumerate(labels) if one == label]].sum(axis=1)
        assert share == pytest.approx(1 / len(set(labels)))
    run = np.random.default_rng(seed).random(len(labels))
    assert sets.equalized(run).mean() == pytest.approx(sets.score(run))
    frame = pd.DataFrame({"set": labels, "mean": run})
    assert sets.score(run) == pytest.approx(frame.groupby("set")["mean"].mean().mean())


def test_bootstrap_error_is_that_of_a_stratified_mean() -> None:
    """Against the textbook: the variance of S is the mean of the sets' variances over their sizes, by sets²."""
    rng = np.random.default_rng(1)
    sizes = {"math500": 400, "amc": 40}
    run = np.concatenate([(rng.random(size) < share).astype(float) for size, share in ((400, 0.6), (40, 0.3))])
    sets = ProblemSets.of_ids([f"{name}:{row}" for name, size in sizes.items() for row in range(size)])
    draws = Bootstrap(sets, 20_000, 0.95, 3).scores(run[None])
    expected = np.sqrt(sum(part.var() / len(part) for part in np.split(run, [400]))) / 2
    assert draws.mean() == pytest.approx(sets.score(run), abs=1e-3)
    assert draws.std() == pytest.approx(expected, rel=0.03)


def test_contributions_over_sets() -> None:
    """A layer that gains on the small set alone: half of S, though a tenth of the problems."""
    sets = ProblemSets.of_ids([f"large:{row}" for row in range(90)] + [f"small:{row}" for row in range(10)])
    base, full = np.zeros((1, 100)), np.ones((2, 100))
    layer = np.zeros((2, 100))
    layer[:, 90:] = 1
    found = scan(base, full, {4: layer}, Bootstrap(sets, 200, 0.95, 0))
    assert found.full.value == 1
    contribution = found.contributions[4]
    assert contribution is not None
    assert contribution.interval.value == pytest.approx(0.5)
    assert contribution.per_seed == pytest.approx((0.5, 0.5))


def test_summary_of_several_sets() -> None:
    rows = [
        {
            "run": "base",
            "split": "report",
            "problem": problem,
            "decoding": decoding,
            "sample": 0,
            "completion": "",
            "extracted": "1",
            "correct": correct,
            "tokens": 1,
            "clipped": False,
            "status": "ok",
        }
        for problem, correct in (("a:1", True), ("a:2", True), ("a:3", False), ("a:4", False), ("b:1", True))
        for decoding in ("sample", "greedy")
    ]
    report = summarize(pd.DataFrame(rows))["report"]
    assert report["sets"] == {"a": 0.5, "b": 1.0}
    assert report["score"] == 0.75


def test_sets_are_drawn_apart() -> None:
    """Of two sets of constant figures a mean over draws within each set never moves; over all of them it would."""
    figures = np.array([[0.0] * 5 + [1.0] * 3])
    apart = ProblemSets(["a"] * 5 + ["b"] * 3, {"a": 5 / 8, "b": 3 / 8})
    draws = Bootstrap(apart, 300, 0.9, 0).scores(figures)
    assert np.ptp(draws) < 1e-12
    assert draws[0] == pytest.approx(3 / 8)
    assert np.ptp(Bootstrap(ProblemSets([""] * 8), 300, 0.9, 0).scores(figures)) > 0.1


def test_contributions_to_a_weighted_mean() -> None:
    """Sets of 4 and 2 problems that weigh 3/4 and 1/4, worked by hand."""
    sets = ProblemSets(["a"] * 4 + ["b"] * 2, {"a": 0.75, "b": 0.25})
    base = np.array([[0.0, 0.0, 1.0, 1.0, 0.0, 0.5]])
    full = np.array([[1.0, 1.0, 1.0, 0.0, 0.5, 1.0]])
    layer = np.array([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]])
    found = scan(base, full, {0: layer}, Bootstrap(sets, 400, 0.9, 1))
    assert found.base.value == pytest.approx(0.75 * 0.5 + 0.25 * 0.25)
    assert found.full.value == pytest.approx(0.75)
    assert found.scores[0].value == pytest.approx(0.75 * 0.75 + 0.25 * 0.5)
