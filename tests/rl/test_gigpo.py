"""GiGPO's advantages: hand-worked numbers, an independent implementation with one row a step, and properties."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onelayer.rl.gigpo import Trace, discounted_returns, gigpo_advantages, step_groups, step_weights
from onelayer.training_settings import Gigpo

MODES = ("mean_std", "mean")


def trace(group: int, rewards: list[float], anchors: str, valid: list[bool] | None = None) -> Trace:
    return Trace(group, tuple(rewards), tuple(anchors), tuple(valid or [True] * len(rewards)))


# -- by hand ---------------------------------------------------------------------------------------------------------

# Two episodes of one instance, γ = 0.5. The first wins 10 at its second step; the second plays three steps for nothing,
# the second of them invalid (penalty 1), and comes back to the first state.
HAND = [trace(0, [0.0, 10.0], "AB"), trace(0, [0.0, 0.0, 0.0], "ACA", [True, False, True])]
# R = 10, 0: mean 5, deviation √50. G = 5, 10 and 0, −1 (its penalty), 0.
# Step groups: A = {5, 0, 0}: mean 5/3, deviation √(25/3); B and C alone.


def test_by_hand_without_deviation() -> None:
    settings = Gigpo(discount=0.5, normalization="mean")
    first, second = gigpo_advantages(HAND, settings, 1.0)
    assert first == pytest.approx([5 + (5 - 5 / 3), 5 + 0])
    assert second == pytest.approx([-5 - 5 / 3, -5 - 1 + 0, -5 - 5 / 3])


def test_by_hand_with_deviation() -> None:
    settings = Gigpo(discount=0.5, normalization="mean_std", step_weight=2.0)
    first, second = gigpo_advantages(HAND, settings, 1.0)
    whole, group = 50**0.5 + 1e-6, (25 / 3) ** 0.5 + 1e-6
    assert first == pytest.approx([5 / whole + 2 * (10 / 3) / group, 5 / whole])
    assert second == pytest.approx([-5 / whole - 2 * (5 / 3) / group, -6 / whole, -5 / whole - 2 * (5 / 3) / group])


def test_returns_by_hand() -> None:
    assert discounted_returns([1.0, 2.0, 4.0], 0.5).tolist() == [3.0, 4.0, 4.0]


def test_an_episode_alone_in_its_group_keeps_its_return_and_a_step_alone_has_no_step_advantage() -> None:
    for mode in MODES:
        settings = Gigpo.model_validate({"normalization": mode})
        (found,) = gigpo_advantages([trace(3, [0.0, 4.0], "AB")], settings, 0.1)
        assert found == pytest.approx([4.0, 4.0], rel=1e-5)


def test_similar_anchors_join_the_first_group_that_is_near_enough() -> None:
    traces = [Trace(0, (0.0,) * 3, ("you see a cup", "you see a cap", "rain"), (True,) * 3)]
    assert difflib.SequenceMatcher(None, "you see a cap", "you see a cup").ratio() > 0.9
    assert step_groups(traces, None) == [0, 1, 2]
    assert step_groups(traces, 0.9) == [0, 0, 1]
    assert step_groups(traces, 1.0) == [0, 1, 2]


def test_the_same_anchor_in_two_instances_is_two_groups() -> None:
    assert step_groups([trace(0, [0.0], "A"), trace(1, [0.0], "A"), trace(0, [0.0], "A")], None) == [0, 1, 0]


# -- an independent implementation: one row a step, loops, no shared code --------------------------------------------


def rows_of(
    traces: list[Trace], gamma: float, omega: float, scaled: bool, penalty: float, threshold: float | None
) -> list[list[float]]:
    rows: list[dict[str, Any]] = []
    for number, one in enumerate(traces):
        for t in range(len(one.rewards)):
            future = sum(gamma ** (u - t) * one.rewards[u] for u in range(t, len(one.rewards)))
            charge = 0.0 if one.valid[t] else penalty
            rows.append(
                {"uid": one.group, "traj": number, "R": float(np.sum(one.rewards)), "charge": charge,
                 "G": future - charge, "anchor": one.anchors[t]}
            )  # fmt: skip
    clusters: list[tuple[int, str, list[int]]] = []
    for index, row in enumerate(rows):
        for uid, leader, members in clusters:
            near = (
                row["anchor"] == leader
                if threshold is None
                else difflib.SequenceMatcher(None, row["anchor"], leader).ratio() >= threshold
            )
            if uid == row["uid"] and near:
                members.append(index)
                break
        else:
            clusters.append((row["uid"], row["anchor"], [index]))
    for uid in {row["uid"] for row in rows}:
        once = list({row["traj"]: row["R"] for row in rows if row["uid"] == uid}.values())
        mean, spread = (0.0, 1.0) if len(once) == 1 else (np.mean(once), np.std(once, ddof=1))
        for row in rows:
            if row["uid"] == uid:
                row["A"] = (row["R"] - row["charge"] - mean) / ((spread + 1e-6) if scaled else 1.0)
    for _, _, members in clusters:
        figures = [rows[index]["G"] for index in members]
        spread = 1.0 if len(members) == 1 else np.std(figures, ddof=1)
        for index in members:
            rows[index]["A"] += omega * (rows[index]["G"] - np.mean(figures)) / ((spread + 1e-6) if scaled else 1.0)
    return [[row["A"] for row in rows if row["traj"] == number] for number in range(len(traces))]


figure = st.sampled_from([0.0, 0.0, 1.0, 10.0, -0.5, 3.25])


@st.composite
def batches(draw: st.DrawFn, longest: int = 5) -> list[Trace]:
    found = []
    for group in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 4))):
            steps = draw(st.integers(1, longest))
            rewards = draw(st.lists(figure, min_size=steps, max_size=steps))
            anchors = draw(
                st.lists(st.sampled_from(["hall", "hell", "attic", "cellar"]), min_size=steps, max_size=steps)
            )
            valid = draw(st.lists(st.booleans(), min_size=steps, max_size=steps))
            found.append(Trace(group, tuple(rewards), tuple(anchors), tuple(valid)))
    return found


@given(
    batches(),
    st.sampled_from(MODES),
    st.sampled_from([None, 0.7, 0.95]),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    st.sampled_from([0.0, 1.0, 0.3]),
    st.sampled_from([0.0, 0.1]),
)
def test_equals_the_independent_implementation(
    traces: list[Trace], mode: Any, threshold: float | None, gamma: float, omega: float, penalty: float
) -> None:
    settings = Gigpo(step_weight=omega, discount=gamma, normalization=mode, similarity=threshold)
    found = gigpo_advantages(traces, settings, penalty)
    expected = rows_of(traces, gamma, omega, mode == "mean_std", penalty, threshold)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-6)


# -- properties --------------------------------------------------------------------------------------------------------


@given(batches(), st.sampled_from(MODES), st.randoms(use_true_random=False))
def test_the_order_of_episodes_is_irrelevant(traces: list[Trace], mode: Any, shuffler: Any) -> None:
    settings = Gigpo(normalization=mode)
    order = list(range(len(traces)))
    shuffler.shuffle(order)
    straight = gigpo_advantages(traces, settings, 0.1)
    shuffled = gigpo_advantages([traces[index] for index in order], settings, 0.1)
    for place, index in enumerate(order):
        assert shuffled[place] == pytest.approx(straight[index], rel=1e-9, abs=1e-9)


@given(batches(), st.sampled_from(MODES))
def test_group_sums_are_zero(traces: list[Trace], mode: Any) -> None:
    """Episode advantages over an instance's episodes, and step advantages over a step group."""
    traces = [Trace(one.group, one.rewards, one.anchors, (True,) * len(one.valid)) for one in traces]
    episode = gigpo_advantages(traces, Gigpo(normalization=mode, step_weight=0.0), 0.1)
    both = gigpo_advantages(traces, Gigpo(normalization=mode, step_weight=1.0), 0.1)
    for group in {one.group for one in traces}:
        members = [index for index, one in enumerate(traces) if one.group == group]
        if len(members) > 1:
            assert sum(episode[index][0] for index in members) == pytest.approx(0, abs=1e-6)
    steps = np.concatenate(both) - np.concatenate(episode)
    for number in set(step_groups(traces, None)):
        assert steps[np.array(step_groups(traces, None)) == number].sum() == pytest.approx(0, abs=1e-6)


@given(batches(), st.sampled_from(MODES))
def test_equal_rewards_leave_no_advantage(traces: list[Trace], mode: Any) -> None:
    alike = [Trace(0, (1.0,), one.anchors[:1], (True,)) for one in traces]
    assume(len(alike) > 1)
    for found in gigpo_advantages(alike, Gigpo(normalization=mode), 0.1):
        assert found == pytest.approx([0.0], abs=1e-9)


@given(st.lists(figure, min_size=2, max_size=8))
def test_one_step_episodes_without_step_weight_are_grpo(rewards: list[float]) -> None:
    """GRPO's advantage, with GiGPO's epsilon (TRL's own is 1e-4)."""
    assume(len(set(rewards)) > 1)
    found = gigpo_advantages([trace(0, [r], "A") for r in rewards], Gigpo(step_weight=0.0), 0.1)
    values = np.array(rewards)
    assert np.concatenate(found) == pytest.approx((values - values.mean()) / (values.std(ddof=1) + 1e-6), rel=1e-6)


# -- the loss's weights ------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=2, max_size=6),
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
)
def test_weights_make_the_mean_over_steps_of_each_steps_mean(spans: list[list[int]], seed: int, constant: int) -> None:
    rng = np.random.default_rng(seed)
    losses = [[rng.normal(size=tokens) for tokens in one] for one in spans]
    counted = [bool(rng.integers(4)) for _ in spans]
    counted[0] = True
    weights = step_weights(spans, constant, counted)
    weighted = sum(
        weight * step.sum()
        for row, of_row in zip(losses, weights, strict=True)
        for step, weight in zip(row, of_row, strict=True)
    )
    expected = np.mean([step.mean() for row, counts in zip(losses, counted, strict=True) if counts for step in row])
    assert weighted / (len(spans) * constant) == pytest.approx(expected, rel=1e-9, abs=1e-12)
