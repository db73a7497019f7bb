"""Overlaps of solved sets against Python's sets, and the counts by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import distance

from analysis.made_evidence import Answer, make_evidence, make_study
from onelayer.analysis.overlap import jaccard, overlap, solved


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_jaccard_of_sets(pairs: list[tuple[bool, bool]]) -> None:
    first, second = np.array(pairs).T
    one, other = (set(np.flatnonzero(side)) for side in (first, second))
    expected = len(one & other) / len(one | other) if one | other else None
    assert jaccard(first, second) == expected
    if expected is not None:
        assert expected == pytest.approx(1 - distance.jaccard(first, second))


def test_more_than_half_is_solved() -> None:
    assert solved(np.array([0.0, 0.5, 0.51, 1.0])).tolist() == [False, False, True, True]


def only(*problems: int, of: int = 6) -> list[list[Answer]]:
    """One sample a problem, right on these."""
    return [[("a", number in problems)] for number in range(of)]


RUNS = {
    "base": only(0),
    "full-s0": only(0, 1, 2),
    "full-s1": only(0, 1, 3),
    "layer-00-s0": only(0, 1),
    "layer-00-s1": only(0, 1, 4),
    "layer-01-s0": only(0, 2),
    "layer-01-s1": only(0, 2, 5),
}


def test_overlaps_by_hand() -> None:
    found = overlap(make_evidence(make_study(), RUNS), [1, 0])
    sets = {name: {number for number, [(_, right)] in enumerate(problems) if right} for name, problems in RUNS.items()}

    def index(one: str, other: str) -> float:
        return len(sets[one] & sets[other]) / len(sets[one] | sets[other])

    apart = [index(f"layer-00-s{a}", f"layer-01-s{b}") for a, b in product((0, 1), repeat=2)]
    again = [index(f"layer-0{layer}-s0", f"layer-0{layer}-s1") for layer in (1, 0)]
    assert found["jaccard"] == [[pytest.approx(again[0]), pytest.approx(np.mean(apart))],
                                [pytest.approx(np.mean(apart)), pytest.approx(again[1])]]  # fmt: skip
    assert found["mean"]["value"] == pytest.approx(np.mean(apart))
    assert found["same_layer"]["value"] == pytest.approx(np.mean(again))
    assert found["excess"]["value"] == pytest.approx(np.mean(again) - np.mean(apart))
    assert found["full"]["value"] == pytest.approx(index("full-s0", "full-s1"))
    assert found["mean"]["low"] <= found["mean"]["value"] <= found["mean"]["high"]
    alone = found["alone"]
    # Of two samples in two runs a problem is solved if both are right: 4 and 5 are not.
    assert [(row["solved"], row["alone"], row["alone_nor_full"], row["problems"]) for row in alone["layers"]] == [
        (2, 1, 0, ["p001"]),
        (2, 1, 1, ["p002"]),
    ]
    assert (alone["any"], alone["all"], alone["base"], alone["full"]) == (3, 1, 1, 2)
    assert (alone["full_alone"], alone["layers_not_full"]) == (0, 1)


def test_one_seed_has_no_overlap_with_itself() -> None:
    evidence = make_evidence(
        make_study(seeds=1), {name: runs for name, runs in RUNS.items() if not name.endswith("s1")}
    )
    found = overlap(evidence, [0, 1])
    assert found["same_layer"] is None
    assert found["excess"] is None
    assert found["full"] is None
    assert found["jaccard"][0][0] is None
    assert found["mean"]["value"] == pytest.approx(1 / 3)


def test_where_nothing_is_solved_nothing_overlaps() -> None:
    found = overlap(make_evidence(make_study(), dict.fromkeys(RUNS, only())), [0, 1])
    assert found["mean"] is None
    assert found["jaccard"] == [[None, None], [None, None]]


def test_intervals_of_overlaps_by_a_bootstrap_of_its_own() -> None:
    rng = np.random.default_rng(0)
    answers = {name: [[("a", bool(right))] for right in rng.random(200) < 0.6] for name in RUNS}
    found = overlap(make_evidence(make_study(analysis={"resamples": 4000}), answers), [0, 1])
    sets = {name: np.array([right for [(_, right)] in problems]) for name, problems in answers.items()}
    pairs = [(sets[f"layer-00-s{a}"], sets[f"layer-01-s{b}"]) for a, b in product((0, 1), repeat=2)]
    drawn = []
    for _ in range(4000):
        chosen = rng.integers(200, size=200)
        drawn.append(np.mean([(a[chosen] & b[chosen]).sum() / (a[chosen] | b[chosen]).sum() for a, b in pairs]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert found["mean"]["low"] == pytest.approx(low, abs=0.01)
    assert found["mean"]["high"] == pytest.approx(high, abs=0.01)
