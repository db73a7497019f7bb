"""avg@k, pass@k and maj@k against brute force over all choices, and their errors against a bootstrap."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onelayer.analysis.sampling import (
    avg_at_k,
    describe,
    maj_at_k,
    over_problems,
    pass_at_k,
    sampling_error,
)

SAMPLES = st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=8)


def majority_by_hand(answers: tuple[str | None, ...], right: dict[str, float]) -> float:
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    top = [answer for answer, count in votes.items() if count == max(votes.values())]
    return sum(right[answer] for answer in top) / len(top)


@given(SAMPLES, st.sets(st.sampled_from(["a", "b", "c"]), max_size=2), st.integers(1, 8))
@settings(max_examples=300)
def test_majority_is_the_mean_over_all_choices_of_k(answers: list[str | None], right: set[str], k: int) -> None:
    if k > len(answers):
        return
    outcomes = [answer in right for answer in answers]
    credit = {answer: float(answer in right) for answer in ("a", "b", "c", "d")}
    choices = list(combinations(answers, k))
    expected = sum(majority_by_hand(choice, credit) for choice in choices) / len(choices)
    assert maj_at_k([outcomes], [answers], k).value == pytest.approx(expected, abs=1e-12)


def test_majority_by_hand() -> None:
    # Of a, a, b, c with a right: both votes of three that leave out an a end in a tie of three.
    assert maj_at_k([[True, True, False, False]], [["a", "a", "b", "c"]], 3).value == pytest.approx((2 + 2 / 3) / 4)
    assert maj_at_k([[True, True, False, False]], [["a", "a", "b", "c"]], 4).value == 1
    # Nothing was found in the second sample: it votes for nothing, so the one answer decides.
    assert maj_at_k([[True, False]], [["a", None]], 2).value == 1
    assert maj_at_k([[False, False]], [[None, None]], 2).value == 0
    # One text judged both ways counts by its share.
    assert maj_at_k([[True, False, False]], [["a", "a", "b"]], 3).value == 0.5


def test_majority_of_many_samples_against_drawn_ones() -> None:
    rng = np.random.default_rng(3)
    answers = [str(one) for one in rng.choice(["7", "8", "9", "10"], size=64, p=[0.4, 0.35, 0.15, 0.1])]
    outcomes = [answer == "7" for answer in answers]
    credit = {"7": 1.0, "8": 0.0, "9": 0.0, "10": 0.0}
    drawn = [majority_by_hand(tuple(rng.choice(answers, size=16, replace=False)), credit) for _ in range(4000)]
    assert maj_at_k([outcomes], [answers], 16).value == pytest.approx(np.mean(drawn), abs=0.03)


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(1, 9))
def test_pass_at_k_is_the_share_of_choices_that_hold_a_right_one(outcomes: list[bool], k: int) -> None:
    if k > len(outcomes):
        return
    choices = list(combinations(outcomes, k))
    assert pass_at_k([outcomes], k).value == pytest.approx(sum(map(any, choices)) / len(choices))


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=5))
def test_of_one_sample_all_three_are_the_average(outcomes: list[list[bool]]) -> None:
    answers = [["y" if right else "n" for right in samples] for samples in outcomes]
    average = avg_at_k(outcomes).value
    assert pass_at_k(outcomes, 1).value == pytest.approx(average)
    assert maj_at_k(outcomes, answers, 1).value == pytest.approx(average)


@pytest.mark.parametrize("k", [0, 3])
def test_k_beyond_the_samples(k: int) -> None:
    outcomes = [[True, False], [True, True, True]]
    with pytest.raises(ValueError, match=f"the fewest samples of a problem, 2, found {k}"):
        pass_at_k(outcomes, k)
    with pytest.raises(ValueError, match="expected k between 1"):
        maj_at_k(outcomes, [["a", "b"], ["a", "a", "a"]], k)


def test_errors_against_a_bootstrap_of_problems() -> None:
    rng = np.random.default_rng(0)
    outcomes = [list(map(bool, rng.random(4) < chance)) for chance in rng.beta(1, 1, size=400)]
    means = np.array([np.mean(one) for one in outcomes])
    drawn = [means[rng.integers(len(means), size=len(means))].mean() for _ in range(4000)]
    assert avg_at_k(outcomes).se == pytest.approx(np.std(drawn), rel=0.05)
    passed = np.array([pass_at_k([one], 2).value for one in outcomes])
    drawn = [passed[rng.integers(len(passed), size=len(passed))].mean() for _ in range(4000)]
    assert pass_at_k(outcomes, 2).se == pytest.approx(np.std(drawn), rel=0.05)


def test_the_clustered_error_as_its_source_writes_it() -> None:
    """Miller's double sum over the answers of a cluster, with n − 1 clusters for n."""
    rng = np.random.default_rng(1)
    scores = (rng.random((50, 8)) < rng.random((50, 1))).astype(float)
    deviation = scores - scores.mean()
    summed = sum(row[i] * row[j] for row in deviation for i in range(8) for j in range(8))
    clustered = np.sqrt(summed) / scores.size * np.sqrt(50 / 49)
    assert avg_at_k([list(map(bool, row)) for row in scores]).se == pytest.approx(clustered)


def test_the_error_of_the_draw_alone_against_drawing_again() -> None:
    rng = np.random.default_rng(2)
    chances = rng.random(60)
    again = [(rng.random((60, 8)) < chances[:, None]).mean() for _ in range(4000)]
    errors = [
        sampling_error([list(map(bool, row)) for row in rng.random((60, 8)) < chances[:, None]]) for _ in range(200)
    ]
    assert np.sqrt(np.mean(np.square(np.array(errors, dtype=float)))) == pytest.approx(np.std(again), rel=0.05)
    assert sampling_error([[True], [True, False]]) is None


def test_what_has_no_error() -> None:
    assert over_problems([0.5]).se is None
    assert over_problems([0.1] * 3).se == 0
    with pytest.raises(ValueError, match="at least one problem"):
        over_problems([])


def records(rows: list[tuple[str, str | None, bool, str]]) -> pd.DataFrame:
    columns = ["problem", "extracted", "correct", "status"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(tokens=3, clipped=False)


def test_records_described() -> None:
    found: dict[str, Any] = describe(
        records(
            [("p", "1", True, "ok"), ("p", "2", False, "ok"), ("p", None, False, "broken"),
             ("q", "1", False, "ok"), ("q", None, False, "ok"), ("q", "3", True, "ok")]
        )
    )  # fmt: skip
    assert found["score"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert found["k"] == 2
    assert found["problems"] == 2
    assert set(found["pass"]) == set(found["maj"]) == {"1", "2"}
    assert found["pass"]["2"]["value"] == pytest.approx((1 + 2 / 3) / 2)
    # q: {1, none} lost, {1, 3} a tie, {none, 3} won.
    assert found["maj"]["2"]["value"] == pytest.approx((1 / 2 + (0 + 1 / 2 + 1) / 3) / 2)
    assert found["broken"] == pytest.approx(1 / 6)
    with pytest.raises(ValueError, match="every sample of problem p broke"):
        describe(records([("p", None, False, "broken"), ("q", "1", True, "ok")]))
