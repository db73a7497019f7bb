"""What of a gain goes with lengths: by hand, as an identity, and where one cause alone is at work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.made_evidence import Answer, make_evidence, make_study
from onelayer.analysis.brevity import brevity, composition
from onelayer.grid import full_runs

SHARES = arrays(float, 4, elements=st.floats(0.05, 1)).map(lambda parts: parts / parts.sum())
RATES = arrays(float, 4, elements=st.floats(0, 1))


@given(SHARES, RATES, SHARES, RATES)
def test_the_two_parts_add_up_to_the_gain(before: Any, a: Any, after: Any, b: Any) -> None:
    moved = composition(before[None], (before * a)[None], after[None], (after * b)[None])[0]
    within = ((b - a) * (before + after) / 2).sum()
    assert moved + within == pytest.approx((after * b).sum() - (before * a).sum())


def test_by_hand() -> None:
    # Cut off 0.6 → 0.2, never right; of the others 0.5 → 0.75 are right: 0.4 · (0.5 + 0.75)/2 of the gain of 0.4.
    before, after = np.array([[0.4, 0.6]]), np.array([[0.8, 0.2]])
    moved = composition(before, np.array([[0.2, 0.0]]), after, np.array([[0.6, 0.0]]))
    assert moved[0] == pytest.approx(0.25)
    # A class that the base has none of is taken to be as right as it is after training: no gain within it.
    moved = composition(np.array([[1.0, 0.0]]), np.array([[0.5, 0.0]]), np.array([[0.5, 0.5]]), np.array([[0.25, 0.5]]))
    assert moved[0] == pytest.approx(0.25)


def arms(base: list[list[Answer]], full: list[list[Answer]]) -> dict[str, Any]:
    evidence = make_evidence(make_study(seeds=1), {"base": base, "full-s0": full})
    found = brevity(evidence, {"full": full_runs(evidence.study)})
    assert found["reason"] is None
    (row,) = found["arms"]
    return dict(row)


RIGHT, WRONG, CUT = ("a", True, 5, False), ("b", False, 5, False), (None, False, 8, True)


def test_a_gain_that_is_only_fewer_cut_off_answers() -> None:
    """What ends is right in the same share before and after; less is cut off."""
    row = arms([[RIGHT, WRONG], [CUT, CUT], [CUT, CUT], [RIGHT, WRONG]], [[RIGHT, WRONG]] * 4)
    assert row["gain"]["value"] == pytest.approx(0.25)
    assert row["fewer_cut_off"]["value"] == pytest.approx(0.25)
    assert row["other_lengths"]["value"] == pytest.approx(0.25)
    assert row["clipped"] == {"base": 0.5, "full": 0.0}
    assert row["never_cut_off"]["problems"] == 2
    assert row["never_cut_off"]["gain"]["value"] == pytest.approx(0)


def test_a_gain_of_answers_of_the_same_lengths() -> None:
    row = arms([[RIGHT, WRONG], [WRONG, CUT]], [[RIGHT, RIGHT], [RIGHT, CUT]])
    assert row["gain"]["value"] == pytest.approx(0.5)
    assert row["fewer_cut_off"]["value"] == pytest.approx(0)
    assert row["other_lengths"]["value"] == pytest.approx(0)
    assert row["never_cut_off"] == {"problems": 1, "gain": None}  # of one problem no interval


def test_a_gain_that_goes_with_length() -> None:
    """Short answers are right and long ones wrong, before and after; there are more short ones."""
    short, long = ("a", True, 2, False), ("b", False, 9, False)
    row = arms([[short, long, long, long]] * 5, [[short, short, short, long]] * 5)
    assert row["gain"]["value"] == pytest.approx(0.5)
    assert row["fewer_cut_off"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert row["other_lengths"]["value"] == pytest.approx(0.5)
    assert row["never_cut_off"]["gain"]["value"] == pytest.approx(0.5)


def test_the_gain_is_the_difference_of_the_scores() -> None:
    rng = np.random.default_rng(0)

    def drawn(chance: float) -> list[list[Answer]]:
        return [
            [("a", bool(rng.random() < chance), int(rng.integers(1, 60)), bool(rng.random() < 0.2)) for _ in range(4)]
            for _ in range(50)
        ]

    evidence = make_evidence(make_study(seeds=2), {"base": drawn(0.3), "full-s0": drawn(0.6), "full-s1": drawn(0.7)})
    (row,) = brevity(evidence, {"full": full_runs(evidence.study)})["arms"]
    expected = np.mean(evidence.scores(full_runs(evidence.study))) - evidence.means["report"]["base"].mean()
    assert row["gain"]["value"] == pytest.approx(expected)
    assert row["gain"]["low"] < expected < row["gain"]["high"]


def test_episodes_are_not_asked() -> None:
    task = {"kind": "household", "sizes": {"train": 9, "select": 9, "report": 9}}
    evidence = make_evidence(make_study(task=task, algorithm="gigpo"), {"base": [[RIGHT]], "full-s0": [[RIGHT]]})
    found = brevity(evidence, {"full": evidence.of(full_runs(evidence.study))})
    assert found["arms"] == []
    assert "out of turns" in found["reason"]
