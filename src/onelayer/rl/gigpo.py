"""GiGPO's advantages: episodes against episodes, and steps against steps from the same state.

Source: Feng et al. 2025, *Group-in-Group Policy Optimization for LLM Agent Training* (arXiv 2505.10978, equations 3
and 6 to 9), and the authors' code (verl-agent, ``gigpo/core_gigpo.py``). For the episodes of one task instance, episode
i with the rewards r_1 … r_T:

    A^E_i     = (R_i − mean(R)) / (std(R) + 1e-6)                  R_i = Σ_t r_t, each episode counted once
    G_t       = r_t + γ G_{t+1}
    A^S_{i,t} = (G_t − mean_S(G)) / (std_S(G) + 1e-6)              S: the group's steps that share the anchor state
    A_{i,t}   = A^E_i + ω A^S_{i,t}

In the mode ``mean`` nothing is divided. The standard deviation is unbiased. An episode that is alone in its group has
mean 0 and deviation 1, so A^E = R; a step that is alone in its step group has A^S = 0. An invalid action takes a
penalty from its own step's R and G, after the statistics of the episodes and the discounting, and before those of the
step groups: as in the authors' code it is charged to that step alone.

Their code holds one row a step, TRL one row an episode. So that nothing changes in meaning, each step keeps an
advantage of its own, and the loss is the mean over all steps of a batch of each step's mean over its tokens (equation
9, with the ratio of each token): see `step_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from onelayer.training_settings import Gigpo

EPSILON = 1e-6
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """What GiGPO reads of an episode: by step, the reward, the anchor of the state acted in, and whether it was valid.

    Attributes:
        group: the task instance; episodes of one group are compared.
        rewards: the world's reward of each step, without penalties.
        anchors: the key of the state that each step was taken in.
        valid: whether each action was one that the world understands.
    """

    group: int
    rewards: tuple[float, ...]
    anchors: tuple[str, ...]
    valid: tuple[bool, ...]


def gigpo_advantages(traces: Sequence[Trace], settings: Gigpo, invalid_action_penalty: float) -> list[Vector]:
    """Compute the advantage of every step.

    Args:
        traces: the episodes of a batch, whole groups together.
        settings: ω, γ, the mode of normalisation, and the threshold of similarity.
        invalid_action_penalty: what an invalid action takes from its step.

    Returns:
        For each episode, its steps' advantages, shape (steps,).
    """
    if not traces:  # every episode of the batch broke
        return []
    scaled = settings.normalization == "mean_std"
    totals = np.array([sum(trace.rewards) for trace in traces])
    members = [trace.group for trace in traces]
    centers, scales = _moments(totals, members, scaled, center_of_one=0.0)
    penalties = [invalid_action_penalty * ~np.array(trace.valid, dtype=bool) for trace in traces]
    episode = [
        (total - penalty - center) / scale
        for total, penalty, center, scale in zip(totals, penalties, centers, scales, strict=True)
    ]

    returns = [
        discounted_returns(trace.rewards, settings.discount) - penalty
        for trace, penalty in zip(traces, penalties, strict=True)
    ]
    flat = np.concatenate(returns)
    step_centers, step_scales = _moments(flat, step_groups(traces, settings.similarity), scaled, center_of_one=None)
    ends = np.cumsum([len(one) for one in returns])[:-1]
    step = np.split((flat - step_centers) / step_scales, ends)
    return [of_episode + settings.step_weight * of_step for of_episode, of_step in zip(episode, step, strict=True)]


def discounted_returns(rewards: Sequence[float], discount: float) -> Vector:
    """G_t = r_t + γ G_{t+1}, shape (steps,)."""
    returns = np.zeros(len(rewards))
    following = 0.0
    for step in range(len(rewards) - 1, -1, -1):
        following = rewards[step] + discount * following
        returns[step] = following
    return returns


def step_groups(traces: Sequence[Trace], similarity: float | None) -> list[int]:
    """Number the step group of every step, the episodes' steps one after another.

    Without a threshold, the steps of a task instance that share their anchor exactly are a group. With one, a step
    joins the first group whose first anchor is at least so similar to its own (difflib's ratio, as the authors do).
    """
    found: dict[int, list[str]] = {}
    numbers: dict[tuple[int, int], int] = {}
    result = []
    exact: dict[tuple[int, str], int] = {}
    for trace in traces:
        leaders = found.setdefault(trace.group, [])
        for anchor in trace.anchors:
            place = exact.get((trace.group, anchor)) if similarity is None else _similar(anchor, leaders, similarity)
            if place is None:
                place = len(leaders)
                leaders.append(anchor)
            exact[trace.group, anchor] = place
            result.append(numbers.setdefault((trace.group, place), len(numbers)))
    return result


def _similar(anchor: str, leaders: Sequence[str], threshold: float) -> int | None:
    for place, leader in enumerate(leaders):
        if SequenceMatcher(None, anchor, leader).ratio() >= threshold:
            return place
    return None


def step_weights(spans: Sequence[Sequence[int]], constant: int, counted: Sequence[bool]) -> list[list[float]]:
    """The weight of each step's tokens with which Dr. GRPO's sum over tokens becomes GiGPO's mean over steps.

    TRL's ``dr_grpo`` loss is Σ weight · loss of a token / (rows · constant). With the weight

        constant / (tokens of the step · mean steps of an episode)

    the sum over a whole batch is the mean over its steps of each step's mean over its tokens; and as the denominator is
    one for the whole batch, gradient accumulation and mini-batches add up to it exactly.

    Args:
        spans: for each episode, the number of tokens of each step.
        constant: TRL's ``max_completion_length``.
        counted: whether the episode counts; a broken one weighs nothing.

    Returns:
        For each episode, the weight of each step.
    """
    steps = sum(len(one) for one, counts in zip(spans, counted, strict=True) if counts)
    mean_steps = steps / len(spans)
    return [
        [constant / (tokens * mean_steps) if counts else 0.0 for tokens in one]
        for one, counts in zip(spans, counted, strict=True)
    ]


def _moments(values: Vector, groups: Sequence[int], scaled: bool, center_of_one: float | None) -> tuple[Vector, Vector]:
    """Each value's group mean, and what to divide by: the unbiased deviation plus epsilon, or 1."""
    members: dict[int, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    centers, scales = np.zeros(len(values)), np.ones(len(values))
    for rows in members.values():
        alone = len(rows) == 1
        centers[rows] = center_of_one if alone and center_of_one is not None else values[rows].mean()
        if scaled:
            scales[rows] = (1.0 if alone else values[rows].std(ddof=1)) + EPSILON
    return centers, scales
