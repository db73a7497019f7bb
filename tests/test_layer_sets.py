from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from onelayer.layer_sets import random_sets, spread_layers


def test_spread_by_hand() -> None:
    assert spread_layers(8, 2) == (2, 6)
    assert spread_layers(28, 5) == (2, 8, 14, 19, 25)  # 2.8, 8.4, 14, 19.6, 25.2
    assert spread_layers(3, 1) == (1,)
    assert spread_layers(4, 4) == (0, 1, 2, 3)


@given(st.integers(1, 80).flatmap(lambda layers: st.tuples(st.just(layers), st.integers(1, layers))))
def test_spread_layers_are_different_and_even(sizes: tuple[int, int]) -> None:
    layers, count = sizes
    found = spread_layers(layers, count)
    assert len(set(found)) == count
    assert found[0] >= 0
    assert found[-1] < layers
    gaps = [later - earlier for earlier, later in pairwise(found)]
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(
    seed=st.integers(0, 10**6),
    sizes=st.integers(1, 9).flatmap(lambda layers: st.tuples(st.just(layers), st.integers(1, layers))),
    more=st.integers(0, 20),
)
def test_random_sets_are_different_and_the_first_stay(seed: int, sizes: tuple[int, int], more: int) -> None:
    layers, count = sizes
    draws = min(more, math.comb(layers, count))
    found = random_sets(seed, layers, count, draws)
    assert len(set(found)) == len(found) == draws
    for one in found:
        assert one == tuple(sorted(set(one)))
        assert len(one) == count
        assert set(one) <= set(range(layers))
    assert random_sets(seed, layers, count, draws // 2) == found[: draws // 2]


def test_every_set_is_drawn_if_asked_for_and_no_more() -> None:
    assert set(random_sets(3, 5, 2, 10)) == set(combinations(range(5), 2))
    with pytest.raises(ValueError, match="at most 10 sets of 2 of 5 layers"):
        random_sets(3, 5, 2, 11)


def test_sets_are_equally_likely() -> None:
    counts = dict.fromkeys(combinations(range(5), 2), 0)
    for seed in range(2000):
        counts[random_sets(seed, 5, 2, 1)[0]] += 1  # type: ignore[index]
    assert chisquare(list(counts.values())).pvalue > 0.001


def test_the_draws_of_a_seed_stay_on_every_machine() -> None:
    assert random_sets(0, 8, 2, 3) == ((3, 7), (4, 7), (5, 6))
